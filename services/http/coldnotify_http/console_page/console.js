// The console: shows what /v1/console/events tells, and asks for a group's matrix, an explanation, a publish.

const MATRIX_EVERY_MS = 4000;
const MATRIX_CLIENTS = 100;
const QUERIES_SHOWN = 50;
const CLIENTS_OF_QUERY = 5;
const CHART_POINTS = 450;
const RECONNECT_MS = [500, 1000, 2000, 5000, 10000];

const byId = (id) => document.getElementById(id);
const token = { get: () => sessionStorage.getItem("token") ?? "", set: (value) => sessionStorage.setItem("token", value) };

// -- asking ------------------------------------------------------------------------------------------------------------

async function ask(path, options = {}) {
  const headers = token.get() ? { Authorization: `Bearer ${token.get()}` } : {};
  const response = await fetch(path, { ...options, headers });
  if (response.status === 401) {
    const { error } = await response.json().catch(() => ({}));
    await signIn(token.get() ? error : "");
    return ask(path, options);
  }
  return response;
}

// Whole numbers above 2^53, as versions may be, stay the text that they came as.
const parse = (text) => JSON.parse(text, (_key, value, context) =>
  Number.isInteger(value) && !Number.isSafeInteger(value) && context?.source ? context.source : value);

async function askJson(path, options) {
  const response = await ask(path, options);
  const body = parse(await response.text());
  if (!response.ok) throw new Error(body.error ?? `HTTP status ${response.status}`);
  return body;
}

let signingIn = null;
function signIn(why) {
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
function segment(name) {
  if (name === "." || name === "..") throw new Error(`a browser cannot ask for the name ${name}: coldnotify explain, who-lacks and publish can`);
  return encodeURIComponent(name);
}

const groupPath = (domain, group) => `v1/domains/${segment(domain)}/groups/${segment(group)}`;

// -- words -------------------------------------------------------------------------------------------------------------

function duration(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  const [whole, rest] = s < 86400 ? [`${Math.floor(s / 3600)} h`, Math.floor((s % 3600) / 60)] : [`${Math.floor(s / 86400)} d`, Math.floor((s % 86400) / 3600)];
  return rest ? `${whole} ${rest} ${s < 86400 ? "min" : "h"}` : whole;
}
const ago = (since, now) => (since ? duration(now - since) : "–");
const rate = (value) => (value >= 100 ? Math.round(value).toLocaleString("en") : value.toFixed(1));
const count = (value) => Math.round(value).toLocaleString("en");
const latency = (s) => (s === null ? "–" : s < 1 ? `${Math.round(s * 1000)} ms` : `${s.toFixed(1)} s`);

// -- elements ----------------------------------------------------------------------------------------------------------

function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  Object.assign(made, properties);
  made.append(...children);
  return made;
}

function table(id, head, rows, nothing) {
  const cells = head.map(([name, className = ""]) => element("th", { scope: "col", className }, name));
  const body = rows.length
    ? rows.map((row) => element("tr", {}, ...row))
    : [element("tr", {}, element("td", { className: "empty", colSpan: head.length }, nothing))];
  byId(id).replaceChildren(element("thead", {}, element("tr", {}, ...cells)), element("tbody", {}, ...body));
}

const cell = (text, className = "") => element("td", { className }, String(text));
const nameCell = (text, onclick) =>
  element("td", { className: "name" }, element("button", { type: "button", className: "link", onclick }, text));

// Elements that have the focus are not made anew: someone is about to use them.
const inUse = (id) => byId(id).contains(document.activeElement);

// -- the overview ------------------------------------------------------------------------------------------------------

let history = [];
let chosen = null;

