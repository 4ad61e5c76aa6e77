// A group as a table of clients and objects. Rows and columns are made for what is in view only, pages of clients are
// fetched as it is scrolled, pages of objects by the buttons below it.

import { askJson, groupPath } from "./ask.js";
import { byId, cell, element, keyed, link, update } from "./dom.js";
import { ago, count, number, shortened } from "./words.js";

const PAGE_CLIENTS = 200;
const PAGE_CLIENTS_MAX = 1000;
const OBJECTS = 100;
const ROW_PX = 33;
const ROWS_BEYOND = 8;
const COLUMN_PX = 36;
const COLUMNS_BEYOND = 4;
const SIGNS = { has: ["✓", "up to date"], told: ["✓", "was told; its library cannot report callbacks"], lacks: ["●", "lacks the newest"], pending: ["◔", "was told; its callbacks have not returned yet"], parked: ["✕", "was told; its callbacks fail"], "": ["·", "not registered"] };

let shown = null;
let asking = null;
// Of the cell that the tab key leads to; the arrow keys move it.
let at = { row: 0, column: 0, client: null, object: null };

export const clientHref = (domain, group, client) => `${groupHref(domain, group)}/clients/${encodeURIComponent(client)}`;
export const objectHref = (domain, group, object) => `${groupHref(domain, group)}/objects/${encodeURIComponent(object)}`;
export const groupHref = (domain, group) => `#/groups/${encodeURIComponent(domain)}/${encodeURIComponent(group)}`;

// `why(client, object)` is called where a cell is pressed. Pages that were there are asked for again.
export async function matrix(domain, group, why, isNew = false) {
  const only = byId("only-lacking").checked;
  if (isNew || shown === null || shown.domain !== domain || shown.group !== group || shown.only !== only) {
    const from = isNew && shown?.domain === domain && shown.group === group && shown.only === only ? shown.from : 0;
    shown = { domain, group, why, only, from, items: [], next: "", objects: [], objects_count: 0, clients_count: 0 };
    move(0, 0);
  }
  const wanted = shown;
  const items = [];
  let next = null;
  let page;
  do {
    page = await ask(wanted, next, wanted.items.length - items.length);
    items.push(...page.items);
    next = page.next;
  } while (next !== null && items.length < Math.max(PAGE_CLIENTS, wanted.items.length));
  if (shown !== wanted) return;
  Object.assign(shown, { ...page, items, next });
  draw();
}

const ask = ({ domain, group, only, from }, after, most = 0) =>
  askJson(`${groupPath(domain, group)}/matrix?limit=${Math.min(PAGE_CLIENTS_MAX, Math.max(PAGE_CLIENTS, most))}&objects_from=${from}${only ? "&lacking=yes" : ""}`
    + (after === null ? "" : `&after=${encodeURIComponent(after)}`));

async function more() {
  if (asking !== null || shown.next === null) return;
  const wanted = shown;
  asking = ask(wanted, wanted.next);
  try {
    const page = await asking;
    if (shown !== wanted) return;
    shown.items.push(...page.items);
    shown.next = page.next;
    draw();
  } catch (error) {
    byId("matrix-more").textContent = error.message;
  } finally {
    asking = null;
  }
}

export function objectsFrom(step) {
  const from = Math.max(0, shown.from + step * OBJECTS);
  if (from >= shown.objects_count && step > 0) return;
  shown = { ...shown, from };
  move(at.row, 0);
  matrix(shown.domain, shown.group, shown.why).catch((error) => { byId("matrix-more").textContent = error.message; });
}

function draw() {
  const { domain, group, objects, items, from, next } = shown;
  follow(items, objects);
  const scroll = byId("matrix-scroll");
  const first = Math.max(0, Math.floor(scroll.scrollTop / ROW_PX) - ROWS_BEYOND);
  // As high as it can become: it is as high as its rows, and at first there are none.
  const last = Math.min(items.length, Math.ceil((scroll.scrollTop + Math.max(scroll.clientHeight, innerHeight)) / ROW_PX) + ROWS_BEYOND);
  const [left, right] = columns(scroll, objects.length);
  // Where the tab key leads to: the cell that the arrow keys are at, or the nearest that there is.
  const tab = { row: Math.max(first, Math.min(at.row, last - 1)), column: Math.max(left, Math.min(at.column, right - 1)) };
  const heads = objects.slice(left, right).map((one, index) => {
    const made = element("th", { scope: "col", className: "object", ariaColIndex: String(left + index + 3) },
      link(shortened(one.object), objectHref(domain, group, one.object), `${one.object}, version ${one.version ?? "none"}`));
    return keyed(made, one.object);
  });
  const head = element("tr", {}, element("th", { scope: "col" }, "client"), element("th", { scope: "col", className: "state" }, "state"),
    ...beside("\0left", left), ...heads, ...beside("\0right", objects.length - right));
  const space = (key, rows) => keyed(element("tr", { className: "space", ariaHidden: "true" },
    element("td", { colSpan: right - left + 4, style: `height:${rows * ROW_PX}px` })), key);
  const body = items.slice(first, last).map((one, index) => row(one, first + index, left, right, tab));
  const empty = element("tr", {}, element("td", { className: "empty", colSpan: 2 }, shown.only ? "Nobody is behind." : "Nobody is registered."));
  byId("matrix").setAttribute("aria-colcount", String(objects.length + 2));
  byId("matrix").setAttribute("aria-rowcount", String(next === null ? items.length + 1 : -1));
  update(byId("matrix"), element("thead", {}, head),
    element("tbody", {}, ...(items.length ? [space("\0above", first), ...body, space("\0below", items.length - last)] : [empty])));
  const of = shown.only ? items.length === 1 && next === null ? "that is behind" : "that are behind" : `of ${count(shown.clients_count)}`;
  const clients = next === null ? number(items.length, "client") : `${count(items.length)} and more clients`;
  const words = `${clients} ${of}, objects ${count(Math.min(from + 1, shown.objects_count))} to ${count(from + objects.length)} of ${count(shown.objects_count)}, the newest first`;
  update(byId("matrix-more"), words);
  byId("objects-before").disabled = from === 0;
  byId("objects-after").disabled = from + objects.length >= shown.objects_count;
  if (next !== null && last === items.length) more();
}

