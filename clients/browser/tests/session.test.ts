/** One connection, frame by frame. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Delivery } from "../src/core/delivery/delivery.js";
import type { CallbackJob } from "../src/core/delivery/slot.js";
import { digest, objectCrc, queryHash, setsDigest } from "../src/schemas/digest.js";
import { FrameBuffer } from "../src/schemas/frames.js";
import { byQuery } from "../src/core/interests/interests.js";
import { Journal } from "../src/core/journal.js";
import { WELCOME_S } from "../src/schemas/protocol.js";
import { Registrations } from "../src/core/interests/registrations.js";
import { type Parts, ClientSession } from "../src/core/session/session.js";
import { DEFAULTS, OUT_BYTES_MAX } from "../src/core/settings.js";
import { QueriesUnknown } from "../src/errors.js";
import { CAPABILITY_NAMES, CAPABILITY_RAW, CLIENT_FRAME, type ClientFrame, encodeFrame, GATEWAY_FRAME, type GatewayFramePart, parseFrame } from "../src/schemas/wire.js";

/** A minute is easy to count. */
const SETTINGS = { ...DEFAULTS, keepaliveS: 60 };

const ONE_CRC = ["config-7f217f6b6dc8", "config-d7e77869948b"] as const;

/** A session with everything about it, and a clock. */
class Bench {
  readonly journal = new Journal();
  readonly registrations: Registrations;
  readonly delivery: Delivery;
  readonly reports: Error[] = [];
  readonly parts: Parts;
  readonly session: ClientSession;
  now = 1000;

  constructor(wanted: string[] = [], { settled = true, epoch = 1 as number | null, cursor = 10n as bigint | null } = {}) {
    this.registrations = new Registrations(this.journal, settled ? wanted : []);
    for (const name of wanted) this.registrations.register(name);
    this.save();
    const report = (error: Error): void => void this.reports.push(error);
    this.delivery = new Delivery(this.journal, this.registrations, SETTINGS, report, { floors: [], epoch, cursor });
    const identity = { domain: "d", group: "g", client: "c" };
    const { journal, registrations, delivery } = this;
    this.parts = { identity, journal, registrations, delivery, settings: SETTINGS, report };
    this.session = new ClientSession(this.parts, this.now, "t");
  }

  save(): void {
    this.journal.durable = this.journal.revision;
  }

  /** The frames that the client sends now, each with only its kind. */
  out(): Partial<ClientFrame>[] {
    const data = this.session.dataToSend(this.now);
    assert(data.length < OUT_BYTES_MAX + 32 * 1024);
    return [...new FrameBuffer(32 * 1024).feed(data)].map(
      (body) => Object.fromEntries(Object.entries(parseFrame(CLIENT_FRAME, body)).filter(([, kind]) => kind)),
    );
  }

  kinds(): string[] {
    return this.out().flatMap((frame) => Object.keys(frame));
  }

  say(frame: GatewayFramePart): void {
    this.session.receive(encodeFrame(GATEWAY_FRAME, frame), this.now);
  }

  live(): this {
    this.out();
    this.say({ welcome: { inSync: true } });
    this.say({ caughtUp: { complete: this.delivery.cursor ?? undefined } });
    this.out();
    assert.equal(this.session.phase, "live");
    return this;
  }

  /** Why the session is over; "": it is not. */
  ended(): string {
    return this.session.ended?.reason ?? "";
  }

  tick(seconds: number): void {
    this.now += seconds;
    this.session.tick(this.now);
  }
}

test("Hello says it all", () => {
  const [frame] = new Bench(["a", "b"], { settled: false }).out();
  assert.deepEqual(frame?.hello, {
    protocol: 1, capabilities: CAPABILITY_RAW, domain: "d", group: "g", client: "c", digest: digest(["a", "b"]),
    register: ["a", "b"], unregister: [], epoch: 1, cursor: 10n, keepaliveS: 60, token: "t",
    interests: [], unregisterInterests: [], streams: [],
  });
  const [first] = new Bench([], { epoch: null, cursor: null }).out();
  assert.deepEqual([first?.hello?.epoch, first?.hello?.cursor], [undefined, undefined]);
});

