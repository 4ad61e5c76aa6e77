/** Checks names: domain, group, client, object and channel; attributes; and texts of queries. */

import { CHANNEL_ATTRIBUTES_MAX, NAME_LENGTH_MAX, OBJECT_BYTES_MAX, QUERY_BYTES_MAX } from "./protocol.js";

const NAME = new RegExp(`^[A-Za-z0-9._-]{1,${NAME_LENGTH_MAX}}$`);
const encoder = new TextEncoder();
const LONE_SURROGATE = /\p{Surrogate}/u;

/**
 * Returns `value` if it is a domain's, group's or client's name. Throws RangeError, whose message begins with `field`.
 */
export function checkName(field: string, value: unknown): string {
  if (typeof value !== "string" || !NAME.test(value)) {
    throw new RangeError(`${field}: ${show(value)} is not a name (1 to ${NAME_LENGTH_MAX} of A-Z a-z 0-9 . _ -)`);
  }
  return value;
}

/** Returns `value` if it can be an object's name: 1 to 255 bytes of UTF-8. Throws RangeError. */
export function checkObject(value: unknown): string {
  return checkText("object", value, OBJECT_BYTES_MAX);
}

/** Returns `value` if it can be a channel's name: as an object's, without a zero byte. Throws RangeError. */
export function checkChannel(value: unknown): string {
  const name = checkText("channel", value, OBJECT_BYTES_MAX);
  if (name.includes("\0")) throw new RangeError(`channel: ${show(value)} has a zero byte`);
  return name;
}

/** Characters that mean something else in an expression. */
const IN_EXPRESSIONS = /[\\.+*?()|[\]{}^$]/g;

/**
 * Returns what stands for a channel's name in the registration of a pattern: a zero byte and its expression, of 1 to 4096
 * bytes. Only the service checks its syntax. Throws RangeError.
 */
export function patternName(expression: unknown): string {
  const text = checkText("pattern", expression, QUERY_BYTES_MAX);
  if (text.includes("\0")) throw new RangeError(`pattern: ${show(text)} has a zero byte`);
  return `\0${text}`;
}

/** Returns the expression that is found in all names that begin with `prefix`. Throws RangeError. */
export function prefixExpression(prefix: unknown): string {
  return `^${checkPrefix(prefix).replace(IN_EXPRESSIONS, "\\$&")}`;
}

/** Returns the expression of a pattern's name; null: it is a channel's name. */
export function expressionOf(name: string): string | null {
  return name.startsWith("\0") ? name.slice(1) : null;
}

/** Returns a channel's name or a pattern's expression, for people. */
export function titleOf(name: string): string {
  return expressionOf(name) ?? name;
}

/** Returns the attributes of a subscription to a channel, or of a message: sorted, each once. Throws RangeError. */
export function checkAttributes(values: Iterable<unknown>, field = "attributes"): string[] {
  if (typeof values === "string") throw new RangeError(`${field}: is one text, not several`);
  const attributes = [...new Set(Array.from(values, (value) => checkName(field, value)))].sort();
  if (attributes.length > CHANNEL_ATTRIBUTES_MAX) {
    throw new RangeError(`${field}: are ${attributes.length} (at most ${CHANNEL_ATTRIBUTES_MAX} are allowed)`);
  }
  return attributes;
}

/** Returns `value` if objects' names can begin with it: 1 to 255 bytes of UTF-8. Throws RangeError. */
export function checkPrefix(value: unknown): string {
  return checkText("prefix", value, OBJECT_BYTES_MAX);
}

/**
 * Returns `value` if it can be sent as a query: 1 to 4096 bytes. Only the service checks its syntax. Throws RangeError.
 */
export function checkQuery(value: unknown): string {
  return checkText("query", value, QUERY_BYTES_MAX);
}

/** Returns true if the first name is the second, or precedes it in the service's order: by the bytes of UTF-8. */
export function isAtOrBelow(one: string, other: string): boolean {
  const [left, right] = [encoder.encode(one), encoder.encode(other)];
  const at = left.findIndex((byte, index) => byte !== right[index]);
  return at === -1 || (left[at] as number) < (right[at] ?? -1);
}

function checkText(field: string, value: unknown, bytesMax: number): string {
  if (typeof value !== "string") throw new RangeError(`${field}: ${show(value)} is not a text`);
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
