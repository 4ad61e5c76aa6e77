/** Members of a set are handled with the last one that the client is sent. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { MembersTogether, WAITING_MAX } from "../src/core/session/membersTogether.js";
import { encodeFrame, GATEWAY_FRAME, type GatewayFramePart, parseFrame, type WireNotification } from "../src/schemas/wire.js";
import { FrameBuffer } from "../src/schemas/frames.js";

type Said = NonNullable<GatewayFramePart["notification"]>;

function frame(name: string, offset: bigint, behind = 0n, said: Said = {}): WireNotification {
  const bytes = encodeFrame(GATEWAY_FRAME, { notification: { name, version: 1n, offset, behind, ...said } });
  const [body] = [...new FrameBuffer(1024).feed(bytes)];
  return parseFrame(GATEWAY_FRAME, body as Uint8Array).notification as WireNotification;
}

/** The names that are handled with each of these frames. */
function names(...frames: WireNotification[]): string[] {
  const together = new MembersTogether();
  return frames.map((one) => together.take(one).map(({ name }) => name).join(""));
}

const MORE = { more: true };

test("members wait for the last one", () => {
  assert.deepEqual(names(frame("a", 4n), frame("b", 5n, 1n, MORE), frame("c", 5n, 1n, MORE), frame("d", 5n)), ["a", "", "", "bcd"]);
});

test("an older floor of the partition changes nothing", () => {
  assert.deepEqual(names(frame("a", 9n, 7n, MORE), frame("b", 9n, 7n), frame("c", 10n, 8n)), ["", "ab", "c"]);
});

test("a higher complete ends the wait", () => {
  assert.deepEqual(names(frame("a", 5n, 1n, MORE), frame("b", 6n)), ["", "ab"]);
  assert.deepEqual(names(frame("a", 5n, 1n, MORE), frame("b", 7n, 1n, MORE), frame("c", 7n)), ["", "a", "bc"]);
  const together = new MembersTogether();
  together.take(frame("a", 5n, 1n, MORE));
  assert.deepEqual(together.release(4n), []);
  assert.deepEqual(together.release(5n).map(({ name }) => name), ["a"]);
  assert.deepEqual(together.release(9n), []);
});

test("urgent frames and answers do not end the wait", () => {
  const said = names(frame("a", 5n, 1n, MORE), frame("u", 8n, 6n), frame("x", 0n, 0n, { answer: true }), frame("b", 5n));
  assert.deepEqual(said, ["", "u", "x", "ab"]);
});

test("a gateway that says more for ever is not waited for", () => {
  const together = new MembersTogether();
  for (let number = 0; number < WAITING_MAX; number += 1) assert.deepEqual(together.take(frame(String(number), 5n, 1n, MORE)), []);
  assert.equal(together.take(frame("last", 5n, 1n, MORE)).length, WAITING_MAX + 1);
});
