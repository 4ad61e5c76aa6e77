/** `schemas/vectors.json`, by which every client is tested, says what this one does. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { channelHash, crc32, digest, objectCrc, queryHash, setsDigest, sha256 } from "../src/schemas/digest.js";
import { encodeLength, FrameBuffer, FrameError } from "../src/schemas/frames.js";
import type { Table } from "../src/schemas/proto.js";
import { CLIENT_FRAME, encodeFrame, GATEWAY_FRAME, parseFrame } from "../src/schemas/wire.js";
import { type Fields, fromJson } from "./json.js";

interface Vector {
  what: string;
  hex: string;
  message: Fields;
}

interface Vectors {
  frames: Record<"client" | "gateway", Vector[]>;
  lengths: { length: number; hex: string }[];
  digests: { objects: string[]; digest: string }[];
  channels: { name: string; attributes: string[]; hash: string }[];
  query_hashes: { query: string; hash: string }[];
  sets_digests: { sets: { query: string; members: string[] }[]; digest: string }[];
  crcs: { object: string; crc: number }[];
  one_crc: [string, string];
}

const FILE = new URL("../../../../schemas/vectors.json", import.meta.url);
const VECTORS = JSON.parse(readFileSync(FILE, "utf-8")) as Vectors;

/** What is not there is there with its default, as in what is read. */
function whole(table: Table, message: Fields): Fields {
  return parseFrame(table, body(encodeFrame(table, message as never))) as Fields;
}

function body(frame: Uint8Array): Uint8Array {
  const bodies = [...new FrameBuffer(256 * 1024).feed(frame)];
  assert.equal(bodies.length, 1);
  return bodies[0] as Uint8Array;
}

for (const [side, table] of [["client", CLIENT_FRAME] as const, ["gateway", GATEWAY_FRAME] as const]) {
  for (const { what, hex, message } of VECTORS.frames[side]) {
    test(`a ${side}'s frame: ${what}`, () => {
      const ours = fromJson(table, message);
      assert.equal(Buffer.from(encodeFrame(table as Table, ours as never)).toString("hex"), hex);
      const read = parseFrame(table as Table, body(Buffer.from(hex, "hex"))) as Fields;
      assert.deepEqual(read, whole(table, ours));
      // And nothing is read that the vector does not say.
      const [kind] = Object.keys(ours) as [string];
      assert(says(text(read[kind]), text(ours[kind])));
      assert.deepEqual(Object.keys(read).filter((name) => read[name] !== undefined), [kind]);
    });
  }
  test(`every kind of a ${side}'s frame has a vector`, () => {
    const kinds = new Set(VECTORS.frames[side].flatMap(({ message }) => Object.keys(fromJson(table, message))));
    assert.deepEqual([...kinds].sort(), Object.keys(table).sort());
  });
}

/** Whether all that is given was read; what is not given is there with its default. */
function says(read: unknown, given: unknown): boolean {
  if (typeof given !== "object" || given === null) return read === given;
  if (Array.isArray(given) && (read as unknown[]).length !== given.length) return false;
  return Object.entries(given).every(([name, one]) => says((read as Fields)[name], one));
}

function text(value: unknown): unknown {
  if (value instanceof Uint8Array) return Buffer.from(value).toString("hex");
  if (typeof value === "bigint") return String(value);
  if (Array.isArray(value)) return value.map(text);
  if (typeof value === "object" && value !== null) return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, text(one)]));
  return value;
}

test("lengths", () => {
  for (const { length, hex } of VECTORS.lengths) assert.equal(Buffer.from(encodeLength(length)).toString("hex"), hex);
});

test("digests", () => {
  for (const { objects, digest: expected } of VECTORS.digests) assert.equal(String(digest(objects)), expected);
});

