// The webhooks of a group: who is called about what. They are set, tested, given new secrets and removed here.

import { askJson, groupPath, segment } from "./ask.js";
import { confirmed } from "./confirm.js";
import { byId, cell, element, linkCell, table } from "./dom.js";
import { checkName, doing, Wrong } from "./forms.js";
import { clientHref } from "./matrix.js";
import { count, time } from "./words.js";

const NAMED = 3;

let shown = null;
let changed = false;
let again = () => undefined;

const hookPath = (name) => `${groupPath(shown.domain, shown.group)}/hooks/${segment(name)}`;

function wants({ objects, channels, query }) {
  if (query) return `query ${query}`;
  const names = objects ?? channels ?? [];
  const named = names.slice(0, NAMED).join(", ") + (names.length > NAMED ? `, … (${count(names.length)})` : "");
  return `${channels ? "channels" : "objects"} ${named}`;
}

// Each look reads a topic: so it is taken when the page is opened, and after a change.
export async function showHooks(domain, group, isNew, isHere) {
  if (!isNew && !changed) return;
  if (isNew) say("", "");
  shown = { domain, group };
  changed = false;
  let listed;
  try {
    listed = await askJson(`${groupPath(domain, group)}/hooks`);
  } catch (error) {
    listed = { items: [], enabled: true, nothing: "It is not known." };
    if (isHere()) say("bad", `webhooks: ${error.message}`);
  }
  if (!isHere()) return;
  byId("hooks-part").hidden = !listed.enabled;
  table("hooks", [["webhook"], ["calls"], ["about"], ["state"], ["", "actions"]], listed.items.map((one) => [
    linkCell(one.name, clientHref(domain, group, `hook.${one.name}`)), cell(one.url, "words"), cell(wants(one), "words"),
    one.suspended_ms ? cell(`suspended since ${time(one.suspended_ms)}: set it again`, "bad words") : cell("called"),
    element("td", {}, action("Test", one.name, test), " ", action("New secret…", one.name, rotate), " ", action("Remove…", one.name, remove)),
  ]), listed.nothing ?? "The group has none.");
}

const action = (words, name, step) => element("button", { type: "button", ariaLabel: `${words} ${name}`, onclick: () => act(name, step) }, words);

function say(className, words) {
  [byId("hooked").className, byId("hooked").textContent] = [className, words];
}

async function act(name, step) {
  const place = shown;
  say("", "…");
  try {
    const [className, words] = (await step(name)) ?? ["", ""];
    if (shown === place) say(className, words);
  } catch (error) {
    if (shown === place) say("bad", error.outcome ? `${error.outcome}: ${error.message}` : error.message);
  }
  look();
}

function look() {
  changed = true;
  again();
}

async function test(name) {
  const { applied, words } = await askJson(`${hookPath(name)}/test`, { method: "POST" });
  return [applied ? "good" : "bad", `${name}: ${applied ? "its receiver took the call" : "not applied"}${words ? `: ${words}` : ""}`];
}

async function rotate(name) {
  const words = "Calls are signed with the old secret, too, for 24 hours. The new one is shown once.";
  if ((await confirmed({ title: `A new secret for ${name}?`, yes: "New secret", words, reason: false })) === null) return null;
  const { secret } = await askJson(`${hookPath(name)}/rotate`, { method: "POST" });
  return ["good", `${name}: the new secret, which is not shown again, is ${secret}`];
}

async function remove(name) {
  const words = "Its receiver is called no more, and what it has applied is forgotten.";
  if ((await confirmed({ title: `Remove ${name}?`, yes: "Remove", words, typed: name, reason: false })) === null) return null;
  await askJson(hookPath(name), { method: "DELETE" });
  return ["good", `${name} is removed.`];
}

async function set(form) {
  const { hook, url, kind, what } = Object.fromEntries(new FormData(form));
  checkName("hook", hook);
  if (!url.trim()) throw new Wrong("url", "is missing");
  const lines = what.split("\n").map((one) => one.trim()).filter(Boolean);
  if (!lines.length) throw new Wrong("what", "is missing");
  const words = `Every newer version, or message, is posted to ${url.trim()}. A webhook of that name is replaced.`;
  if ((await confirmed({ title: `Set the webhook ${hook}?`, yes: "Set", words, reason: false })) === null) return null;
  const body = JSON.stringify({ url: url.trim(), [kind]: kind === "query" ? lines.join(" ") : lines });
  const { secret } = await askJson(hookPath(hook), { method: "PUT", body }).catch((error) => {
    throw Object.assign(error, { field: error.field === kind ? "what" : error.field });
  });
  return ["good", secret ? `${hook} is set. Its secret, which is not shown again, is ${secret}` : `${hook} is set; its secret stays.`];
}

export function followHooks(done) {
  again = done;
  byId("hook").addEventListener("submit", async (event) => {
    event.preventDefault();
    await doing(event.target, byId("hooked"), set);
    look();
  });
}
