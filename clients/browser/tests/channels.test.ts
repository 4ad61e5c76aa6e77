/** Channels through `Notify`: a log in memory behind a WebSocket of our own. What each frame does is in transcripts. */

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { channelHash } from "../src/schemas/digest.js";
import { sinceOf } from "../src/core/interests/since.js";
import { CHANNELS_BACKLOG_BYTES_MAX } from "../src/core/settings.js";
import { type ClientFrame, INTEREST_KIND, REASON, SINCE, type WireInterest } from "../src/schemas/wire.js";
import {
  ChannelCallbackFailed,
  ChannelParked,
  ChannelsUnknown,
  MemoryState,
  type Message,
  MessagesMissed,
  type Missed,
  Notify,
  type Options,
  RegistrationRefused,
} from "../src/index.js";
import { WireSocket } from "./socket.js";

const DEADLINE_S = 150;
const EPOCH = 7;
const PAGE_MESSAGES = 3;
const utf8 = new TextEncoder();

/** All channels' messages: the offset is the index. */
let log: { channel: string; payload: Uint8Array }[] = [];
let knowsChannels = true;
let sockets: Socket[] = [];

/** A gateway with one log, which tells each subscription all that lies behind where it begins. */
class Socket extends WireSocket {
  /** Of each channel, all up to there was told. */
  readonly told = new Map<string, bigint>();
  /** Channels whose position is none of this log. */
  readonly lost = new Set<string>();

  constructor(url: string) {
    super(url);
    sockets.push(this);
  }

  override answer({ hello, register, unregister }: Partial<ClientFrame>): void {
    const kinds = knowsChannels ? 5 : 1;
    if (hello) {
      const cursor = hello.streams[0]?.complete;
      for (const name of Socket.wanted) this.told.set(name, cursor ?? -1n);
      const positions = knowsChannels ? this.begin(hello.interests) : [];
      const streams = knowsChannels ? [{ epoch: cursor === undefined ? EPOCH : undefined, positions }] : [];
      this.say({ welcome: { inSync: true, epoch: hello.epoch === undefined ? 1 : undefined, kinds, streams } });
      this.say({ caughtUp: { complete: 5n } });
      if (knowsChannels) this.pages();
    }
    if (register) {
      const refused = register.interests.filter(({ text }) => text === "no").map(({ text }) => ({ interest: channelHash(text), reason: "too many" }));
      const positions = knowsChannels ? this.begin(register.interests.filter(({ text }) => text !== "no")) : [];
      const streams = knowsChannels ? [{ epoch: EPOCH, positions }] : [];
      this.say({ registered: { request: register.request, kinds, streams, refused } });
      if (knowsChannels) this.pages();
    }
    if (unregister) this.say({ unregistered: { request: unregister.request } });
  }

  /** What clients of earlier connections wanted; the Hello does not say it again. */
  static wanted = new Set<string>();

  begin(channels: readonly WireInterest[]): { interest: bigint; position?: bigint }[] {
    return channels.map(({ kind, text = "", since, at = 0n }) => {
      const name = kind === INTEREST_KIND.INTEREST_PATTERN ? `\0${text}` : text;
      let begins = BigInt(log.length) - 1n;
      if (since === SINCE.SINCE_OLDEST || since === SINCE.SINCE_BEGINNING) begins = -1n;
      if (since === SINCE.SINCE_POSITION) begins = at;
      if (since === SINCE.SINCE_POSITION && at >= BigInt(log.length)) {
        begins = -1n;
        this.lost.add(name);
      }
      this.told.set(name, begins);
      Socket.wanted.add(name);
      return begins < 0n ? { interest: channelHash(name) } : { interest: channelHash(name), position: begins };
    });
  }

  pages(): void {
    const behind = log.flatMap(({ channel, payload }, index) => {
      const told = this.told.get(channel);
      return told !== undefined && BigInt(index) > told ? [{ channel, payload, offset: BigInt(index) }] : [];
    });
    const complete = BigInt(log.length) - 1n;
    const ends = complete < 0n ? {} : { complete };
    for (const name of this.lost) this.say({ missed: { channel: channelHash(name), before: 0n, reason: REASON.LOST, paged: true } });
    this.lost.clear();
    for (let at = 0; at < behind.length; at += PAGE_MESSAGES) {
      for (const one of behind.slice(at, at + PAGE_MESSAGES)) this.message(one.channel, one.payload, one.offset, true);
      this.say({ pageEnd: { stream: 1, page: 1 + at, last: false } });
    }
    this.say({ pageEnd: { stream: 1, page: 1 + behind.length, last: true, ...ends } });
  }

