/** How members are described, frame by frame: what is told to whom, and what is stored. */

import assert from "node:assert/strict";
import { test } from "node:test";

import type { AnyJob } from "../src/core/delivery/callbackTurns.js";
import type { CallbackJob } from "../src/core/delivery/slot.js";
import { queryHash } from "../src/schemas/digest.js";
import { decode, type Document, emptyDocument, encode } from "../src/core/document/document.js";
import { byQuery } from "../src/core/interests/interests.js";
import { MemberDescriptions, parsedDescription } from "../src/core/delivery/memberDescriptions.js";
import { type KeptQuery, NEW } from "../src/core/delivery/membership.js";
import { DEFAULTS } from "../src/core/settings.js";
import type { GatewayFramePart } from "../src/schemas/wire.js";
import { DescriptionsUnknown } from "../src/errors.js";
import { ClientBench, ME } from "./clientBench.js";

const [LAMPS, ROOM] = [byQuery("lamps"), byQuery("room")];
const [LAMPS_HASH, ROOM_HASH] = [queryHash("lamps"), queryHash("room")];
/** UNSETTLED: with RAW, which is always said. */
const [UNSETTLED, ALL_CAPABILITIES, KINDS, KINDS_OF_OLDER] = [24, 31, 11, 3];
const [ON, OFF] = ['{"on":true}', '{"on":false}'];

type Said = NonNullable<GatewayFramePart["notification"]>;
type Told = [subscribers: readonly number[], version: bigint | null, description: unknown];

class Bench extends ClientBench {
  /** A notification of the object "a". */
  notify(description: string | null, { offset = 11n, ...said }: Said = {}): void {
    const bytes = description === null ? undefined : new TextEncoder().encode(description);
    this.say({ notification: { name: "a", offset, ...said, description: bytes } });
  }

  begin(): CallbackJob {
    this.save();
    const job = this.client.nextJob(this.now);
    assert(job !== null && "notification" in job);
    return job;
  }

  end(job: AnyJob, ...failed: number[]): void {
    this.client.jobDone(job, new Map(failed.map((one) => [one, new Error("no")])), this.now);
  }

  /** Runs all callbacks; what those of versions were told. */
  tell(): Told[] {
    const told: Told[] = [];
    this.save();
    for (let job = this.client.nextJob(this.now); job !== null; job = this.client.nextJob(this.now)) {
      if ("notification" in job) told.push(toldBy(job));
      this.end(job);
      this.save();
    }
    return told;
  }

  /** What is stored now. */
  get document(): Document {
    this.save();
    return this.stored;
  }

  descriptions(text = "lamps"): unknown {
    return Object.fromEntries(this.document.queries.get(text)?.descriptions ?? []);
  }
}

function toldBy({ subscribers, notification: { version, description } }: CallbackJob): Told {
  return [subscribers, version, description];
}

/** A client that knows version 1 of a lamp, which is described by `{}`, and wants it by its name, too. */
function document(more: Partial<KeptQuery> = {}, wanted: readonly string[] = ["a"]): Document {
  const kept: KeptQuery = { ...NEW, members: new Set(["a"]), descriptions: new Map([["a", "{}"]]), ...more };
  return {
    ...emptyDocument(ME),
    wanted: new Set([...wanted, LAMPS]),
    applied: new Map([["a", { incarnation: 0n, version: 1n }]]),
    queries: new Map([["lamps", kept]]),
    epoch: 1,
    cursor: 10n,
  };
}

/** Two callbacks: of the query (1), and by the name (2). */
function described(from = document()): Bench {
  const bench = new Bench(from);
  bench.client.application.subscribe(LAMPS, 1);
  bench.client.application.subscribe("a", 2);
  bench.connect();
  bench.say({ welcome: { inSync: true, kinds: KINDS } });
  bench.say({ caughtUp: { complete: 10n } });
  bench.out();
  return bench;
}

test("who comes to ask for descriptions opens another session; an older service is reported once", () => {
  const bench = new Bench();
  bench.client.application.register(LAMPS);
  assert.equal(bench.connect().capabilities, UNSETTLED + 3);
  bench.say({ welcome: { inSync: true, epoch: 1, kinds: KINDS_OF_OLDER } });
  bench.client.application.askDescriptions(LAMPS, false);
  bench.client.tick(bench.now);
  assert(bench.client.linkWanted);
  bench.client.application.askDescriptions(LAMPS, true);
  bench.client.tick(bench.now);
  assert(!bench.client.linkWanted);
  bench.client.linkDown("", bench.now);
  assert.equal(bench.connect().capabilities, ALL_CAPABILITIES);
  for (let times = 0; times < 2; times++) bench.say({ welcome: { inSync: true, kinds: KINDS_OF_OLDER } });
  assert.equal(bench.client.takeReports().filter((report) => report instanceof DescriptionsUnknown).length, 1);
});

