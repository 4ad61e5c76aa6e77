/** What names may look like: domain, group, client and object. */

import { NAME_LENGTH_MAX, OBJECT_BYTES_MAX } from "./protocol.js";

const NAME = new RegExp(`^[A-Za-z0-9._-]{1,${NAME_LENGTH_MAX}}$`);
const encoder = new TextEncoder();
const LONE_SURROGATE = /\p{Surrogate}/u;

/** `value`, if it is a domain's, group's or client's name. Raises RangeError, whose message begins with `field`. */
export function checkName(field: string, value: unknown): string {
  if (typeof value !== "string" || !NAME.test(value)) {
    throw new RangeError(`${field}: ${show(value)} is not a name (1 to ${NAME_LENGTH_MAX} of A-Z a-z 0-9 . _ -)`);
  }
  return value;
}

/** `value`, if it can be an object's name: 1 to 255 bytes of UTF-8. Raises RangeError. */
export function checkObject(value: unknown): string {
  if (typeof value !== "string") throw new RangeError(`object: ${show(value)} is no text`);
  if (LONE_SURROGATE.test(value)) throw new RangeError(`object: ${show(value)} is not valid Unicode`);
  const length = encoder.encode(value).length;
  if (length < 1 || length > OBJECT_BYTES_MAX) {
    throw new RangeError(`object: ${show(value)} has ${length} bytes of UTF-8 (1 to ${OBJECT_BYTES_MAX} are allowed)`);
  }
  return value;
}

function show(value: unknown): string {
  return typeof value === "string" ? JSON.stringify(value.slice(0, 80)) : String(value);
}
