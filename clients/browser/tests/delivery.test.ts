/** Slots, floors, retries and parking. */

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { Delivery } from "../src/core/delivery/delivery.js";
import type { CallbackJob } from "../src/core/delivery/slot.js";
import { setsDigest } from "../src/schemas/digest.js";
import { byQuery, Spare } from "../src/core/interests/interests.js";
import { Journal } from "../src/core/journal.js";
import type { Membership } from "../src/core/delivery/membership.js";
import type { Queries } from "../src/core/delivery/queries.js";
import { Registrations } from "../src/core/interests/registrations.js";
import { DEFAULTS, type ClientSettings } from "../src/core/settings.js";
import { INTEREST_KIND, type WireInterest } from "../src/schemas/wire.js";
import { CallbackFailed, ObjectParked, PayloadUnreadable } from "../src/errors.js";

/** Objects a, b, c, registered, settled and subscribed to (c is not). */
class Bench {
  readonly journal = new Journal();
  readonly registrations: Registrations;
  readonly delivery: Delivery;
  readonly reports: Error[] = [];

  constructor(settings: Partial<ClientSettings> = {}) {
    const { journal } = this;
    this.registrations = new Registrations(journal, ["a", "b", "c"]);
    const floors: [string, { incarnation: bigint; version: bigint }][] = [["a", { incarnation: 0n, version: 5n }]];
    const report = (error: Error): void => void this.reports.push(error);
    const applied = { floors, epoch: 1, cursor: 10n };
    this.delivery = new Delivery(journal, this.registrations, { ...DEFAULTS, ...settings }, report, applied);
    this.delivery.subscribe("a", 0);
    this.delivery.subscribe("b", 1);
  }

  arrive(name: string, version: bigint | null, complete?: bigint, incarnation = 0n, payload = ""): void {
    const bytes = new TextEncoder().encode(payload);
    this.delivery.arrived(name, { incarnation, version, payload: bytes, deleted: false });
    if (complete !== undefined) this.delivery.complete(complete);
  }

  /** What is told now, as "object@version". */
  tell(now = 0, fails = false): string | null {
    const job = this.delivery.turns.nextJob(now) as CallbackJob | null;
    if (job === null) return null;
    this.delivery.turns.done(job, new Map(fails ? job.subscribers.map((one) => [one, new Error("no")]) : []), now);
    return `${job.notification.objectId}@${job.notification.version}`;
  }

  get cursor(): bigint | null {
    return this.delivery.cursor;
  }
}

let bench: Bench;
beforeEach(() => (bench = new Bench()));

test("the cursor moves when the callback has returned", () => {
  bench.arrive("a", 6n, 11n);
  const job = bench.delivery.turns.nextJob(0);
  assert.equal(bench.cursor, 10n);
  assert(job);
  bench.delivery.turns.done(job, new Map(), 0);
  assert.equal(bench.cursor, 11n);
  assert.deepEqual(bench.delivery.floors.get("a"), { incarnation: 0n, version: 6n });
});

test("versions never go backwards, a higher incarnation begins anew", () => {
  bench.arrive("a", 5n, 11n);
  assert.equal(bench.tell(), null);
  assert.equal(bench.cursor, 11n, "a duplicate counts as applied");
  bench.arrive("a", 0n, 12n, 1n);
  assert.equal(bench.tell(), "a@0");
  bench.arrive("a", 99n, 13n, 0n);
  assert.equal(bench.tell(), null);
  bench.arrive("a", 2n ** 63n - 1n, 14n, 1n);
  assert.equal(bench.tell(), "a@9223372036854775807");
});

test("only the newest waits, and it stands in for the older ones", () => {
  bench.arrive("b", 1n, 11n);
  bench.arrive("a", 6n, 12n);
  bench.arrive("b", 2n, 13n);
  assert.equal(bench.tell(), "b@2");
  assert.equal(bench.cursor, 11n);
  assert.equal(bench.tell(), "a@6");
  assert.equal(bench.cursor, 13n);
  assert.equal(bench.tell(), null);
});

