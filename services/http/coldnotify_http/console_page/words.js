// Words for numbers and times.

export function duration(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  const [whole, rest] = s < 86400 ? [`${Math.floor(s / 3600)} h`, Math.floor((s % 3600) / 60)] : [`${Math.floor(s / 86400)} d`, Math.floor((s % 86400) / 3600)];
  return rest ? `${whole} ${rest} ${s < 86400 ? "min" : "h"}` : whole;
}
export const ago = (since, now) => (since ? duration(now - since) : "–");
export const rate = (value) => (value >= 100 ? Math.round(value).toLocaleString("en") : value.toFixed(1));
export const count = (value) => Math.round(value).toLocaleString("en");
export const number = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;
export const latency = (s) => (s === null ? "–" : s < 1 ? `${Math.round(s * 1000)} ms` : `${s.toFixed(1)} s`);

// As the CLI has it: in UTC, which is said.
export const time = (ms) => (ms ? `${new Date(ms).toISOString().slice(0, 19).replace("T", " ")} UTC` : "–");
export const bytes = (value) => (value >= 1e6 ? `${(value / 1e6).toFixed(1)} MB` : value >= 1e3 ? `${(value / 1e3).toFixed(1)} kB` : `${Math.round(value)} B`);

// What differs between names stands at their ends: so long ones are cut in the middle.
const NAME_CHARS = 28;
export function shortened(name) {
  const chars = [...name];
  if (chars.length <= NAME_CHARS) return name;
  const half = Math.floor((NAME_CHARS - 1) / 2);
  return `${chars.slice(0, half).join("")}…${chars.slice(-half).join("")}`;
}

const PARTITIONS_NAMED = 8;

// Which partitions are not counted, in words; "" where all are.
export function uncounted({ counted, missing, since_ms: sinceMs }) {
  if (missing?.length === 0) return "";
  if (counted !== 0 && missing === null) return "not all matchers answer";
  const [says, since] = sinceMs ? ["has answered", ` since ${time(sinceMs)}`] : ["answers", ""];
  if (counted === 0) return `no matcher ${says} for any partition${since}`;
  const named = `${missing.slice(0, PARTITIONS_NAMED).join(", ")}${missing.length > PARTITIONS_NAMED ? ", …" : ""}`;
  return `no matcher ${says} for ${missing.length === 1 ? "partition" : "partitions"} ${named} (of ${counted + missing.length})${since}`;
}
