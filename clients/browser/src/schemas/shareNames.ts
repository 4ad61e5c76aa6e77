/** Names of shares, and limits of both sides. */

import { checkName } from "./names.js";
import { OBJECT_BYTES_MAX } from "./protocol.js";

/** Limit on a share's name: with "/" and the longest offset it is the id of a message. */
const SHARE_CHARS_MAX = 44;
/** Messages that one client may hold, of all its shares: its Hold is one frame. */
export const HELD_MAX = 1_000;
/** Limits on the length of a lease, in seconds: a member says a Hold each third of it. */
export const LEASE_S_MIN = 3;
export const LEASE_S_MAX = 12 * 3_600;
/** Limit on the delay of a retry, in seconds. */
export const RETRY_S_MAX = 24 * 3_600;
/** Part of its length by which a lease ends sooner for its holder than for its owner: no two clocks run alike. */
export const EARLY = 0.05;

const encoder = new TextEncoder();

/** Returns a share's name, if it can be one, and its dead letters have a channel. Throws RangeError. */
export function checkShare(share: unknown, channel: string): string {
  const name = checkName("share", share);
  if (name.length > SHARE_CHARS_MAX) {
    throw new RangeError(`share: has ${name.length} characters (at most ${SHARE_CHARS_MAX} are allowed)`);
  }
  const size = encoder.encode(`${channel}.${name}.dead`).length;
  if (size > OBJECT_BYTES_MAX) {
    throw new RangeError(`share: its dead letters' channel has ${size} bytes (at most ${OBJECT_BYTES_MAX} are allowed)`);
  }
  return name;
}

/** Returns a whole number of this field. Throws RangeError. */
export function checkWhole(field: string, value: unknown, least: number, most: number): number {
  if (typeof value !== "number" || !Number.isInteger(value) || value < least || value > most) {
    throw new RangeError(`${field}: ${String(value)} is not a whole number from ${least} to ${most}`);
  }
  return value;
}