test("a newer one waits while an older one is told", () => {
  bench.arrive("b", 1n, 11n);
  const job = bench.delivery.turns.nextJob(0);
  bench.arrive("b", 2n, 12n);
  assert.equal(bench.delivery.turns.nextJob(0), null, "one at a time for an object");
  assert(job);
  bench.delivery.turns.done(job, new Map(), 0);
  assert.equal(bench.cursor, 11n);
  assert.equal(bench.tell(), "b@2");
  assert.equal(bench.cursor, 12n);
});

test("unknown is told, but is below every version", () => {
  bench.arrive("b", null);
  assert.equal(bench.tell(), "b@null");
  bench.arrive("b", 0n);
  bench.arrive("b", null);
  assert.equal(bench.tell(), "b@0");
  assert.equal(bench.tell(), null);
});

test("without a subscriber the object is owed, the cursor passes, and it waits", () => {
  bench.arrive("c", 1n, 11n);
  assert(bench.registrations.isOwed("c"));
  assert.equal(bench.cursor, 11n);
  assert(bench.delivery.turns.idle);
  bench.delivery.subscribe("c", 9);
  assert(!bench.delivery.turns.idle);
  assert.equal(bench.tell(), "c@1");
  assert.equal(bench.registrations.pending.size, 0);
  bench.arrive("b", 1n, 12n);
  bench.delivery.unsubscribe("b", 1);
  assert.equal(bench.tell(), null);
  assert(bench.registrations.isOwed("b"));
  assert.equal(bench.cursor, 12n);
});

test("a callback that throws is told again later, and holds the cursor", () => {
  bench = new Bench({ retryMinS: 2, triesMax: 9 });
  bench.arrive("b", 1n, 11n);
  bench.tell(100, true);
  assert.equal(bench.tell(101.9), null);
  assert(!bench.delivery.turns.idle);
  assert.equal(bench.delivery.turns.readyAt(), 102);
  bench.tell(102, true);
  assert.equal(bench.tell(105.9), null);
  assert.equal(bench.cursor, 10n);
  assert.equal(bench.tell(106), "b@1");
  assert.equal(bench.cursor, 11n);
  assert(bench.reports.length === 2 && bench.reports.every((report) => report instanceof CallbackFailed));
});

test("a newer version takes the place of a failed one", () => {
  bench = new Bench({ retryMinS: 2 });
  bench.arrive("b", 1n, 11n);
  const job = bench.delivery.turns.nextJob(0);
  bench.arrive("b", 2n, 12n);
  assert(job);
  bench.delivery.turns.done(job, new Map([[1, "no"]]), 0);
  assert.equal(bench.cursor, 10n);
  assert.equal(bench.tell(2), "b@2");
  assert.equal(bench.cursor, 12n);
});

test("only the subscribers that failed are told again; if they go, the rest counts", () => {
  bench.delivery.subscribe("b", 7);
  bench.arrive("b", 1n, 11n);
  const job = bench.delivery.turns.nextJob(0);
  assert.deepEqual(job?.subscribers, [1, 7]);
  bench.delivery.turns.done(job, new Map([[7, "no"]]), 0);
  const again = bench.delivery.turns.nextJob(1);
  assert.deepEqual(again?.subscribers, [7]);
  bench.delivery.turns.done(again, new Map([[7, "no"]]), 1);
  bench.delivery.unsubscribe("b", 7);
  assert.equal(bench.delivery.turns.nextJob(3), null);
  assert.equal(bench.cursor, 11n);
});

test("it is parked after some tries; a newer version is a new chance", () => {
  bench = new Bench({ retryMinS: 1, triesMax: 2 });
  bench.arrive("b", 1n, 11n);
  bench.tell(0, true);
  bench.tell(1, true);
  assert.deepEqual([...bench.delivery.parked], ["b"]);
  assert(bench.registrations.isOwed("b"));
  assert.equal(bench.cursor, 11n);
  assert.equal(bench.tell(100), null);
  assert(bench.delivery.turns.idle);
  assert(bench.reports.at(-1) instanceof ObjectParked);
  bench.arrive("b", 2n, 12n);
  assert.equal(bench.tell(100), "b@2");
  assert.equal(bench.delivery.parked.size, 0);
  assert.equal(bench.registrations.pending.size, 0);
});

