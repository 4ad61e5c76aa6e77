/** What a client says of what its application has not taken: what differs from what the service holds, and no more. */

import assert from "node:assert/strict";
import { test } from "node:test";

import type { KeptChannels } from "../src/core/streams/channels.js";
import { decode, type Document, emptyDocument, encode } from "../src/core/document/document.js";
import { channelHash, queryHash } from "../src/schemas/digest.js";
import { byChannel, byQuery, type Interest } from "../src/core/interests/interests.js";
import { NEW } from "../src/core/delivery/membership.js";
import { ACK_DELAY_S, CLIENT_FRAME_BYTES_MAX, UNSETTLED_ERROR_BYTES_MAX } from "../src/schemas/protocol.js";
import { DEFAULTS } from "../src/core/settings.js";
import { OLDEST } from "../src/core/interests/since.js";
import { Failing, IN_VAIN_S_MAX, SAID_AGAIN_S } from "../src/core/delivery/unsettled.js";
import { CAPABILITY_RAW, CAPABILITY_UNSETTLED, type ClientFrame } from "../src/schemas/wire.js";
import { ClientBench, ME } from "./clientBench.js";

const LAMPS = byQuery("lamps");
const TASKS = byChannel({ name: "tasks", attributes: [] });
type Unsettled = NonNullable<ClientFrame["unsettled"]>;

/** Of a client that wants `a`, which is settled; the service knows that. */
function document(more: Partial<Document> = {}): Document {
  return { ...emptyDocument(ME), wanted: new Set(["a"]), epoch: 1, cursor: 10n, settled: true, ...more };
}

class Bench extends ClientBench {
  /** Whether its Hello says that nothing else is unsettled. */
  wake(): boolean {
    const { capabilities } = this.connect();
    this.say({ welcome: { inSync: true, kinds: 7 } });
    return (capabilities & CAPABILITY_UNSETTLED) !== 0;
  }

  live(): this {
    this.wake();
    this.say({ caughtUp: { complete: 10n } });
    return this;
  }

  /** All callbacks return, or throw this. */
  tell(error?: unknown): void {
    this.save();
    for (let job = this.client.nextJob(this.now); job !== null; job = this.client.nextJob(this.now)) {
      const failed = error === undefined ? [] : job.subscribers.map((one) => [one, error] as const);
      this.client.jobDone(job, new Map(failed), this.now);
      this.save();
    }
    this.client.tick(this.now);
  }

  /** What is said of it after a while. */
  said(afterS: number): Unsettled[] {
    this.now += afterS;
    return [...this.out(), ...this.out()].flatMap(({ unsettled }) => unsettled ?? []);
  }

  answer({ request }: Unsettled): void {
    this.say({ registered: { request } });
  }

  /** In the middle of a session, up to its answer. */
  register(name: string): void {
    this.client.application.register(name);
    this.client.application.subscribe(name, 1);
    for (const { register } of this.out()) if (register) this.say({ registered: { request: register.request } });
    this.say({ notification: { name, version: 1n, answer: true } });
  }
}

function one<T>(all: readonly T[]): T {
  assert.equal(all.length, 1);
  return all[0] as T;
}

test("an unchanged wake says nothing", () => {
  const bench = new Bench(document());
  assert(!bench.wake());
  bench.say({ caughtUp: { complete: 10n } });
  assert.deepEqual(bench.said(60), []);
  assert(bench.stored.settled);
});

test("a client whose document does not say that the service knows it says all, once", () => {
  const bench = new Bench(document({ settled: false }));
  assert(bench.wake());
  bench.save();
  assert(bench.stored.settled);
  bench.client.linkDown("", bench.now);
  assert(!bench.wake());
});

test("the document has it, and no other field has changed", () => {
  const text = encode(document());
  assert.match(text, /"applied":{},"settled":true,"check"/);
  assert(decode(text, ME).settled);
  assert.doesNotMatch(encode(document({ settled: false })), /settled/);
});

test("what was registered is settled when its callback has returned", () => {
  const bench = new Bench(document()).live();
  bench.register("b");
  assert.deepEqual(bench.said(SAID_AGAIN_S), [], "the service holds it for unsettled since it was asked for");
  bench.tell();
  assert.deepEqual(bench.said(0), [], "it may be said along with others");
  const frame = one(bench.said(ACK_DELAY_S));
  assert.deepEqual([frame.all, frame.entries, frame.settled], [true, [], []]);
  assert(!bench.stored.settled);
  bench.answer(frame);
  bench.save();
  assert(bench.stored.settled);
  bench.client.linkDown("", bench.now);
  assert(!bench.wake());
});