test("a change of the description alone is told to those who ask, with the same version", () => {
  const bench = described();
  bench.notify(ON, { version: 1n, offset: 11n, payload: new TextEncoder().encode("7") });
  assert.equal(bench.document.cursor, 10n, "the cursor waits for it");
  assert.deepEqual(bench.descriptions(), { a: "{}" }, "what was only said is not stored");
  assert.deepEqual(bench.document.applied.get("a"), { incarnation: 0n, version: 1n }, "its version was told");
  const job = bench.begin();
  assert.deepEqual(job.notification, { objectId: "a", version: 1n, payload: 7, deleted: false, description: { on: true } });
  bench.end(job);
  assert.deepEqual(job.subscribers, [1], "not to who wants it by its name");
  assert.deepEqual(bench.tell(), []);
  assert.equal(bench.document.cursor, 11n);
  assert.deepEqual(bench.descriptions(), { a: ON });
  bench.notify(null, { version: 2n, offset: 12n });
  assert.deepEqual(bench.tell(), [[[1, 2], 2n, { on: true }]], "a publish carries none");
  assert.deepEqual(bench.client.application.current("a")?.description, { on: true });
  assert.deepEqual([...bench.client.application.descriptions(LAMPS)], [["a", { on: true }]]);
  bench.notify("", { version: 2n, offset: 13n });
  assert.deepEqual(bench.tell(), [[[1], 2n, null]]);
  assert.deepEqual(bench.descriptions(), { a: "" });
});

test("a description that comes again while it is told is told once", () => {
  const bench = described();
  bench.notify(ON, { version: 1n });
  const job = bench.begin();
  bench.notify(ON, { version: 1n });
  bench.end(job);
  assert.deepEqual(bench.tell(), []);
  assert.deepEqual(bench.descriptions(), { a: ON });
});

test("the description of before is told after another one that is being told", () => {
  const bench = described();
  bench.notify(ON, { version: 1n, offset: 11n });
  const first = bench.begin();
  for (const [offset, said] of [[12n, "{}"], [13n, ON], [14n, "{}"]] as const) bench.notify(said, { version: 1n, offset });
  bench.end(first);
  assert.equal(bench.document.cursor, 11n);
  assert.deepEqual([toldBy(first), ...bench.tell()], [[[1], 1n, { on: true }], [[1], 1n, {}]]);
  assert.equal(bench.document.cursor, 14n);
  assert.deepEqual(bench.descriptions(), { a: "{}" });
});

test("the same is not told for the sake of another one that came while it was being told, and is gone", () => {
  const bench = described();
  bench.notify(ON, { version: 1n, offset: 11n });
  const first = bench.begin();
  for (const [offset, said] of [[12n, "{}"], [13n, ON]] as const) bench.notify(said, { version: 1n, offset });
  bench.end(first);
  assert.deepEqual(bench.tell(), []);
  assert.equal(bench.document.cursor, 13n);
  bench.notify(OFF, { version: 1n, offset: 14n });
  bench.notify(ON, { version: 1n, offset: 15n });
  assert.deepEqual(bench.tell(), [], "nor where nothing was being told");
  assert.deepEqual(bench.descriptions(), { a: ON });
  assert.equal(bench.document.cursor, 15n);
});

for (const version of [undefined, 0n]) {
  test(`of ${version === undefined ? "no" : "an older"} version the description alone is told to those who ask`, () => {
    const bench = described();
    bench.notify(ON, { version });
    assert.equal(bench.document.cursor, 10n);
    assert.deepEqual(bench.tell(), [[[1], null, { on: true }]]);
    const { cursor, applied } = bench.document;
    assert.deepEqual([cursor, applied.get("a")], [11n, { incarnation: 0n, version: 1n }], "the floor stays");
    bench.notify(null, { version: 1n, offset: 12n });
    assert.deepEqual(bench.tell(), []);
  });

  test(`while a newer version is told to somebody, one of ${version === undefined ? "none" : "an older one"} is told behind it`, () => {
    const bench = described();
    bench.notify(null, { version: 5n, offset: 11n });
    const running = bench.begin();
    bench.notify(ON, { version, offset: 12n });
    bench.notify(null, { version: 4n, offset: 13n });
    bench.end(running, 2);
    bench.now += 10;
    assert.deepEqual(bench.tell(), [[[1, 2], 5n, { on: true }]], "with the version that is told again");
    assert.deepEqual(bench.document.applied.get("a"), { incarnation: 0n, version: 5n });
    assert.equal(bench.document.cursor, 13n);
  });
}