function show(shown) {
  history = [...history, ...shown.history].slice(-CHART_POINTS);
  const problems = [...shown.matchers.map((one) => ["matcher", one]), ...shown.gateways.map((one) => ["gateway", one])]
    .filter(([, one]) => one.error !== null)
    .map(([kind, one]) => `${kind} ${one.address} cannot be asked: ${one.error}`);
  if (shown.partial) problems.push("There are too many clients to look at all of them at once: sums are too low.");
  byId("problems").replaceChildren(...problems.map((words) => element("li", {}, words)));
  byId("problems").hidden = problems.length === 0;

  const overdue = `overdue (lacking for over ${duration(shown.overdue_s * 1000)})`;
  tiles([
    [`${count(shown.online)} of ${count(shown.clients)}`, "clients online"],
    [count(shown.overdue), overdue, shown.overdue > 0],
    [count(shown.lacking), "lack something"],
    [`${rate(shown.traffic.publishes_per_s)}/s`, "publishes"],
    [`${rate(shown.traffic.deliveries_per_s)}/s`, "deliveries"],
    [latency(shown.latency.p99_s), "publish to socket, 99%"],
    [count(shown.lag.objects + shown.lag.requests), "records of lag"],
  ]);
  charts();
  if (!inUse("groups")) groups(shown);
  if (!inUse("slowest")) slowest(shown);
  if (!inUse("oldest")) oldest(shown);
  if (chosen === null && shown.groups.length) choose(shown.groups[0].domain, shown.groups[0].group);
}

function tiles(all) {
  byId("tiles").replaceChildren(...all.map(([value, words, bad]) =>
    element("div", { className: bad ? "tile bad" : "tile" }, element("b", {}, value), element("span", {}, words))));
}

function charts() {
  const last = history.at(-1);
  byId("charts").replaceChildren(
    chart([["publishes", 1], ["deliveries", 2]], "a second", rate, last),
    chart([["half", 3], ["99%", 4]], "publish to socket", latency, last),
    chart([["lag", 5]], "records", count, last),
    chart([["online", 6], ["overdue", 7]], "clients", count, last),
  );
}

function chart(lines, unit, words, last) {
  const values = lines.map(([, column]) => history.map((point) => point[column]));
  const top = Math.max(1e-9, ...values.flat().filter((value) => value !== null)) * 1.08;
  const begin = history[0][0];
  const span = Math.max(1, last[0] - begin);
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
    element("span", { className: index ? "key second" : "key" }, `${name} ${last[column] === null ? "–" : words(last[column])}`));
  return element("div", { className: "chart" },
    element("p", {}, element("span", {}, ...keys.flatMap((key) => [key, " "])), element("span", {}, unit)), svg);
}

function groups(shown) {
  const head = [["group"], ["publishes / min", "optional"], ["online"], ["objects", "optional"], ["lack some"], ["overdue"], ["oldest", "optional"]];
  table("groups", head, shown.groups.slice(0, 20).map((one) => [
    nameCell(`${one.domain} / ${one.group}`, () => choose(one.domain, one.group, true)),
    cell(count(one.publishes), "optional"), cell(`${count(one.online)} of ${count(one.clients)}`), cell(count(one.objects), "optional"),
    cell(count(one.lacking)), cell(count(one.overdue), one.overdue ? "bad" : ""),
    cell(ago(one.oldest_since_ms, shown.now_ms), "optional"),
  ]), "Nobody is registered, and nothing was published.");
}

function slowest(shown) {
  table("slowest", [["client"], ["state"], ["lacks"], ["since"], ["last seen", "optional"]], shown.slowest.slice(0, 10).map((one) => [
    nameCell(`${one.client} (${one.domain} / ${one.group})`, () => explain(one.domain, one.group, one.client)),
    cell(one.state), cell(count(one.lacking)), cell(ago(one.since_ms, shown.now_ms)),
    cell(ago(one.last_seen_ms, shown.now_ms), "optional"),
  ]), "Nobody lacks anything.");
}

function oldest(shown) {
  table("oldest", [["object"], ["version", "optional"], ["since"], ["lacking"], ["asleep"]], shown.oldest.slice(0, 10).map((one) => [
    nameCell(`${one.object} (${one.domain} / ${one.group})`, () => choose(one.domain, one.group, true)),
    cell(one.version, "optional"), cell(ago(one.since_ms, shown.now_ms)),
    cell(`${count(one.lacking)} of ${count(one.registered)}`), cell(count(one.asleep)),
  ]), "Everything is delivered.");
}

// -- a group's matrix --------------------------------------------------------------------------------------------------

