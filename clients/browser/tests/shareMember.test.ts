/** Leases of a member, on the wire and by a clock that tests move: what each Hold says, and what becomes of it. */

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { decode, emptyDocument, encode } from "../src/core/document/document.js";
import { byShare, hashOf, type ShareInterest } from "../src/core/interests/interests.js";
import { NOW, OLDEST } from "../src/core/interests/since.js";
import { LeaseState } from "../src/core/shares/lease.js";
import { HOLDS_KEPT, SaidHolds } from "../src/core/shares/saidHolds.js";
import { type KeptShare, type ShareJob, UNANSWERED_MAX } from "../src/core/shares/shareMember.js";
import { Wishes } from "../src/core/wishes.js";
import { ChannelCallbackFailed, LeaseLost, MessagesMissed, RegistrationRefused, SharesUnknown, StateDamaged } from "../src/errors.js";
import type { HandedMessage } from "../src/handedMessage.js";
import { LeasedMessage } from "../src/leasedMessage.js";
import { crc32 } from "../src/schemas/digest.js";
import { INTEREST_KIND, REASON, SINCE, type WireHold } from "../src/schemas/wire.js";
import { ClientBench, ME } from "./clientBench.js";

const WORKERS: ShareInterest = { channel: "tasks", share: "workers", attributes: [] };
const SHARE = byShare(WORKERS);
const HASH = hashOf(SHARE);
const KINDS = 1 | 4 | 16;
const [CALLBACK, ON_MISSED, ON_LOST] = [1, 101, 201];
const { WAITS, BEGUN, DONE, BACK, REJECTED } = LeaseState;
const KEPT: KeptShare = { since: NOW, leaseS: 30, prefetch: 1 };

type Said = Record<string, [handOut: number, state: number, afterS: number]>;

/** A member of the share, with leases of 30 s, whose frames are written as soon as they are made. */
class MemberBench extends ClientBench {
  constructor(hears = true) {
    super({ ...emptyDocument(ME), wanted: new Set([SHARE]), shares: new Map([[SHARE, KEPT]]), epoch: 1, cursor: 10n });
    if (hears) this.client.application.subscribe(SHARE, CALLBACK);
  }

  begin(): this {
    this.connect();
    this.say({ welcome: { inSync: true, kinds: KINDS } });
    this.say({ caughtUp: { complete: 10n } });
    return this;
  }

  hold(): WireHold {
    const holds = this.holdsNow();
    assert.equal(holds.length, 1);
    return holds[0] as WireHold;
  }

  holdsNow(): WireHold[] {
    const holds = this.out().flatMap(({ hold }) => hold ?? []);
    this.client.sent(0);
    return holds;
  }

  hand(offset: number, more: { handOut?: number; hold?: number; attempts?: number; channel?: bigint } = {}): void {
    const payload = new TextEncoder().encode("1");
    this.say({ message: { channel: HASH, offset: BigInt(offset), handOut: 1, hold: 1, payload, ...more } });
  }

  grant(number: number, ...lost: number[]): void {
    this.say({ leases: { number, lost: lost.length > 0 ? [{ share: HASH, offsets: lost.map(BigInt) }] : [] } });
  }

  job(): ShareJob | null {
    return this.client.nextJob(this.now) as ShareJob | null;
  }

  /** The job of a message that was handed out just now, whose begin is said by Hold 2. */
  running(offset = 5): ShareJob {
    this.hold();
    this.grant(1);
    this.hand(offset);
    assert.deepEqual(said(this.hold()), { [offset]: [1, BEGUN, 0] });
    const job = this.job();
    assert(job !== null);
    return job;
  }

  done(job: ShareJob, fails = false): void {
    const failed = new Map(fails ? job.subscribers.map((number) => [number, new Error("no")]) : []);
    this.client.jobDone(job, failed, this.now);
  }

  later(seconds: number): void {
    this.now += seconds;
    this.client.tick(this.now);
  }

  lost(): number[] {
    const found: number[] = [];
    for (let job = this.client.nextLost(); job !== null; job = this.client.nextLost()) found.push(Number(job.lease.offset));
    return found;
  }

