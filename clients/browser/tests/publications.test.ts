/** What a client publishes: what is checked, what waits, in which order it is sent and sent again. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { messageOf, type Outgoing, patchOf, versionOf } from "../src/core/publishing/outgoing.js";
import type { Patch } from "../src/core/publishing/patches.js";
import { type PublishAnswer, ONCE_MAX, Publications, WAITING_BYTES_MAX, WAITING_MAX } from "../src/core/publishing/publications.js";
import { CLIENT_FRAME_BYTES_MAX, MESSAGE_ID_BYTES_MAX, PUBLISHES_UNANSWERED_MAX } from "../src/schemas/protocol.js";
import { OutboxFull } from "../src/errors.js";

const nobody = (): void => undefined;

function message(id: string, payload: unknown = 1): Outgoing {
  return messageOf("tasks", payload, id, {});
}

function version(name: string, number: number | bigint, fields: object = {}): Outgoing {
  return versionOf(name, null, { version: number, ...fields });
}

/** What leaves now: of each its request, and its id or version. */
function leaves(publications: Publications, now = 0): string[] {
  const found: string[] = [];
  for (let one = publications.next(now); one !== null; one = publications.next(now)) {
    found.push(`${one.request}:${one.channel === undefined ? `${one.object}@${one.version}` : one.id}`);
  }
  return found;
}

