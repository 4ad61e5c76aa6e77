// What can be done about a client: its session is ended, or it is forgotten.

import { askJson, groupPath, segment } from "./ask.js";
import { confirmed } from "./confirm.js";
import { byId } from "./dom.js";
import { number } from "./words.js";

let shown = null;

// The client of the page, as the service has it. What was said of another one goes.
export function about(domain, group, client, state) {
  if (shown === null || shown.domain !== domain || shown.group !== group || shown.client !== client) byId("client-done").textContent = "";
  shown = { domain, group, client, ...state };
  byId("client-disconnect").disabled = !state.online;
  byId("client-forget").disabled = state.gone === true;
}

const SAID = {
  disconnected: () => "Its session was ended. It may come back.",
  not_connected: () => "It was not connected.",
  forgotten: ({ was_online, was_registered }) => `It is forgotten: ${number(was_registered, "registration is", "registrations are")} gone${was_online ? ", and its session was ended" : ""}. If it comes back, it registers again.`,
};

async function change(asked, options, done) {
  const reason = await confirmed(asked);
  if (reason === null) return;
  const { domain, group, client } = shown;
  const said = byId("client-done");
  said.className = "";
  said.textContent = "…";
  try {
    const about = reason ? `?reason=${encodeURIComponent(reason)}` : "";
    const answer = await askJson(`${groupPath(domain, group)}/clients/${segment(client)}${about}`, options);
    said.className = "good";
    said.textContent = SAID[answer.outcome](answer);
    done();
  } catch (error) {
    said.className = "bad";
    said.textContent = error.outcome ? `${error.outcome}: ${error.message}` : error.message;
  }
}

export function followClients(done) {
  byId("client-disconnect").addEventListener("click", () => change({
    title: `Disconnect ${shown.client}?`, yes: "Disconnect",
    words: "Its gateway ends its session, and tells it the reason. It may come back at once.",
  }, { method: "PATCH", body: '{"online":false}' }, done));
  byId("client-forget").addEventListener("click", () => change({
    title: `Forget ${shown.client}?`, yes: "Forget", typed: shown.client,
    words: `${shown.online ? "It is online: its session is ended first. " : ""}Its ${number(shown.registered, "registration")} and its cursor are removed. If it comes back, it registers again, and is told the newest version of everything.`,
  }, { method: "DELETE" }, done));
}