  reports(): string[] {
    return this.client.takeReports().map(({ name }) => name);
  }

  get status(): { pending: number } {
    return this.client.status(this.now);
  }
}

function said(hold: WireHold): Said {
  const [share] = hold.shares ?? [];
  const messages = (share?.messages ?? []).map(({ offset, handOut = 0, state = 0, afterS = 0 }) => [offset, [handOut, state, afterS]]);
  return Object.fromEntries(messages) as Said;
}

let bench: MemberBench;

beforeEach(() => {
  bench = new MemberBench().begin();
});

test("the first hold says all, and names lease and prefetch", () => {
  const { number, all, shares } = bench.hold();
  assert.deepEqual([number, all], [1, true]);
  assert.deepEqual(shares?.map(({ share, leaseS, prefetch }) => [share, leaseS, prefetch]), [[HASH, 30, 1]]);
  assert.deepEqual(bench.holdsNow(), []);
});

test("a hold leaves each third of the lease, also with nothing in hand", () => {
  bench.hold();
  assert(bench.client.deadline() <= bench.now + 10);
  for (let number = 2; number < 5; number++) {
    bench.later(9.9);
    assert.deepEqual(bench.holdsNow(), []);
    bench.later(0.2);
    const hold = bench.hold();
    assert.deepEqual([hold.number, hold.all, hold.shares?.[0]?.leaseS], [number, false, 30]);
  }
});

test("nothing is held without a callback", () => {
  bench = new MemberBench(false).begin();
  assert.deepEqual(bench.holdsNow(), []);
  const shown = (): unknown => bench.hold().shares?.map(({ closed, prefetch }) => [closed, prefetch]);
  bench.client.application.subscribe(SHARE, CALLBACK);
  assert.deepEqual(shown(), [[false, 1]]);
  bench.client.application.unsubscribe(SHARE, CALLBACK);
  assert.deepEqual(shown(), [[true, 0]]);
  bench.later(100);
  assert.deepEqual(bench.holdsNow(), []);
  bench.client.application.subscribe(SHARE, CALLBACK);
  assert.deepEqual(shown(), [[false, 1]]);
});

test("a callback begins only once that is written", () => {
  bench.hold();
  bench.grant(1);
  bench.hand(5);
  assert.equal(bench.job(), null);
  const [frame] = bench.out();
  assert.deepEqual(said(frame?.hold as WireHold), { 5: [1, BEGUN, 0] });
  assert.equal(bench.job(), null);
  bench.client.sent(0);
  const job = bench.job() as ShareJob;
  const { offset, payload, share } = job.handed as HandedMessage;
  assert.deepEqual([offset, payload, share, job.subscribers], [5n, 1, "workers", [CALLBACK]]);
});

test("bytes that were written before do not stand for a hold", () => {
  bench.hold();
  bench.hand(5);
  bench.later(10.1); // a full Hold is made, and waits for the bytes before it
  bench.client.sent(0);
  assert.equal(bench.job(), null);
  bench.hold();
  assert(bench.job() !== null);
});

test("a hold that says that a message waits does not let its callback begin", () => {
  const first = bench.running(5);
  bench.hand(6);
  bench.later(10.1);
  const [frame] = bench.out(); // it is being written, and says that 6 waits
  assert.deepEqual(said(frame?.hold as WireHold)[6], [1, WAITS, 0]);
  bench.done(first);
  bench.later(10.1); // the next one says that 6 begins, and waits for the bytes before it
  bench.client.sent(0);
  assert.equal(bench.job(), null);
  bench.holdsNow();
  assert.equal(bench.job()?.lease.offset, 6n);
});

test("returning settles, and is said until it is answered", () => {
  bench.done(bench.running());
  assert.deepEqual(said(bench.hold()), { 5: [1, DONE, 0] });
  bench.later(10.1);
  assert.deepEqual(said(bench.hold()), { 5: [1, DONE, 0] });
  bench.grant(4);
  bench.later(10.1);
  assert.deepEqual(said(bench.hold()), {});
  assert.deepEqual(bench.lost(), []);
});

