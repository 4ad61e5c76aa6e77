/** What names may look like: domain, group, client and object; and texts of queries. */

import { NAME_LENGTH_MAX, OBJECT_BYTES_MAX, QUERY_BYTES_MAX } from "./protocol.js";

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
  return checkText("object", value, OBJECT_BYTES_MAX);
}

/** `value`, if objects' names can begin with it: 1 to 255 bytes of UTF-8. Raises RangeError. */
export function checkPrefix(value: unknown): string {
  return checkText("prefix", value, OBJECT_BYTES_MAX);
}

/** `value`, if it can be said to a service, which alone knows whether it is a query: 1 to 4096 bytes. Raises RangeError. */
export function checkQuery(value: unknown): string {
  return checkText("query", value, QUERY_BYTES_MAX);
}

/** Whether the first name is the second, or comes before it, in the service's order: by the bytes of UTF-8. */
export function isAtOrBelow(one: string, other: string): boolean {
  const [left, right] = [encoder.encode(one), encoder.encode(other)];
  const at = left.findIndex((byte, index) => byte !== right[index]);
  return at === -1 || (left[at] as number) < (right[at] ?? -1);
}

function checkText(field: string, value: unknown, bytesMax: number): string {
  if (typeof value !== "string") throw new RangeError(`${field}: ${show(value)} is no text`);
  if (LONE_SURROGATE.test(value)) throw new RangeError(`${field}: ${show(value)} is not valid Unicode`);
  const length = encoder.encode(value).length;
  if (length < 1 || length > bytesMax) {
    throw new RangeError(`${field}: ${show(value)} has ${length} bytes of UTF-8 (1 to ${bytesMax} are allowed)`);
  }
  return value;
}

function show(value: unknown): string {
  return typeof value === "string" ? JSON.stringify(value.slice(0, 80)) : String(value);
}