test("what is forgotten holds nothing, and is told anew", () => {
  bench.arrive("b", 1n, 11n);
  const job = bench.delivery.turns.nextJob(0);
  bench.registrations.unregister("b");
  bench.delivery.forget("b");
  assert.equal(bench.cursor, 11n);
  assert(job);
  bench.delivery.turns.done(job, new Map(), 0);
  assert(!bench.delivery.floors.has("b"));
  bench.arrive("b", 1n);
  assert.equal(bench.tell(), null, "not wanted");
  bench.registrations.register("b");
  bench.arrive("b", 1n);
  assert.equal(bench.tell(), "b@1");
});

test("a new epoch voids the cursor and keeps the floors", () => {
  bench.delivery.newEpoch(2);
  assert.equal(bench.cursor, null);
  bench.arrive("a", 5n, 1n);
  assert.equal(bench.tell(), null);
  assert.equal(bench.cursor, 1n);
});

test("a payload is parsed, and what is no JSON is reported", () => {
  bench.arrive("b", 1n, undefined, 0n, '{"fps": 5}');
  assert.deepEqual((bench.delivery.turns.nextJob(0) as CallbackJob).notification, { objectId: "b", version: 1n, payload: { fps: 5 }, deleted: false, description: null });
  bench.arrive("a", 6n, undefined, 0n, "{");
  assert.equal((bench.delivery.turns.nextJob(0) as CallbackJob).notification.payload, null);
  assert(bench.reports[0] instanceof PayloadUnreadable);
});

/** A query with the value callback 1 and the members callback 2, registered and settled. */
function ofQuery(): { bench: Bench; query: Membership; hash: bigint; enters: (name: string, answer: boolean) => void } {
  const bench = new Bench();
  const interest = byQuery("all");
  bench.registrations.register(interest);
  bench.delivery.wants(interest);
  bench.delivery.subscribe(interest, 1);
  bench.delivery.subscribeMembers(interest, 2);
  bench.registrations.confirm(bench.registrations.beginSession());
  const { queries } = bench.delivery;
  queries.confirmed([interest]);
  const query = queries.get(interest) as Membership;
  const update = { incarnation: 0n, version: 1n, payload: new Uint8Array(), deleted: false };
  return { bench, query, hash: query.hash, enters: (name, answer) => bench.delivery.changed(name, update, [query.hash], [], answer) };
}

/** As a frame with nothing else says it. */
function said(queries: Queries, { interest }: Membership): WireInterest | null {
  return queries.said(interest, new Spare([interest]));
}

test("how far an answer has come is stored once all that came is told", () => {
  const { bench, query, hash, enters } = ofQuery();
  const { queries } = bench.delivery;
  queries.begun([hash]);
  enters("x", true);
  queries.pageEnd({ page: 1, query: hash, reached: "x", reachedAt: 7n, setsUnknown: false, stream: 0, last: false, complete: undefined, ageS: 0 });
  assert.equal(query.kept.reached, null);
  bench.delivery.prepare();
  assert.equal(bench.delivery.turns.nextJob(0), null, "what is told is stored before");
  bench.journal.durable = bench.journal.revision;
  const members = bench.delivery.turns.nextJob(0);
  assert(members !== null && "membership" in members);
  assert.equal(bench.delivery.turns.nextJob(0), null, "the version waits for its members callback");
  bench.delivery.turns.done(members, new Map(), 0);
  assert.equal(query.kept.reached, null);
  assert.equal(bench.tell(), "x@1");
  assert.deepEqual(query.kept.reached, { name: "x", offset: 7n });
  assert.deepEqual(said(queries, query), { kind: INTEREST_KIND.INTEREST_QUERY, text: "all", reached: "x", reachedAt: 7n });
});

test("who lacks versions does not say which members it holds", () => {
  for (const lacks of [false, true]) {
    const { bench, query, hash } = ofQuery();
    const { queries } = bench.delivery;
    queries.begun([hash]);
    queries.answered([hash]);
    assert(!bench.registrations.isOwed(query.interest));
    query.dropped = lacks;
    queries.compare(1n);
    assert.equal(said(queries, query)?.held, lacks ? undefined : 0n);
    assert(bench.registrations.isOwed(query.interest), "before the cursor passes");
  }
});