test("what is not answered is said by the next Hello", () => {
  const bench = new Bench(document()).live();
  bench.register("b");
  bench.tell();
  one(bench.said(SAID_AGAIN_S));
  bench.client.linkDown("", bench.now);
  const { register, capabilities } = bench.connect();
  assert.deepEqual([register, capabilities], [[], CAPABILITY_UNSETTLED | CAPABILITY_RAW]);
  bench.say({ welcome: { inSync: true } });
  bench.save();
  assert(bench.stored.settled);
});

for (const byAnEarlierPage of [false, true]) {
  const by = byAnEarlierPage ? "an earlier page" : "this page";
  test(`once a Hello of ${by} with registrations was not answered, each further one says all`, () => {
    const pending = new Map<Interest, "register">(byAnEarlierPage ? [["b", "register"]] : []);
    const wanted = new Set(byAnEarlierPage ? ["a", "b"] : ["a"]);
    const bench = new Bench(document({ pending, wanted }));
    bench.client.application.register("b");
    bench.client.application.subscribe("b", 1);
    if (!byAnEarlierPage) {
      assert.equal(bench.connect().capabilities, CAPABILITY_UNSETTLED | CAPABILITY_RAW);
      bench.client.linkDown("", bench.now);
    }
    assert(bench.wake());
    bench.say({ notification: { name: "b", version: 1n, answer: true } });
    bench.tell();
    bench.answer(one(bench.said(ACK_DELAY_S)));
    bench.save();
    assert(bench.stored.settled);
    for (let i = 0; i < 2; i++) {
      bench.client.linkDown("", bench.now);
      const { register, capabilities } = bench.connect();
      assert.deepEqual([register, capabilities], [[], CAPABILITY_UNSETTLED | CAPABILITY_RAW]);
      bench.say({ welcome: { inSync: true } });
    }
  });
}

test("what is not answered is said again, ever more rarely", () => {
  const bench = new Bench(document()).live();
  bench.register("b");
  bench.tell();
  const times: number[] = [];
  for (const began = bench.now; bench.now - began < 10 * IN_VAIN_S_MAX; bench.say({ pong: {} })) {
    if (bench.said(1).length > 0) times.push(bench.now);
  }
  const pauses = times.slice(1).map((time, index) => time - (times[index] as number));
  assert.deepEqual(pauses, [...pauses].sort((a, b) => a - b));
  assert(pauses.length > 5 && (pauses.at(-1) as number) >= IN_VAIN_S_MAX);
});

test("callbacks that throw are said with the first line of what they threw", () => {
  const bench = new Bench(document()).live();
  bench.client.application.subscribe("a", 1);
  bench.say({ notification: { name: "a", version: 2n, offset: 11n } });
  bench.tell(new TypeError("no\x1b lens\nand more"));
  const frame = one(bench.said(SAID_AGAIN_S));
  const { name, parked, failures, error, sinceS } = one(frame.entries);
  assert.deepEqual([name, parked, failures, error, sinceS], ["a", false, 1, "TypeError: no  lens", SAID_AGAIN_S]);
  bench.answer(frame);
  for (let times = 0; times < 4; times++) {
    bench.now += 10;
    bench.tell(new Error("ä".repeat(500)));
  }
  const again = one(one(bench.said(SAID_AGAIN_S)).entries);
  const bytes = new TextEncoder().encode(again.error).length;
  assert.deepEqual([again.parked, again.failures, bytes], [true, 5, UNSETTLED_ERROR_BYTES_MAX - 1], "no half a character");
  assert(!bench.stored.settled);
});

test("whatever is thrown has a first line, and an application may keep it to itself", () => {
  const hostile = { toString: () => { throw new Error("no"); } };
  for (const [thrown, said] of [["no lens", "no lens"], [undefined, "undefined"], [null, "null"], [new Error(), "Error"], [hostile, "object"]]) {
    const failing = new Failing(true);
    failing.note("a", new Map([[1, thrown]]), 7);
    assert.deepEqual(failing.byInterest.get("a"), { times: 1, error: said, since: 7 });
  }
  const failing = new Failing(false);
  failing.note("a", new Map([[1, new Error("secret")]]), 7);
  failing.note("a", new Map([[1, new Error("secret")]]), 8);
  assert.deepEqual(failing.byInterest.get("a"), { times: 2, error: "", since: 7 });
  failing.note("a", new Map(), 9);
  assert.deepEqual([failing.byInterest.size, failing.changes], [0, 3]);
  assert(DEFAULTS.sayErrors);
});