  message(channel: string, payload: Uint8Array, offset: bigint, paged: boolean): void {
    const told = this.told.get(channel) ?? -1n;
    this.told.set(channel, offset);
    this.say({ message: { channel: channelHash(channel), offset, back: offset - told, payload, paged } });
  }
}

const QUICK = { backoffMinS: 0.1, backoffMaxS: 0.2, retryMinS: 0.01, ackDelayS: 0.01, saveIntervalS: 0.01, triesMax: 3 };
let clients: Notify[] = [];
let errors: Error[] = [];

function notify(options: Partial<Options> = {}): Notify {
  const onError = (error: Error): void => void errors.push(error);
  const client = new Notify({ domain: "d", groupId: "g", clientId: "c", address: "ws://gateway", ...QUICK, state: new MemoryState(), onError, ...options });
  clients.push(client);
  return client;
}

function socket(): Socket {
  return sockets.at(-1) as Socket;
}

/** To the log, and to the connection that is open. */
function send(channel: string, payload: unknown, live = true): bigint {
  const bytes = payload instanceof Uint8Array ? payload : utf8.encode(JSON.stringify(payload));
  const offset = BigInt(log.push({ channel, payload: bytes }) - 1);
  if (live && socket().told.has(channel)) socket().message(channel, bytes, offset, false);
  return offset;
}

