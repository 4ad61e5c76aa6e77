// The latest records of an object, as Kafka has them.

import { askJson } from "./ask.js";
import { byId, cell, element, table } from "./dom.js";
import { bytes, count, time } from "./words.js";

const RECORDS_SHOWN = 20;

let read = "";

// Read when the page is opened, and when another version is the newest: it costs Kafka something.
export async function showHistory(path, newest, isNew) {
  const wanted = `${path} ${newest.offset}`;
  if (!isNew && read === wanted) return;
  if (isNew) {
    table("history", [["offset"]], [], "…");
    byId("history-words").textContent = "";
  }
  read = wanted;
  try {
    const shown = await askJson(`${path}/history?limit=${RECORDS_SHOWN}`);
    if (read !== wanted) return;
    const head = [["offset", "optional"], ["version"], ["time"], ["size"], ["published by"], ["what", "words"], ["payload begins", "words"]];
    table("history", head, shown.items.map((one) => [cell(one.offset, "optional"), cell(one.version ?? "–"), cell(time(one.at_ms)), cell(bytes(one.bytes)),
      cell(one.source ?? "–"), cell(what(one, newest), one.kind === "invalid" ? "bad words" : "words"),
      element("td", { className: "payload words" }, begins(one))]), "Kafka has no record of it any more.");
    byId("history-words").textContent = `${sentence(shown.words)}. Read: ${shown.looked.map(({ from, to }) => `offsets ${count(from)} to ${count(to - 1)}`).join(" and ") || "nothing"} of partition ${shown.partition}.`;
  } catch (error) {
    if (read !== wanted) return;
    read = "";
    table("history", [["offset"]], [], "");
    byId("history-words").textContent = error.message;
  }
}

const sentence = (words) => words[0].toUpperCase() + words.slice(1);
const begins = ({ payload_begins: text = "", payload_bytes: size = 0 }) => (text ? `${text}${new TextEncoder().encode(text).length < size ? " …" : ""}` : "none");

function what(one, newest) {
  if (one.kind === "invalid") return `cannot be understood: ${one.reason}`;
  if (one.kind === "condition") return "a publish with a condition; what it became stands behind it";
  if (one.kind === "null") return one.version === null ? "a null that removes nothing" : "tombstone: removes up to this version";
  const isNewest = String(one.version) === String(newest.version) && (one.incarnation ?? newest.incarnation) === newest.incarnation;
  return [isNewest && "the newest", one.deleted && "tombstone: deleted", one.incarnation && `incarnation ${one.incarnation}`,
    one.rewritten && "written again by a matcher", one.moved && "moved from a wrong partition"].filter(Boolean).join(", ") || "version";
}
