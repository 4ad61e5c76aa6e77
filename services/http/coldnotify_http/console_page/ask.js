// Asking the service: with the tab's token, within a time limit, and whole numbers as they came.

const LOOK_MS = 15_000; // an object's history may wait for 5 s, and is read for 4 s
const CHANGE_MS = 30_000;

const byId = (id) => document.getElementById(id);
const token = { get: () => sessionStorage.getItem("token") ?? "", set: (value) => sessionStorage.setItem("token", value) };

// What `promise` comes to; once it has taken too long, `stop` ends what it waits for.
export async function within(limitMs, stop, promise) {
  const timer = setTimeout(() => stop.abort(new Error(`no answer within ${limitMs / 1000} s`)), limitMs);
  try {
    return await promise;
  } catch (error) {
    if (stop.signal.aborted) throw stop.signal.reason;
    throw error instanceof TypeError ? new Error("the service cannot be reached") : error; // all that fetch says
  } finally {
    clearTimeout(timer);
  }
}

// The limit is until the answer's head: how long the body may take is the caller's to say.
export async function ask(path, stop, limitMs, options = {}) {
  const headers = token.get() ? { Authorization: `Bearer ${token.get()}` } : {};
  const response = await within(limitMs, stop, fetch(path, { ...options, headers, signal: stop.signal }));
  if (response.status === 401) {
    const { error } = await within(limitMs, stop, response.json()).catch(() => ({}));
    await signIn(token.get() ? error : "");
    return ask(path, stop, limitMs, options);
  }
  return response;
}

// Whole numbers above 2^53, as versions may be, stay the text that they came as.
export const parse = (text) => JSON.parse(text, (_key, value, context) =>
  Number.isInteger(value) && !Number.isSafeInteger(value) && context?.source ? context.source : value);

export async function askJson(path, options = {}) {
  const limitMs = options.method === undefined ? LOOK_MS : CHANGE_MS;
  const stop = new AbortController();
  let response, text;
  try {
    response = await ask(path, stop, limitMs, options);
    text = await within(limitMs, stop, response.text());
  } catch (error) {
    // It may have been done: that is for the service to say, and it has not.
    throw options.method === undefined ? error : Object.assign(error, { outcome: "unknown" });
  }
  let body;
  try {
    body = parse(text);
  } catch {
    throw new Error(`HTTP status ${response.status}, and not from the service: a proxy answers for it`);
  }
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
  if (name === "." || name === "..") throw new Error(`a browser cannot ask for the name ${name}: use coldnotify explain, who-lacks or publish`);
  return encodeURIComponent(name);
}

export const groupPath = (domain, group) => `v1/domains/${segment(domain)}/groups/${segment(group)}`;
