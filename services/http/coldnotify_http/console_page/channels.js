// A channel: who is behind in it, its shares and who holds what of them, and its last messages, which can be sent again.

import { askJson, groupPath, segment } from "./ask.js";
import { byId, element } from "./dom.js";
import { fill } from "./forms.js";
import { count, duration, number, time } from "./words.js";

const SUBSCRIBERS_ASKED = 1000;
const BEHIND_NAMED = 20;

const utf8 = new TextEncoder();
const isWhole = ({ payload_begins: begins, payload_bytes: size }) => utf8.encode(begins).length === size;

// In the dialog that explains.
export async function channel(domain, group, name) {
  fill("send", { domain, group, channel: name });
  byId("explain-title").textContent = name;
  byId("explain-words").textContent = "…";
  byId("explain-timeline").replaceChildren();
  byId("explain").showModal();
  try {
    const shown = await askJson(`${groupPath(domain, group)}/channels/${segment(name)}?limit=${SUBSCRIBERS_ASKED}`);
    byId("explain-words").textContent = behindWords(shown);
    const shares = (shown.shares ?? []).map((one) => element("li", {}, element("b", {}, `share ${one.share}`), shareWords(one)));
    const messages = [...shown.messages].reverse().map((one) => element("li", {},
      element("b", {}, [`offset ${one.offset}`, one.published_ms && time(one.published_ms), one.source && `from ${one.source}`,
        one.to.length && `to ${one.to.join(", ")}`].filter(Boolean).join(", ")),
      one.payload_begins, isWhole(one) ? sendAgain(domain, group, name, one) : ` … (${count(one.payload_bytes)} bytes)`));
    byId("explain-timeline").replaceChildren(...shares, ...messages);
  } catch (error) {
    byId("explain-words").textContent = error.message;
  }
}

function behindWords({ behind, subscribers, subscriptions }) {
  const named = subscriptions.items.filter((one) => one.behind).slice(0, BEHIND_NAMED).map((one) =>
    `${one.client} (${one.callbacks?.state ?? one.state}, ${one.behind_at_least ? "at least " : ""}${number(one.behind, "message")}${one.missed ? ", some removed by retention" : ""})`);
  return `${count(behind)} of ${count(subscribers)} are behind${named.length ? `: ${named.join(", ")}${behind > BEHIND_NAMED ? ", …" : ""}` : ""}`;
}

function shareWords(share) {
  const hands = share.hand_outs.filter((one) => one.client).map((one) =>
    `${one.client} has offset ${one.offset} (${one.state}, ${number(one.attempts, "attempt")}, for ${duration(one.left_s * 1000)} more)`);
  return [`${count(share.present)} of ${number(share.members, "member")} there`, `${count(share.held)} held`,
    `${count(share.waiting)}${share.waiting_more ? " or more" : ""} waiting`, share.oldest_ms && `the oldest from ${time(share.oldest_ms)}`,
    share.full && "no further message is looked at until the oldest is settled", ...hands].filter(Boolean).join("; ");
}

// A dead letter goes to the channel that it comes from: its id names the share.
function sendAgain(domain, group, name, one) {
  const suffix = `.${one.id?.split("/")[0]}.dead`;
  const to = name.endsWith(suffix) ? name.slice(0, -suffix.length) : name;
  const onclick = () => {
    byId("explain").close();
    fill("send", { domain, group, channel: to, to: one.to.join(" "), payload: one.payload_begins });
    byId("send").payload.focus();
  };
  return element("button", { type: "button", className: "link", ariaLabel: `Send offset ${one.offset} again…`, onclick }, "Send again…");
}