test("throwing gives back, for longer with each attempt", () => {
  bench.hold();
  for (const [attempts, afterS] of [[0, 1], [1, 2], [3, 8], [9, 60]] as const) {
    bench.hand(5, { handOut: attempts + 1, attempts });
    bench.hold();
    bench.done(bench.job() as ShareJob, true);
    const hold = bench.hold();
    assert.deepEqual(said(hold), { 5: [attempts + 1, BACK, afterS] });
    bench.grant(hold.number ?? 0);
  }
  assert(bench.client.takeReports()[0] instanceof ChannelCallbackFailed);
});

test("a retry gives back for its time, and a reject makes a dead letter", () => {
  for (const fails of [false, true]) {
    for (const [verdict, expected] of [
      [(message: LeasedMessage) => message.retry(2.5), [1, BACK, 3]],
      [(message: LeasedMessage) => message.reject(), [1, REJECTED, 0]],
    ] as const) {
      bench = new MemberBench().begin();
      const job = bench.running();
      verdict(leased(job));
      bench.done(job, fails);
      assert.deepEqual(said(bench.hold()), { 5: expected });
    }
  }
});

test("an impossible delay names its parameter", () => {
  const message = leased(bench.running());
  for (const afterS of [-1, 86_401, NaN, Infinity]) assert.throws(() => message.retry(afterS), /^RangeError: afterS: /);
});

test("one callback runs, and the others are held", () => {
  const first = bench.running(5);
  bench.hand(6);
  bench.hand(7);
  assert.deepEqual(bench.holdsNow(), []);
  bench.later(10.1);
  assert.deepEqual(said(bench.hold()), { 5: [1, BEGUN, 0], 6: [1, WAITS, 0], 7: [1, WAITS, 0] });
  bench.done(first);
  assert.deepEqual(said(bench.hold()), { 5: [1, DONE, 0], 6: [1, BEGUN, 0] });
  assert.equal(bench.job()?.lease.offset, 6n);
});

test("a lease counts from the sending of the hold that it names", () => {
  const job = bench.running();
  bench.later(10.1);
  bench.hold(); // 3
  bench.later(10.1);
  bench.hold(); // 4
  bench.grant(3);
  bench.later(18.3); // 28.4 s after 3
  assert.equal(job.lease.isLost, false);
  bench.later(0.2);
  bench.client.application.subscribeLost(SHARE, ON_LOST);
  assert(job.lease.isLost);
  assert.deepEqual(bench.lost(), []); // it was noticed before anybody wanted to hear of it
  assert.deepEqual(bench.reports(), ["LeaseLost"]);
});

test("without a grant a lease ends early, and once", () => {
  bench.client.application.subscribeLost(SHARE, ON_LOST);
  const job = bench.running();
  bench.client.linkDown("gone", bench.now);
  bench.later(28.4);
  assert.deepEqual(bench.lost(), []);
  assert(bench.client.deadline() <= bench.now + 0.11);
  bench.later(0.2);
  assert.deepEqual(bench.lost(), [5]);
  assert(leased(job).isLost);
  bench.later(100);
  assert.deepEqual(bench.lost(), []);
});

test("a lost message is still settled if nobody else had it", () => {
  const job = bench.running();
  bench.later(29);
  assert.deepEqual([bench.lost(), bench.reports()], [[], ["LeaseLost"]]);
  assert.deepEqual(said(bench.hold()), {}); // who has it is for the owner to say
  bench.done(job);
  const hold = bench.hold();
  assert.deepEqual(said(hold), { 5: [1, DONE, 0] });
  bench.grant(hold.number ?? 0);
  assert.deepEqual([job.lease.isOver, job.lease.isLost], [true, false]);
});

test("a lost message that fails is forgotten", () => {
  const job = bench.running();
  bench.later(29);
  bench.hold();
  bench.done(job, true);
  assert.deepEqual(bench.holdsNow(), []);
  bench.later(10.1);
  assert.deepEqual(said(bench.hold()), {});
});