function choose(domain, group, go = false) {
  chosen = { domain, group, limit: MATRIX_CLIENTS };
  const form = byId("publish");
  form.domain.value ||= domain;
  form.group.value ||= group;
  matrix(true).then(() => go && byId("matrix-card").scrollIntoView({ behavior: "smooth", block: "start" }));
}

async function matrix(now = false) {
  if (chosen === null || document.hidden || (!now && inUse("matrix"))) return;
  const { domain, group, limit } = chosen;
  byId("matrix-title").textContent = `${domain} / ${group}`;
  byId("matrix-card").hidden = false;
  try {
    const items = [];
    let shown;
    do {
      const after = shown ? `&after=${encodeURIComponent(shown.next)}` : "";
      shown = await askJson(`${groupPath(domain, group)}/matrix?limit=${Math.min(1000, limit - items.length)}${after}`);
      items.push(...shown.items);
    } while (shown.next !== null && items.length < limit);
    // A matcher of the release before knows of none.
    const queries = await askJson(`${groupPath(domain, group)}/queries?limit=${QUERIES_SHOWN}`).catch(() => ({ items: [], next: null }));
    if (chosen.domain === domain && chosen.group === group) {
      showMatrix({ ...shown, items });
      showQueries(queries);
    }
  } catch (error) {
    byId("matrix-more").textContent = error.message;
  }
}

function showQueries({ items, next }) {
  byId("queries-part").hidden = items.length === 0;
  if (inUse("queries")) return;
  const { domain, group } = chosen;
  table("queries", [["query"], ["members"], ["connected"], ["clients"]], items.map((one) => [
    cell(one.query), cell(one.members === null ? "–" : count(one.members)), cell(`${count(one.online)} of ${count(one.clients_count)}`),
    element("td", {}, ...one.clients.slice(0, CLIENTS_OF_QUERY).flatMap((client) => [
      element("button", { type: "button", className: "link", onclick: () => explain(domain, group, client) }, client), " "]),
      one.clients_count > CLIENTS_OF_QUERY ? "…" : ""),
  ]), "");
  if (next !== null) byId("queries").append(element("caption", {}, `the first ${items.length}`));
}

function showMatrix(shown) {
  const { domain, group } = chosen;
  const only = byId("only-lacking").checked;
  const rows = only ? shown.items.filter((one) => one.lacking) : shown.items;
  const signs = { has: ["✓", "up to date"], lacks: ["●", "lacks the newest"], "": ["·", "not registered"] };
  const head = element("tr", {}, element("th", { scope: "col" }, "client"), element("th", { scope: "col", className: "state" }, "state"),
    ...shown.objects.map((one) => element("th", { scope: "col", className: "object", title: `${one.object}, version ${one.version ?? "none"}` },
      element("span", {}, one.object))));
  const body = rows.map((one) => element("tr", { className: one.state },
    nameCell(one.client, () => explain(domain, group, one.client)),
    cell(one.state === "asleep" ? `asleep, ${ago(one.last_seen_ms, shown.now_ms)}` : one.state, "state"),
    ...one.cells.map((state, place) => {
      const [sign, words] = signs[state];
      const { object, version } = shown.objects[place];
      const about = `${one.client}, ${object} version ${version ?? "none"}: ${words}`;
      const button = element("button", { type: "button", className: state || "none", title: about, onclick: () => explain(domain, group, one.client, object) }, sign);
      button.setAttribute("aria-label", about);
      return element("td", { className: "cell" }, button);
    })));
  byId("matrix").replaceChildren(element("thead", {}, head), element("tbody", {}, ...body));
  const words = [`${count(rows.length)} of ${count(shown.clients_count)} clients`, `the newest ${shown.objects.length} of ${count(shown.objects_count)} objects`];
  const more = shown.next === null ? [] : [" ", element("button", { type: "button", className: "link", onclick: () => { chosen.limit += MATRIX_CLIENTS; matrix(true); } }, "show more clients")];
  byId("matrix-more").replaceChildren(words.join(", "), ...more);
}

// -- why ---------------------------------------------------------------------------------------------------------------