test("the phases of a session that is in sync, and the cursor", () => {
  const bench = new Bench(["a"]);
  bench.say({ pong: { complete: 99n } });
  bench.say({ notification: { crc: objectCrc("a"), version: 1n, offset: 99n } });
  bench.say({ caughtUp: { complete: 99n } });
  assert.deepEqual([bench.session.phase, bench.delivery.cursor, bench.delivery.waiting], ["opening", 10n, 0]);
  bench.say({ welcome: { inSync: true } });
  assert.equal(bench.session.phase, "catching up");
  bench.say({ caughtUp: { complete: 12n } });
  assert.deepEqual([bench.session.phase, bench.delivery.cursor], ["live", 12n]);
  bench.say({ notification: { crc: 1, version: 1n, offset: 50n, answer: true } });
  assert.equal(bench.delivery.cursor, 12n, "an answer moves no cursor");
  bench.say({ notification: { crc: 1, version: 1n, offset: 50n, behind: 20n } });
  assert.equal(bench.delivery.cursor, 30n);
});

test("an empty partition says no complete, a new epoch voids the cursor", () => {
  const bench = new Bench(["a"]);
  bench.say({ welcome: { inSync: true, epoch: 2 } });
  assert.deepEqual([bench.delivery.epoch, bench.delivery.cursor], [2, null]);
  bench.say({ caughtUp: {} });
  assert.deepEqual([bench.session.phase, bench.delivery.cursor], ["live", null]);
});

test("pages are acknowledged at once", () => {
  const bench = new Bench(["a"]);
  bench.out();
  bench.say({ welcome: { inSync: true } });
  bench.say({ pageEnd: { page: 3 } });
  assert.deepEqual(bench.out(), [{ ack: { complete: undefined, page: 3, streams: [] } }]);
});

test("a page of channels is acknowledged in its stream, one of a stream that is not known nowhere", () => {
  const bench = new Bench(["a"]);
  bench.out();
  bench.say({ welcome: { inSync: true } });
  bench.say({ pageEnd: { page: 3, stream: 1 } });
  bench.say({ pageEnd: { page: 4, stream: 2 } });
  assert.deepEqual(bench.out(), [{ ack: { complete: undefined, page: 0, streams: [{ epoch: undefined, complete: undefined, page: 3, positions: [], ageS: 0 }] } }]);
  assert.deepEqual(bench.out(), []);
});

test("reg-sync waits until the pending registrations are durable, in chunks of 64", () => {
  const names = Array.from({ length: 130 }, (_, i) => `o${i}`);
  const bench = new Bench(names);
  bench.out();
  bench.say({ welcome: {} });
  assert.equal(bench.session.phase, "syncing");
  assert.equal(bench.registrations.pending.size, 130);
  assert.deepEqual(bench.out(), []);
  bench.save();
  const chunks = bench.out().map(({ sync }) => sync);
  assert.deepEqual(chunks.map((chunk) => [chunk?.index, chunk?.last, chunk?.objects.length]), [[0, false, 64], [1, false, 64], [2, true, 2]]);
  assert.deepEqual(new Set(chunks.flatMap((chunk) => chunk?.objects)), new Set(names));
  bench.say({ welcome: {} });
  bench.save();
  assert.equal(bench.out()[0]?.sync?.index, 0, "not in sync in the middle: again from 0");
  bench.registrations.register("b");
  bench.save();
  assert.deepEqual(bench.out(), [], "what is asked for meanwhile waits");
  bench.say({ welcome: { inSync: true } });
  assert.deepEqual(bench.out()[0]?.register?.objects, ["b"]);
});

test("reg-sync of an empty set is one empty chunk; without an answer it is said again", () => {
  const bench = new Bench();
  bench.out();
  bench.say({ welcome: {} });
  bench.save();
  assert.deepEqual(bench.out(), [{ sync: { index: 0, last: true, objects: [], interests: [] } }]);
  bench.tick(30);
  bench.save();
  assert.deepEqual(bench.kinds(), ["sync"]);
});

test("in sync as of an earlier set, while another is about to leave: the rest is said by requests", () => {
  const bench = new Bench(["a"]);
  bench.out();
  bench.say({ welcome: {} });
  bench.save();
  assert.deepEqual(bench.kinds(), ["sync"]);
  bench.registrations.register("b");
  bench.registrations.unregister("a");
  bench.tick(30);
  bench.out();
  bench.say({ welcome: { inSync: true } });
  assert.equal(bench.session.phase, "catching up");
  bench.save();
  const said = bench.out();
  assert.deepEqual(said.flatMap(({ register }) => register?.objects ?? []), ["b"]);
  assert.deepEqual(said.flatMap(({ unregister }) => unregister?.objects ?? []), ["a"]);
});