test("nothing leaves before the document says that it may", () => {
  const bench = new Bench(document()).live();
  bench.client.application.subscribe("a", 1);
  bench.say({ notification: { name: "a", version: 2n, offset: 11n } });
  bench.tell(new Error());
  bench.now += SAID_AGAIN_S;
  bench.client.tick(bench.now);
  assert.deepEqual(bench.sent(), []);
  bench.save();
  assert(!bench.stored.settled);
  one(bench.said(1));
});

test("no Hello says that nothing else is unsettled, while the document may forget what is", () => {
  const bench = new Bench(document()).live();
  bench.say({ notification: { name: "a", version: 2n, offset: 11n } });
  bench.client.linkDown("", bench.now);
  assert.equal(bench.client.status(bench.now).pending, 1, "nobody has subscribed to it");
  bench.now += 400;
  assert(bench.client.connectDue(bench.now) !== null);
  bench.client.linkUp(bench.now);
  const { hello } = one(bench.sent());
  assert.deepEqual([hello?.capabilities, hello?.register], [CAPABILITY_RAW, ["a"]]);
  bench.say({ welcome: { inSync: true } });
  bench.say({ caughtUp: { complete: 11n } });
  bench.now += SAID_AGAIN_S;
  bench.client.tick(bench.now);
  assert.deepEqual(bench.sent(), [], "a crash would leave a document that knows nothing of it");
  const frame = one(bench.said(0));
  assert.deepEqual([frame.all, frame.entries.map(({ name }) => name)], [true, ["a"]]);
  assert(!bench.stored.settled);
});

test("before Bye, what has changed is said at once", () => {
  const bench = new Bench(document()).live();
  bench.register("b");
  bench.tell();
  bench.client.stop();
  const kinds = [...bench.out(), ...bench.out()].map((frame) => Object.entries(frame).find(([, kind]) => kind)?.[0]);
  assert.deepEqual(kinds.slice(-2), ["unsettled", "bye"]);
});

test("a registration that the service may have is not said to be settled", () => {
  const bench = new Bench(document()).live();
  bench.register("b");
  bench.tell();
  bench.client.application.register("c");
  assert.equal(bench.said(SAID_AGAIN_S).length, 1);
  bench.now += 100;
  bench.client.tick(bench.now);
  bench.client.stop();
  const frames = [...bench.out(), ...bench.out()];
  assert.ok(frames.at(-1)?.bye);
  const report = frames.at(-2)?.unsettled;
  assert.deepEqual([report?.all, report?.entries.map(({ name }) => name)], [true, ["c"]]);
});

test("an Ack that passes what is parked leaves behind what says so", () => {
  const bench = new Bench(document()).live();
  bench.client.application.subscribe("a", 1);
  bench.say({ notification: { name: "a", version: 2n, offset: 11n } });
  for (let times = 0; times < 4; times++) {
    bench.tell(new Error("no"));
    bench.said(SAID_AGAIN_S).forEach((frame) => bench.answer(frame));
    bench.now += 10;
  }
  bench.tell(new Error("no"));
  assert.equal(bench.stored.cursor, 11n);
  bench.now += ACK_DELAY_S;
  const said = bench.out().map(({ unsettled, ack }) => unsettled?.entries[0]?.parked ?? ack?.complete);
  assert.deepEqual(said, [true, 11n]);
});

test("members that were not taken are named, and the query is settled when they are", () => {
  const queries = new Map([["lamps", { ...NEW, members: new Set(["l1", "l2"]) }]]);
  const bench = new Bench(document({ wanted: new Set<Interest>(["a", LAMPS]), queries }));
  bench.client.application.subscribe(LAMPS, 1);
  bench.live();
  bench.say({ notification: { name: "l1", version: 2n, offset: 11n } });
  bench.tell(new Error("no"));
  const frame = one(bench.said(SAID_AGAIN_S));
  const { hash, failures, members } = one(frame.entries);
  assert.deepEqual([hash, failures, members], [queryHash("lamps"), 1, ["l1"]]);
  bench.answer(frame);
  bench.now += 1;
  bench.tell();
  const over = one(bench.said(SAID_AGAIN_S));
  assert.deepEqual([over.all, over.entries], [true, []]);
});

test("which members were not taken is not said while the query's answer is to come", () => {
  const queries = new Map([["lamps", { ...NEW, members: new Set(["l1", "l2"]) }]]);
  const pending = new Map([[LAMPS, "register" as const]]);
  const bench = new Bench(document({ wanted: new Set<Interest>([LAMPS]), queries, pending, settled: false }));
  bench.client.application.subscribe(LAMPS, 1);
  assert(bench.wake());
  bench.say({ notification: { name: "l1", version: 2n, offset: 11n } });
  bench.tell(new Error("no"));
  const { hash, members } = one(one(bench.said(SAID_AGAIN_S)).entries);
  assert.deepEqual([hash, members], [queryHash("lamps"), []], "l2 was not told either");
});

