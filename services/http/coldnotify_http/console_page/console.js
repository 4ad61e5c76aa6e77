// The console: shows what /v1/console/events tells, and what the place in the address asks for: a group, a client, an
// object, the tenants, what was searched for.

import { ask, askJson, groupPath, parse, segment, signIn, within } from "./ask.js";
import { channel } from "./channels.js";
import { about as aboutClient, followClients } from "./clients.js";
import { byId, cell, element, keyed, link, linkCell, table, update } from "./dom.js";
import { showHistory } from "./history.js";
import { followHooks, showHooks } from "./hooks.js";
import { clientHref, followScrolling, groupHref, matrix, objectHref } from "./matrix.js";
import { fill } from "./forms.js";
import { asked, followLists, missing, pages, showList, showMissing } from "./lists.js";
import { showNodes } from "./nodes.js";
import { followPublishing } from "./publish.js";
import { followSending } from "./send.js";
import { showTenant, showTenants } from "./tenants.js";
import { ago, count, duration, latency, rate, time, uncounted } from "./words.js";

const REFRESH_MS = 4000;
const FOUND_SHOWN = 50;
const REGISTRATIONS_SHOWN = 1000;
const QUERIES_SHOWN = 50;
const CLIENTS_OF_QUERY = 5;
const CHANNELS_SHOWN = 50;
const CHART_POINTS = 450;
const NOT_KNOWN = "Not known: not all partitions are counted.";
const SILENCE_MS = 10_000; // something comes every 5 s, mostly every 2 s
const RECONNECT_MS = [500, 1000, 2000, 5000, 10000];

// -- the overview ------------------------------------------------------------------------------------------------------

let history = [];
let known = null; // the newest overview with everything counted; until there is one, the newest with anything
let isWhole = false; // whether `known` is one with everything

// Returns what the stream is worth: [class, words].
function show(shown) {
  const { counted } = shown.partitions;
  const lacking = uncounted(shown.partitions);
  if (!lacking || (!isWhole && counted !== 0)) known = shown;
  isWhole ||= !lacking;
  history = [...history, ...shown.history].slice(-CHART_POINTS);
  const problems = [...shown.matchers.map((one) => ["matcher", one]), ...shown.gateways.map((one) => ["gateway", one])]
    .filter(([, one]) => one.error !== null)
    .map(([kind, one]) => `${kind} ${one.address} cannot be asked: ${one.error}`);
  if (shown.partial) problems.push("There are too many clients to look at all of them at once: sums are too low.");
  if (lacking) {
    const shownAs = known === shown ? "are too low" : known === null ? "are not known" : `are from ${time(known.now_ms)}`;
    problems.push(`${lacking[0].toUpperCase()}${lacking.slice(1)}: counts of clients and objects ${shownAs}.`);
  }
  update(byId("problems"), ...problems.map((words) => element("li", {}, words)));
  byId("problems").hidden = problems.length === 0;

  // Of the window: null where nobody answers.
  const [, publishes, deliveries, , p99, lag] = shown.history.at(-1);
  const of = (value, words) => (value === null || value === undefined ? "–" : words(value));
  tiles([
    [known ? `${count(known.online)} of ${count(known.clients)}` : "–", "clients online"],
    [known ? seen(known) : "–", "seen within 1 h / 1 d / 7 d / longer"],
    [of(known?.overdue, count), `overdue (behind for over ${duration(shown.overdue_s * 1000)})`, known?.overdue > 0],
    [of(known?.lacking, count), "clients behind"],
    [of(publishes, (value) => `${rate(value)}/s`), "publishes"],
    [of(deliveries, (value) => `${rate(value)}/s`), "deliveries"],
    [latency(p99), "publish to socket, 99%"],
    [of(lag, count), "records not read yet (lag)"],
  ]);
  charts();
  document.body.classList.toggle("empty", !lacking && shown.groups_count === 0); // nothing is here yet
  for (const id of ["tiles", "groups", "slowest", "oldest"]) byId(id).classList.toggle("old", lacking !== "");
  groups(known ?? shown, lacking);
  slowest(known ?? shown, lacking);
  oldest(known ?? shown, lacking);
  return lacking ? ["partial", `live, but ${uncounted({ ...shown.partitions, since_ms: null })}`] : ["live", "live"];
}

function tiles(all) {
  update(byId("tiles"), ...all.map(([value, words, bad]) =>
    element("div", { className: bad ? "tile bad" : "tile" }, element("b", {}, value), element("span", {}, words))));
}

