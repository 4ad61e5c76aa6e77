/** `Notify` with everything but the network: a gateway in memory behind a WebSocket of our own. */

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { queryHash } from "../src/schemas/digest.js";
import type { ClientFrame } from "../src/schemas/wire.js";
import { LocalState, MemoryState, Notify, OpenElsewhere, type Options, PublishGivenUp, PublishRefused, QueriesUnknown, RegistrationRefused, ServiceRefused, StateDamaged, StateMismatch } from "../src/index.js";
import { Socket } from "./socket.js";

const DEADLINE_S = 150;

const QUICK = { backoffMinS: 0.1, backoffMaxS: 0.2, retryMinS: 0.01, ackDelayS: 0.01, saveIntervalS: 0.01, addressRestS: 0.1 };
const ME = { domain: "d", groupId: "g", clientId: "c", address: "ws://gateway" };
let clients: Notify[] = [];
let errors: Error[] = [];

function notify(options: Partial<Options> = {}): Notify {
  const client = new Notify({ ...ME, ...QUICK, state: new MemoryState(), onError: (error) => errors.push(error), ...options });
  clients.push(client);
  return client;
}

function socket(): Socket {
  return Socket.all.at(-1) as Socket;
}

async function until(condition: () => unknown, what: string): Promise<void> {
  const deadline = Date.now() + 1000 * DEADLINE_S;
  while (!condition()) {
    assert(Date.now() < deadline, `${what}: not within ${DEADLINE_S} s`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** All that was told, as "object@version". */
function recorder(): { told: string[]; callback: (n: { objectId: string; version: bigint | null }) => void } {
  const told: string[] = [];
  return { told, callback: ({ objectId, version }) => void told.push(`${objectId}@${version}`) };
}

const realWebSocket = globalThis.WebSocket;
beforeEach(() => {
  Object.assign(globalThis, { WebSocket: Socket });
  [Socket.all, clients, errors] = [[], [], []];
  Socket.refused = new Set();
  Socket.knowsQueries = true;
  Socket.publishes = true;
  Socket.tellsDescriptions = false;
});
afterEach(async () => {
  await Promise.all(clients.map((client) => client.disconnect()));
  Object.assign(globalThis, { WebSocket: realWebSocket });
});

test("it registers, is told, acknowledges and says Bye", async () => {
  const client = notify({ token: async () => "who I am" });
  const { told, callback } = recorder();
  client.register("a").subscribe(callback);
  assert.equal(client.status.phase, "stopped");
  await client.connect();
  assert(await client.waitCaughtUp(DEADLINE_S));
  assert.equal(socket().url, "ws://gateway/v1/connect");
  assert.equal(socket().said[0]?.hello?.token, "who I am");
  assert.deepEqual(told, ["a@1"]);
  socket().say({ notification: { name: "a", version: 9007199254740993n, offset: 6n } });
  await until(() => told.length === 2, "it is told live");
  assert.equal(told[1], "a@9007199254740993");
  await until(() => socket().said.some(({ ack }) => ack?.complete === 6n), "it is acknowledged");
  client.register("b").subscribe(callback);
  await until(() => told.includes("b@1"), "what is registered later is told");
  assert(client.connected && client.caughtUp);
  await client.disconnect();
  assert(socket().said.at(-1)?.bye);
  assert.equal(client.status.phase, "stopped");
  assert.deepEqual(errors, []);
});

test("the next client of the same state is told nothing again, and the sets agree", async () => {
  const state = new MemoryState();
  const { told, callback } = recorder();
  for (const _ of [1, 2]) {
    const client = notify({ state });
    client.register("a").subscribe(callback);
    await client.connect();
    assert(await client.waitCaughtUp(DEADLINE_S));
    await client.disconnect();
  }
  assert.deepEqual(told, ["a@1"]);
  const hello = socket().said[0]?.hello;
  assert.deepEqual([hello?.epoch, hello?.cursor, hello?.register], [1, 5n, []]);
});

test("what was told last is there after a reload, although the network is away", async () => {
  const state = new MemoryState();
  const client = notify({ state });
  const [a, ab] = [client.register("a"), client.registerQuery("Room = 410")];
  a.subscribe(() => undefined);
  ab.subscribe(() => undefined);
  assert.equal(a.current, null);
  await client.connect();
  assert(await client.waitCaughtUp(DEADLINE_S));
  const payload = new TextEncoder().encode('{"fps": 5}');
  socket().say({ notification: { name: "a", version: 9007199254740993n, offset: 6n, payload } });
  const told = { objectId: "a", version: 9007199254740993n, payload: { fps: 5 }, deleted: false, description: null };
  await until(() => a.current?.version === told.version, "it is told");
  await client.disconnect();

  Socket.refused.add("ws://gateway/v1/connect");
  const again = notify({ state });
  const [now, both] = [again.register("a"), again.registerQuery("Room = 410")];
  await again.connect();
  assert.deepEqual(now.current, told);
  assert.deepEqual([...both.current.keys()].sort(), ["a", "b"]);
  again.unregister("a");
  again.unregisterQuery("Room = 410");
  assert.equal(now.current, null);
  assert.equal(both.current.size, 0);
});

test("who asks is told how members are described, and has it after a reload", async () => {
  Socket.tellsDescriptions = true;
  const state = new MemoryState();
  const client = notify({ state });
  const rooms = client.registerQuery("Room = 410", { descriptions: true });
  const told: [string, bigint | null, unknown][] = [];
  rooms.subscribe(({ objectId, version, description }) => told.push([objectId, version, description]));
  assert.equal(rooms.descriptions.size, 0);
  await client.connect();
  assert(await client.waitCaughtUp(DEADLINE_S));
  assert.equal(socket().said[0]?.hello?.capabilities, 16 + 8 + 7);
  assert.deepEqual(told, [["a", 1n, { Room: 410 }], ["b", 1n, { Room: 410 }]]);
  socket().say({ notification: { name: "b", version: 1n, offset: 6n, description: new Uint8Array() } });
  await until(() => told.length === 3, "the description alone");
  assert.deepEqual(told[2], ["b", 1n, null]);
  await client.disconnect();

  Socket.refused.add("ws://gateway/v1/connect");
  const again = notify({ state });
  const now = again.registerPrefix("x", { descriptions: true }) && again.registerQuery("Room = 410", { descriptions: true });
  await again.connect();
  assert.deepEqual([...now.descriptions].sort(), [["a", { Room: 410 }], ["b", null]]);
  assert.deepEqual([now.current.get("a")?.description, now.current.get("b")?.description], [{ Room: 410 }, null]);
  again.registerQuery("Room = 410");
  assert.equal(now.descriptions.size, 0, "who registers without asks no more");
});

test("what does not fit is not kept, rather than an old version", async () => {
  const client = notify({ newestBytesMax: 200 });
  const a = client.register("a");
  a.subscribe(() => undefined);
  await client.connect();
  assert(await client.waitCaughtUp(DEADLINE_S));
  assert.equal(a.current?.version, 1n);
  const payload = new TextEncoder().encode(`"${"x".repeat(100)}"`);
  socket().say({ notification: { name: "a", version: 2n, offset: 6n, payload } });
  await until(() => a.current === null, "it is dropped");
});

test("a callback that throws is told again; one that is asynchronous is waited for", async () => {
  const client = notify();
  let tries = 0;
  let release: () => void = () => undefined;
  client.register("a").subscribe(async () => {
    tries += 1;
    if (tries === 1) throw new Error("not yet");
    await new Promise<void>((resolve) => (release = resolve));
  });
  await client.connect();
  await until(() => tries === 2, "the second try");
  assert(!client.caughtUp);
  release();
  assert(await client.waitCaughtUp(DEADLINE_S));
  await until(() => errors.length > 0, "it is reported");
  assert.match(String(errors[0]), /CallbackFailed: callback for "a", version 1, threw Error: not yet/);
});

test("a query: its members, what comes and goes, their versions; what is refused, and what is wanted no more", async () => {
  const state = new MemoryState();
  const client = notify({ state });
  const { told, callback } = recorder();
  const query = client.registerQuery("Room = 410");
  assert.equal(query.text, "Room = 410");
  assert.deepEqual([query.members, query.membersKnown], [new Set(), false]);
  query.subscribe(callback);
  const changes: string[] = [];
  const onMembers = (added: ReadonlySet<string>, removed: ReadonlySet<string>): void => void changes.push(`+${[...added]} -${[...removed]}`);
  query.subscribeMembers(onMembers);
  await client.connect();
  assert(await client.waitCaughtUp(DEADLINE_S));
  assert.deepEqual([changes, told, query.members], [["+a -", "+b -"], ["a@1", "b@1"], new Set(["a", "b"])]);
  await until(() => query.membersKnown, "all has been told");
  assert.equal(socket().said[0]?.hello?.capabilities, 16 + 8 + 3);

  const hash = queryHash("Room = 410");
  socket().say({ notification: { name: "c", version: 7n, offset: 6n, entered: [hash] } });
  socket().say({ notification: { name: "a", version: 2n, deleted: true, offset: 7n, left: [hash] } });
  await until(() => query.members.size === 2 && told.length === 4 && changes.at(-1)?.includes("-a"), "c comes, and a goes when it was told");
  await until(() => socket().said.some(({ ack }) => ack?.complete === 7n), "it is acknowledged");
  const late: string[] = [];
  query.subscribeMembers((added) => void late.push([...added].sort().join()));
  await until(() => late.length === 1, "who comes late is told all members");
  assert.deepEqual(late, ["b,c"]);

  client.registerQuery("no");
  await until(() => errors.some((error) => error instanceof RegistrationRefused && error.query === "no"), "it is refused");
  assert.match(String(errors.at(-1)), /query "no" refused: line 1: no/);
  assert.equal(client.registerPrefix('say "\\"').text, 'NAME STARTS WITH "say \\"\\\\\\""');
  for (const wrong of ["", "x".repeat(4097), "\ud800"]) assert.throws(() => client.registerQuery(wrong), /^RangeError: query: /);
  assert.throws(() => client.registerPrefix(""), /^RangeError: prefix: /);
  client.registerOnly(["d"]);
  assert.equal(client.status.registrations, 3, "queries stay");
  client.unregisterQuery("Room = 410");
  await until(() => socket().said.some(({ unregister }) => unregister?.interests[0] === hash), "the service is told");
  assert.deepEqual([query.members, query.membersKnown], [new Set(), false]);
  await client.disconnect();
});

test("a service that is older than queries is reported once, and asked again", async () => {
  Socket.knowsQueries = false;
  const client = notify();
  client.register("a").subscribe(() => undefined);
  client.registerQuery("Room = 410").subscribe(() => undefined);
  await client.connect();
  await until(() => client.status.phase === "live", "the rest goes on");
  assert(!client.caughtUp);
  socket().end(false);
  await until(() => Socket.all.length === 2 && client.status.phase === "live", "it comes back");
  await until(() => errors.length > 0, "it is reported");
  assert.deepEqual(errors.map((error) => error.constructor), [QueriesUnknown]);
  Socket.knowsQueries = true;
  socket().end(false);
  await until(() => client.caughtUp, "another one took over");
  assert.deepEqual(Socket.all.map(({ said }) => said[0]?.hello?.interests[0]?.text), Array(3).fill("Room = 410"));
});

test("it comes back by itself, to another address if it knows one", async () => {
  Socket.refused.add("ws://one/v1/connect");
  const client = notify({ address: ["ws://one", "ws://two"] });
  await client.connect();
  assert(await client.waitCaughtUp(DEADLINE_S));
  assert.equal(socket().url, "ws://two/v1/connect");
  Socket.refused = new Set(["ws://two/v1/connect"]);
  const sockets = Socket.all.length;
  socket().end(false);
  await until(() => Socket.all.length > sockets && client.caughtUp, "it is back");
  assert.equal(client.status.address, "ws://one/v1/connect");
});

test("what cannot even be tried, or has no token, is tried again", async () => {
  let tokens = 0;
  const token = (): string => {
    tokens += 1;
    if (tokens === 1) throw new Error("the issuer is away");
    return "now";
  };
  let sockets = 0;
  class Picky extends Socket {
    constructor(url: string) {
      sockets += 1;
      if (sockets === 1) throw new Error("mixed content");
      super(url);
    }
  }
  Object.assign(globalThis, { WebSocket: Picky });
  const client = notify({ token });
  await client.connect();
  await until(() => client.status.lastProblem?.includes("the issuer is away"), "no token");
  await until(() => client.status.lastProblem?.includes("mixed content"), "no socket");
  assert(await client.waitCaughtUp(DEADLINE_S));
  assert.equal(socket().said[0]?.hello?.token, "now");
});

test("a close code that says so is the end, until connect() is called again", async () => {
  const client = notify();
  await client.connect();
  await client.waitCaughtUp(DEADLINE_S);
  const sockets = Socket.all.length;
  socket().say({ close: { code: 69, reason: "another client's token" } });
  await until(() => client.status.phase === "refused", "it is refused");
  await until(() => errors.length > 0, "it is reported");
  assert(errors[0] instanceof ServiceRefused && errors[0].code === 69);
  assert.equal(await client.waitCaughtUp(DEADLINE_S), false);
  assert.equal(Socket.all.length, sockets);
  await client.connect();
  assert(await client.waitCaughtUp(DEADLINE_S));
});

test("displaced, it stays away for long", async () => {
  const client = notify();
  await client.connect();
  await client.waitCaughtUp(DEADLINE_S);
  socket().say({ close: { code: 5, reason: "elsewhere" } });
  await until(() => client.status.phase === "waiting", "it waits");
  assert((client.status.nextConnectS ?? 0) > 30);
});

test("nothing is acknowledged that could not be stored", async () => {
  const state = new MemoryState();
  let full = false;
  state.write = (text) => {
    if (full) throw new Error("the quota is used up");
    MemoryState.prototype.write.call(state, text);
  };
  const client = notify({ state });
  const { told, callback } = recorder();
  client.register("a").subscribe(callback);
  await client.connect();
  await client.waitCaughtUp(DEADLINE_S);
  await until(() => socket().said.some(({ ack }) => ack?.complete === 5n), "what is stored is acknowledged");
  full = true;
  socket().say({ notification: { name: "a", version: 2n, offset: 6n } });
  await until(() => told.length === 2 && errors.length > 0, "it is told, and it is reported that it is not stored");
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert(!socket().said.some(({ ack }) => ack?.complete === 6n));
  full = false;
  await until(() => socket().said.some(({ ack }) => ack?.complete === 6n), "it is acknowledged later");
});

test("what is leaving the page is stored at once", async () => {
  const listeners: (() => void)[] = [];
  Object.assign(globalThis, { addEventListener: (_: string, listener: () => void) => listeners.push(listener) });
  const state = new MemoryState();
  const client = notify({ state, saveIntervalS: 1000 });
  const { told, callback } = recorder();
  client.register("a").subscribe(callback);
  await client.connect();
  await client.waitCaughtUp(DEADLINE_S);
  socket().say({ notification: { name: "a", version: 7n, offset: 6n } });
  await until(() => told.length === 2 && client.caughtUp, "it is told, and the callback has returned");
  assert.doesNotMatch(state.read() ?? "", /"7"/);
  listeners.forEach((leave) => leave());
  assert.match(state.read() ?? "", /"a":\["0","7"\]/);
  Object.assign(globalThis, { addEventListener: undefined });
});

test("one page at a time: the second waits until the first is gone", async () => {
  const state = new MemoryState();
  const [first, second, third] = [notify({ state }), notify({ state }), notify({ state })] as const;
  await first.connect();
  const waiting = second.connect();
  assert.equal(second.status.phase, "locked");
  assert.deepEqual(errors.map(({ constructor }) => constructor), [OpenElsewhere]);
  const never = third.connect();
  await third.disconnect();
  await never;
  await first.disconnect();
  await waiting;
  assert(await second.waitCaughtUp(DEADLINE_S));
});

test("what was asked for before there was a client, or after it, is not forgotten", async () => {
  const client = notify();
  for (const name of ["a", "b", "c"]) client.register(name);
  for (const name of ["a", "d"]) client.register(name).subscribe(() => undefined);
  client.unregister("b");
  client.registerOnly(["a", "d"]);
  await client.connect();
  await client.waitCaughtUp(DEADLINE_S);
  assert.deepEqual(socket().said[0]?.hello?.register, ["a", "d"]);
  await client.disconnect();
  client.unregister("a");
  client.register("a");
  await client.connect();
  await client.waitCaughtUp(DEADLINE_S);
  assert.equal(client.status.registrations, 2);
  assert.deepEqual(socket().said[0]?.hello?.register, ["a"], "asked for anew: its newest version is told again");
});

test("a damaged state is set aside, another client's is left alone", async () => {
  const items = new Map<string, string>();
  const localStorage = {
    getItem: (key: string) => items.get(key) ?? null,
    setItem: (key: string, value: string) => void items.set(key, value),
    removeItem: (key: string) => void items.delete(key),
  };
  Object.assign(globalThis, { localStorage });
  const state = new LocalState("mine");
  items.set("mine", '{"format": 1');
  const client = notify({ state });
  await client.connect();
  assert(errors[0] instanceof StateDamaged);
  assert.equal(items.get("mine (damaged)"), '{"format": 1');
  await client.waitCaughtUp(DEADLINE_S);
  await client.disconnect();
  await assert.rejects(notify({ state, clientId: "other" }).connect(), StateMismatch);
  Object.assign(globalThis, { localStorage: undefined });
});

test("wrong options are named", () => {
  const cases: [Partial<Options>, RegExp][] = [
    [{ domain: "a b" }, /^RangeError: domain: "a b" is not a name/],
    [{ clientId: "" }, /^RangeError: clientId:/],
    [{ address: "gateway:55003" }, /^RangeError: address: .* is no ws/],
    [{ address: [] }, /^RangeError: address: is empty/],
    [{ keepaliveS: 0.5 }, /^RangeError: keepaliveS:/],
    [{ ackDelayS: -1 }, /^RangeError: ackDelayS:/],
    [{ triesMax: 0 }, /^RangeError: triesMax:/],
    [{ sayErrors: "no" as never }, /^RangeError: sayErrors: no is not true or false/],
  ];
  for (const [options, message] of cases) assert.throws(() => notify(options), (error) => message.test(String(error)));
  assert.throws(() => new Notify({ domain: "d", groupId: "g", clientId: "c" }), /address: is missing/);
  for (const name of ["", "x".repeat(256), "\ud800"]) assert.throws(() => notify().register(name), /^RangeError: object/);
});

test("what a publish has changed can be asked", async () => {
  const client = notify();
  await client.connect();
  const stale = client.publish("lamp", 1, { version: 4n });
  const newest = { version: 5n, incarnation: 0n, publishedMs: null };
  assert.deepEqual(await stale.outcome(), { outcome: "stale", newest, reason: "", inVain: true });
  await assert.rejects(client.send("tasks", 1).outcome(), TypeError);
  Socket.tellsOutcomes = false;
  const silent = await client.publish("lamp", 1, { version: 6n }).outcome(0.05);
  assert.deepEqual([silent.outcome, silent.reason], ["unknown", "the service has not told the outcome within 0.05 s"]);
  Socket.tellsOutcomes = true;
});

test("what is published before there is a session is published in it, and again until it is answered", async () => {
  Socket.publishes = false;
  const client = notify();
  const lamp = client.publish("lamp", { on: true }, { version: 5n });
  const sent = client.send("tasks", Uint8Array.of(255, 0), { to: ["camera"], expiresAt: 9 });
  assert.deepEqual([lamp.version, lamp.id, sent.version], [5n, null, null]);
  assert.match(sent.id as string, /^[0-9a-f]{32}$/);
  assert.equal(client.unanswered, 2);
  await client.connect();
  const said = (): ClientFrame["publish"][] => socket().said.flatMap(({ publish }) => (publish ? [publish] : []));
  await until(() => said().length === 2, "both are sent");
  Socket.publishes = true;
  const before = socket();
  before.end(false);
  assert.equal(await lamp.published, 77n);
  assert.equal(await sent.published, 77n);
  assert.notEqual(socket(), before);
  const [first, second] = said();
  assert.deepEqual([first?.request, first?.object, first?.version], [1, "lamp", 5n]);
  assert.equal(new TextDecoder().decode(first?.payload), '{"on":true}');
  assert.deepEqual([second?.channel, second?.id, second?.to, second?.expiresAt], ["tasks", sent.id, ["camera"], 9n]);
  assert.deepEqual([...(second?.payload ?? [])], [255, 0]);
  assert.equal(client.unanswered, 0);
});

test("a version without a number is above what the page was told of its object", async () => {
  const client = notify();
  client.register("a").subscribe(() => undefined);
  await client.connect();
  assert(await client.waitCaughtUp(DEADLINE_S));
  const high = 9_000_000_000_000_000_000n;
  socket().say({ notification: { name: "a", version: high, offset: 6n } });
  await until(() => client.publish("a").version === high + 1n, "it is told");
  assert.equal(client.publish("a").version, high + 2n);
});

test("a refusal for ever rejects, and is reported; nobody needs to await it", async () => {
  Socket.publishes = "no";
  const client = notify();
  await client.connect();
  client.send("tasks", 1);
  await assert.rejects(client.publish("lamp", 1).published, (error: Error) => {
    return error instanceof PublishRefused && error.target === "lamp" && error.reason === "domain: no right to publish";
  });
  await until(() => errors.length === 2, "both are reported");
  assert(errors.every((error) => error instanceof PublishRefused));
});

test("disconnect() gives up what is not answered; what comes after the next connect() is published", async () => {
  Socket.publishes = false;
  const client = notify();
  await client.connect();
  assert(await client.waitCaughtUp(DEADLINE_S));
  const lost = client.send("tasks", 1).published;
  await until(() => socket().said.some(({ publish }) => publish), "it is sent");
  const given = assert.rejects(lost, PublishGivenUp);
  await client.disconnect();
  await given;
  assert.equal(client.unanswered, 0);
  Socket.publishes = true;
  const next = client.send("tasks", 2).published;
  await client.connect();
  assert.equal(await next, 77n);
  assert.equal(socket().said.filter(({ publish }) => publish).length, 1);
});

test("at most once needs a session, and has no answer", async () => {
  const client = notify();
  client.publishOnce("lamp", 1);
  await client.connect();
  assert(await client.waitCaughtUp(DEADLINE_S));
  client.sendOnce("tasks", 2);
  await until(() => socket().said.some(({ publish }) => publish), "it is sent");
  const said = socket().said.flatMap(({ publish }) => (publish ? [publish] : []));
  assert.deepEqual(said.map(({ request, object, channel }) => [request, object, channel]), [[0, "", "tasks"]]);
});

/** The wall clock goes on by so much, and nothing else: a machine slept. */
function sleep(seconds: number): void {
  const now = Date.now;
  Date.now = (): number => now() + 1000 * seconds;
}

/** No clock goes on any more but by `sleep`, until `clocksGoOn`. */
function stopClocks(): void {
  const [wall, monotonic] = [Date.now(), performance.now()];
  Date.now = (): number => wall;
  performance.now = (): number => monotonic;
}

const [realNow, realPerformanceNow, realRandom] = [Date.now, performance.now, Math.random];
function clocksGoOn(): void {
  [Date.now, performance.now] = [realNow, realPerformanceNow];
}

/** A page, as far as it tells of itself. */
function page(): { tell: (event: string) => void; visibilityState: string } {
  const target = new EventTarget();
  const listeners = {
    addEventListener: target.addEventListener.bind(target),
    removeEventListener: target.removeEventListener.bind(target),
  };
  const document = { ...listeners, visibilityState: "visible", tell: (event: string) => void target.dispatchEvent(new Event(event)) };
  Object.assign(globalThis, listeners, { document });
  return document;
}

afterEach(() => {
  clocksGoOn();
  Math.random = realRandom;
  for (const name of ["document", "addEventListener", "removeEventListener"]) Reflect.deleteProperty(globalThis, name);
});

/** Until the next try, if the draw is not a short one. */
const LONG_PAUSES = { backoffMinS: 600, backoffMaxS: 600 };

async function caughtUp(options: Partial<Options> = {}): Promise<Notify> {
  const client = notify({ keepaliveS: 600, silenceGraceS: 0.2, ...options });
  client.register("a").subscribe(() => undefined);
  await client.connect();
  assert(await client.waitCaughtUp(DEADLINE_S));
  return client;
}

test("a page that slept is not caught up over a dead connection, and makes another one", async () => {
  const client = await caughtUp();
  socket().mute = true;
  sleep(200);
  assert(!client.caughtUp);
  assert(!client.status.caughtUp);
  assert(await client.waitCaughtUp(DEADLINE_S));
  assert.equal(Socket.all.length, 2);
});

test("one that lives is asked, and stays", async () => {
  const client = await caughtUp({ silenceGraceS: 60 });
  sleep(200);
  assert(!(await client.waitCaughtUp(0)));
  assert(await client.waitCaughtUp(DEADLINE_S));
  assert.equal(socket().said.filter(({ ping }) => ping).length, 1);
  assert.equal(Socket.all.length, 1);
});

for (const event of ["visibilitychange", "resume", "pageshow"]) {
  test(`${event}: a page that slept looks at once`, async () => {
    const { tell } = page();
    await caughtUp();
    const [{ said }, sockets] = [socket(), Socket.all.length];
    const pings = (): number => said.filter(({ ping }) => ping).length;
    socket().mute = true;
    stopClocks();
    tell(event); // a machine that is busy may have stood still until now
    const before = pings();
    tell(event);
    assert.equal(pings(), before, "it did not sleep");
    sleep(200);
    tell(event);
    assert.equal(pings(), before + 1, "at once");
    clocksGoOn();
    await until(() => Socket.all.length > sockets, "another connection");
  });
}

test("online: the network is another one, so a Ping asks, and who waits for his next try connects", async () => {
  const { tell } = page();
  Math.random = (): number => 0.5;
  const client = await caughtUp({ ...LONG_PAUSES, silenceGraceS: 60 });
  tell("online");
  assert(!client.caughtUp);
  assert(await client.waitCaughtUp(DEADLINE_S));
  Socket.refused.add("ws://gateway/v1/connect");
  socket().end(false);
  await until(() => (client.status.nextConnectS ?? 0) > 200, "it waits");
  Socket.refused.clear();
  const sockets = Socket.all.length;
  tell("online");
  await until(() => Socket.all.length > sockets && client.caughtUp, "it is back");
  await client.disconnect();
  tell("online");
  assert.equal(client.status.phase, "stopped");
});

test("a hidden page, whose timers come each minute, asks nothing", async () => {
  const shown = page();
  await caughtUp();
  shown.visibilityState = "hidden";
  sleep(60);
  shown.tell("visibilitychange");
  assert(!socket().said.some(({ ping }) => ping));
});

test("connect() while it waits for its next try means now", async () => {
  Math.random = (): number => 0.5;
  const client = await caughtUp({ ...LONG_PAUSES });
  socket().end(false);
  await until(() => (client.status.nextConnectS ?? 0) > 200, "it waits");
  await client.connect();
  assert(await client.waitCaughtUp(DEADLINE_S));
  assert.equal(Socket.all.length, 2);
});
