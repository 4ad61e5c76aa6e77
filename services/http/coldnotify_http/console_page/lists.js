// Lists of everything: groups, clients, gateways, matchers. The service filters, sorts and pages them; what is asked of
// it stands in the address, so that a list can be passed on, and the browser's way back is the page before.

import { askJson } from "./ask.js";
import { byId, cell, element, keyed, link, linkCell, table, update } from "./dom.js";
import { clientHref, groupHref } from "./matrix.js";
import { ago, count, duration, uncounted } from "./words.js";

const ITEMS_SHOWN = 50;
const PROCESS_STATES = [["ready", "ready"], ["not_ready", "not ready"], ["silent", "silent"]];
const SEEN = [["", "at any time"], ["-3600", "within 1 h"], ["-86400", "within 1 d"], ["-604800", "within 7 d"], ["3600", "longer than 1 h ago"], ["86400", "longer than 1 d ago"], ["604800", "longer than 7 d ago"]];
const known = (value, words) => (value === null || value === undefined ? "–" : words(value));
const percent = (value) => `${Math.round(value * 100)} %`;
const words = Object.fromEntries(PROCESS_STATES);

// Columns: [what it is sorted by, head, cell of a row]; a column without the first is not sorted by.
const OF_PROCESS = [
  ["address", "address", (one) => cell(one.address, "name")],
  ["state", "state", (one) => element("td", { className: one.error ? "bad words" : "" }, one.error ? `${words[one.state]}: ${one.error}` : words[one.state])],
  ["version", "version", (one) => cell(one.version ?? "–")],
  ["started", "up for", (one) => cell(known(one.uptime_s, (value) => duration(value * 1000)))],
  ["cpu", "CPU", (one) => cell(known(one.cpu, percent))],
];
const counted = (name, head, className = "") => [name, head, (one) => cell(known(one[name], count), className)];
const alarming = (name, head) => [name, head, (one) => cell(count(one[name]), one[name] ? "bad" : "")];
const LISTS = {
  groups: {
    title: "Groups", id: "Domain / group", time: "Seen", nothing: "There is no such group.",
    states: [["online", "with a client online"], ["asleep", "without a client online"], ["behind", "behind"], ["overdue", "overdue"]],
    columns: [
      ["group", "group", (one) => linkCell(`${one.domain} / ${one.group}`, groupHref(one.domain, one.group))],
      ["clients", "clients", (one) => cell(count(one.clients))], ["online", "online", (one) => cell(count(one.online))],
      counted("objects", "objects"), alarming("lacking", "behind"), alarming("overdue", "overdue"),
      ["oldest", "oldest", (one, now) => cell(ago(one.oldest_since_ms, now))], counted("publishes", "publishes / min"),
      ["last_seen", "last seen", (one, now) => cell(one.online ? "now" : ago(one.last_seen_ms, now))],
    ],
  },
  clients: {
    title: "Clients", id: "Domain / group / client", address: "Address", time: "Seen", nothing: "There is no such client.",
    states: [["online", "online"], ["asleep", "asleep"], ["unsynced", "unsynced"], ["catching", "catching up"], ["live", "live"], ["behind", "behind"]],
    columns: [
      ["client", "client", (one) => keyed(linkCell(one.client, clientHref(one.domain, one.group, one.client)), `${one.domain}/${one.group}/${one.client}`)],
      ["group", "group", (one) => element("td", { className: "place" }, link(`${one.domain} / ${one.group}`, groupHref(one.domain, one.group)))],
      ["state", "state", (one) => cell(one.state)],
      ["last_seen", "last seen", (one, now) => cell(one.state === "asleep" ? ago(one.last_seen_ms, now) : "now")],
      counted("registered", "registered for"), alarming("lacking", "lacks"),
      ["", "address", (one) => cell(one.address ?? "–")], ["", "gateway", (one) => cell(one.gateway ?? "–")],
      ["", "as of", (one) => cell(typeof one.age_s === "number" ? `${duration(one.age_s * 1000)} ago` : "–")],
    ],
  },
  gateways: {
    title: "Gateways", id: "Id", address: "Address", time: "Started", nothing: "There is no such gateway.", states: PROCESS_STATES,
    columns: [...OF_PROCESS, counted("connections", "connections"), counted("sessions", "sessions"), ["", "id", (one) => cell(one.gateway ?? "–")]],
  },
  matchers: {
    title: "Matchers", address: "Address", time: "Started", nothing: "There is no such matcher.", states: PROCESS_STATES,
    columns: [
      ...OF_PROCESS, ["partitions", "partitions", (one) => cell(known(one.partitions, (value) => count(value.length)))],
      ["", "follows", (one) => cell(known(one.following, count))], counted("clients", "clients"), counted("online", "online"), counted("objects", "objects"),
    ],
  },
};

// What the address asks for, beside the list itself.
export const asked = () => new URLSearchParams(location.hash.split("?")[1] ?? "");