test("a reg-sync of a large set never fills the buffer", () => {
  const bench = new Bench(Array.from({ length: 1000 }, (_, i) => `${i}`.padStart(250, "x")));
  bench.out();
  bench.say({ welcome: {} });
  bench.save();
  const found = [bench.out(), bench.out(), bench.out(), bench.out(), bench.out()].flat();
  assert.deepEqual(found.map(({ sync }) => sync?.index), Array.from({ length: 16 }, (_, i) => i));
});

test("requests wait until they are durable, at most four are unanswered, answers are in order", () => {
  const bench = new Bench().live();
  for (let i = 0; i < 380; i++) bench.registrations.register(`o${i}`);
  assert.deepEqual(bench.out(), []);
  bench.save();
  assert.deepEqual(bench.out().map(({ register }) => [register?.request, register?.objects.length]), [[1, 64], [2, 64], [3, 64], [4, 64]]);
  bench.say({ registered: { request: 1 } });
  assert.deepEqual(bench.kinds(), ["register"]);
  bench.registrations.unregister("o379");
  bench.save();
  bench.say({ registered: { request: 2 } });
  bench.say({ registered: { request: 3 } });
  const [register, unregister] = bench.out();
  assert.equal(register?.register?.objects.length, 380 - 5 * 64 - 1);
  assert.deepEqual(unregister?.unregister, { request: 7, objects: ["o379"], interests: [] });
  bench.say({ unregistered: { request: 7 } });
  assert(!bench.registrations.pending.has("o379"));
});

test("a request without an answer is sent again, but not while Wait holds", () => {
  const bench = new Bench().live();
  bench.registrations.register("a");
  bench.save();
  bench.out();
  bench.say({ wait: { seconds: 45 } });
  bench.tick(31);
  assert.deepEqual(bench.kinds(), []);
  bench.tick(15);
  assert.deepEqual(bench.out(), [{ register: { request: 2, objects: ["a"], interests: [] } }]);
  bench.say({ registered: { request: 1 } });
  assert(!bench.registrations.allConfirmed, "the first asking is forgotten");
});

test("a confirmed registration whose notification is lost is asked for again", () => {
  const bench = new Bench(["a"], { settled: false });
  bench.out();
  bench.say({ welcome: { inSync: true } });
  bench.say({ caughtUp: { complete: 1n } });
  assert.deepEqual(bench.out()[0]?.register?.objects, ["a"]);
  // Live, no CaughtUp need come: time is the limit.
  bench.say({ registered: { request: 1 } });
  bench.tick(31);
  assert.deepEqual(bench.out()[0]?.register?.objects, ["a"]);
});

test("more than 64 operations are not in the Hello, and sent after the Welcome", () => {
  const bench = new Bench(Array.from({ length: 65 }, (_, i) => `o${i}`), { settled: false });
  assert.deepEqual(bench.out()[0]?.hello?.register, []);
  bench.say({ welcome: { inSync: true } });
  assert.deepEqual(bench.out().map(({ register }) => register?.objects.length), [64, 1]);
});

test("a refused object leaves the wanted set and is reported", () => {
  const bench = new Bench(["a", "b"], { settled: false });
  bench.out();
  bench.say({ welcome: { inSync: true, refused: [{ object: "a", reason: "too many" }] } });
  assert.deepEqual([...bench.registrations.wanted], ["b"]);
  assert.deepEqual(bench.reports.map(({ message }) => message), ['registration for "a" refused: too many']);
});

test("Acks are delayed and merged; Bye acknowledges first", () => {
  const bench = new Bench(["a"]).live();
  bench.session.acknowledge(bench.session.objects, 10n, bench.now);
  assert(bench.session.deadline() > bench.now + 2, "10 was said in the Hello");
  bench.session.acknowledge(bench.session.objects, 11n, bench.now);
  bench.tick(0.5);
  bench.session.acknowledge(bench.session.objects, 12n, bench.now);
  assert.deepEqual(bench.out(), []);
  bench.tick(0.5);
  assert.deepEqual(bench.out(), [{ ack: { complete: 12n, page: 0, streams: [] } }]);
  bench.session.acknowledge(bench.session.objects, 13n, bench.now);
  bench.session.bye(bench.now);
  assert.deepEqual(bench.out(), [{ ack: { complete: 13n, page: 0, streams: [] } }, { bye: {} }]);
});

test("a balancer that ends connections on which nothing came for a minute sees a Ping before", () => {
  assert.equal(DEFAULTS.keepaliveS, 45);
});