test("a message whose lease ends in the queue is dropped without a word", () => {
  const first = bench.running(5);
  bench.hand(6);
  bench.later(29);
  assert.deepEqual([bench.lost(), bench.reports()], [[], ["LeaseLost"]]); // of the one that had begun
  bench.hold();
  bench.done(first);
  assert.deepEqual(said(bench.hold()), { 5: [1, DONE, 0] });
  assert.equal(bench.job(), null);
});

test("a message that begun, and whose lease ends, is not called", () => {
  bench.hold();
  bench.hand(5);
  bench.hold();
  bench.now += 28.6; // the callbacks come first
  assert.equal(bench.job(), null);
  bench.later(0);
  assert.deepEqual([bench.lost(), bench.reports()], [[], []]);
});

test("a lease, or a settlement, that is lost by its owner is told and over", () => {
  for (const isSettled of [false, true]) {
    bench = new MemberBench().begin();
    bench.client.application.subscribeLost(SHARE, ON_LOST);
    const job = bench.running();
    if (isSettled) bench.done(job);
    const number = isSettled ? (bench.hold().number ?? 0) : 2;
    bench.grant(number, 5);
    assert.deepEqual(bench.lost(), [5]);
    if (!isSettled) bench.done(job);
    assert.deepEqual(bench.holdsNow(), []);
  }
});

test("a later hand-out is not lost by the answer about an earlier one", () => {
  bench.running();
  bench.hand(5, { handOut: 2, hold: 2 });
  bench.grant(2, 5);
  bench.later(10.1);
  assert("5" in said(bench.hold()));
});

test("done resolves once the answer is there, and rejects where the lease is lost", async () => {
  for (const isLost of [false, true]) {
    bench = new MemberBench().begin();
    const job = bench.running();
    let state = "waits";
    const settled = leased(job).done().then(() => (state = "done"), (error: unknown) => (state = (error as Error).name));
    const hold = bench.hold();
    assert.deepEqual(said(hold), { 5: [1, DONE, 0] });
    await Promise.resolve();
    assert.equal(state, "waits");
    bench.grant(hold.number ?? 0, ...(isLost ? [5] : []));
    await settled;
    assert.equal(state, isLost ? "LeaseLost" : "done");
    bench.done(job);
    assert.deepEqual(bench.holdsNow(), []);
  }
  await assert.rejects(leased(new MemberBench().begin().running()).done(0.01), /the settlement is not answered yet/);
});

test("a copy of what is settled is dropped, and one of what is held prolongs it", () => {
  const job = bench.running();
  bench.later(10.1);
  bench.hold(); // 3
  bench.hand(5, { hold: 3 });
  bench.later(28);
  assert.equal(job.lease.isLost, false);
  bench.hold();
  bench.done(job);
  bench.hand(5); // before the answer
  const { number = 0 } = bench.hold();
  bench.grant(number);
  bench.hand(5, { hold: number });
  assert.deepEqual(bench.holdsNow(), []);
  bench.hand(5, { handOut: 2, hold: number }); // given back by its owner's word
  assert.deepEqual(said(bench.hold()), { 5: [2, BEGUN, 0] });
});

test("hand-outs that name no known hold are dropped", () => {
  bench.hold();
  bench.hand(5, { hold: 0 });
  bench.hand(6, { hold: 9 });
  bench.hand(7, { channel: 77n });
  assert.deepEqual(bench.holdsNow(), []);
  bench.later(29);
  bench.hold();
  bench.hand(8, { hold: 1 }); // its lease is over already
  assert.deepEqual(bench.holdsNow(), []);
});

test("a new session says all that is held, and what became of it", () => {
  const first = bench.running(5);
  bench.hand(6);
  bench.done(first);
  bench.client.linkDown("gone", bench.now);
  bench.now -= 395; // connecting takes 400 s on this bench
  bench.begin();
  const hold = bench.hold();
  assert.deepEqual([hold.number, hold.all], [1, true]);
  assert.deepEqual(said(hold), { 5: [1, DONE, 0], 6: [1, BEGUN, 0] });
  bench.grant(1);
  assert.equal(bench.job()?.lease.offset, 6n);
});

