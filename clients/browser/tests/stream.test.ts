/** One stream of a session: what is acknowledged of it. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { firstOf, Stream, streamsOf } from "../src/core/streams/stream.js";

test("a cursor is acknowledged once, a page with the next Ack", () => {
  const stream = new Stream(10n);
  assert.equal(stream.acknowledge(false), null);
  stream.durable(10n);
  assert.equal(stream.acknowledgement, null, "the Hello said it");
  stream.durable(12n);
  stream.pageEnded(3);
  assert.deepEqual(stream.acknowledge(false), { complete: 12n, page: 3 });
  assert.equal(stream.acknowledge(false), null);
});

test("what is held lets pages pass", () => {
  const stream = new Stream(null);
  stream.durable(12n);
  assert.equal(stream.acknowledge(true), null);
  stream.pageEnded(4);
  assert.deepEqual(stream.acknowledge(true), { complete: undefined, page: 4 });
  assert.deepEqual(stream.acknowledge(false), { complete: 12n, page: 0 });
});

test("in another epoch the cursor is acknowledged anew", () => {
  const stream = new Stream(12n);
  stream.durable(13n);
  stream.beginEpoch();
  assert.equal(stream.acknowledge(false), null);
  stream.durable(12n);
  assert.deepEqual(stream.acknowledge(false), { complete: 12n, page: 0 });
});

test("the first place may say nothing", () => {
  assert.equal(firstOf([]), undefined);
  assert.equal(firstOf([1, 2]), 1);
  assert.deepEqual([streamsOf(null), streamsOf(1)], [[], [1]]);
});

test("it is live from CaughtUp to the next Welcome", () => {
  const stream = new Stream(null);
  assert.equal(stream.live, false);
  stream.caughtUp();
  assert.equal(stream.live, true);
  stream.welcomed();
  assert.equal(stream.live, false);
});