async function until(condition: () => unknown, what: string): Promise<void> {
  const deadline = Date.now() + 1000 * DEADLINE_S;
  while (!condition()) {
    assert(Date.now() < deadline, `${what}: not within ${DEADLINE_S} s`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

const realWebSocket = globalThis.WebSocket;
beforeEach(() => {
  Object.assign(globalThis, { WebSocket: Socket });
  [sockets, clients, errors, log] = [[], [], [], []];
  Socket.wanted = new Set();
  knowsChannels = true;
});
afterEach(async () => {
  await Promise.all(clients.map((client) => client.disconnect()));
  Object.assign(globalThis, { WebSocket: realWebSocket });
});

test("each message is told once, in order, also after a reload, and what came meanwhile", async () => {
  const state = new MemoryState();
  const told: Message[] = [];
  for (let number = 0; number < 10; number++) send(number % 2 ? "tasks" : "alarms", { number }, false);
  const client = notify({ state });
  const tasks = client.channel("tasks", { since: "oldest", attributes: ["solar", "camera", "solar"] });
  assert.deepEqual([tasks.name, [...tasks.attributes]], ["tasks", ["camera", "solar"]]);
  // The double knows channels by their names alone.
  client.unregisterChannel("tasks");
  client.channel("tasks", { since: "oldest" }).subscribe((message) => void told.push(message));
  await client.connect();
  assert(await client.waitCaughtUp(DEADLINE_S));
  assert.deepEqual(told.map(({ offset }) => offset), [1n, 3n, 5n, 7n, 9n]);
  assert.deepEqual(told.map(({ previous }) => previous), [null, 1n, 3n, 5n, 7n]);
  assert.deepEqual(told[2]?.payload, { number: 5 });
  assert.equal(told[2]?.position, "00000007.5");
  send("tasks", "live");
  await until(() => told.at(-1)?.payload === "live", "a message as it is sent");
  const last = send("tasks", Uint8Array.of(0xff, 0));
  await until(() => told.length === 7, "bytes");
  assert.deepEqual(told.at(-1)?.payload, Uint8Array.of(0xff, 0));
  await until(() => socket().said.some(({ ack }) => ack?.streams[0]?.complete === last), "it is acknowledged");
  assert.equal(client.status.channelsCursor, last);
  await client.disconnect();

  const missed = send("tasks", "meanwhile", false);
  const again = notify({ state });
  told.length = 0;
  again.channel("tasks", { since: "oldest" }).subscribe((message) => void told.push(message));
  await again.connect();
  assert(await again.waitCaughtUp(DEADLINE_S));
  assert.deepEqual(told.map(({ offset }) => offset), [missed], "since counts once");
  const hello = socket().said[0]?.hello;
  assert.deepEqual([hello?.streams[0]?.complete, hello?.streams[0]?.epoch, hello?.interests], [last, EPOCH, []], "the cursor says it all");
  assert.deepEqual(errors, []);
});

test("a pattern is one subscription whose messages say their channels", async () => {
  const state = new MemoryState();
  const told: Message[] = [];
  const [expression, hash] = ["^alarms/[^/]*/high$", channelHash("\0^alarms/[^/]*/high$")];
  const client = notify({ state });
  assert.equal(client.channels("a.b/").name, "^a\\.b/");
  const high = client.channels({ pattern: expression }, { since: "oldest" });
  assert.equal(high.name, expression);
  high.subscribe((message) => void told.push(message));
  await client.connect();
  assert(await client.waitCaughtUp(DEADLINE_S));
  const registered = socket().said.flatMap(({ hello, register }) => [...(hello?.interests ?? []), ...(register?.interests ?? [])]);
  assert.deepEqual(registered.map(({ kind, text }) => [kind, text]), [[INTEREST_KIND.INTEREST_PATTERN, "^a\\.b/"], [INTEREST_KIND.INTEREST_PATTERN, expression]]);
  for (const [offset, name] of [[0n, "alarms/1/high"], [2n, "alarms/new/high"]] as const) {
    socket().say({ message: { channel: hash, offset, back: offset + 1n, payload: utf8.encode("1"), name } });
  }
  await until(() => told.length === 2, "both messages");
  assert.deepEqual(told.map(({ channel, offset, previous }) => [channel, offset, previous]), [["alarms/1/high", 0n, null], ["alarms/new/high", 2n, 0n]]);
  assert.throws(() => client.channels({ pattern: "" }), /^RangeError: pattern: /);
  assert.throws(() => client.channels(""), /^RangeError: prefix: /);
  client.unregisterChannels({ pattern: expression });
  client.unregisterChannels("a.b/");
  await until(() => socket().said.filter(({ unregister }) => unregister !== undefined).flatMap(({ unregister }) => unregister?.interests ?? []).length === 2, "both are unregistered");
  await client.disconnect();
  assert.deepEqual(errors, []);
});

test("a callback that throws is told the same again; then the channel is parked, and others go on", async () => {
  const client = notify();
  const [told, fine]: [unknown[], unknown[]] = [[], []];
  let broken = true;
  client.channel("tasks").subscribe(({ payload }) => {
    told.push(payload);
    if (broken) throw new Error("not now");
  });
  client.channel("alarms").subscribe(({ payload }) => void fine.push(payload));
  await client.connect();
  assert(await client.waitCaughtUp(DEADLINE_S));
  send("tasks", 1);
  send("alarms", 2);
  await until(() => client.status.parked.includes("tasks"), "it is parked");
  await until(() => fine.length === 1, "the other one is told");
  await until(() => errors.length === 4, "errors are reported, behind what they are about");
  assert.deepEqual(told, [1, 1, 1]);
  assert.deepEqual(errors.map(({ constructor }) => constructor), [...Array(3).fill(ChannelCallbackFailed), ChannelParked]);
  broken = false;
  socket().end(false);
  await until(() => told.length === 4, "it is told with the next connection");
  assert(await client.waitCaughtUp(DEADLINE_S));
  assert.deepEqual(client.status.parked, []);
});

test("what is missed is told before what comes next, or reported if nobody is told", async () => {
  const client = notify();
  const told: (Message | Missed)[] = [];
  const subscription = client.channel("tasks").subscribe((message) => void told.push(message), (missed) => void told.push(missed));
  await client.connect();
  assert(await client.waitCaughtUp(DEADLINE_S));
  const gap = (before: bigint, after?: bigint): void => {
    socket().say({ missed: { channel: channelHash("tasks"), after, before, reason: REASON.RETENTION } });
    socket().say({ message: { channel: channelHash("tasks"), offset: before, back: 1n, payload: utf8.encode("1") } });
  };
  gap(20n);
  await until(() => told.length === 2, "both");
  assert.deepEqual(told[0], { channel: "tasks", after: null, before: 20n, reason: "RETENTION" });
  assert.equal((told[1] as Message).offset, 20n);
  subscription.dispose();
  client.channel("tasks").subscribe((message) => void told.push(message));
  gap(30n, 20n);
  await until(() => told.length === 3, "the message");
  await until(() => errors.length === 1, "what was missed is reported");
  assert(errors[0] instanceof MessagesMissed);
  assert.match(errors[0].message, /"tasks": between offset 20 and offset 30 messages may be missing: RETENTION/);
});

test("a frame that was lost ends the session, and nothing is left out", async () => {
  const client = notify();
  const told: unknown[] = [];
  client.channel("tasks").subscribe(({ payload }) => void told.push(payload));
  await client.connect();
  assert(await client.waitCaughtUp(DEADLINE_S));
  send("tasks", 1);
  await until(() => told.length === 1, "the first");
  send("tasks", 2, false);
  const [offset, channel] = [BigInt(log.length), channelHash("tasks")];
  log.push({ channel: "tasks", payload: utf8.encode("3") });
  socket().say({ message: { channel, offset, back: 1n, payload: utf8.encode("3") } });
  await until(() => told.length === 3, "they come by the next connection");
  assert.deepEqual(told, [1, 2, 3]);
  assert.equal(sockets.length, 2);
});

test("what waits for a slow callback has a bound, and all of it is told in the end", async () => {
  const client = notify();
  const payload = new Uint8Array(64 * 1024);
  const count = (3 * CHANNELS_BACKLOG_BYTES_MAX) / payload.length;
  const told: bigint[] = [];
  let release: () => void = () => undefined;
  const slow = new Promise<void>((resolve) => (release = resolve));
  client.channel("tasks", { since: "oldest" }).subscribe(({ offset }) => {
    told.push(offset);
    return slow;
  });
  await client.connect();
  assert(await client.waitCaughtUp(DEADLINE_S));
  for (let number = 0; number < count; number++) send("tasks", payload);
  await until(() => told.length === 1, "the first one is told");
  release();
  await until(() => told.length === count, "all");
  assert.deepEqual(told, [...told.keys()].map(BigInt));
  assert(socket().said.some(({ register }) => register?.interests[0]?.text === "tasks"), "it was asked for again");
});

test("a service that is older than channels is reported once, and asked again; what it refuses is reported", async () => {
  knowsChannels = false;
  const client = notify();
  const told: unknown[] = [];
  client.channel("tasks", { since: "oldest" }).subscribe(({ payload }) => void told.push(payload));
  send("tasks", 1, false);
  await client.connect();
  await until(() => client.status.phase === "live", "the rest goes on");
  assert(!client.caughtUp);
  socket().end(false);
  await until(() => sockets.length === 2 && client.status.phase === "live", "it comes back");
  await until(() => errors.length > 0, "it is reported");
  assert.deepEqual(errors.map(({ constructor }) => constructor), [ChannelsUnknown]);
  knowsChannels = true;
  socket().end(false);
  await until(() => client.caughtUp, "another one took over");
  assert.deepEqual(told, [1]);
  client.channel("no");
  await until(() => errors.some((error) => error instanceof RegistrationRefused && error.channel === "no"), "it is refused");
  assert.match(String(errors.at(-1)), /channel "no" refused: too many/);
});

test("it ends; and what cannot be is named", async () => {
  const client = notify();
  client.channel("tasks").subscribe(() => undefined);
  await client.connect();
  assert(await client.waitCaughtUp(DEADLINE_S));
  client.registerOnly(["a"]);
  assert.equal(client.status.registrations, 2, "channels stay");
  client.unregisterChannel("tasks");
  await until(() => socket().said.some(({ unregister }) => unregister?.interests[0] === channelHash("tasks")), "the service is told");
  const cases: [() => unknown, RegExp][] = [
    [() => client.channel(""), /^RangeError: channel: /],
    [() => client.channel("a\0b"), /^RangeError: channel: .* zero byte/],
    [() => client.channel("a", { since: "soon" }), /^RangeError: since: soon is not/],
    [() => client.channel("a", { since: new Date(NaN) }), /^RangeError: since: /],
    [() => client.channel("a", { since: "00000007.9223372036854775808" }), /^RangeError: since: /],
    [() => client.channel("a", { attributes: "camera" }), /^RangeError: attributes: is one text/],
    [() => client.channel("a", { attributes: ["a b"] }), /^RangeError: attributes: "a b" is not a name/],
    [() => client.channel("a", { attributes: [...Array(17).keys()].map(String) }), /^RangeError: attributes: are 17/],
    [() => client.channel("a").subscribe("x" as never), /^RangeError: callback/],
    [() => client.channel("a").subscribe(() => 0, "x" as never), /^RangeError: onMissed/],
  ];
  for (const [step, words] of cases) assert.throws(step, (error) => words.test(String(error)), String(words));
  assert.deepEqual(sinceOf(new Date(5)), { kind: "time", at: 5n, epoch: 0 });
  assert.deepEqual(sinceOf("0000000a.12"), { kind: "position", at: 12n, epoch: 10 });
});

test("a position above the log's end begins anew, and the loss is told before", async () => {
  const state = new MemoryState();
  for (let number = 0; number < 4; number++) send("tasks", { number }, false);
  const before = notify({ state });
  before.channel("tasks", { since: "now" });
  await before.connect();
  assert(await before.waitCaughtUp(DEADLINE_S));
  send("tasks", { number: 4 });
  await until(() => before.status.pending === 1, "nobody has subscribed: it is pending at its position");
  await before.disconnect();
  log.length = 2;
  const heard: (string | bigint)[] = [];
  const client = notify({ state });
  const onMissed = ({ reason }: Missed): void => void heard.push(reason);
  client.channel("tasks").subscribe(({ offset }) => void heard.push(offset), onMissed);
  await client.connect();
  assert(await client.waitCaughtUp(DEADLINE_S));
  await until(() => heard.length === 3, "what is there, and that more was");
  assert.deepEqual(heard, ["LOST", 0n, 1n]);
});
