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

// A row that stands for the same as before stays the same element: by its key, the first cell's text as a rule.
export function table(id, head, rows, nothing, caption = "") {
  const cells = head.map(([name, className = ""]) => element("th", { scope: "col", className }, name));
  const body = rows.length
    ? rows.map((row) => keyed(element("tr", {}, ...row), row[0].textContent))
    : [element("tr", {}, element("td", { className: "empty", colSpan: head.length }, nothing))];
  update(byId(id), ...(caption ? [element("caption", {}, caption)] : []),
    element("thead", {}, element("tr", {}, ...cells)), element("tbody", {}, ...body));
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
