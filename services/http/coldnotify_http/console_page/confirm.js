// Asking once more before something is done that cannot be undone.

import { byId } from "./dom.js";

// What was typed as the reason; null: it is not to be done. With `typed`, that is to be typed first.
export function confirmed({ title, words, yes, typed = null, reason = true }) {
  const [dialog, form, button] = [byId("confirm"), byId("confirm-form"), byId("confirm-yes")];
  byId("confirm-title").textContent = title;
  byId("confirm-words").textContent = words;
  byId("confirm-name").textContent = typed ?? "";
  byId("confirm-typed").hidden = typed === null;
  byId("confirm-reason").hidden = !reason;
  button.textContent = yes;
  form.reset();
  const look = () => { button.disabled = typed !== null && form.typed.value !== typed; };
  form.typed.oninput = look;
  look();
  return new Promise((resolve) => {
    dialog.returnValue = "";
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes" && !button.disabled ? form.reason.value.trim() : null), { once: true });
    dialog.showModal();
  });
}