test("a running callback stays in hand across sessions", () => {
  const job = bench.running();
  bench.client.linkDown("gone", bench.now);
  bench.now -= 380;
  bench.begin(); // 20 s later
  bench.hold();
  bench.grant(1);
  bench.later(28);
  assert.equal(job.lease.isLost, false);
  bench.hold();
  bench.done(job);
  assert.deepEqual(said(bench.hold()), { 5: [1, DONE, 0] });
});

test("leases of number 0 ask for all", () => {
  bench.running();
  bench.grant(0);
  const hold = bench.hold();
  assert.deepEqual([hold.number, hold.all, said(hold)], [3, true, { 5: [1, BEGUN, 0] }]);
  assert.deepEqual(bench.holdsNow(), []);
});

test("holds that are not answered leave only by time", () => {
  bench.hold();
  let offset = 0;
  for (; offset < UNANSWERED_MAX + 10; offset++) {
    bench.hand(offset);
    bench.holdsNow();
    const job = bench.job();
    if (job === null) break;
    bench.done(job);
  }
  assert(offset < UNANSWERED_MAX);
  bench.later(10.1);
  const hold = bench.hold();
  assert.equal(Object.keys(said(hold)).length, offset + 1);
  bench.grant(hold.number ?? 0);
  assert(bench.job() !== null);
});

test("bye gives back what waits, and says what is done", () => {
  const first = bench.running(5);
  bench.hand(6);
  bench.client.stop();
  bench.hand(7);
  const hold = bench.hold();
  assert.deepEqual(said(hold), { 6: [1, BACK, 0], 7: [1, BACK, 0] });
  assert(hold.shares?.[0]?.closed); // else the owner would hand out the same again and again
  bench.later(10.1);
  assert.deepEqual(said(bench.hold())[5], [1, BEGUN, 0]);
  bench.done(first);
  bench.save();
  bench.later(0);
  const [last, bye] = bench.out();
  assert(last?.hold && bye?.bye);
  assert.deepEqual(said(last.hold as WireHold), { 5: [1, DONE, 0], 6: [1, BACK, 0], 7: [1, BACK, 0] });
});

test("bye keeps what an abandoned callback works at", () => {
  bench.running();
  bench.client.stop(true);
  bench.save();
  bench.later(0);
  assert.deepEqual(bench.out().map(({ hold, bye }) => [hold !== undefined, bye !== undefined]), [[false, true]]);
});

test("a notice is told and settled, or reported where nobody hears it", () => {
  bench.client.application.subscribeMissed(SHARE, ON_MISSED);
  bench.hold();
  const missed = { channel: HASH, after: 4n, before: 8n, reason: REASON.EXPIRED, handOut: 1, hold: 1 };
  bench.say({ missed });
  assert.deepEqual(said(bench.hold()), { 5: [1, BEGUN, 0] });
  const job = bench.job() as ShareJob;
  assert.deepEqual(job.handed, { channel: "tasks", after: 4n, before: 8n, reason: "EXPIRED" });
  assert.deepEqual(job.subscribers, [ON_MISSED]);
  bench.done(job);
  assert.deepEqual(said(bench.hold()), { 5: [1, DONE, 0] });
  bench.client.application.unsubscribeMissed(SHARE, ON_MISSED);
  bench.say({ missed: { channel: HASH, before: 3n, reason: REASON.RETENTION, handOut: 1, hold: 1 } });
  assert.deepEqual(said(bench.hold())[0], [1, DONE, 0]);
  assert(bench.client.takeReports()[0] instanceof MessagesMissed);
});

test("the last callback that goes gives back what waits, and what comes later", () => {
  const job = bench.running(5);
  bench.hand(6);
  bench.client.application.unsubscribe(SHARE, CALLBACK);
  assert.deepEqual(said(bench.hold()), { 6: [1, BACK, 0] });
  bench.hand(7);
  assert.deepEqual(said(bench.hold()), { 7: [1, BACK, 0] });
  bench.done(job);
  assert.deepEqual(said(bench.hold()), { 5: [1, DONE, 0] });
});