function charts() {
  if (byId("charts").matches(":hover")) return; // somebody reads the values of a time
  const newest = history.at(-1);
  byId("charts").replaceChildren(
    chart([["publishes", 1], ["deliveries", 2]], "a second", rate, newest),
    chart([["median", 3], ["99%", 4]], "publish to socket", latency, newest),
    chart([["lag", 5]], "records", count, newest),
    chart([["online", 6], ["overdue", 7]], "clients", count, newest),
  );
}

function chart(lines, unit, words, newest) {
  const values = lines.map(([, column]) => history.map((point) => point[column]));
  const top = Math.max(1e-9, ...values.flat().filter((value) => value !== null)) * 1.08;
  const begin = history[0][0];
  const span = Math.max(1, newest[0] - begin);
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 100 100");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  values.forEach((line, index) => {
    let drawn = "";
    line.forEach((value, place) => {
      if (value === null) return;
      const x = ((history[place][0] - begin) / span) * 100;
      drawn += `${drawn ? "L" : "M"}${x.toFixed(2)} ${(98 - (value / top) * 96).toFixed(2)}`;
    });
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("d", drawn);
    if (index) path.setAttribute("class", "second");
    svg.append(path);
  });
  const keys = lines.map(([name, column], index) =>
    element("span", { className: index ? "key second" : "key" }, `${name} ${newest[column] === null ? "–" : words(newest[column])}`));
  const axis = element("p", { className: "axis" }, element("span", {}, `the last ${duration(span)}`), element("span", {}, `top: ${words(top)}`));
  const made = element("div", { className: "chart" },
    element("p", {}, element("span", {}, ...keys.flatMap((key) => [key, " "])), element("span", {}, unit)), svg, axis);
  // What was at the time under the pointer.
  svg.addEventListener("pointermove", (event) => {
    const { left, width } = svg.getBoundingClientRect();
    const when = begin + ((event.clientX - left) / width) * span;
    const point = history.reduce((near, one) => (Math.abs(one[0] - when) < Math.abs(near[0] - when) ? one : near));
    const said = lines.map(([name, column]) => `${name} ${point[column] === null ? "–" : words(point[column])}`);
    axis.replaceChildren(element("span", {}, `${time(point[0])}: ${said.join(", ")}`));
  });
  return made;
}

// Of fleets that only wake: how many were there within an hour, a day, a week, and how many have been away for longer.
// A matcher of the release before does not say it.
function seen({ seen_1h: hour, seen_1d: day, seen_7d: week, clients }) {
  return hour === undefined ? "–" : [hour, day - hour, week - day, clients - week].map(count).join(" / ");
}

function groups(shown, lacking) {
  const head = [["group"], ["publishes / min", "optional"], ["online"], ["seen 1 h / 1 d / 7 d / longer", "optional"], ["objects", "optional"], ["behind"], ["overdue"], ["oldest", "optional"]];
  table("groups", head, shown.groups.slice(0, 20).map((one) => [
    linkCell(`${one.domain} / ${one.group}`, groupHref(one.domain, one.group)),
    cell(count(one.publishes), "optional"), cell(`${count(one.online)} of ${count(one.clients)}`), cell(seen(one), "optional"),
    cell(count(one.objects), "optional"),
    cell(count(one.lacking)), cell(count(one.overdue), one.overdue ? "bad" : ""),
    cell(ago(one.oldest_since_ms, shown.now_ms), "optional"),
  ]), lacking ? NOT_KNOWN : "Nobody is registered, and nothing was published.");
}

function slowest(shown, lacking) {
  table("slowest", [["client"], ["state"], ["lacks"], ["since"], ["last seen", "optional"]], shown.slowest.slice(0, 10).map((one) => [
    linkCell(`${one.client} (${one.domain} / ${one.group})`, clientHref(one.domain, one.group, one.client)),
    cell(one.state), cell(count(one.lacking)), cell(ago(one.since_ms, shown.now_ms)),
    cell(ago(one.last_seen_ms, shown.now_ms), "optional"),
  ]), lacking ? NOT_KNOWN : "Nobody is behind.");
}

function oldest(shown, lacking) {
  table("oldest", [["object"], ["version", "optional"], ["since"], ["behind"], ["asleep"]], shown.oldest.slice(0, 10).map((one) => [
    linkCell(`${one.object} (${one.domain} / ${one.group})`, objectHref(one.domain, one.group, one.object)),
    cell(one.version, "optional"), cell(ago(one.since_ms, shown.now_ms)),
    cell(`${count(one.lacking)} of ${count(one.registered)}`), cell(count(one.asleep)),
  ]), lacking ? NOT_KNOWN : "Everything is delivered.");
}

