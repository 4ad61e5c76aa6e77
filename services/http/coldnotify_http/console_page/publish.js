// Publishing from the page, and starting an object's versions over. Both are asked once more: what is wrong is said of
// its field before, what came of it in the service's own words.

import { askJson, groupPath, segment } from "./ask.js";
import { confirmed } from "./confirm.js";
import { byId } from "./dom.js";
import { checkJson, checkName, doing as doingIn, Wrong } from "./forms.js";
import { time } from "./words.js";

const VERSION_MAX = 2n ** 63n - 1n;
// The highest limit that the service can have. It says its own.
const FILE_BYTES_MAX = 65536;

function checked(form) {
  const fields = Object.fromEntries(new FormData(form));
  for (const name of ["domain", "group"]) checkName(name, fields[name]);
  if (!fields.object) throw new Wrong("object", "is missing");
  const version = fields.version.trim();
  if (version && (!/^[0-9]{1,19}$/.test(version) || BigInt(version) > VERSION_MAX)) throw new Wrong("version", `is not a whole number from 0 to ${VERSION_MAX}`);
  const [payload, file] = [fields.payload.trim(), fields.file.name ? fields.file : null];
  if (payload && file) throw new Wrong("payload", "either JSON or a file");
  if (payload) checkJson("payload", payload);
  if (file && file.size > FILE_BYTES_MAX) throw new Wrong("file", `has ${file.size} bytes (at most ${FILE_BYTES_MAX} are allowed)`);
  return { ...fields, version: version && String(BigInt(version)), payload, file };
}

// As fields of a body, none or one.
async function payloadOf({ payload, file }) {
  if (!file) return payload ? [`"payload":${payload}`] : [];
  const bytes = new Uint8Array(await file.arrayBuffer());
  return [`"payload_base64":"${btoa([...bytes].map((one) => String.fromCharCode(one)).join(""))}"`];
}

function doing(done, step) {
  return doingIn(byId("publish"), byId("published"), async (form) => {
    const shown = await step(checked(form));
    if (shown === null) return null;
    done();
    return [{ published: "good", repeated: "good", unknown: "unsure" }[shown.outcome] ?? "bad", changed(shown)];
  });
}

// Versions go up to 2^63-1, which JavaScript's numbers cannot say: so bodies are put together as text.
async function publish(fields) {
  const path = `${groupPath(fields.domain, fields.group)}/objects/${segment(fields.object)}`;
  const wanted = await confirmed({
    title: `Publish ${fields.object}?`, yes: "Publish", reason: false,
    words: `Every client of ${fields.domain} / ${fields.group} that is registered for it is told`
      + `${fields.version ? ` of version ${fields.version}` : ""}${fields.deleted ? " that it is deleted" : ""}. This cannot be undone; a higher version takes its place.`,
  });
  if (wanted === null) return null;
  const parts = [];
  if (fields.version) parts.push(`"version":${fields.version}`);
  parts.push(...await payloadOf(fields));
  if (fields.deleted) parts.push('"deleted":true');
  return askJson(path, { method: "POST", body: `{${parts.join(",")}}` });
}

async function reset(fields) {
  const group = groupPath(fields.domain, fields.group);
  if (fields.deleted) throw new Wrong("deleted", "cannot be combined with starting over");
  const newest = await askJson(`${group}/objects/${segment(fields.object)}`);
  if (newest.version === null) throw new Wrong("object", "has no version yet, so there is nothing to start over");
  const begin = fields.version || "0";
  const wanted = await confirmed({
    title: `Start the versions of ${fields.object} over?`, yes: "Start over", typed: fields.object, reason: false,
    words: `It is at version ${newest.version} (incarnation ${newest.incarnation}). It begins again at version ${begin}, ${fields.payload || fields.file ? "with the payload of the form" : "without a payload"}; `
      + "registered clients are told. All versions published so far count as older. This cannot be undone.",
  });
  if (wanted === null) return null;
  const parts = [`"object":${JSON.stringify(fields.object)}`, `"newest":{"version":${newest.version},"incarnation":${newest.incarnation}}`, `"version":${begin}`];
  parts.push(...await payloadOf(fields));
  return askJson(`${group}/resets`, { method: "POST", body: `{${parts.join(",")}}` });
}

function changed(shown) {
  const place = `version ${shown.version}, partition ${shown.partition}, offset ${shown.offset}`;
  const { outcome, newest, reason } = shown;
  if (newest === undefined) {
    const words = outcome === "unknown" ? "acknowledged, but its effect is not known" : outcome;
    return `${words}: ${place}${reason ? ` (${reason})` : ""}`;
  }
  const since = newest.published_ms === null ? "" : `, since ${time(newest.published_ms)}`;
  const incarnation = newest.incarnation ? ` of incarnation ${newest.incarnation}` : "";
  if (outcome === "stale") {
    return `stale: ${place}. The newest is version ${newest.version}${incarnation}${since}; no client is ever told of this one. `
      + "Publish a higher one, or start the object's versions over: here, or by coldnotify object reset";
  }
  return `${outcome}: ${place}. That version was the newest already${since}, with other content; clients that have it are not told. `
    + "Publish it under a higher version";
}

export function followPublishing(done) {
  byId("publish").addEventListener("submit", (event) => {
    event.preventDefault();
    doing(done, publish);
  });
  byId("reset").addEventListener("click", () => doing(done, reset));
}