test("another lease and prefetch are said at once", () => {
  bench.hold();
  const kept = { since: NOW, leaseS: 60, prefetch: 4 };
  bench.client.application.registerShare(WORKERS, kept);
  assert.deepEqual(bench.hold().shares?.map(({ leaseS, prefetch }) => [leaseS, prefetch]), [[60, 4]]);
  bench.client.application.registerShare(WORKERS, kept);
  assert.deepEqual(bench.holdsNow(), []);
  assert.deepEqual(bench.stored.shares.get(SHARE), kept);
});

test("a share is registered with its beginning, and held once confirmed", () => {
  const one = new ClientBench();
  one.connect();
  one.say({ welcome: { inSync: true, epoch: 1, kinds: KINDS } });
  one.say({ caughtUp: { complete: 10n } });
  const share = { ...WORKERS, attributes: ["a", "b"] };
  one.client.application.registerShare(share, { since: OLDEST, leaseS: 9, prefetch: 1 });
  one.client.application.subscribe(byShare(share), CALLBACK);
  const [frame] = one.out();
  const [interest] = frame?.register?.interests ?? [];
  assert.deepEqual(
    [interest?.kind, interest?.text, interest?.share, interest?.attributes, interest?.since],
    [INTEREST_KIND.INTEREST_SHARE, "tasks", "workers", ["a", "b"], SINCE.SINCE_OLDEST],
  );
  assert.equal(one.client.caughtUp(one.now), false);
  one.say({ registered: { request: 1, kinds: KINDS } });
  const [hold] = one.out().flatMap((said) => said.hold ?? []);
  assert.deepEqual(hold?.shares.map(({ share: hash, leaseS }) => [hash, leaseS]), [[hashOf(byShare(share)), 9]]);
  assert.equal(one.client.status(one.now).pending, 0);
  assert(one.client.caughtUp(one.now));
});

test("a service without shares is reported once, and asked again later", () => {
  const one = new ClientBench();
  one.client.application.registerShare(WORKERS, KEPT);
  assert.deepEqual(one.connect().interests.map(({ kind }) => kind), [INTEREST_KIND.INTEREST_SHARE]);
  one.say({ welcome: { inSync: true, epoch: 1, kinds: 1 } });
  assert(one.client.takeReports()[0] instanceof SharesUnknown);
  one.client.linkDown("gone", one.now);
  one.connect();
  one.say({ welcome: { inSync: true, kinds: KINDS } });
  assert.equal(one.client.status(one.now).pending, 0);
});

test("a share that is refused is reported with both names", () => {
  const one = new ClientBench();
  one.client.application.registerShare(WORKERS, KEPT);
  one.connect();
  one.say({ welcome: { inSync: true, epoch: 1, kinds: KINDS, refused: [{ interest: HASH, reason: "attributes: no" }] } });
  const [report] = one.client.takeReports();
  assert(report instanceof RegistrationRefused);
  assert.deepEqual([report.channel, report.share], ["tasks", "workers"]);
  assert.equal(report.message, 'registration for share "workers" of channel "tasks" refused: attributes: no');
});

test("a set that is sent again has its shares", () => {
  bench.hold();
  bench.say({ welcome: { inSync: false } });
  const [chunk] = bench.out().flatMap(({ sync }) => sync ?? []);
  assert.deepEqual(chunk?.interests.map(({ text, share }) => [text, share]), [["tasks", "workers"]]);
  assert.deepEqual(bench.holdsNow(), []);
  bench.say({ welcome: { inSync: true, kinds: KINDS } });
  assert(bench.hold().all);
});

test("with other attributes it is another registration", () => {
  bench.hold();
  const other = { ...WORKERS, attributes: ["a"] };
  bench.client.application.registerShare(other, KEPT);
  const [first, second] = bench.out();
  assert.deepEqual(first?.unregister?.interests, [HASH]);
  assert(second?.register);
  bench.say({ unregistered: { request: 1 } });
  bench.say({ registered: { request: 2, kinds: KINDS } });
  assert.deepEqual(bench.hold().shares?.map(({ share }) => share), [hashOf(byShare(other))]);
});

