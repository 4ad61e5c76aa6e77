// MQTT.js, unchanged: subscribes to all with a kept session, and writes each event as a line of JSON.
import { createRequire } from "node:module";

const [url, clientId, version] = process.argv.slice(2);
const mqtt = createRequire(`${process.cwd()}/`)("mqtt");
const say = (event) => process.stdout.write(`${JSON.stringify(event)}\n`);
const protocolVersion = Number(version);
const properties = protocolVersion === 5 ? { sessionExpiryInterval: 3600 } : undefined;
const client = mqtt.connect(url, { clientId, clean: false, protocolVersion, properties });

client.on("connect", ({ sessionPresent }) => {
  say({ present: sessionPresent });
  client.subscribe("#", { qos: 1 }, (error, granted) => say({ granted: error ? String(error) : granted[0]?.qos }));
});
client.on("message", (topic, payload, { retain }) => say({ topic, payload: payload.toString(), retain }));
client.on("error", (error) => say({ error: String(error) }));
process.stdin.on("end", () => client.end(false, {}, () => process.exit(0))).resume();