// Which columns are in view, and some more: [first, behind the last].
function columns(scroll, all) {
  const begin = names().reduce((sum, width) => sum + width, 0);
  const last = Math.min(all, Math.ceil((scroll.scrollLeft + Math.max(scroll.clientWidth, 1) - begin) / COLUMN_PX) + COLUMNS_BEYOND);
  return [Math.min(Math.max(0, last - 1), Math.max(0, Math.floor((scroll.scrollLeft - begin) / COLUMN_PX) - COLUMNS_BEYOND)), Math.max(0, last)];
}

// How wide the columns of names and of states are; at first they are not there.
const names = () => [...(byId("matrix").tHead?.rows[0].cells ?? [])].slice(0, 2).map((one) => one.offsetWidth);

// A cell in the place of columns that are not in view.
const beside = (key, columns) => (columns > 0 ? [keyed(element("td", { className: "gap", ariaHidden: "true", style: `min-width:${columns * COLUMN_PX}px` }), key)] : []);

// The cell stays the same one where others have come in front of it.
function follow(items, objects) {
  const row = items[at.row]?.client === at.client ? at.row : items.findIndex(({ client }) => client === at.client);
  const column = objects.findIndex(({ object }) => object === at.object);
  move(row < 0 ? Math.min(at.row, Math.max(0, items.length - 1)) : row, column < 0 ? 0 : column);
}

function move(row, column) {
  at = { row, column, client: shown.items[row]?.client ?? null, object: shown.objects[column]?.object ?? null };
}

function row(one, index, left, right, tab) {
  const { domain, group, objects, why } = shown;
  const cells = one.cells.slice(left, right).map((state, shift) => {
    const place = left + shift;
    const [sign, words] = SIGNS[state];
    const { object, version } = objects[place];
    const about = `${one.client}, ${object} version ${version ?? "none"}: ${words}`;
    const button = element("button", { type: "button", className: state || "none", title: about, ariaLabel: about, onclick: () => why(one.client, object) }, sign);
    button.tabIndex = index === tab.row && place === tab.column ? 0 : -1;
    button.dataset.at = `${index} ${place}`;
    return keyed(element("td", { className: "cell", ariaColIndex: String(place + 3) }, button), object);
  });
  const made = element("tr", { className: one.state }, element("td", { className: "name" }, link(shortened(one.client), clientHref(domain, group, one.client), one.client)),
    cell(one.state === "asleep" ? `asleep, ${ago(one.last_seen_ms, Date.now())}` : one.state, "state"), ...beside("\0left", left), ...cells,
    ...beside("\0right", objects.length - right));
  made.ariaRowIndex = String(index + 2);
  return keyed(made, one.client);
}

const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], PageUp: [-10, 0], PageDown: [10, 0] };
function key(event) {
  const button = event.target.closest?.("button[data-at]");
  if (!button || event.ctrlKey || event.metaKey || event.altKey) return;
  const [line, place] = button.dataset.at.split(" ").map(Number);
  const [down, right] = STEPS[event.key] ?? [0, { Home: -place, End: shown.objects.length }[event.key] ?? 0];
  if (!down && !right && !["Home", "End"].includes(event.key)) return;
  event.preventDefault();
  move(Math.min(shown.items.length - 1, Math.max(0, line + down)), Math.min(shown.objects.length - 1, Math.max(0, place + right)));
  const scroll = byId("matrix-scroll");
  const top = at.row * ROW_PX;
  const head = byId("matrix").tHead.offsetHeight;
  if (top < scroll.scrollTop) scroll.scrollTop = top;
  else if (top + ROW_PX + head > scroll.scrollTop + scroll.clientHeight) scroll.scrollTop = top + ROW_PX + head - scroll.clientHeight;
  const [name = 0, state = 0] = names();
  const begin = name + state + at.column * COLUMN_PX;
  if (begin - name < scroll.scrollLeft) scroll.scrollLeft = begin - name;
  else if (begin + COLUMN_PX > scroll.scrollLeft + scroll.clientWidth) scroll.scrollLeft = begin + COLUMN_PX - scroll.clientWidth;
  draw();
  byId("matrix").querySelector(`button[data-at="${at.row} ${at.column}"]`)?.focus();
}

export function followScrolling() {
  let drawn = false;
  byId("matrix-scroll").addEventListener("scroll", () => {
    if (drawn || shown === null) return;
    drawn = true;
    requestAnimationFrame(() => { drawn = false; draw(); });
  });
  byId("matrix").addEventListener("keydown", key);
  byId("matrix").addEventListener("focusin", ({ target }) => {
    const [line, place] = (target.dataset.at ?? "").split(" ").map(Number);
    if (place === undefined || (line === at.row && place === at.column)) return;
    byId("matrix").querySelector('button[tabindex="0"]')?.setAttribute("tabindex", "-1");
    target.tabIndex = 0;
    move(line, place);
  });
  byId("objects-before").addEventListener("click", () => objectsFrom(-1));
  byId("objects-after").addEventListener("click", () => objectsFrom(1));
}