/** Runs all callbacks; their names and subscribers. */
function tellAll(bench: Bench): string[] {
  const told: string[] = [];
  for (;;) {
    bench.delivery.prepare();
    bench.journal.durable = bench.journal.revision;
    const job = bench.delivery.turns.nextJob(0);
    if (job === null) return told;
    assert(!("feed" in job));
    told.push("membership" in job ? `+${[...job.change.added]} -${[...job.change.removed]}` : `${(job as CallbackJob).notification.objectId} ${job.subscribers}`);
    bench.delivery.turns.done(job, new Map(), 0);
  }
}

/** As it is for a new process, with what is stored. */
function restarted(query: Membership): Bench {
  const bench = new Bench();
  const registrations = new Registrations(bench.journal, [query.interest]);
  const applied = { floors: [], queries: new Map([["all", query.kept]]), epoch: 1, cursor: 10n };
  const delivery = new Delivery(bench.journal, registrations, DEFAULTS, () => undefined, applied);
  delivery.subscribe(query.interest, 1);
  return Object.assign(bench, { registrations, delivery });
}

test("who has entered is stored until its version is told", () => {
  const { bench, query, hash, enters } = ofQuery();
  const { queries } = bench.delivery;
  queries.begun([hash]);
  queries.answered([hash]);
  enters("x", false);
  bench.delivery.prepare();
  assert.deepEqual([...query.kept.entering], ["x"]);
  const crashed = restarted(query);
  assert.deepEqual(tellAll(bench), ["+x -", "x 1"]);
  assert.deepEqual([...query.kept.entering], []);

  const asked = (): unknown => said(crashed.delivery.queries, query);
  const { digest } = crashed.delivery.queries.get(query.interest) as Membership;
  crashed.delivery.queries.compare(setsDigest([[query.hash, digest]]));
  assert(crashed.registrations.isOwed(query.interest), "the sets are the same, and x's version was not told");
  assert.deepEqual(asked(), { kind: INTEREST_KIND.INTEREST_QUERY, text: "all" }, "whole, not as what is held");
});

test("who entered before a crash and comes again is told once, and not asked for", () => {
  const { bench, query, hash, enters } = ofQuery();
  bench.delivery.queries.begun([hash]);
  bench.delivery.queries.answered([hash]);
  enters("x", false);
  bench.delivery.prepare();
  const { delivery, journal, registrations } = restarted(query);
  const { queries } = delivery;
  const after = queries.get(query.interest) as Membership;
  delivery.changed("x", { incarnation: 0n, version: 1n, payload: new Uint8Array(), deleted: false }, [hash], [], false);
  delivery.prepare();
  journal.durable = journal.revision;
  const running = delivery.turns.nextJob(0);
  assert(running !== null && "notification" in running);
  queries.compare(setsDigest([[hash, after.digest]]));
  assert(!registrations.isOwed(query.interest), "its version is being told");
  assert.deepEqual([...after.kept.entering], ["x"], "a crash would have it come again");
  delivery.turns.done(running, new Map(), 0);
  assert.equal(delivery.turns.nextJob(0), null);
  assert.deepEqual([...after.kept.entering], []);
});

test("who has entered is in no doubt any more once it leaves, or a service that knows all has caught the client up", () => {
  for (const end of ["leaves", "caught up"]) {
    const { bench, query, hash, enters } = ofQuery();
    bench.delivery.queries.begun([hash]);
    bench.delivery.queries.answered([hash]);
    enters("x", false);
    bench.delivery.prepare();
    const { queries } = restarted(query).delivery;
    if (end === "leaves") queries.leave("x", [hash]);
    else queries.caughtUp();
    assert.deepEqual([...(queries.get(query.interest) as Membership).kept.entering], [], end);
  }
});