test("a channel says up to where it is told, and one without messages is settled", () => {
  const bench = new Bench(document()).live();
  bench.client.application.subscribe(TASKS, 1);
  bench.client.application.registerChannel({ name: "tasks", attributes: [] }, OLDEST);
  const request = bench.out().find(({ register }) => register)?.register?.request as number;
  const channel = channelHash("tasks");
  bench.say({ registered: { request, kinds: 7, streams: [{ epoch: 7, positions: [{ interest: channel }] }] } });
  for (const [offset, back] of [[3n, 4n], [5n, 2n]] as const) {
    bench.say({ message: { channel, offset, back, payload: new TextEncoder().encode("1"), paged: true } });
  }
  bench.say({ pageEnd: { page: 1, stream: 1, last: true, complete: 5n } });
  bench.save();
  const first = bench.client.nextJob(bench.now);
  assert(first);
  bench.client.jobDone(first, new Map(), bench.now);
  for (let times = 0; times < 5; times++, bench.now += 60) {
    bench.tell(new Error("no"));
    bench.say({ pong: {} });
  }
  const said = bench.said(SAID_AGAIN_S).concat(bench.said(SAID_AGAIN_S));
  const { hash, parked, position, failures } = said.flatMap(({ entries }) => entries).at(-1) as Unsettled["entries"][number];
  assert.deepEqual([hash, parked, position, failures], [channel, true, 3n, 5]);
  assert.deepEqual(bench.client.status(bench.now).parked, ["tasks"]);

  const channels: KeptChannels = { channels: new Map(), epoch: null, cursor: null };
  const empty = new Bench(document({ channels })).live();
  empty.client.application.subscribe(TASKS, 1);
  empty.client.application.registerChannel({ name: "tasks", attributes: [] }, OLDEST);
  const asked = empty.out().find(({ register }) => register)?.register?.request as number;
  empty.say({ registered: { request: asked, kinds: 7, streams: [{ epoch: 7, positions: [{ interest: channel }] }] } });
  empty.say({ pageEnd: { page: 1, stream: 1, last: true } });
  const settled = empty.said(SAID_AGAIN_S).at(-1);
  assert.deepEqual([settled?.all, settled?.entries], [true, []]);
  assert.equal(empty.client.status(empty.now).pending, 1, "its log has no message for the cursor to be at");
});

test("of many only what has changed is said", () => {
  const names = Array.from({ length: 200 }, (_, i) => `n${String(i).padStart(3, "0")}`);
  const bench = new Bench(document({ wanted: new Set() })).live();
  for (const name of names) {
    bench.client.application.register(name);
    bench.client.application.subscribe(name, 1);
  }
  for (;;) {
    const asked = bench.out().flatMap(({ register }) => register ?? []);
    for (const { request } of asked) bench.say({ registered: { request } });
    if (asked.length === 0) break;
  }
  const answer = (some: readonly string[]): void => {
    for (const name of some) bench.say({ notification: { name, version: 1n, answer: true } });
    bench.tell();
  };
  answer(names.slice(0, 10));
  const few = one(bench.said(SAID_AGAIN_S));
  assert.deepEqual([few.settled.sort(), few.all, few.entries], [names.slice(0, 10), false, []]);
  bench.answer(few);
  answer(names.slice(10));
  const rest = one(bench.said(SAID_AGAIN_S));
  assert.deepEqual([rest.all, rest.settled, rest.entries], [true, [], []]);
});

test("what is said fits in frames, however long names and errors are", () => {
  const name = (i: number): string => String(i).padStart(3, "0") + "n".repeat(252);
  const names = Array.from({ length: 130 }, (_, i) => name(i));
  const bench = new Bench(document({ wanted: new Set(names) })).live();
  for (const one of names) {
    bench.client.application.subscribe(one, 1);
    bench.say({ notification: { name: one, version: 2n, offset: 11n } });
  }
  for (let times = 0; times < 5; times++, bench.now += 60) {
    bench.tell(new Error("e".repeat(1000)));
    bench.say({ pong: {} });
  }
  bench.now += SAID_AGAIN_S;
  bench.client.tick(bench.now);
  bench.save();
  const counts: number[] = [];
  for (let turn = 0; turn < 3; turn++) {
    for (const { unsettled } of bench.out()) if (unsettled) counts.push(unsettled.entries.length + unsettled.settled.length);
  }
  assert(counts.every((count) => count <= 64) && counts.reduce((sum, count) => sum + count, 0) >= 130, `${counts}`);
  assert.equal(CLIENT_FRAME_BYTES_MAX, 32 * 1024, "of which the bench takes none that is longer");
});