test("a Ping comes after a keepalive of silence, with the digest if all is confirmed", () => {
  const bench = new Bench(["a"]).live();
  bench.tick(59);
  assert.deepEqual(bench.out(), []);
  bench.tick(1);
  assert.deepEqual(bench.out(), [{ ping: { digest: digest(["a"]) } }]);
  bench.say({ pong: { complete: 44n } });
  assert.equal(bench.delivery.cursor, 44n);
  bench.registrations.register("b");
  bench.tick(60);
  assert.deepEqual(bench.out(), [{ ping: { digest: undefined } }]);
  bench.save();
  bench.say({ welcome: {} });
  bench.save();
  assert.deepEqual(bench.kinds(), ["sync"], "the sets differ");
});

test("after a standstill a Ping asks, and its own Pong ends the doubt", () => {
  const bench = new Bench(["a"]);
  bench.live();
  bench.tick(60);
  assert.deepEqual(bench.kinds(), ["ping"]);
  bench.now += 200;
  bench.session.doubt(bench.now, 200);
  assert.deepEqual(bench.kinds(), ["ping"]);
  bench.say({ notification: { crc: objectCrc("a"), version: 1n, offset: 20n } });
  bench.say({ pong: { complete: 20n } });
  assert(bench.session.inDoubt, "these lay in the socket");
  bench.say({ pong: {} });
  assert(!bench.session.inDoubt);
  bench.tick(9);
  assert.equal(bench.session.ended, null);
});

test("a connection that does not answer after a standstill is given up within the grace: time asleep does not count", () => {
  const bench = new Bench(["a"]);
  bench.live();
  bench.tick(60);
  for (const asleep of [200, 100]) {
    bench.now += asleep;
    bench.session.doubt(bench.now, asleep);
    bench.tick(4);
    assert.equal(bench.session.ended, null);
  }
  bench.tick(DEFAULTS.silenceGraceS - 8);
  assert.match(String(bench.session.ended?.reason), /stood still/);
});

test("a gateway that says nothing is given up", () => {
  const bench = new Bench(["a"]).live();
  bench.registrations.register("b");
  bench.save();
  for (let i = 0; i < 159; i++) bench.tick(1), bench.out();
  assert.equal(bench.ended(), "");
  bench.tick(1);
  assert.match(bench.ended(), /nothing heard for 100 s/);
  const silent = new Bench(["a"]);
  silent.tick(WELCOME_S - 1);
  silent.say({ wait: { seconds: 100 } });
  silent.tick(100);
  assert.equal(silent.ended(), "");
  silent.tick(WELCOME_S);
  assert.match(silent.ended(), /no Welcome/);
});

test("Close, and what is no frame, end the session", () => {
  const bench = new Bench(["a"]).live();
  bench.say({ close: { code: 5, reason: "elsewhere" } });
  bench.say({ notification: { name: "a", version: 1n, offset: 99n } });
  assert.deepEqual(bench.session.ended, { code: 5, reason: "elsewhere", retryAfterS: 0, notHereS: 0 });
  assert.equal(bench.delivery.waiting, 0, "nothing counts after it");
  const other = new Bench(["a"]);
  other.session.receive(Uint8Array.of(255, 255, 255, 255, 255), other.now);
  assert.match(other.ended(), /no frame/);
});

test("two names under one CRC: names are asked for before the second one is used", () => {
  const [one, other] = ONE_CRC;
  assert.equal(new Bench([one, other]).out()[0]?.hello?.capabilities, CAPABILITY_NAMES | CAPABILITY_RAW);
  const bench = new Bench([one]).live();
  bench.registrations.register(other);
  bench.save();
  assert.deepEqual(bench.kinds(), ["useNames", "register"]);
  bench.say({ registered: { request: 1 } });
  bench.delivery.subscribe(one, 1);
  bench.delivery.subscribe(other, 2);
  bench.say({ notification: { name: other, version: 7n, answer: true } });
  bench.say({ notification: { crc: objectCrc(one), version: 8n, offset: 20n } });
  const told = [bench.delivery.turns.nextJob(0), bench.delivery.turns.nextJob(0)].map((job) => (job as CallbackJob | null)?.notification);
  assert.deepEqual(told.map((n) => [n?.objectId, n?.version]), [[other, 7n], [one, 8n]]);
});

