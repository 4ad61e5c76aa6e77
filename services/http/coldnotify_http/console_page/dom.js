// Elements: made, and brought up to date in place, so that what has the focus keeps it.

export const byId = (id) => document.getElementById(id);

export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  Object.assign(made, properties);
  made.append(...children);
  return made;
}

export const cell = (text, className = "") => element("td", { className }, String(text));
export const link = (text, href, title = "") => element("a", { href, title: title || text }, text);
export const linkCell = (text, href, title) => element("td", { className: "name" }, link(text, href, title));

// A row that stands for the same as before stays the same element: by its key, the first cell's text as a rule. On a
// phone, where a row is a card, each cell has its column's name; roles stay what they are in a table. A head is [name,
// class, how to sort by it].
export function table(id, head, rows, nothing, caption = "") {
  const cells = head.map(([name, className = "", sort]) => {
    const made = element("th", { scope: "col", className }, sort ? link(name, sort.href, `Sort by ${name}`) : name);
    if (sort?.sorted) made.setAttribute("aria-sort", sort.sorted);
    return role(made, "columnheader");
  });
  const body = rows.length
    ? rows.map((row) => {
      for (const [index, one] of row.entries()) role(one, "cell").dataset.label = head[index][0];
      return keyed(role(element("tr", {}, ...row), "row"), row[0].dataset.key ?? row[0].textContent);
    })
    : [element("tr", {}, element("td", { className: "empty", colSpan: head.length }, nothing))];
  const shown = role(byId(id), "table");
  shown.classList.add("rows");
  update(shown, ...(caption ? [element("caption", {}, caption)] : []),
    role(element("thead", {}, role(element("tr", {}, ...cells), "row")), "rowgroup"), role(element("tbody", {}, ...body), "rowgroup"));
}

function role(made, name) {
  made.setAttribute("role", name);
  return made;
}

export function keyed(made, key) {
  made.dataset.key = key;
  return made;
}

// Makes the children of `parent` what `made` are.
export function update(parent, ...made) {
  const focused = document.activeElement;
  children(parent, made.map((one) => (typeof one === "string" ? document.createTextNode(one) : one)));
  if (focused !== document.activeElement && parent.contains(focused)) focused.focus({ preventScroll: true });
}

function children(parent, made) {
  const known = new Map([...parent.childNodes].filter((one) => one.dataset?.key !== undefined).map((one) => [one.dataset.key, one]));
  let place = parent.firstChild;
  for (const one of made) {
    const key = one.dataset?.key;
    let old = key === undefined ? place : known.get(key);
    if (key === undefined && old?.dataset?.key !== undefined) old = null;
    if (old == null || old.nodeName !== one.nodeName) {
      parent.insertBefore(one, place);
      continue;
    }
    known.delete(key);
    if (old === place) place = place.nextSibling;
    else parent.insertBefore(old, place);
    same(old, one);
  }
  while (place !== null) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

function same(old, made) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== made.data) old.data = made.data;
    return;
  }
  for (const { name } of [...old.attributes]) if (name !== "style" && !made.hasAttribute(name)) old.removeAttribute(name);
  // A style by attribute is what the page's policy forbids.
  for (const { name, value } of made.attributes) {
    if (name === "style") old.style.cssText = value;
    else if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  old.onclick = made.onclick;
  children(old, [...made.childNodes]);
}
