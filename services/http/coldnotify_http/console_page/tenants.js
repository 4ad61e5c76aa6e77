// The tenants: what each uses of its agreement, who is refused and by which limit, and the last 24 hours.

import { askJson, segment } from "./ask.js";
import { byId, cell, element, linkCell, table, update } from "./dom.js";
import { bytes, count, rate, time } from "./words.js";

const TENANTS_SHOWN = 100;
const HOURS_SHOWN = 24;
const ASKED_AT_ONCE = 8;

// [limit, what is measured, as words, name]
const LIMITS = [
  ["in_per_s", (now) => now.per_s.admitted + now.per_s.refused, rate, "publishes per second"],
  ["in_bytes_per_s", (now) => now.per_s.bytes, bytes, "bytes of publishes per second"],
  ["out_per_s", (now) => now.per_s.deliveries, rate, "deliveries per second"],
  ["out_bytes_per_s", (now) => now.per_s.out_bytes, bytes, "bytes of deliveries per second"],
  ["objects_max", (now) => now.gauges?.objects ?? 0, count, "objects"],
  ["clients_max", (now) => now.gauges?.clients ?? 0, count, "clients connected"],
  ["registrations_max", (now) => now.gauges?.registrations ?? 0, count, "registrations"],
];

const tenantHref = (name) => `#/tenants/${encodeURIComponent(name)}`;

async function inParts(all, step) {
  const done = [];
  for (let at = 0; at < all.length; at += ASKED_AT_ONCE) done.push(...await Promise.all(all.slice(at, at + ASKED_AT_ONCE).map(step)));
  return done;
}

// What is refused now, and why; "" where nothing is.
function refused(tenant) {
  const { now } = tenant;
  const why = (now?.exceeded ?? []).map((limit) => `${limit} is ${tenant[limit] ?? "not limited"}`).join(", ");
  const rated = now?.per_s.refused > 0 ? `${rate(now.per_s.refused)}/s refused` : "";
  const minute = !rated && now?.per_min.refused > 0 ? `${count(now.per_min.refused)} refused in the last minute` : "";
  const away = now?.per_min.turned_away > 0 ? `clients or registrations refused in the last minute: ${count(now.per_min.turned_away)}` : "";
  return [rated || minute, away, why && `above its agreement: ${why}`].filter(Boolean).join("; ");
}

function fullest(tenant) {
  if (!tenant.now) return ["not measured: is the usage job running?", ""];
  const shares = LIMITS.filter(([limit]) => tenant[limit]).map(([limit, used]) => [used(tenant.now) / tenant[limit], limit]);
  if (!shares.length) return ["no limit", ""];
  const [share, limit] = shares.reduce((most, one) => (one[0] > most[0] ? one : most));
  return [`${Math.round(share * 100)} % of ${limit}`, share >= 0.9 ? "bad" : ""];
}

export async function showTenants() {
  const listed = await askJson(`v1/tenants?limit=${TENANTS_SHOWN}`);
  const names = listed.items.map(({ tenant }) => tenant);
  if (!names.includes("default")) names.push("default");
  const tenants = await inParts(names, (name) => askJson(`v1/tenants/${segment(name)}`));
  const wrong = [...Object.entries(listed.damaged).map(([name, why]) => `the record of ${name} cannot be read: ${why}`),
    ...Object.entries(listed.conflicts).map(([, why]) => String(why))];
  update(byId("tenants-wrong"), ...wrong.map((words) => element("li", {}, words)));
  byId("tenants-wrong").hidden = wrong.length === 0;
  const head = [["tenant"], ["domains", "optional"], ["publishes/s"], ["deliveries/s", "optional"], ["clients", "optional"], ["fullest limit"], ["refused"]];
  table("tenants", head, tenants.map((one) => {
    const [share, className] = fullest(one);
    const said = refused(one);
    const per_s = one.now?.per_s;
    return [linkCell(one.tenant, tenantHref(one.tenant)), cell(one.domains.join(", ") || "all others", "optional words"),
      cell(per_s ? rate(per_s.publishes) : "–"), cell(per_s ? rate(per_s.deliveries) : "–", "optional"),
      cell(one.now ? count(one.now.gauges?.clients ?? 0) : "–", "optional"), cell(share, className), cell(said || "nothing", said ? "bad words" : "")];
  }), "", listed.next === null ? "" : `the first ${listed.items.length}`);
}

export async function showTenant(name) {
  const tenant = await askJson(`v1/tenants/${segment(name)}`);
  byId("tenant-title").textContent = name;
  const said = refused(tenant);
  byId("tenant-refused").textContent = said || "Nothing is refused.";
  byId("tenant-refused").className = said ? "bad" : "";
  byId("tenant-words").textContent = [`domains: ${tenant.domains.join(", ") || "all that no other tenant has"}`,
    tenant.principal && `in Kafka: ${tenant.principal}`, tenant.now ? `measured at ${time(tenant.now.at_ms)}` : "nothing is measured: is the usage job running?"].filter(Boolean).join("; ");
  table("tenant-limits", [["limit"], ["agreed"], ["used"], ["share"]], LIMITS.map(([limit, used, words, about]) => {
    const agreed = tenant[limit];
    const now = tenant.now ? used(tenant.now) : null;
    const share = agreed && now !== null ? now / agreed : null;
    return [cell(`${about} (${limit})`), cell(agreed ? words(agreed) : "no limit"), cell(now === null ? "–" : words(now)),
      cell(share === null ? "–" : `${Math.round(share * 100)} %`, share >= 0.9 ? "bad" : "")];
  }));
  const used = await askJson(`v1/tenants/${segment(name)}/usage?by=hour&last=${HOURS_SHOWN}`);
  const head = [["hour (UTC)"], ["publishes"], ["bytes", "optional"], ["deliveries"], ["bytes out", "optional"], ["refused"], ["clients and registrations refused", "optional"]];
  table("tenant-hours", head, [...used.items].reverse().map((one) => [cell(one.hour.replace("T", " ")), cell(count(one.publishes)), cell(bytes(one.bytes), "optional"),
    cell(count(one.deliveries)), cell(bytes(one.out_bytes), "optional"), cell(count(one.refused), one.refused ? "bad" : ""),
    cell(count(one.turned_away), one.turned_away ? "bad optional" : "optional")]), "Nothing was counted.");
}