// -- places: what the address asks for ---------------------------------------------------------------------------------

const PLACES = [
  [/^#\/groups\/([^/]+)\/([^/]+)$/, "group", showGroup],
  [/^#\/groups\/([^/]+)\/([^/]+)\/clients\/([^/]+)$/, "client", showClient],
  [/^#\/groups\/([^/]+)\/([^/]+)\/objects\/([^/]+)$/, "object", showObject],
  [/^#\/nodes$/, "nodes", showNodes],
  [/^#\/tenants$/, "tenants", showTenants],
  [/^#\/tenants\/([^/]+)$/, "tenant", showTenant],
  [/^#\/(groups|clients|gateways|matchers)(?:\?.*)?$/, "list", showList],
  [/^#\/search\/([^/?]+)(?:\?.*)?$/, "search", search],
];

// The view of the address, what fills it, and the names in it.
function place() {
  for (const [pattern, view, fill] of PLACES) {
    const found = pattern.exec(location.hash);
    if (!found) continue;
    try {
      return { view, fill, names: found.slice(1).map(decodeURIComponent) };
    } catch {
      break; // a % that is none
    }
  }
  return { view: "overview", fill: async () => undefined, names: [] };
}

let turn = 0;
let underWay = 0;
async function go(isNew) {
  const mine = ++turn;
  const { view, fill, names } = place();
  for (const one of document.querySelectorAll("[data-views]")) one.hidden = !one.dataset.views.split(" ").includes(view);
  for (const one of document.querySelectorAll("nav a")) {
    if (one.dataset.view === (view === "list" ? names[0] : view)) one.setAttribute("aria-current", "page");
    else one.removeAttribute("aria-current");
  }
  document.title = [...names].reverse().concat("ColdNotify").join(" – ");
  if (isNew) {
    crumbs(view, names);
    byId("place-problem").textContent = "";
    window.scrollTo(0, 0);
  }
  underWay += 1;
  let problem = "";
  try {
    await fill(...names, isNew);
  } catch (error) {
    problem = error.message;
  }
  underWay -= 1;
  if (mine !== turn) return;
  byId("place-problem").textContent = problem;
  document.body.classList.toggle("unanswered", problem !== "");
}

// Again, unless nobody looks, or it waits for an answer as it is. Searching costs too much to be done again.
function refresh() {
  if (!document.hidden && underWay === 0 && place().view !== "search") go(false);
}

function crumbs(view, [domain, group, name]) {
  const parts = { tenant: [link("Tenants", "#/tenants")], client: [], object: [] }[view] ?? [];
  if (view === "client" || view === "object") parts.push(link(`${domain} / ${group}`, groupHref(domain, group)), name);
  if (view === "group") parts.push(`${domain} / ${group}`);
  if (view === "tenant") parts.push(domain);
  update(byId("crumbs"), ...parts.flatMap((one, index) => (index ? [" › ", one] : [one])));
}

// -- a group -----------------------------------------------------------------------------------------------------------

async function showGroup(domain, group, isNew) {
  byId("matrix-title").textContent = `${domain} / ${group}`;
  if (isNew) for (const form of ["publish", "send"]) fill(form, { domain, group });
  await matrix(domain, group, (client, object) => explain(domain, group, client, object), isNew);
  // A matcher of the release before knows of none.
  const list = (name, most) => askJson(`${groupPath(domain, group)}/${name}?limit=${most}`).catch(() => ({ items: [], next: null }));
  const isHere = () => {
    const now = place();
    return now.view === "group" && now.names[0] === domain && now.names[1] === group;
  };
  const [queries, channels] = await Promise.all([list("queries", QUERIES_SHOWN), list("channels", CHANNELS_SHOWN), showHooks(domain, group, isNew, isHere)]);
  if (!isHere()) return;
  showQueries(domain, group, queries);
  showChannels(domain, group, channels);
}

function showQueries(domain, group, { items, next }) {
  byId("queries-part").hidden = items.length === 0;
  table("queries", [["query"], ["members"], ["connected"], ["clients"]], items.map((one) => [
    cell(one.query), cell(one.members === null ? "–" : count(one.members)), cell(`${count(one.online)} of ${count(one.clients_count)}`),
    element("td", {}, ...one.clients.slice(0, CLIENTS_OF_QUERY).flatMap((client) => [link(client, clientHref(domain, group, client)), " "]),
      one.clients_count > CLIENTS_OF_QUERY ? "…" : ""),
  ]), "", next === null ? "" : `the first ${items.length}`);
}

function showChannels(domain, group, { items, next }) {
  byId("channels-part").hidden = items.length === 0;
  table("channels", [["channel"], ["last offset", "optional"], ["connected"], ["behind"]], items.map((one) => [
    element("td", { className: "name" }, element("button", { type: "button", className: "link", onclick: () => channel(domain, group, one.channel) }, one.channel)),
    cell(one.last ?? "–", "optional"), cell(`${count(one.online)} of ${count(one.subscribers)}`), cell(count(one.behind), one.behind ? "bad" : ""),
  ]), "", next === null ? "" : `the first ${items.length}`);
}

// -- a client, an object -----------------------------------------------------------------------------------------------

async function showClient(domain, group, client, isNew) {
  aboutClient(domain, group, client, { online: false, gone: true });
  const [shown, why] = await Promise.all([
    askJson(`${groupPath(domain, group)}/clients/${segment(client)}?limit=${REGISTRATIONS_SHOWN}`),
    askJson(`${groupPath(domain, group)}/clients/${segment(client)}/explanation`),
  ]);
  byId("client-title").textContent = client;
  aboutClient(domain, group, client, { online: shown.online, registered: shown.registered });
  facts("client-facts", [["state", shown.session_state ?? "asleep"], ["last seen", time(shown.last_seen_ms)], ["registered for", count(shown.registered)],
    ["lacks", count(shown.lacking)], ["cursor", shown.cursor ?? "none"], ["gateway", shown.gateway ?? "–"]]);
  byId("client-words").textContent = `${why.verdict.replaceAll("_", " ")}: ${why.words}`;
  update(byId("client-timeline"), ...timeline(why));
  const { items, next } = shown.registrations;
  table("registrations", [["object"], ["newest version"], ["applied"]], items.map((one) => [
    linkCell(one.object, objectHref(domain, group, one.object)), cell(one.version ?? "none"), cell(one.applied ? "yes" : "no", one.applied ? "" : "bad"),
  ]), "It is not registered for any object.", next === null ? "" : `the first ${items.length}`);
  if (isNew) byId("client-title").focus({ preventScroll: true });
}

async function showObject(domain, group, object, isNew) {
  const path = `${groupPath(domain, group)}/objects/${segment(object)}`;
  const [shown, lacking] = await Promise.all([askJson(path), askJson(`${path}/lacking?limit=${REGISTRATIONS_SHOWN}`)]);
  byId("object-title").textContent = object;
  facts("object-facts", [["newest version", shown.version ?? "none"], ["published", time(shown.published_ms)], ["state", shown.deleted ? "deleted" : "there"],
    ["registered", count(shown.registered)], ["behind", count(lacking.lacking)], ["asleep", count(lacking.asleep)],
    ["payload expires", time(shown.expires_at)], ["from", shown.source || "–"]]);
  const json = shown.payload === null ? "no payload" : JSON.stringify(shown.payload, null, 2);
  byId("object-payload").textContent = shown.payload_base64 ? `in base64: ${shown.payload_base64}` : json;
  table("lacking", [["client"], ["state"], ["since"], ["last seen"]], lacking.items.map((one) => [
    linkCell(one.client, clientHref(domain, group, one.client)), cell(one.state), cell(ago(one.since_ms, lacking.now_ms)), cell(time(one.last_seen_ms)),
  ]), "Every registered client has it.", lacking.next === null ? "" : `the first ${lacking.items.length}`);
  if (isNew) fill("publish", { domain, group, object });
  if (isNew) byId("object-title").focus({ preventScroll: true });
  await showHistory(path, shown, isNew);
}

function facts(id, all) {
  update(byId(id), ...all.map(([name, value]) => keyed(element("div", {}, element("dt", {}, name), element("dd", {}, String(value))), name)));
}

// -- searching ---------------------------------------------------------------------------------------------------------

const FOUND = {
  group: ({ domain, group }) => [`${domain} / ${group}`, groupHref(domain, group)],
  client: ({ domain, group, name }) => [name, clientHref(domain, group, name)],
  object: ({ domain, group, name }) => [name, objectHref(domain, group, name)],
  channel: ({ domain, group, name }) => [name, groupHref(domain, group)],
};

async function search(text) {
  const form = byId("search");
  if (document.activeElement !== form.text) form.text.value = text;
  const after = asked().get("after");
  const query = new URLSearchParams({ text: text.replace(/\s*\/\s*/g, "/"), limit: FOUND_SHOWN, ...(after ? { after } : {}) });
  const shown = await askJson(`v1/search?${query}`);
  const now = place();
  if (now.view !== "search" || now.names[0] !== text) return;
  byId("search-title").textContent = `${count(shown.count)} found for “${text}”`;
  showMissing("search-missing", missing(shown, "names"));
  table("found", [["name"], ["what"], ["where"]], shown.items.map((one) => {
    const [name, href] = FOUND[one.kind](one);
    return [keyed(linkCell(name, href), JSON.stringify(Object.values(one))), cell(one.kind), cell(one.kind === "group" ? "" : `${one.domain} / ${one.group}`, "place")];
  }), "Nothing was found.");
  pages("found-pages", `search/${encodeURIComponent(text)}`, after, shown.next);
}

// -- why ---------------------------------------------------------------------------------------------------------------

const timeline = (why) => why.timeline.map((event) =>
  element("li", {}, element("b", {}, `${event.step}${event.when_ms ? `, ${time(event.when_ms)}` : ""}`), event.text));

async function explain(domain, group, client, object) {
  const about = object === undefined ? "" : `?object=${encodeURIComponent(object)}`;
  byId("explain-title").textContent = object === undefined ? client : `${client} and ${object}`;
  byId("explain-words").textContent = "…";
  byId("explain-timeline").replaceChildren();
  byId("explain").showModal();
  try {
    const shown = await askJson(`${groupPath(domain, group)}/clients/${segment(client)}/explanation${about}`);
    byId("explain-words").textContent = `${shown.verdict.replaceAll("_", " ")}: ${shown.words}`;
    byId("explain-timeline").replaceChildren(...timeline(shown));
  } catch (error) {
    byId("explain-words").textContent = error.message;
  }
}

// -- live --------------------------------------------------------------------------------------------------------------

let heardMs = null;

function live(className, words) {
  byId("live").className = className;
  byId("live-words").textContent = words;
  // What is old is not shown as if it were new.
  document.body.classList.toggle("stale", ["lost", "paused"].includes(className) && heardMs !== null);
  byId("stale").hidden = className !== "lost" || heardMs === null;
  if (heardMs !== null) byId("stale").textContent = `What is shown is from ${time(heardMs)}: the service has not answered since.`;
}

let stream = null; // what stops it

async function follow() {
  const stop = stream = new AbortController();
  // Not an EventSource: that cannot show a token.
  const response = await ask("v1/console/events", stop, SILENCE_MS);
  if (!response.ok) {
    const { error } = await within(SILENCE_MS, stop, response.json());
    // A client's token, say: another one would do.
    if (response.status === 403) await signIn(error);
    throw new Error(error);
  }
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  history = [];
  let text = "";
  for (;;) {
    const { value, done } = await within(SILENCE_MS, stop, reader.read());
    if (done) return;
    text += value;
    const events = text.split("\n\n");
    text = events.pop();
    for (const one of events) {
      if (!one.startsWith("data: ")) continue;
      heardMs = Date.now();
      live(...show(parse(one.slice(6))));
      failures = 0;
    }
  }
}

let failures = 0;
// Browsers allow six connections to a host, for all tabs together: so one that nobody sees holds none.
async function forever() {
  for (;;) {
    if (document.hidden) {
      live("paused", "paused: the tab is hidden");
      await turned(Infinity);
      live("paused", "connecting");
      failures = 0;
      continue;
    }
    try {
      await follow();
      live("lost", "the service has ended the stream");
    } catch (error) {
      if (document.hidden) continue;
      live("lost", `not live: ${error.message}`);
    }
    await turned(RECONNECT_MS[Math.min(failures++, RECONNECT_MS.length - 1)]);
  }
}

// Until the page is hidden, or visible again; `most` ms.
const turned = (most) => new Promise((resolve) => {
  const timer = most === Infinity ? 0 : setTimeout(done, most);
  function done() {
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", done);
    resolve();
  }
  document.addEventListener("visibilitychange", done);
});

followPublishing(() => go(false));
followSending(() => go(false));
followClients(() => go(false));
followHooks(() => go(false));
followLists();
byId("only-lacking").addEventListener("change", () => go(false));
byId("search").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = event.target.text.value.trim();
  location.hash = text ? `#/search/${encodeURIComponent(text)}` : "#/";
});
byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("main").focus();
});
addEventListener("hashchange", () => go(true));
document.addEventListener("visibilitychange", () => (document.hidden ? stream?.abort(new Error("the tab is hidden")) : refresh()));
setInterval(refresh, REFRESH_MS);
followScrolling();
go(true);
forever();