test("hashes of queries, and the digests of their sets", () => {
  for (const { query, hash } of VECTORS.query_hashes) assert.equal(String(queryHash(query)), hash);
  for (const { sets, digest: expected } of VECTORS.sets_digests) {
    assert.equal(String(setsDigest(sets.map(({ query, members }) => [queryHash(query), digest(members)]))), expected);
  }
});

test("hashes of channels", () => {
  for (const { name, attributes, hash } of VECTORS.channels) assert.equal(String(channelHash(name, attributes)), hash);
});

test("CRCs", () => {
  for (const { object, crc } of VECTORS.crcs) assert.equal(objectCrc(object), crc);
  const [one, other] = VECTORS.one_crc;
  assert.notEqual(one, other);
  assert.equal(objectCrc(one), objectCrc(other));
  assert.equal(crc32(new Uint8Array()), 0);
});

test("SHA-256 of messages that end at, before and behind a block", async () => {
  for (const length of [0, 1, 55, 56, 63, 64, 65, 119, 120, 255]) {
    const message = Uint8Array.from({ length }, (_, i) => i);
    const expected = new Uint8Array(await crypto.subtle.digest("SHA-256", message));
    assert.deepEqual(sha256(message), expected, `${length} bytes`);
  }
});

test("unknown fields, unknown kinds and empty frames are skipped", () => {
  const nothing = Object.fromEntries(Object.keys(GATEWAY_FRAME).map((kind) => [kind, undefined]));
  assert.deepEqual({ ...parseFrame(GATEWAY_FRAME, new Uint8Array()) }, nothing);
  // 19 (bytes), 20 (varint), 21 (fixed64), 22 (fixed32), then a CaughtUp.
  const unknown = "9a0102ffff" + "a00105" + "a9010102030405060708" + "b50101020304" + "1a00";
  const read = parseFrame(GATEWAY_FRAME, Buffer.from(unknown, "hex"));
  assert.deepEqual({ ...read }, { ...nothing, caughtUp: { complete: undefined, setsDigest: undefined, streams: [], ageS: 0 } });
});

test("repeated numbers are read one by one, too", () => {
  const [first, second] = ["0100000000000000", "0200000000000000"];
  for (const fields of [`31${first}31${second}`, `3210${first}${second}`, `3208${first}31${second}`]) {
    const frame = Buffer.from(`22${Buffer.of(fields.length / 2).toString("hex")}${fields}`, "hex");
    assert.deepEqual(parseFrame(GATEWAY_FRAME, frame).registered?.begun, [1n, 2n]);
  }
  assert.throws(() => parseFrame(GATEWAY_FRAME, Buffer.from("22053203010203", "hex")), FrameError);
});

test("what is no frame", () => {
  const feed = (hex: string): Uint8Array[] => [...new FrameBuffer(100).feed(Buffer.from(hex, "hex"))];
  assert.throws(() => feed("e807"), /1000 bytes, at most 100/);
  assert.throws(() => feed("8080808080"), /no varint/);
  const parse = (hex: string): unknown => parseFrame(GATEWAY_FRAME, Buffer.from(hex, "hex"));
  for (const hex of ["0a", "0a05", "07", "0b", "00", "4a041202ffff", "ffffffffffffffffffffff", "1a000a00"]) {
    assert.throws(() => parse(hex), FrameError, hex);
  }
});

test("frames in pieces of any size", () => {
  const stream = Buffer.from(VECTORS.frames.gateway.map(({ hex }) => hex).join(""), "hex");
  const whole = [...new FrameBuffer(1000).feed(stream)].map((one) => Buffer.from(one).toString("hex"));
  assert.equal(whole.length, VECTORS.frames.gateway.length);
  for (const size of [1, 2, 7, 50]) {
    const buffer = new FrameBuffer(1000);
    const found: string[] = [];
    for (let at = 0; at < stream.length; at += size) {
      for (const one of buffer.feed(stream.subarray(at, at + size))) found.push(Buffer.from(one).toString("hex"));
    }
    assert.deepEqual(found, whole);
  }
});