test("what is wrong is named by its field", () => {
  const wrong: [() => unknown, RegExp][] = [
    [() => version("", 1), /^RangeError: object: /],
    [() => version("a", -1), /^RangeError: version: -1 is not from 0 to /],
    [() => version("a", 1.5), /^RangeError: version: 1.5 is not a whole number/],
    [() => version("a", 1, { incarnation: 1 }), /^RangeError: incarnation: /],
    [() => version("a", 1, { deleted: "yes" }), /^RangeError: deleted: yes is neither/],
    [() => version("a", 1, { priority: "low" }), /^RangeError: priority: "low" is not "high"/],
    [() => version("a", 1, { expiresAt: -5 }), /^RangeError: expiresAt: -5/],
    [() => versionOf("a", "x".repeat(CLIENT_FRAME_BYTES_MAX), {}), /^RangeError: payload: with all fields has \d+ bytes/],
    [() => versionOf("a", { n: 1n }, {}), /^RangeError: payload: cannot be written as JSON/],
    [() => messageOf("tasks", undefined, "1", {}), /^RangeError: payload: undefined cannot be written/],
    [() => message(""), /^RangeError: id: "" has not 1 to 64 bytes/],
    [() => message("ü".repeat(MESSAGE_ID_BYTES_MAX / 2 + 1)), /^RangeError: id: /],
    [() => messageOf("a\0b", 1, "1", {}), /^RangeError: channel: /],
    [() => messageOf("a", 1, "1", { to: ["a b"] }), /^RangeError: to: "a b" is not a name/],
    [() => messageOf("a", 1, "1", { to: "camera" }), /^RangeError: to: is one text/],
    [() => messageOf("a", 1, "1", { priority: "low" as "high" }), /^RangeError: priority: "low" is not "high"/],
    [() => message("1", new Uint8Array(64 * 1024 + 1)), /^RangeError: payload: has 65537 bytes \(at most 65536/],
    [() => message("1", new Uint8Array(CLIENT_FRAME_BYTES_MAX)), /^RangeError: payload: with all fields has \d+ bytes/],
  ];
  for (const [make, words] of wrong) assert.throws(make, (error: Error) => words.test(String(error)), words.source);
});

test("a version without a number is above all that is known of its object", () => {
  const publications = new Publications(() => 1000);
  const next = (floor: bigint): bigint | null => {
    const outgoing = publications.complete(versionOf("a", null, {}), floor);
    publications.say(outgoing, nobody);
    return outgoing.version;
  };
  assert.equal(next(-1n), 1000n, "the time");
  assert.equal(next(-1n), 1001n, "above the last one");
  assert.equal(next(5000n), 5001n, "above what was told");
  assert.equal(publications.complete(version("a", 7), 5000n).version, 7n, "it has one");
  assert.equal(publications.complete(message("1"), 0n).version, null);
});

test("it leaves in order, 64 at most without an answer, and each answer finds its publish", () => {
  const publications = new Publications();
  const answers: [number, PublishAnswer][] = [];
  for (let number = 1; number <= PUBLISHES_UNANSWERED_MAX + 2; number++) {
    publications.say(message(String(number)), (answer) => answers.push([number, answer]));
  }
  assert.equal(leaves(publications).length, PUBLISHES_UNANSWERED_MAX);
  publications.published(2, 70n);
  publications.notPublished(1, "payload: no", 0, 0);
  publications.published(2, 71n);
  assert.deepEqual(leaves(publications), ["65:65", "66:66"]);
  assert.deepEqual(answers, [
    [2, { offset: 70n }],
    [1, { reason: "payload: no" }],
  ]);
  assert.equal(publications.size, PUBLISHES_UNANSWERED_MAX);
});

test("a new session says all again that has no answer, in the same order and the same words", () => {
  const publications = new Publications();
  for (const id of ["a", "b", "c"]) publications.say(message(id), nobody);
  assert.deepEqual(leaves(publications), ["1:a", "2:b", "3:c"]);
  publications.published(2, 5n);
  publications.beginSession();
  assert.deepEqual(leaves(publications), ["1:a", "2:c"]);
});

test("what is refused for a while comes first, when all is answered and the time is over", () => {
  const publications = new Publications();
  for (const id of ["a", "b", "c"]) publications.say(message(id), nobody);
  leaves(publications);
  publications.published(1, 5n);
  publications.notPublished(2, "Kafka is away", 2000, 10);
  assert.equal(publications.deadline(), Infinity, "an answer is awaited");
  assert.deepEqual(leaves(publications, 20), []);
  publications.notPublished(3, "behind one that is refused", 2000, 11);
  assert.equal(publications.deadline(), 12);
  assert.deepEqual(leaves(publications, 11.9), []);
  publications.say(message("d"), nobody);
  assert.deepEqual(leaves(publications, 12), ["2:b", "3:c", "4:d"]);
});

test("a newer publish of an object takes out one that waits, and has its answer, too", () => {
  const publications = new Publications();
  const answers: string[] = [];
  const told = (name: string): ((answer: PublishAnswer) => void) => (answer) => answers.push(`${name}@${"offset" in answer && answer.offset}`);
  publications.say(version("sent", 1), told("sent 1"));
  leaves(publications);
  publications.say(version("sent", 2), told("sent 2"));
  publications.say(version("a", 1), told("a 1"));
  publications.say(message("m"), told("m"));
  publications.say(version("a", 2), told("a 2"));
  publications.say(version("b", 5), told("b 5"));
  publications.say(version("b", 4), told("b 4"));
  assert.deepEqual(leaves(publications), ["2:sent@2", "3:m", "4:a@2", "5:b@5", "6:b@4"]);
  publications.published(1, 1n);
  publications.published(4, 9n);
  assert.deepEqual(answers, ["sent 1@1", "a 1@9", "a 2@9"]);
});

test("what is refused for a while stays, whatever is newer: the service waits for its number", () => {
  const publications = new Publications();
  publications.say(version("a", 1), nobody);
  leaves(publications);
  publications.notPublished(1, "Kafka is away", 1000, 0);
  publications.say(version("a", 2), nobody);
  assert.deepEqual(leaves(publications, 1), ["1:a@1", "2:a@2"]);
});

test("at most once: behind what is answered, not in another session, and bounded", () => {
  const publications = new Publications();
  publications.sayOnce(message("once"));
  publications.say(message("a"), nobody);
  assert.deepEqual(leaves(publications), ["1:a", "0:once"]);
  for (let number = 0; number < ONCE_MAX + 1; number++) publications.sayOnce(message(`once ${number}`));
  assert.equal(leaves(publications).length, ONCE_MAX);
  publications.sayOnce(message("gone"));
  publications.beginSession();
  assert.deepEqual(leaves(publications), ["1:a"]);
});

test("what waits is bounded, and nothing of it is dropped", () => {
  const publications = new Publications();
  for (let number = 0; number < WAITING_MAX; number++) publications.say(message(String(number)), nobody);
  assert.throws(() => publications.say(message("x"), nobody), OutboxFull);
  assert.equal(publications.size, WAITING_MAX);
  const large = new Publications();
  const payload = new Uint8Array(30_000);
  const fit = Math.floor(WAITING_BYTES_MAX / (payload.length + 10));
  for (let number = 0; number < fit; number++) large.say(message(String(number), payload), nobody);
  assert.throws(() => large.say(message("x", payload), nobody), OutboxFull);
  leaves(large);
  large.published(1, 1n);
  large.say(message("x", payload), nobody);
});

test("what is withdrawn is said no more, and names whom nobody told", () => {
  const publications = new Publications();
  publications.say(message("a"), nobody);
  leaves(publications);
  assert.deepEqual(publications.withdraw(), [nobody]);
  assert.equal(publications.size, 0);
  publications.published(1, 5n);
  assert.deepEqual(leaves(publications), []);
});

const NOW_MS = 1_800_000_000_000;
const YEARS_MS = 10 * 365 * 86_400_000;

test("what a wrong clock numbers is numbered anew, as a right one would have, at its place", () => {
  let nowMs = NOW_MS + YEARS_MS;
  const publications = new Publications(() => nowMs);
  const answers: string[] = [];
  const told = (answer: PublishAnswer): void => {
    answers.push(Object.entries(answer).join());
  };
  const complete = (name: string, fields: object = {}): Outgoing =>
    publications.complete(versionOf(name, null, fields), -1n);
  publications.say(complete("a", { priority: "high", expiresAt: nowMs + 50 }), told);
  publications.say(complete("a"), told);
  publications.say(message("m"), told);
  const first = [publications.next(0), publications.next(0), publications.next(0)];
  assert.deepEqual(first.map((one) => one?.clockMs), [BigInt(nowMs), BigInt(nowMs + 1), 0n]);
  nowMs += 100;
  for (const request of [1, 2]) publications.notPublished(request, "version: ...", 0, 0, BigInt(NOW_MS + 100));
  assert.deepEqual(answers, [`renumbered,${NOW_MS},expiresAt,${NOW_MS + 50}`, `renumbered,${NOW_MS + 1},expiresAt,`]);
  const again = [publications.next(0), publications.next(0)];
  assert.deepEqual(again.map((one) => [one?.request, one?.version, one?.clockMs, one?.expiresAt]), [
    [4, BigInt(NOW_MS), BigInt(NOW_MS), BigInt(NOW_MS + 50)],
    [5, BigInt(NOW_MS + 1), BigInt(NOW_MS + 1), 0n],
  ]);
  publications.beginSession();
  assert.deepEqual(leaves(publications), [`1:a@${NOW_MS}`, `2:a@${NOW_MS + 1}`, "3:m"]);
  nowMs = NOW_MS + 200; // it was set right: nothing goes on in ten years
  assert.equal(complete("a").version, BigInt(NOW_MS + 200));
});

test("what a wrong clock numbered counts from now where it was set right meanwhile", () => {
  let nowMs = NOW_MS + YEARS_MS;
  const publications = new Publications(() => nowMs);
  publications.say(publications.complete(versionOf("a", null, {}), -1n), nobody);
  nowMs = NOW_MS;
  const chained = publications.complete(versionOf("a", null, {}), -1n);
  assert.equal(chained.clockMs, chained.version, "above one of the clock: the clock gave it, too");
  publications.say(chained, nobody);
  leaves(publications);
  publications.notPublished(1, "version: ...", 0, 0, BigInt(NOW_MS));
  assert.deepEqual(leaves(publications), [`2:a@${NOW_MS}`]);
});

test("what is numbered anew stays above what the service has taken", () => {
  let nowMs = NOW_MS + 1_800_000;
  const publications = new Publications(() => nowMs);
  const publish = (): void => publications.say(publications.complete(versionOf("a", null, {}), -1n), nobody);
  publish();
  leaves(publications);
  publications.published(1, 1n); // half an hour ahead is let in
  nowMs = NOW_MS + YEARS_MS;
  publish();
  leaves(publications);
  publications.notPublished(2, "version: ...", 0, 0, BigInt(NOW_MS));
  assert.deepEqual(leaves(publications), [`3:a@${NOW_MS + 1_800_001}`]);
});

test("above what somebody chose it is not the clock's, and above the highest there is nothing", () => {
  const publications = new Publications(() => NOW_MS);
  assert.equal(publications.complete(versionOf("a", null, {}), BigInt(NOW_MS) + 7n).clockMs, null);
  publications.say(version("a", 2n ** 63n - 1n), nobody);
  assert.throws(() => publications.complete(versionOf("a", null, {}), -1n), /^RangeError: version: /);
  assert.equal(publications.complete(versionOf("b", null, { version: 7, expiresAt: 9 }), -1n).clockMs, BigInt(NOW_MS));
});

test("a question is asked once in each session, until it is answered or forgotten", () => {
  const publications = new Publications();
  const told: number[] = [];
  const asked = (): (number | undefined)[] => {
    const found = [];
    for (let one = publications.nextQuestion(); one !== null; one = publications.nextQuestion()) found.push(one.ask);
    return found;
  };
  for (const offset of [1n, 2n, 3n]) publications.ask("a", offset, ({ ask }) => told.push(ask));
  assert.deepEqual(asked(), [1, 2, 3]);
  publications.forget(3);
  const outcome = { kind: 1, version: 1n, incarnation: 0n, publishedMs: 0n, reason: "" };
  for (const ask of [2, 2, 3, 9]) publications.became({ ...outcome, ask });
  publications.beginSession();
  assert.deepEqual([asked(), told], [[1], [2]]);
  for (let offset = 0n; offset < BigInt(PUBLISHES_UNANSWERED_MAX); offset++) publications.ask("a", offset, () => undefined);
  assert.equal(asked().length, PUBLISHES_UNANSWERED_MAX - 1);
});

test("a message of high priority says so", () => {
  const publications = new Publications();
  publications.say(messageOf("a", 1, "1", { priority: "high" }), nobody);
  publications.say(messageOf("a", 1, "2", {}), nobody);
  assert.deepEqual([publications.next(0), publications.next(0)].map((one) => one?.priority), [1, 0]);
});

test("a version of high priority says so, and is not taken out by one without", () => {
  const publications = new Publications();
  publications.say(version("a", 1, { priority: "high" }), nobody);
  publications.say(version("a", 2), nobody);
  const sent = [publications.next(0), publications.next(0)];
  assert.deepEqual(sent.map((one) => [one?.version, one?.priority]), [[1n, 1], [2n, 0]]);
  publications.beginSession();
  publications.say(version("a", 3, { priority: "high" }), nobody);
  assert.deepEqual(leaves(publications), ["1:a@3"]);
});

function patch(description: Patch, name = "a"): Outgoing {
  return patchOf(name, description);
}

function patched(number: number, description: Patch): Outgoing {
  return version("a", number, { description });
}

/** What leaves now: of each its version, if it is one, and its patch. */
function patches(publications: Publications): [bigint | undefined, string][] {
  const found: [bigint | undefined, string][] = [];
  for (let one = publications.next(0); one !== null; one = publications.next(0)) {
    found.push([one.version, new TextDecoder().decode(one.describe)]);
  }
  return found;
}

test("a newer publish takes over the patches that wait", () => {
  const publications = new Publications();
  for (const one of [patch({ a: 1, b: 1 }), patched(1, { b: 2 }), patch({ c: 3 }), patch({ c: null }), version("a", 2)]) {
    publications.say(one, nobody);
  }
  assert.deepEqual(patches(publications), [[2n, '{"a":1,"b":2,"c":null}']]);
});

test("a patch alone replaces no version, and comes before nothing that is sent", () => {
  const publications = new Publications();
  publications.say(patched(1, { a: 1 }), nobody);
  publications.say(patch({ a: 2 }), nobody);
  assert.deepEqual(patches(publications), [[1n, '{"a":1}'], [undefined, '{"a":2}']]);
  publications.say(patched(2, { a: 3 }), nobody);
  assert.deepEqual(patches(publications), [[2n, '{"a":3}']]);
});

test("a version that still counts keeps its patch, and those before it", () => {
  const publications = new Publications();
  for (const one of [patch({ a: 1 }), patched(5, { a: 2 }), patched(4, { a: 3 })]) publications.say(one, nobody);
  assert.deepEqual(patches(publications), [[5n, '{"a":2}'], [4n, '{"a":3}']]);
});

test("a wrong patch is named", () => {
  const many = Object.fromEntries(Array.from({ length: 65 }, (_, number) => [`a${number}`, 1]));
  for (const wrong of [null, [1], { "1": 1 }, { a: [1] }, { a: "x".repeat(257) }, { a: NaN }, { a: "\ud800" }, many]) {
    assert.throws(() => patch(wrong as unknown as Patch), /^RangeError: description: /);
  }
});