test("a member that was never published is told with its description, and who asks for its name that there is none", () => {
  const bench = described({ ...document({ members: new Set(), descriptions: new Map() }), applied: new Map() });
  bench.notify(ON, { entered: [LAMPS_HASH] });
  assert.deepEqual(bench.tell(), [[[1], null, { on: true }]]);
  bench.notify(ON, { entered: [LAMPS_HASH], offset: 12n });
  assert.deepEqual(bench.tell(), [], "once");
  bench.notify(OFF, { offset: 13n });
  const running = bench.begin();
  bench.client.application.unregister("a");
  bench.client.application.register("a");
  bench.client.application.subscribe("a", 3);
  const request = bench.out().find(({ register }) => register)?.register?.request;
  bench.say({ registered: { request } });
  bench.notify(null, { answer: true, offset: 0n });
  bench.end(running);
  assert.deepEqual(bench.tell().map(([subscribers]) => subscribers), [[2, 3]]);
  assert.equal(bench.document.pending.has("a"), false);
  bench.notify(null, { version: 1n, offset: 14n });
  assert.deepEqual(bench.tell(), [[[1, 2, 3], 1n, { on: false }]]);
});

test("what waits to be told with an older description is told with the one that came last", () => {
  const bench = described();
  bench.notify(null, { version: 2n, offset: 11n });
  bench.end(bench.begin(), 2); // 1 knows version 2, and 2 is told again
  bench.notify(ON, { version: 1n, offset: 12n });
  assert.equal(bench.document.cursor, 10n);
  bench.now += 10;
  assert.deepEqual(bench.tell(), [[[1, 2], 2n, { on: true }]]);
  assert.deepEqual(bench.descriptions(), { a: ON });
});

test("an object that leaves and comes back is told as it is described then", () => {
  const bench = described();
  bench.notify(ON, { version: 1n, offset: 11n });
  const running = bench.begin();
  bench.notify(null, { left: [LAMPS_HASH], offset: 12n });
  bench.notify(OFF, { version: 1n, entered: [LAMPS_HASH], offset: 13n });
  bench.end(running);
  assert.deepEqual(bench.tell(), [[[1], 1n, { on: false }]]);
  bench.notify(null, { left: [LAMPS_HASH], offset: 14n });
  assert.deepEqual(bench.tell(), []);
  assert.deepEqual(bench.descriptions(), {}, "what is no member has none");
  bench.notify(OFF, { version: 1n, entered: [LAMPS_HASH], offset: 15n });
  assert.deepEqual(bench.tell(), [[[1], 1n, { on: false }]]);
  assert.deepEqual(bench.descriptions(), { a: OFF });
  assert.equal(bench.document.cursor, 15n);
});

test("a version for some follows a description that waits for a query that the object has left", () => {
  const bench = new Bench(document({}, []));
  bench.client.application.register(ROOM);
  bench.client.application.subscribe(LAMPS, 1);
  bench.client.application.subscribe(ROOM, 2);
  bench.connect();
  bench.say({ welcome: { inSync: true, kinds: KINDS } });
  bench.notify(ON, { entered: [ROOM_HASH], offset: 11n });
  bench.notify(null, { left: [LAMPS_HASH], offset: 12n });
  bench.notify(null, { version: 2n, offset: 13n });
  assert.deepEqual(bench.tell().map(([subscribers, version]) => [subscribers, version]), [[[2], 2n]]);
});

test("who has not asked is told nothing of it, be there no version", () => {
  const bench = new Bench(document({ members: new Set(), descriptions: new Map() }, []));
  bench.client.application.register(ROOM);
  bench.client.application.subscribe(LAMPS, 1);
  bench.connect();
  bench.say({ welcome: { inSync: true, kinds: KINDS } });
  bench.notify(ON, { entered: [ROOM_HASH, LAMPS_HASH] });
  bench.client.application.subscribe(ROOM, 2);
  assert.deepEqual(bench.tell(), [[[1], null, { on: true }]]);
});