test("a query whose answer has not come with CaughtUp is registered again", () => {
  const bench = new Bench().live();
  const query = byQuery("all");
  bench.registrations.register(query);
  bench.delivery.wants(query);
  bench.save();
  assert.deepEqual(bench.kinds(), ["useNames", "register"]);
  bench.say({ registered: { request: 1, kinds: 3 } });
  bench.tick(40);
  assert.deepEqual(bench.kinds(), [], "it may take its time");
  bench.say({ caughtUp: { complete: 11n } });
  assert.deepEqual(bench.kinds(), ["register"]);
});

test("a service that knows no queries is asked for none, and what it does not tell is owed", () => {
  const bench = new Bench(["a"]);
  const query = byQuery("all");
  bench.registrations.register(query);
  bench.delivery.wants(query);
  const hello = new ClientSession({ ...bench.parts, report: (error) => void bench.reports.push(error) }, bench.now);
  hello.receive(encodeFrame(GATEWAY_FRAME, { welcome: { inSync: true, kinds: 3 } }), bench.now);
  hello.receive(encodeFrame(GATEWAY_FRAME, { registered: { begun: [queryHash("all")] } }), bench.now);
  hello.receive(encodeFrame(GATEWAY_FRAME, { registered: { answered: [queryHash("all")] } }), bench.now);
  bench.delivery.subscribeMembers(query, 1);
  assert(!bench.registrations.isOwed(query), "settled");
  const older = new ClientSession({ ...bench.parts, report: (error) => void bench.reports.push(error) }, bench.now);
  older.receive(encodeFrame(GATEWAY_FRAME, { welcome: { inSync: true } }), bench.now);
  assert(bench.registrations.isOwed(query));
  assert.equal(bench.registrations.digest, digest(["a"]));
  older.dataToSend(bench.now);
  bench.save();
  assert.equal(older.dataToSend(bench.now).length, 0);
  assert(bench.reports.some((report) => report instanceof QueriesUnknown));
});

/** A live session with callbacks for two objects. */
function subscribed(): Bench {
  const bench = new Bench(["a", "b"]);
  for (const name of ["a", "b"]) bench.delivery.subscribe(name, 1);
  return bench.live();
}

/** The names of the jobs that can begin now. */
function jobs({ delivery }: Bench): string[] {
  const names: string[] = [];
  for (let job = delivery.nextJob(); job !== null; job = delivery.nextJob()) names.push(job.notification.objectId);
  return names;
}

test("members of a set are told together, after what came before them", () => {
  const bench = subscribed();
  bench.say({ notification: { crc: objectCrc("a"), version: 5n, offset: 12n, behind: 1n, more: true } });
  assert.deepEqual([jobs(bench), bench.delivery.cursor], [[], 10n]);
  bench.say({ notification: { crc: objectCrc("b"), version: 7n, offset: 12n } });
  assert.deepEqual(jobs(bench), ["a", "b"]);
});

test("members of a set wait no longer when all of it was sent that is wanted", () => {
  const ponged = subscribed();
  ponged.say({ notification: { crc: objectCrc("a"), version: 5n, offset: 12n, behind: 1n, more: true } });
  ponged.say({ pong: { complete: 12n } });
  assert.deepEqual(jobs(ponged), ["a"]);
  const caughtUp = new Bench(["a"]);
  caughtUp.delivery.subscribe("a", 1);
  caughtUp.say({ welcome: { inSync: true } });
  caughtUp.say({ notification: { crc: objectCrc("a"), version: 5n, offset: 12n, behind: 1n, more: true } });
  assert.deepEqual(jobs(caughtUp), []);
  caughtUp.say({ caughtUp: { complete: 12n } });
  assert.deepEqual(jobs(caughtUp), ["a"]);
});

test("a query is not asked for again because its new member waits for the rest of its set", () => {
  const bench = new Bench();
  const query = byQuery("all");
  bench.registrations.register(query);
  bench.delivery.wants(query);
  bench.delivery.subscribe(query, 1);
  bench.save();
  bench.live();
  bench.say({ registered: { request: 1, kinds: 3, begun: [queryHash("all")] } });
  bench.say({ registered: { answered: [queryHash("all")] } });
  bench.out();
  bench.say({ notification: { name: "a", version: 5n, offset: 12n, behind: 1n, more: true, entered: [queryHash("all")] } });
  bench.say({ caughtUp: { complete: 12n, setsDigest: setsDigest([[queryHash("all"), digest(["a"])]]) } });
  bench.save();
  assert(!bench.kinds().includes("register"));
});
