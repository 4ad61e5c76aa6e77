// A form that changes something: what is wrong is said of its field, and one thing is done at a time.

import { byId } from "./dom.js";

const NAME = /^[A-Za-z0-9._-]{1,64}$/;

export class Wrong extends Error {
  constructor(field, words) {
    super(`${field}: ${words}`);
    this.field = field;
  }
}

export function checkName(field, text) {
  if (!NAME.test(text)) throw new Wrong(field, text ? "has other characters than A-Z a-z 0-9 . _ - or more than 64" : "is missing");
}

export function checkJson(field, text) {
  try {
    JSON.parse(text);
  } catch (error) {
    throw new Wrong(field, `is not JSON: ${error.message}`);
  }
}

// `step` gets the form; what it returns is said: [class, words], or null for nothing. A wrong field gets the focus.
export async function doing(form, said, step) {
  for (const one of form.querySelectorAll("[aria-invalid]")) one.removeAttribute("aria-invalid");
  for (const one of form.querySelectorAll("button")) one.disabled = true;
  try {
    const shown = await step(form);
    if (shown !== null) [said.className, said.textContent] = shown;
  } catch (error) {
    said.className = "bad";
    said.textContent = error.outcome ? `${error.outcome}: ${error.message}` : error.message;
    const field = form.elements[error.field];
    if (field) {
      field.setAttribute("aria-invalid", "true");
      field.focus();
    }
  } finally {
    for (const one of form.querySelectorAll("button")) one.disabled = false;
  }
}

// The place that the page shows.
export function fill(id, fields) {
  const form = byId(id);
  for (const [name, value] of Object.entries(fields)) form.elements[name].value = value;
}