test("after a crash what was not told is said again, and told; and so is what may not have been told last", () => {
  const bench = described();
  const before = bench.document;
  bench.notify(ON, { version: 1n, offset: 11n });
  const job = bench.begin();
  const stored = bench.document;
  assert.deepEqual([stored.cursor, stored.queries], [10n, before.queries]);
  // Its callback returned, and nothing was stored after that.
  assert.deepEqual(toldBy(job), [[1], 1n, { on: true }]);
  const crashed = described(stored);
  crashed.notify("{}", { version: 1n, offset: 12n });
  assert.deepEqual(crashed.tell(), [[[1], 1n, {}]], "as it was before, and the application has heard something else");
  crashed.notify("{}", { version: 1n, offset: 13n });
  assert.deepEqual(crashed.tell(), []);
  assert.equal(crashed.document.cursor, 13n);
});

test("a callback that was told is told what it was before, where another one threw", () => {
  const bench = described();
  bench.client.application.subscribe(LAMPS, 3);
  bench.notify("{}", { version: 1n, offset: 11n });
  bench.tell();
  bench.notify(ON, { version: 1n, offset: 12n });
  bench.end(bench.begin(), 3);
  bench.notify("{}", { version: 1n, offset: 13n });
  bench.now += 10;
  assert.deepEqual(bench.tell(), [[[1, 3], 1n, {}]]);
});

test("it is stored of each query, once the last callback took it in", () => {
  const from = document();
  const room: KeptQuery = { ...NEW, members: new Set(["a"]), descriptions: new Map([["a", "{}"]]) };
  const bench = described({ ...from, wanted: new Set([LAMPS, ROOM]), queries: new Map([...from.queries, ["room", room]]) });
  bench.client.application.subscribe(ROOM, 3);
  bench.notify(ON, { version: 1n });
  for (const [subscribers, failed] of [[[1, 3], [3]], [[3], []]] as const) {
    const job = bench.begin();
    assert.deepEqual(job.subscribers, subscribers);
    bench.end(job, ...failed);
    bench.now += 10;
  }
  assert.equal(bench.document.cursor, 11n);
  assert.deepEqual([bench.descriptions("lamps"), bench.descriptions("room")], [{ a: ON }, { a: ON }]);
});

test("who knows the version is not told it again when two descriptions follow its entering", () => {
  const bench = described(document({ members: new Set(), descriptions: new Map() }));
  bench.notify("{}", { version: 1n, offset: 11n, entered: [LAMPS_HASH] });
  const first = bench.begin();
  bench.notify(ON, { version: 1n, offset: 12n });
  bench.notify("{}", { version: 1n, offset: 13n });
  bench.end(first);
  assert.deepEqual([first.subscribers, bench.tell()], [[1], []]);
  assert.deepEqual([bench.document.cursor, bench.descriptions()], [13n, { a: "{}" }]);
  assert.deepEqual(bench.document.applied.get("a"), { incarnation: 0n, version: 1n });
});

test("a registration is not settled while the description that its answer repeats is being told", () => {
  const bench = described({ ...document({}, []), applied: new Map() });
  bench.notify(ON);
  const job = bench.begin();
  bench.client.linkDown("", bench.now);
  bench.connect();
  for (const inSync of [false, true]) {
    bench.say({ welcome: { inSync, kinds: KINDS } }); // the service has forgotten the client
    bench.out();
  }
  bench.say({ registered: { begun: [LAMPS_HASH] } });
  bench.notify(ON, { entered: [LAMPS_HASH], answer: true, offset: 0n });
  bench.say({ registered: { answered: [LAMPS_HASH] } });
  bench.say({ caughtUp: { complete: 11n } });
  assert.deepEqual([bench.document.cursor, bench.document.pending.get(LAMPS)], [11n, "register"]);
  bench.end(job);
  assert.deepEqual([bench.descriptions(), bench.document.pending.has(LAMPS)], [{ a: ON }, false]);
  assert.deepEqual(bench.tell(), []);
});

test("a callback that throws is told again, and parked; the whole query is answered then", () => {
  const bench = described();
  bench.notify(ON, { version: 1n });
  for (let tries = 0; tries < DEFAULTS.triesMax; tries++) {
    bench.end(bench.begin(), 1);
    bench.now += 400;
  }
  const { cursor, pending } = bench.document;
  assert.deepEqual([cursor, pending.get(LAMPS)], [11n, "register"]);
  assert.deepEqual(bench.descriptions(), { a: "{}" });
});