test("a version that waits to be told to others is told to a query, too, that its object enters anew", () => {
  const { bench, query, hash } = ofQuery();
  const { delivery, journal } = bench;
  const other = byQuery("other");
  bench.registrations.register(other);
  delivery.wants(other);
  delivery.subscribe(other, 3);
  delivery.subscribeMembers(other, 4);
  delivery.queries.confirmed([other]);
  const { hash: otherHash } = delivery.queries.get(other) as Membership;
  const update = (version: bigint) => ({ incarnation: 0n, version, payload: new Uint8Array(), deleted: false });
  const nextJob = () => {
    delivery.prepare();
    journal.durable = journal.revision;
    const job = delivery.turns.nextJob(0);
    assert(job !== null);
    return job;
  };
  delivery.changed("x", update(1n), [hash], [], false);
  assert.deepEqual(tellAll(bench), ["+x -", "x 1"]);
  // While version 2 is told to one query, the object enters another and leaves the first.
  delivery.arrived("x", update(2n));
  const value = nextJob();
  delivery.changed("x", update(2n), [otherHash], [], false);
  const entering = nextJob();
  assert("membership" in entering && entering.query === "other");
  delivery.changed("x", { ...update(2n), version: null }, [], [hash], false);
  delivery.turns.done(value, new Map(), 0);
  const leaving = nextJob();
  assert("membership" in leaving && leaving.change.removed.has("x"));
  delivery.turns.done(leaving, new Map(), 0);
  // Version 2 waits for the other one's members callback still.
  delivery.changed("x", update(2n), [hash], [], false);
  delivery.turns.done(entering, new Map(), 0);
  assert.deepEqual(tellAll(bench), ["+x -", "x 1,3"]);
  assert.deepEqual([...query.members], ["x"]);
});

test("a version waits until it is known whose member its object is", () => {
  const { bench, query, hash, enters } = ofQuery();
  const { delivery } = bench;
  const other = byQuery("other");
  bench.registrations.register(other);
  delivery.wants(other);
  delivery.subscribe(other, 3);
  delivery.queries.confirmed([other]);
  const { hash: otherHash } = delivery.queries.get(other) as Membership;
  bench.journal.durable = bench.journal.revision;
  const request = bench.registrations.nextRequest();
  assert(request !== null);
  bench.registrations.confirm(request.operations);
  enters("x", false);
  tellAll(bench);
  // By the service, it is the other one's member.
  delivery.queries.compare(1n);
  const update = { incarnation: 0n, version: 7n, payload: new Uint8Array(), deleted: false };
  delivery.arrived("x", update);
  assert.deepEqual(tellAll(bench), []);
  delivery.queries.begun([hash, otherHash]);
  delivery.changed("x", update, [otherHash], [], true);
  delivery.queries.answered([otherHash]);
  assert.deepEqual(tellAll(bench), []);
  delivery.queries.answered([hash]);
  assert.deepEqual(tellAll(bench), ["+ -x", "x 3"]);
  assert.deepEqual([...query.members], []);
});

test("sets that never fit are owed until the next session", () => {
  const { bench, query, hash } = ofQuery();
  const { queries } = bench.delivery;
  for (let times = 0; times < 4; times++) {
    queries.begun([hash]);
    queries.answered([hash]);
    queries.compare(1n);
    bench.journal.durable = bench.journal.revision;
    const request = bench.registrations.nextRequest();
    if (request === null) break;
    bench.registrations.confirm(request.operations);
    queries.confirmed([query.interest]);
  }
  queries.settle(query);
  assert(bench.registrations.isOwed(query.interest));
});

test("a query that loses its callback misses what is under way to others", () => {
  const { bench, query, hash } = ofQuery();
  const { delivery } = bench;
  delivery.queries.begun([hash]);
  delivery.queries.answered([hash]);
  const update = { incarnation: 0n, version: 6n, payload: new Uint8Array(), deleted: false };
  delivery.changed("a", update, [hash], [], false);
  delivery.unsubscribe(query.interest, 1);
  assert.deepEqual(tellAll(bench), ["+a -", "a 0"]);
  assert(query.dropped, "who subscribes later is answered whole");
});

test("who comes while a members callback runs that was unsubscribed since is told all members, not what changed before", () => {
  const { bench, query, hash, enters } = ofQuery();
  const { delivery } = bench;
  delivery.queries.caughtUp();
  for (const name of ["a", "c"]) enters(name, false);
  delivery.prepare();
  bench.journal.durable = bench.journal.revision;
  const running = delivery.turns.nextJob(0);
  assert(running !== null && "membership" in running && running.change.added.has("c"));
  delivery.queries.leave("c", [hash]);
  delivery.unsubscribeMembers(query.interest, 2);
  delivery.subscribeMembers(query.interest, 3);
  delivery.turns.done(running, new Map(), 0);
  const told = new Set<string>();
  const tell = (): void => {
    delivery.prepare();
    bench.journal.durable = bench.journal.revision;
    for (let job = delivery.turns.nextJob(0); job !== null; job = delivery.turns.nextJob(0)) {
      if ("membership" in job) {
        assert.deepEqual(job.subscribers, [3]);
        for (const name of job.change.added) told.add(name);
        for (const name of job.change.removed) assert(told.delete(name), `${name} left, and was never told`);
      }
      delivery.turns.done(job, new Map(), 0);
    }
  };
  tell();
  tell();
  assert.deepEqual([...told], ["a"]);
});