async function explain(domain, group, client, object) {
  const about = object === undefined ? "" : `?object=${encodeURIComponent(object)}`;
  byId("explain-title").textContent = object === undefined ? client : `${client} and ${object}`;
  byId("explain-words").textContent = "…";
  byId("explain-timeline").replaceChildren();
  byId("explain").showModal();
  try {
    const shown = await askJson(`${groupPath(domain, group)}/clients/${segment(client)}/explanation${about}`);
    byId("explain-words").textContent = `${shown.verdict.replaceAll("_", " ")}: ${shown.words}`;
    byId("explain-timeline").replaceChildren(...shown.timeline.map((event) => element("li", {},
      element("b", {}, `${event.step}${event.when_ms ? `, ${new Date(event.when_ms).toLocaleString()}` : ""}`), event.text)));
  } catch (error) {
    byId("explain-words").textContent = error.message;
  }
}

// -- publishing --------------------------------------------------------------------------------------------------------

async function publish(event) {
  event.preventDefault();
  const form = byId("publish");
  const said = byId("published");
  const fields = Object.fromEntries(new FormData(form));
  form.querySelector("button").disabled = true;
  try {
    // Versions go up to 2^63-1, which JavaScript's numbers cannot say: so the body is put together as text.
    const parts = [];
    if (fields.version.trim()) parts.push(`"version":${BigInt(fields.version.trim())}`);
    if (fields.payload.trim()) parts.push(`"payload":${JSON.parse(fields.payload) === null ? "null" : fields.payload.trim()}`);
    if (fields.deleted) parts.push('"deleted":true');
    const path = `${groupPath(fields.domain, fields.group)}/objects/${segment(fields.object)}`;
    const shown = await askJson(path, { method: "POST", body: `{${parts.join(",")}}` });
    said.className = { published: "good", repeated: "good", unknown: "unsure" }[shown.outcome] ?? "bad";
    said.textContent = changed(shown);
    choose(fields.domain, fields.group);
  } catch (error) {
    said.className = "bad";
    said.textContent = error instanceof SyntaxError ? `payload: is not JSON: ${error.message}` : error.message;
  } finally {
    form.querySelector("button").disabled = false;
  }
}

function changed(shown) {
  const place = `version ${shown.version}, partition ${shown.partition}, offset ${shown.offset}`;
  const { outcome, newest, reason } = shown;
  if (newest === undefined) {
    const words = outcome === "unknown" ? "acknowledged, but what it has changed is not known" : outcome;
    return `${words}: ${place}${reason ? ` (${reason})` : ""}`;
  }
  const since = newest.published_ms === null ? "" : `, since ${new Date(newest.published_ms).toLocaleString()}`;
  const incarnation = newest.incarnation ? ` of incarnation ${newest.incarnation}` : "";
  if (outcome === "stale") {
    return `stale: ${place}. The newest is version ${newest.version}${incarnation}${since}; no client is ever told of this one. `
      + "Publish a higher one, or start the object's versions over: coldnotify object reset";
  }
  return `${outcome}: ${place}. That version was the newest already${since}, with other content; clients that have it are not told. `
    + "Publish it under a higher version";
}

// -- live --------------------------------------------------------------------------------------------------------------

function live(className, words) {
  byId("live").className = className;
  byId("live-words").textContent = words;
}

async function follow() {
  // Not an EventSource: that cannot show a token.
  const response = await ask("v1/console/events");
  if (!response.ok) {
    const { error } = await response.json();
    // A client's token, say: another one would do.
    if (response.status === 403) await signIn(error);
    throw new Error(error);
  }
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  history = [];
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const events = text.split("\n\n");
    text = events.pop();
    for (const one of events) {
      if (!one.startsWith("data: ")) continue;
      show(parse(one.slice(6)));
      live("live", "live");
      failures = 0;
    }
  }
}

let failures = 0;
async function forever() {
  for (;;) {
    try {
      await follow();
      live("lost", "the service has ended the stream");
    } catch (error) {
      live("lost", `not connected: ${error.message}`);
    }
    await new Promise((resolve) => setTimeout(resolve, RECONNECT_MS[Math.min(failures++, RECONNECT_MS.length - 1)]));
  }
}

byId("publish").addEventListener("submit", publish);
byId("only-lacking").addEventListener("change", () => matrix(true));
setInterval(matrix, MATRIX_EVERY_MS);
forever();