test("without a callback of versions it is stored as it came, and the query is answered whole for one that comes", () => {
  const bench = new Bench(document({}, []));
  bench.client.application.subscribeMembers(LAMPS, 1);
  bench.connect();
  bench.say({ welcome: { inSync: true, kinds: KINDS } });
  bench.say({ caughtUp: { complete: 10n } });
  bench.notify(ON);
  const { cursor, queries } = bench.document;
  assert.deepEqual([cursor, queries.get("lamps")?.dropped], [11n, true]);
  assert.deepEqual(bench.descriptions(), { a: ON });
  bench.client.application.subscribe(LAMPS, 2);
  const asked = bench.out().flatMap(({ register }) => register ?? []).find(({ interests }) => interests.length > 0);
  assert.deepEqual(asked?.interests.map(({ text, held, reached }) => [text, held, reached]), [["lamps", undefined, ""]]);
  bench.say({ registered: { request: asked?.request, kinds: KINDS } });
  bench.say({ registered: { begun: [LAMPS_HASH] } });
  bench.notify(ON, { entered: [LAMPS_HASH], answer: true, offset: 0n });
  bench.say({ registered: { answered: [LAMPS_HASH] } });
  assert.deepEqual(bench.tell(), [[[2], null, { on: true }]]);
});

test("a query of which a member was never described is answered whole, once the service tells descriptions", () => {
  for (const descriptions of [null, new Map<string, string>()]) {
    const bench = new Bench(document({ descriptions }, []));
    bench.client.application.subscribe(LAMPS, 1);
    bench.client.application.askDescriptions(LAMPS, true);
    assert.deepEqual(bench.connect().interests, []);
    bench.say({ welcome: { inSync: true, kinds: KINDS } });
    bench.say({ caughtUp: { complete: 12n } });
    const { cursor, pending } = bench.document;
    assert.deepEqual([cursor, pending.get(LAMPS)], [12n, "register"]);
    const asked = bench.out().find(({ register }) => register?.interests.length)?.register;
    assert.equal(asked?.interests[0]?.held, undefined);
    bench.say({ registered: { request: asked?.request, kinds: KINDS } });
    bench.say({ registered: { begun: [LAMPS_HASH] } });
    bench.notify(ON, { version: 1n, entered: [LAMPS_HASH], answer: true, offset: 0n });
    bench.say({ registered: { answered: [LAMPS_HASH] } });
    bench.say({ caughtUp: { complete: 12n } });
    assert.deepEqual(bench.tell(), [[[1], 1n, { on: true }]]);
    assert.deepEqual(bench.descriptions(), { a: ON });
    assert.equal(bench.document.pending.has(LAMPS), false);
  }
});

test("a service that tells none makes the client forget them, also what is being told meanwhile", () => {
  const bench = described();
  bench.notify(ON, { version: 1n });
  const job = bench.begin();
  bench.client.linkDown("", bench.now);
  bench.connect();
  bench.say({ welcome: { inSync: true, kinds: KINDS_OF_OLDER } });
  bench.end(job);
  bench.say({ caughtUp: { complete: 12n } });
  assert.deepEqual(bench.descriptions(), {});
  bench.client.linkDown("", bench.now);
  bench.connect();
  bench.say({ welcome: { inSync: true, kinds: KINDS } });
  bench.say({ caughtUp: { complete: 12n } });
  assert.deepEqual(bench.out().flatMap(({ register }) => register?.interests.map(({ text }) => text) ?? []).filter(Boolean), ["lamps"]);
});

test("who asks no more has none in its document, which is what it was without", () => {
  const bench = described();
  const without = encode(document({ descriptions: null }));
  assert.doesNotMatch(without, /descri/);
  assert.match(encode(document()), /"descriptions":{"a":"{}"}/);
  assert.equal(decode(without, ME).queries.get("lamps")?.descriptions, null);
  bench.client.application.askDescriptions(LAMPS, false);
  assert.equal(bench.document.queries.get("lamps")?.descriptions, null);
  assert.deepEqual([...bench.client.application.descriptions(LAMPS)], []);
});

test("what is no description is null", () => {
  for (const said of [undefined, "", "nonsense", "[1]", "7", "null"]) assert.equal(parsedDescription(said), null, said);
  assert.deepEqual(parsedDescription('{"Room":410,"on":true}'), { Room: 410, on: true });
});

test("what was said last counts, and what was told is kept", () => {
  const one = new MemberDescriptions(new Map());
  assert(one.say("a", "{}", null));
  one.toldAs("a", "{}");
  assert(!one.say("a", "{}", null));
  assert(one.say("a", "", null));
  assert.deepEqual([one.get("a"), one.told.get("a")], ["", "{}"]);
  assert.deepEqual([one.apply("a"), one.apply("a"), one.told.get("a")], [true, false, ""]);
  assert.deepEqual([one.lack(["a", "b"]), one.lack(["a"])], [true, false]);
  assert.deepEqual([one.forgetAll(), one.forgetAll(), one.lack(["a"])], [true, false, true]);
});
