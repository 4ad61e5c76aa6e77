// Sending a message to a channel from the page. A message is told to everybody who subscribes, and cannot be taken back:
// so it is asked once more.

import { askJson, groupPath, segment } from "./ask.js";
import { confirmed } from "./confirm.js";
import { byId } from "./dom.js";
import { checkJson, checkName, doing, Wrong } from "./forms.js";

const ATTRIBUTES_MAX = 16;

function checked(form) {
  const fields = Object.fromEntries(new FormData(form));
  for (const name of ["domain", "group"]) checkName(name, fields[name]);
  if (!fields.channel) throw new Wrong("channel", "is missing");
  const payload = fields.payload.trim();
  if (!payload) throw new Wrong("payload", "is missing");
  checkJson("payload", payload);
  const to = fields.to.split(/[\s,]+/).filter(Boolean);
  for (const one of to) checkName("to", one);
  if (to.length > ATTRIBUTES_MAX) throw new Wrong("to", `has ${to.length} attributes (at most ${ATTRIBUTES_MAX} are allowed)`);
  return { ...fields, payload, to };
}

// Put together as text: the payload is sent as it was typed, with numbers that JavaScript cannot say.
async function send(form) {
  const { domain, group, channel, payload, to } = checked(form);
  const path = `${groupPath(domain, group)}/channels/${segment(channel)}`;
  const wanted = await confirmed({
    title: `Send a message to ${channel}?`, yes: "Send", reason: false,
    words: `Every client of ${domain} / ${group} that subscribes to it${to.length ? ` as ${to.join(" or ")}` : ""} receives it. This cannot be undone.`,
  });
  if (wanted === null) return null;
  const about = to.length ? `,"to":${JSON.stringify(to)}` : "";
  const shown = await askJson(path, { method: "POST", body: `{"payload":${payload}${about}}` });
  return ["good", `sent: partition ${shown.partition}, offset ${shown.offset}, id ${shown.id}`];
}

export function followSending(done) {
  byId("send").addEventListener("submit", async (event) => {
    event.preventDefault();
    await doing(event.target, byId("sent"), send);
    done();
  });
}
