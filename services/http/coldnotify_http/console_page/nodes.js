// The nodes: every process that runs, as its own record says, in a map by role and place, and in a table.

import { askJson } from "./ask.js";
import { byId, cell, element, keyed, table, update } from "./dom.js";
import { count, duration, number } from "./words.js";

const STATES = { ready: "ready", not_ready: "not ready", silent: "silent" };
const WORST = Object.keys(STATES).reverse();
const MAP_MAX = 500;

const address = (one) => Object.values(one.addresses)[0] ?? one.id;
const connections = (one) => (one.limit ? `${count(one.connections)} of ${count(one.limit)}` : "–");
const percent = (value) => `${Math.round(value * 100)} %`;
const labels = (one) => Object.entries(one.labels).map(([name, value]) => `${name}=${value}`).join(", ");

// A box for each node, fuller the nearer it is to its limit, or to a whole core.
function box(one) {
  const full = Math.max(one.limit ? one.connections / one.limit : 0, one.load);
  const title = [`${one.role} ${address(one)}`, STATES[one.state], connections(one) === "–" ? "" : `${connections(one)} connections`, `load ${percent(one.load)}`,
    labels(one), `heard ${duration(one.age_s * 1000)} ago`].filter(Boolean).join(", ");
  const made = element("li", { className: `node ${one.state}`, title }, element("span", { className: "full" }), element("span", {}, address(one)));
  made.firstChild.style.height = `${Math.min(100, Math.round(100 * full))}%`;
  return keyed(made, `${one.role}/${one.principal}/${one.id}`);
}

export async function showNodes() {
  const shown = await askJson("v1/nodes");
  const said = [];
  if (shown.unknown) said.push(`Not all are known: ${shown.unknown}`);
  if (shown.passed_over) said.push(`${number(shown.passed_over, "record")} could not be understood; the last one: ${shown.passed_over_why}`);
  update(byId("nodes-problems"), ...said.map((words) => element("li", {}, words)));
  byId("nodes-problems").hidden = said.length === 0;
  const roles = [...new Set(shown.items.map(({ role }) => role))];
  update(byId("nodes-map"), ...roles.map((role) => {
    const all = shown.items.filter((one) => one.role === role);
    const ready = all.filter(({ state }) => state === "ready").length;
    return keyed(element("div", {}, element("h3", {}, `${role}: ${count(ready)} of ${count(all.length)} ready`),
      element("ul", { className: "nodes" }, ...all.slice(0, MAP_MAX).map(box))), role);
  }));
  const items = [...shown.items].sort((a, b) => WORST.indexOf(a.state) - WORST.indexOf(b.state) || a.role.localeCompare(b.role));
  const head = [["address"], ["role"], ["state"], ["connections"], ["at home", "optional"], ["load"], ["weight", "optional"], ["labels", "optional"], ["version"], ["heard"]];
  table("nodes", head, items.map((one) => [
    keyed(cell(Object.entries(one.addresses).map(([name, at]) => `${name} ${at}`).join(", ") || one.id, "words"), `${one.role}/${one.principal}/${one.id}`),
    cell(one.role), cell(STATES[one.state], one.state === "ready" ? "" : "bad"), cell(connections(one)), cell(one.limit ? count(one.home) : "–", "optional"),
    cell(percent(one.load)), cell(one.weight, "optional"), cell(labels(one) || "–", "optional words"), cell(one.version || "–"), cell(`${duration(one.age_s * 1000)} ago`),
  ]), "No node has a record.");
}
