import { Notify } from "coldnotify-browser";
import { createElement } from "react";
import { createRoot } from "react-dom/client";

import { useObject } from "./useObject.js";

function Camera({ notify }) {
  const camera = useObject(notify, "camera-config");
  if (camera === null) return createElement("p", null, "nothing is known yet");
  return createElement("p", null, `version ${camera.version}: ${JSON.stringify(camera.payload)}`);
}

/** Shows the object in `element`; `options` are those of `Notify`. */
export async function start(options, element) {
  const notify = new Notify(options);
  await notify.connect(); // the state is read: what is known is shown at once
  createRoot(element).render(createElement(Camera, { notify }));
  return notify;
}