test("a members callback that comes is told of a member before the version that waits", () => {
  const bench = new Bench();
  const interest = byQuery("all");
  bench.registrations.register(interest);
  bench.delivery.wants(interest);
  bench.delivery.subscribe(interest, 1);
  bench.registrations.confirm(bench.registrations.beginSession());
  const { queries } = bench.delivery;
  queries.confirmed([interest]);
  const update = { incarnation: 0n, version: 1n, payload: new Uint8Array(), deleted: false };
  bench.delivery.changed("x", update, [(queries.get(interest) as Membership).hash], [], false);
  bench.delivery.subscribeMembers(interest, 2);
  assert.equal(bench.delivery.turns.nextJob(0), null, "what is told is stored before");
  assert.deepEqual(tellAll(bench), ["+x -", "x 1"]);
});

test("who registers for an object by its name is told the version that is known of it from a query", () => {
  const bench = new Bench();
  bench.delivery.forget("a");
  bench.registrations.unregister("a");
  const registrations = new Registrations(bench.journal, []);
  const applied = { floors: [["a", { incarnation: 0n, version: 5n }]] as const, epoch: 1, cursor: 10n };
  const delivery = new Delivery(bench.journal, registrations, DEFAULTS, () => undefined, applied);
  Object.assign(bench, { registrations, delivery });
  registrations.register("a");
  delivery.wants("a");
  delivery.subscribe("a", 7);
  bench.arrive("a", 5n);
  assert.equal(bench.tell(), "a@5");
});

test("a version waits for a members callback that came where nobody was told of any member", () => {
  const { bench, query, enters } = ofQuery();
  bench.delivery.unsubscribeMembers(query.interest, 2);
  enters("x", false);
  assert.deepEqual(tellAll(bench), ["x 1"]);
  assert(query.kept.followed);
  const after = restarted(query);
  after.delivery.subscribeMembers(query.interest, 2);
  after.delivery.arrived("x", { incarnation: 0n, version: 2n, payload: new Uint8Array(), deleted: false });
  assert.deepEqual(tellAll(after), ["+x -", "x 1"]);
});

test("what has left a query whose members callback throws is told once that is parked", () => {
  const { bench, hash } = ofQuery();
  const { delivery } = bench;
  delivery.queries.begun([hash]);
  delivery.queries.answered([hash]);
  delivery.changed("a", { incarnation: 0n, version: 6n, payload: new Uint8Array(), deleted: false }, [hash], [], false);
  const told: string[] = [];
  for (let now = 0; now < 1000; now++) {
    delivery.prepare();
    bench.journal.durable = bench.journal.revision;
    const job = delivery.turns.nextJob(now);
    if (job === null) continue;
    assert(!("feed" in job));
    const isOfMembers = "membership" in job;
    if (!isOfMembers) told.push(`${(job as CallbackJob).notification.objectId} ${job.subscribers}`);
    delivery.turns.done(job, new Map(isOfMembers ? job.subscribers.map((one) => [one, new Error("no")]) : []), now);
    if (now === 0) delivery.queries.leave("a", [hash]);
  }
  assert.deepEqual(told, ["a 0,1"]);
});

test("a callback that comes is told a member that had left, and enters again before that is told", () => {
  const { bench, query, hash, enters } = ofQuery();
  const { delivery } = bench;
  delivery.queries.begun([hash]);
  delivery.queries.answered([hash]);
  delivery.unsubscribe(query.interest, 1);
  enters("a", false);
  assert.deepEqual(tellAll(bench), ["+a -"]); // version 5 of it was told to those who want it by its name
  assert(query.dropped);
  delivery.queries.leave("a", [hash]);
  delivery.subscribe(query.interest, 3);
  delivery.changed("a", { incarnation: 0n, version: 5n, payload: new Uint8Array(), deleted: false }, [hash], [], false);
  assert.deepEqual(tellAll(bench), ["a 3"]);
});