test("more than a hold has room for is refused, also before there is a client", () => {
  for (const [count, prefetch, words] of [[65, 1, /^RangeError: share: the client would have 65/], [2, 600, /^RangeError: prefetch: .*1200 together/]] as const) {
    for (const asked of [new ClientBench().client.application, new Wishes()]) {
      const register = (share: string): void => asked.registerShare({ ...WORKERS, share }, { since: NOW, leaseS: 30, prefetch });
      for (let number = 1; number < count; number++) register(`s${number}`);
      assert.throws(() => register("last"), words);
    }
  }
});

test("wishes are noted until there is a client", () => {
  const wishes = new Wishes();
  wishes.registerShare(WORKERS, KEPT);
  wishes.registerShare({ ...WORKERS, share: "gone" }, KEPT);
  wishes.unregisterShare("tasks", "gone");
  const one = new ClientBench();
  wishes.apply(one.client.application);
  one.save();
  assert.deepEqual([...one.stored.shares.keys()], [SHARE]);
  one.client.application.unregisterShare("tasks", "workers");
  one.save();
  assert.deepEqual([...one.stored.shares.keys()], []);
});

test("shares survive in the document, and a damaged one is found", () => {
  const other = byShare({ channel: "alarms", share: "workers", attributes: ["a"] });
  const shares = new Map([[SHARE, { since: NOW, leaseS: 60, prefetch: 16 }], [other, { ...KEPT, since: OLDEST }]]);
  const pending = new Map([[other, "register" as const]]);
  const text = encode({ ...emptyDocument(ME), wanted: new Set(shares.keys()), shares, pending });
  assert(text.startsWith('{"format":6'));
  const found = decode(text, ME);
  assert.deepEqual([...found.shares].sort(), [...shares].sort());
  assert.deepEqual([found.pending, found.wanted], [pending, new Set([other, SHARE])]);
  const good = '{"since":"now","lease_s":60,"prefetch":16}';
  assert(text.includes(good));
  for (const [entry, words] of [
    ["1", /an entry that is not an object/],
    ['{"since":"now","prefetch":1}', /lease_s: undefined is not/],
    ['{"since":"now","lease_s":2,"prefetch":1}', /lease_s: 2 is not a whole number from 3/],
    ['{"since":"now","lease_s":30,"prefetch":0}', /prefetch: 0 is not/],
    ['{"since":"then","lease_s":30,"prefetch":1}', /since: is unknown/],
  ] as const) {
    const { check: _, ...fields } = JSON.parse(text.replace(good, entry)) as Record<string, unknown>;
    const check = crc32(new TextEncoder().encode(JSON.stringify(fields)));
    assert.throws(() => decode(JSON.stringify({ ...fields, check }), ME), (error) => error instanceof StateDamaged && words.test(error.message));
  }
});

test("only the last holds are remembered", () => {
  const holds = new SaidHolds();
  const say = (at: number): number => holds.say({ at, leaseS: new Map(), named: new Map() });
  const numbers = Array.from({ length: HOLDS_KEPT + 1 }, (_, at) => say(at));
  assert.equal(holds.of(numbers[0] as number), undefined);
  assert.equal(holds.answered(numbers[0] as number), undefined);
  const last = numbers[HOLDS_KEPT] as number;
  assert.equal(holds.answered(last)?.at, HOLDS_KEPT);
  assert.deepEqual([holds.unanswered, holds.answered(last), holds.answered(last + 1)], [0, undefined, undefined]);
  assert.match(new LeaseLost("tasks", 5n).message, /"tasks", offset 5/);
});

/** The message as a callback of this page has it. */
function leased({ lease, handed }: ShareJob): LeasedMessage {
  return new LeasedMessage(handed as HandedMessage, {
    isLost: () => lease.isLost,
    leaseS: lease.leaseS,
    retry: (afterS) => lease.wantRetry(afterS),
    reject: () => lease.wantReject(),
    settle: (told) => bench.client.application.settle(lease, told),
  });
}