export function hashWith(path, parameters) {
  const given = new URLSearchParams([...parameters].filter(([, value]) => value !== ""));
  return `#/${path}${given.size ? `?${given}` : ""}`;
}

// The same list by another column, or the other way round.
function sortedBy(kind, column) {
  const parameters = asked();
  const now = parameters.get("sort") ?? LISTS[kind].columns[0][0];
  const turned = now === column && parameters.get("order") !== "desc";
  parameters.delete("after");
  parameters.set("sort", column);
  parameters.set("order", turned ? "desc" : "");
  return [hashWith(kind, parameters), now !== column ? null : turned ? "ascending" : "descending"];
}

export function pageHref(path, after) {
  const parameters = asked();
  parameters.set("after", after);
  return hashWith(path, parameters);
}

// Why something is missing in a list, a line each.
export function missing(shown, what) {
  const lacking = shown.partitions ? uncounted(shown.partitions) : "";
  const said = [...(shown.matchers ?? []).map((one) => ["matcher", one]), ...(shown.gateways ?? []).map((one) => ["gateway", one])]
    .filter(([, one]) => one.error !== null).map(([kind, one]) => `${kind} ${one.address} cannot be asked: ${one.error}`);
  if (lacking) said.push(`${lacking[0].toUpperCase()}${lacking.slice(1)}: ${what} of theirs are missing here.`);
  if (shown.partial) said.push("There is too much to look at all of it at once: something may be missing. A narrower filter helps.");
  return said;
}

export function showMissing(id, said) {
  update(byId(id), ...said.map((one) => element("li", {}, one)));
  byId(id).hidden = said.length === 0;
}

export async function showList(kind, isNew) {
  const list = LISTS[kind];
  const parameters = asked();
  if (isNew) begin(list, parameters);
  const query = new URLSearchParams(parameters);
  query.delete("time");
  const within = Number(parameters.get("time") ?? 0);
  if (within < 0) query.set("since_ms", Date.now() + within * 1000);
  if (within > 0) query.set("until_ms", Date.now() - within * 1000);
  query.set("limit", ITEMS_SHOWN);
  const shown = await askJson(`v1/${kind}?${query}`);
  if (!location.hash.startsWith(`#/${kind}`)) return;
  const head = list.columns.map(([by, name]) => {
    if (by === "") return [name];
    const [href, sorted] = sortedBy(kind, by);
    return [name, "", { href, sorted }];
  });
  showMissing("list-missing", missing(shown, kind));
  byId("list-count").textContent = `${count(shown.count)} ${shown.count === 1 ? kind.slice(0, -1) : kind}`;
  table("list", head, shown.items.map((one) => list.columns.map(([, , show]) => show(one, shown.now_ms))), list.nothing);
  pages("list-pages", kind, parameters.get("after"), shown.next);
}

export function pages(id, path, after, next) {
  const links = [["first page", after ? "" : null], ["next page", next]].filter(([, place]) => place !== null);
  update(byId(id), ...links.map(([name, place]) => keyed(element("a", { href: pageHref(path, place) }, name), name)));
}

// The form says what the address asks for.
function begin(list, parameters) {
  const form = byId("list-filter");
  if (byId("list-title").textContent !== list.title) {
    byId("list-title").textContent = list.title;
    byId("list-count").textContent = "…";
    byId("list").replaceChildren();
    byId("list-pages").replaceChildren();
    showMissing("list-missing", []);
  }
  for (const name of ["id", "address", "time"]) form[name].closest("label").hidden = !list[name];
  for (const name of ["id", "address", "time"]) form[name].previousElementSibling.textContent = list[name] ?? "";
  options(form.time, SEEN);
  options(form.state, [["", "any"], ...list.states]);
  options(form.sort, list.columns.filter(([by]) => by).flatMap(([by, name]) => [[by, name], [`-${by}`, `${name}, largest first`]]));
  for (const name of ["id", "address", "time", "state"]) form[name].value = parameters.get(name) ?? "";
  form.sort.value = `${parameters.get("order") === "desc" ? "-" : ""}${parameters.get("sort") ?? list.columns[0][0]}`;
}

const options = (select, all) => select.replaceChildren(...all.map(([value, name]) => element("option", { value }, name)));

export function followLists() {
  const form = byId("list-filter");
  const filter = () => {
    const { id, address, state, time, sort } = Object.fromEntries(new FormData(form));
    const kind = /^#\/(\w+)/.exec(location.hash)[1];
    const order = sort.startsWith("-") ? "desc" : "";
    const by = sort.replace("-", "");
    location.hash = hashWith(kind, new URLSearchParams({
      id: id.trim().replace(/\s*\/\s*/g, "/"), address: address.trim(), state, time, sort: by === LISTS[kind].columns[0][0] && !order ? "" : by, order,
    }));
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    filter();
  });
  for (const select of form.querySelectorAll("select")) select.addEventListener("change", filter);
}
