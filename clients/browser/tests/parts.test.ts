/** The small parts: the document, the frontier, addresses and back-off. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { mayComeBack } from "../src/schemas/closeCodes.js";
import { type KeptChannels, NO_CHANNELS } from "../src/core/streams/channels.js";
import { CloseCode } from "../src/schemas/protocol.js";
import { crc32 } from "../src/schemas/digest.js";
import { decode, encode } from "../src/core/document/document.js";
import { Frontier } from "../src/core/streams/frontier.js";
import { byChannel, byQuery } from "../src/core/interests/interests.js";
import type { KeptQuery } from "../src/core/delivery/membership.js";
import { NewestUpdates } from "../src/core/delivery/newest.js";
import { base64Of, bytesOfBase64, saidBy } from "../src/core/streams/payloads.js";
import { AddressBook } from "../src/core/session/addressBook.js";
import { Moves } from "../src/core/session/moves.js";
import { Backoff } from "../src/core/session/reconnect.js";
import { Standstill } from "../src/core/session/standstill.js";
import { BEGINNING } from "../src/core/streams/feed.js";
import { DEFAULTS } from "../src/core/settings.js";
import { StateDamaged, StateMismatch } from "../src/errors.js";

const ME = { domain: "d", group: "g", client: "c" };
const FULL = {
  identity: ME,
  wanted: new Set(["a", "7", "3", "__proto__", "雪/🐧"]),
  pending: new Map([["a", "register" as const], ["x", "unregister" as const]]),
  applied: new Map([
    ["a", { incarnation: 2n, version: 2n ** 63n - 1n }],
    ["__proto__", { incarnation: 0n, version: 9007199254740993n }],
    ["7", { incarnation: 0n, version: 0n }],
  ]),
  newest: new Map([
    ["__proto__", { payload: '{"ü": [1, 9007199254740993]}', deleted: false }],
    ["7", { payload: "", deleted: true }],
  ]),
  queries: new Map(),
  channels: NO_CHANNELS,
  shares: new Map(),
  epoch: 2 ** 32 - 1,
  cursor: 2n ** 64n - 1n,
  settled: true,
};

test("a document is read as it was written", () => {
  const { wanted, pending, applied, newest, queries, channels: _, shares: __, ...rest } = decode(encode(FULL), ME);
  assert.deepEqual({ ...rest, wanted, pending }, { identity: ME, epoch: FULL.epoch, cursor: FULL.cursor, settled: true, wanted: FULL.wanted, pending: FULL.pending });
  assert.deepEqual([...applied].sort(), [...FULL.applied].sort());
  assert.deepEqual([...newest].sort(), [...FULL.newest].sort());
  assert.equal(queries.size, 0);
});

const QUERY = {
  members: new Set(["b", "a"]),
  telling: { added: new Set(["a"]), removed: new Set(["c"]) },
  followed: true,
  dropped: true,
  entering: new Set(["a"]),
  answer: new Set(["a"]),
  reached: { name: "a", offset: 2n ** 64n - 1n },
  descriptions: new Map([["b", '{"Room":410}'], ["a", ""], ["__proto__", "{}"]]),
};

test("queries are read as they were written, and only with them the format is another one", () => {
  const plain = { members: new Set<string>(), telling: null, followed: false, dropped: false, entering: new Set<string>(), answer: null, reached: null, descriptions: null };
  const wanted = new Set([...FULL.wanted, byQuery("Room = 410"), byQuery("__proto__")]);
  const pending = new Map([...FULL.pending, [byQuery("Room = 410"), "register" as const], [byQuery("gone"), "unregister" as const]]);
  const document = { ...FULL, wanted, pending, queries: new Map<string, KeptQuery>([["Room = 410", QUERY], ["__proto__", plain]]) };
  const text = encode(document);
  const read = decode(text, ME);
  assert.deepEqual([read.wanted, read.pending, new Map([...read.queries].sort())], [wanted, pending, new Map([...document.queries].sort())]);
  assert.match(text, /^{"format":2,/);
  assert.match(text, /"Room = 410":{"members":\["a","b"\],"telling":{"added":\["a"\],"removed":\["c"\]},"followed":true,"dropped":true,"entering":\["a"\],"answer":{"members":\["a"\],"reached":"a","reached_at":"18446744073709551615"},"descriptions":{"__proto__":"{}","a":"","b":"{\\"Room\\":410}"}}/);
  assert.match(text, /"__proto__":{"members":\[\]}/);
  assert.match(encode(FULL), /^{"format":1,/);
  assert.doesNotMatch(encode(FULL), /quer/);
  for (const [from, to] of [['"reached_at":"', '"reached_at":"x'], ['"members":[]', '"members":0'], ['"gone":"unregister"', '"gone":"register"'], ['"dropped":true', '"dropped":1'], ['"settled":true', '"settled":1'], ['"a":""', '"a":0'], ['"descriptions":{', '"descriptions":7,"more":{']] as const) {
    const damaged = JSON.parse(text.replace(from, to));
    delete damaged.check;
    const fields = JSON.stringify(damaged);
    const checked = `${fields.slice(0, -1)},"check":${crc32(new TextEncoder().encode(fields))}}`;
    assert.throws(() => decode(checked, ME), StateDamaged, to);
  }
});

test("channels are read as they were written, and only with them the format is 3", () => {
  const of = (name: string, ...attributes: string[]): string => byChannel({ name, attributes });
  const rest = { since: null, position: null, told: null, lost: false };
  const channels: KeptChannels = {
    channels: new Map([
      [of("alarms", "camera", "solar"), { ...rest, told: 2n ** 63n - 1n }],
      [of("at"), { ...rest, since: { kind: "position" as const, at: 9007199254740993n, epoch: 7 } }],
      [of("new"), { ...rest, since: { kind: "oldest" as const, at: 0n, epoch: 0 }, lost: true }],
      [of("first"), { ...rest, position: BEGINNING }],
      [of("behind"), { ...rest, position: 7n, told: 6n }],
    ]),
    epoch: 2 ** 32 - 1,
    cursor: 2n ** 63n - 1n,
  };
  const wanted = new Set([...FULL.wanted, ...channels.channels.keys()]);
  const pending = new Map([...FULL.pending, ...["at", "new", "first", "behind"].map((name) => [of(name), "register" as const] as const), [of("gone"), "unregister" as const] as const]);
  const text = encode({ ...FULL, wanted, pending, channels });
  const read = decode(text, ME);
  assert.deepEqual([read.wanted, read.pending], [wanted, pending]);
  assert.deepEqual({ ...read.channels, channels: new Map([...read.channels.channels].sort()) }, { ...channels, channels: new Map([...channels.channels].sort()) });
  assert.match(text, /^{"format":3,/);
  assert.match(text, /"alarms\\u0000camera\\u0000solar":{"told":"9223372036854775807"}/);
  assert.doesNotMatch(encode(FULL), /channel/);
  for (const [from, to, words] of [
    ['"told":"6"', '"told":6', "channels: has a value that is not a number"],
    ['"position":"7"', '"position":"x"', "channels: has a value that is not a number"],
    ['"since":"oldest"', '"since":"soon"', "channels: since"],
    ['"channels_epoch":4294967295', '"channels_epoch":null', "channels_cursor: given without"],
    ['"behind":"register",', "", 'channels: "behind" is behind the cursor'],
    ["camera\\u0000solar", "solar\\u0000camera", "channels: attributes: are not sorted"],
  ] as const) {
    const damaged = JSON.parse(text.replace(from, to));
    delete damaged.check;
    const fields = JSON.stringify(damaged);
    const checked = `${fields.slice(0, -1)},"check":${crc32(new TextEncoder().encode(fields))}}`;
    assert.throws(() => decode(checked, ME), (error) => error instanceof StateDamaged && error.message.startsWith(words), words);
  }
});

test("bytes are read as they were written, and only with them the format is 4", () => {
  const newest = new Map([["a", { payload: "/wA=", deleted: false, raw: true }], ["b", { payload: "7", deleted: true }]]);
  const text = encode({ ...FULL, newest });
  assert.match(text, /^{"format":4,.*"newest":{"a":{"payload_base64":"\/wA="},"b":{"payload":"7","deleted":true}}/);
  assert.deepEqual(decode(text, ME).newest, newest);
  const fields = JSON.parse(text.replace("/wA=", "/?A="));
  delete fields.check;
  assert.throws(() => decode(JSON.stringify({ ...fields, check: crc32(new TextEncoder().encode(JSON.stringify(fields))) }), ME), StateDamaged);
  const floors = new Map([["a", { incarnation: 0n, version: 1n }]]);
  const told = new NewestUpdates(1000, new Map(), floors);
  told.put("a", { incarnation: 0n, version: 1n }, new Uint8Array([0xff, 0]), false, true);
  const again = new NewestUpdates(1000, told.kept(floors), floors).get("a");
  assert.deepEqual([again?.payload, again?.data], [new Uint8Array([0xff, 0]), new Uint8Array([0xff, 0])]);
});

test("bytes are told as what they say as JSON, else as they are", () => {
  for (const [text, said] of [['{"a":1}', { a: 1 }], [" 1 ", 1], ["\u00ff", "bytes"], ["NaN", "bytes"]] as const) {
    const data = Uint8Array.from(text, (one) => one.charCodeAt(0));
    assert.deepEqual(saidBy(data), said === "bytes" ? data : said);
    assert.deepEqual(bytesOfBase64(base64Of(data)), data);
  }
  assert.throws(() => bytesOfBase64("?"));
});

test("a damaged document is found: any bit of it", () => {
  const text = encode(FULL);
  for (let at = 0; at < text.length; at += 1) {
    const damaged = text.slice(0, at) + String.fromCharCode(text.charCodeAt(at) ^ 1) + text.slice(at + 1);
    assert.throws(() => decode(damaged, ME), (error) => error instanceof StateDamaged || error instanceof StateMismatch);
  }
  for (const damaged of ["", "null", "[]", "{}", text.slice(0, -1), text.replace(/"check":\d+/, '"check":null')]) {
    assert.throws(() => decode(damaged, ME), StateDamaged, damaged);
  }
});

test("another client's document is refused, and a newer library's", () => {
  assert.throws(() => decode(encode(FULL), { ...ME, client: "other" }), /belongs to d\/g\/c, not to d\/g\/other/);
  for (const format of [5, 7]) assert.throws(() => decode(`{"format": ${format}}`, ME), StateMismatch);
});

test("the frontier: a number counts once all before it is released", () => {
  const frontier = new Frontier(1n);
  const [a, b] = [frontier.hold(), frontier.hold()];
  frontier.complete(5n);
  const c = frontier.hold();
  frontier.complete(9n);
  frontier.release(b);
  assert.equal(frontier.cursor, 1n);
  frontier.release(a);
  assert.equal(frontier.cursor, 5n);
  frontier.complete(7n);
  frontier.release(c);
  assert.equal(frontier.cursor, 9n, "never down");
  frontier.void();
  assert.equal(frontier.cursor, null);
  assert.throws(() => frontier.release(c));
});

test("back-off is truncated and exponential, with full jitter", () => {
  const most = new Backoff(DEFAULTS, () => 1);
  const delays = Array.from({ length: 12 }, () => most.delayS(null));
  assert.deepEqual(delays, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
  most.beginAnew();
  assert.equal(most.delayS(CloseCode.TOO_SLOW), 1);
  assert.equal(new Backoff(DEFAULTS, () => 0).delayS(null), 0);
});

test("displaced, it stays away a minute, then two, up to an hour", () => {
  const backoff = new Backoff(DEFAULTS, () => 0);
  const delays = Array.from({ length: 8 }, () => backoff.delayS(CloseCode.DISPLACED));
  assert.deepEqual(delays, [60, 120, 240, 480, 960, 1920, 3600, 3600]);
  backoff.undisturbed();
  assert.equal(backoff.delayS(CloseCode.DISPLACED), 60);
  assert.equal(new Backoff(DEFAULTS, () => 1).delayS(CloseCode.DISPLACED), 66);
});

function book(addresses: readonly string[], random = 0.5, home: string | null = null, directory = false): AddressBook {
  return new AddressBook(addresses.map((address) => [address, 1] as const), 60, () => random, home, directory);
}

test("an address that failed rests while there is another", () => {
  const addresses = book(["one", "two"]);
  assert.equal(addresses.next(0), "one");
  assert.equal(addresses.next(0), "one");
  addresses.failed("one", 0);
  assert.equal(addresses.next(1), "two");
  addresses.failed("two", 5);
  assert.equal(addresses.next(6), "one", "the one that rested longest");
  assert.equal(addresses.next(70), "one");
  const drawn = [0.4, 0.6];
  const other = new AddressBook([["one", 1], ["two", 1]], 60, () => drawn.shift() as number);
  assert.equal(other.next(0), "two", "they are drawn");
});

test("addresses are drawn by weight", () => {
  let state = 1;
  const random = (): number => (state = (state * 16807) % 2147483647) / 2147483647;
  let first = 0;
  for (let i = 0; i < 4000; i++) first += new AddressBook([["one", 3], ["two", 1]], 60, random).next(0) === "one" ? 1 : 0;
  assert.ok(Math.abs(first / 4000 - 0.75) < 0.02, String(first));
});

test("home comes first, unless it said not here, or ended three sessions", () => {
  const addresses = book(["one"], 0.5, "home");
  assert.equal(addresses.next(0), "home");
  addresses.failed("home", 0, 1800);
  assert.equal(addresses.next(1799), "one");
  assert.equal(addresses.homeFreeAt, 1800);
  assert.equal(addresses.next(1800), "home");
  for (const at of [2000, 2300, 2600]) addresses.ended("home", at);
  assert.equal(addresses.next(2601), "one");
  assert.equal(addresses.next(3200), "home");
});

test("the directory is asked once all rest, and at most once a second", () => {
  const addresses = book(["one"], 0.5, null, true);
  assert.equal(addresses.next(0), "one");
  addresses.failed("one", 0);
  assert.equal(addresses.next(0), null);
  assert.ok(addresses.asks(0));
  addresses.asked(0);
  assert.ok(!addresses.asks(0.9));
  assert.equal(addresses.next(0.5), "one");
  addresses.named("other", 0.5, 0);
  assert.equal(addresses.next(0.6), "other");
  addresses.failed("other", 0.7);
  assert.equal(addresses.next(1), null);
  addresses.unnamed(1, 20);
  assert.equal(addresses.askAt, 21);
  assert.equal(book([], 0.5, null, true).next(0), null);
  assert.equal(book(["one"]).askAt, Infinity);
});

test("tries beside the session come ever more seldom", () => {
  const moves = new Moves(() => 1);
  moves.lookHome(0, true);
  const home = [moves.homeAt];
  let now = moves.homeAt;
  for (let i = 0; i < 5; i++) {
    moves.homeFailed(now);
    home.push(moves.homeAt - now);
    now = moves.homeAt;
  }
  assert.deepEqual(home, [60, 120, 240, 480, 600, 600]);
  moves.lookHome(now, false);
  assert.equal(moves.homeAt, Infinity);
  moves.lookStale(100, 50);
  const stale = [moves.staleAt - 200];
  now = moves.staleAt;
  for (let i = 0; i < 5; i++) {
    moves.staleFailed(now, 0);
    stale.push(moves.staleAt - now);
    now = moves.staleAt;
  }
  assert.deepEqual(stale, [60, 120, 240, 480, 900, 900]);
  moves.lookStale(null, 50);
  assert.equal(moves.staleAt, Infinity);
});

test("a standstill is what is much longer than from one look to the next", () => {
  const standstill = new Standstill(100);
  assert.equal(standstill.deadline(), 105);
  assert.deepEqual([105, 115, 315, 316].map((now) => standstill.look(now)), [0, 0, 200, 0]);
  assert.deepEqual([376, 576].map((now) => standstill.look(now, true)), [0, 200], "a hidden page has a turn each minute");
  assert.equal(standstill.deadline(), 581);
});

test("close codes below 64 let a client come back", () => {
  assert.deepEqual([1, 8, 63, 64, 69, 200].map(mayComeBack), [true, true, true, false, false, false]);
});
