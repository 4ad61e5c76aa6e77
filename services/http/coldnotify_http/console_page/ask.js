// Asking the service: with the tab's token, and whole numbers as they came.

const byId = (id) => document.getElementById(id);
const token = { get: () => sessionStorage.getItem("token") ?? "", set: (value) => sessionStorage.setItem("token", value) };

export async function ask(path, options = {}) {
  const headers = token.get() ? { Authorization: `Bearer ${token.get()}` } : {};
  const response = await fetch(path, { ...options, headers });
  if (response.status === 401) {
    const { error } = await response.json().catch(() => ({}));
    await signIn(token.get() ? error : "");
    return ask(path, options);
  }
  return response;
}

// Whole numbers above 2^53, as versions may be, stay the text that they came as.
export const parse = (text) => JSON.parse(text, (_key, value, context) =>
  Number.isInteger(value) && !Number.isSafeInteger(value) && context?.source ? context.source : value);

export async function askJson(path, options) {
  const response = await ask(path, options);
  const body = parse(await response.text());
  if (!response.ok) {
    // With the field at fault, and with what became of a change, where the service says them.
    const { field, outcome } = body;
    throw Object.assign(new Error(body.error ?? `HTTP status ${response.status}`), { field, outcome });
  }
  return body;
}

let signingIn = null;
export function signIn(why) {
  signingIn ??= new Promise((resolve) => {
    const dialog = byId("sign-in");
    byId("sign-in-why").textContent = why ?? "";
    dialog.addEventListener("close", () => {
      token.set(new FormData(byId("token-form")).get("token"));
      byId("token-form").reset();
      signingIn = null;
      resolve();
    }, { once: true });
    dialog.showModal();
  });
  return signingIn;
}

// As one segment of a path. Browsers take these two, however they are written, for steps in the path.
export function segment(name) {
  if (name === "." || name === "..") throw new Error(`a browser cannot ask for the name ${name}: coldnotify explain, who-lacks and publish can`);
  return encodeURIComponent(name);
}

export const groupPath = (domain, group) => `v1/domains/${segment(domain)}/groups/${segment(group)}`;
