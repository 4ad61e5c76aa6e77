/** What an application publishes, checked and complete: a version of an object, or a message of a channel. Pure. */

import { checkAttributes, checkChannel, checkObject } from "./names.js";
import { CLIENT_FRAME_BYTES_MAX, MESSAGE_BYTES_MAX, MESSAGE_ID_BYTES_MAX } from "./protocol.js";
import { CLIENT_FRAME, encodeFrame, type WirePublish } from "./wire.js";

export const VERSION_MAX = (1n << 63n) - 1n;
const REQUEST_MAX = 2 ** 32 - 1;
/** As `Priority` in `schemas/wire.proto` has it. */
const PRIORITY_HIGH = 1;
/** Of a version's payload, as the service has it. */
const PAYLOAD_BYTES_MAX = 4096;

const encoder = new TextEncoder();

/** One version or message. Every resend says the same. */
export interface Outgoing {
  /** The object's, or the channel's. */
  readonly name: string;
  readonly isMessage: boolean;
  /** A version's: JSON, empty: it has none. A message's: any bytes. */
  readonly payload: Uint8Array;
  /** null until it is accepted, which gives it one; a message has none. */
  readonly version: bigint | null;
  readonly deleted: boolean;
  readonly priority: "high" | null;
  /** A message's, by which its repeats are known. */
  readonly id: string;
  readonly to: readonly string[];
  readonly expiresAt: bigint | null;
  /** Its version, if that comes from this machine's clock; else when it was accepted, if it expires; else null. */
  readonly clockMs: bigint | null;
}

/** What may be said of a version. Numbers are whole, as number or bigint. */
export interface VersionOptions {
  readonly version?: number | bigint;
  readonly deleted?: boolean;
  /** "high": held back by nothing, and told before what waits for a client's connection. */
  readonly priority?: "high" | null;
  /** Unix time in ms. */
  readonly expiresAt?: number | bigint;
}

/** What may be said of a message. */
export interface MessageOptions {
  /** By which its repeats are known: 1 to 64 bytes. */
  readonly id?: string;
  /** Told to subscriptions that have one of these attributes, or to all. */
  readonly to?: Iterable<string>;
  /** "high": what waits of this channel for a client is told before what waits of others. */
  readonly priority?: "high" | null;
  /** Unix time in ms. */
  readonly expiresAt?: number | bigint;
}

/** The version that this says. Throws RangeError, whose message begins with the field at fault. */
export function versionOf(objectId: string, payload: unknown, options: VersionOptions): Outgoing {
  const { deleted = false } = options;
  if ("incarnation" in options) {
    throw new RangeError("incarnation: is not a client's to say; `coldnotify object reset` begins versions over");
  }
  if (typeof deleted !== "boolean") throw new RangeError(`deleted: ${String(deleted)} is neither true nor false`);
  const data = payload === undefined || payload === null ? new Uint8Array() : jsonOf(payload);
  if (data.length > PAYLOAD_BYTES_MAX) {
    throw new RangeError(`payload: has ${data.length} bytes of JSON (at most ${PAYLOAD_BYTES_MAX} are allowed)`);
  }
  return fitting({
    name: checkObject(objectId),
    isMessage: false,
    payload: data,
    version: numberOf("version", options.version, VERSION_MAX),
    deleted,
    priority: checkPriority(options.priority),
    id: "",
    to: [],
    expiresAt: numberOf("expiresAt", options.expiresAt, VERSION_MAX),
    clockMs: null,
  });
}

/** The message that this says: bytes as they are, anything else as JSON. Throws RangeError, likewise. */
export function messageOf(channel: string, payload: unknown, id: string, options: MessageOptions): Outgoing {
  const data = payload instanceof Uint8Array ? payload.slice() : jsonOf(payload);
  if (data.length > MESSAGE_BYTES_MAX) {
    throw new RangeError(`payload: has ${data.length} bytes (at most ${MESSAGE_BYTES_MAX} are allowed)`);
  }
  const bytes = typeof id === "string" ? encoder.encode(id).length : 0;
  if (bytes < 1 || bytes > MESSAGE_ID_BYTES_MAX) {
    throw new RangeError(`id: ${JSON.stringify(String(id).slice(0, 80))} has not 1 to ${MESSAGE_ID_BYTES_MAX} bytes`);
  }
  return fitting({
    name: checkChannel(channel),
    isMessage: true,
    payload: data,
    version: null,
    deleted: false,
    priority: checkPriority(options.priority),
    id,
    to: checkAttributes(options.to ?? [], "to"),
    expiresAt: numberOf("expiresAt", options.expiresAt, VERSION_MAX),
    clockMs: null,
  });
}

/** When something expires that was said at `clockMs` by another clock, which was `nowMs` by the one here. What was
 * reckoned by the other clock is nearer to its time. */
export function expiryHere(expiresAt: bigint, clockMs: bigint, nowMs: bigint): bigint {
  const distance = (other: bigint): bigint => (expiresAt < other ? other - expiresAt : expiresAt - other);
  if (distance(clockMs) >= distance(nowMs)) return expiresAt;
  const here = expiresAt - clockMs + nowMs;
  return here < 1n ? 1n : here;
}

/** Whether nobody needs `other`, an earlier publish of the same object, any more: not if it alone is of high priority. */
export function outdoes(one: Outgoing, other: Outgoing): boolean {
  if (one.isMessage || other.isMessage || one.name !== other.name) return false;
  if (one.priority === null && other.priority !== null) return false;
  return one.version !== null && other.version !== null && one.version >= other.version;
}

/** As a Publish says it. */
export function publishOf(outgoing: Outgoing, request: number): WirePublish {
  const { name, payload, id, to, expiresAt, clockMs } = outgoing;
  const priority = outgoing.priority === null ? 0 : PRIORITY_HIGH;
  const both = { request, payload, expiresAt: expiresAt ?? 0n, priority, clockMs: clockMs ?? 0n };
  if (outgoing.isMessage) return { ...both, channel: name, id, to };
  const { version, deleted } = outgoing;
  return { ...both, object: name, version: version ?? 0n, deleted };
}

function fitting(outgoing: Outgoing): Outgoing {
  const version = outgoing.version ?? (outgoing.isMessage ? null : VERSION_MAX);
  const largest = { ...outgoing, version, clockMs: VERSION_MAX };
  const size = encodeFrame(CLIENT_FRAME, { publish: publishOf(largest, REQUEST_MAX) }).length;
  if (size > CLIENT_FRAME_BYTES_MAX) {
    throw new RangeError(`payload: with all fields has ${size} bytes (at most ${CLIENT_FRAME_BYTES_MAX} fit a frame)`);
  }
  return outgoing;
}

function checkPriority(priority: unknown): "high" | null {
  if (priority === undefined || priority === null) return null;
  if (priority !== "high") {
    throw new RangeError(`priority: ${JSON.stringify(String(priority).slice(0, 80))} is not "high"`);
  }
  return priority;
}

function numberOf(field: string, value: unknown, most: bigint): bigint | null {
  if (value === undefined || value === null) return null;
  if (typeof value !== "bigint" && !Number.isSafeInteger(value)) {
    throw new RangeError(`${field}: ${String(value)} is not a whole number`);
  }
  const number = BigInt(value as number | bigint);
  if (number < 0n || number > most) throw new RangeError(`${field}: ${number} is not from 0 to ${most}`);
  return number;
}

function jsonOf(payload: unknown): Uint8Array {
  let text: string | undefined;
  try {
    text = JSON.stringify(payload);
  } catch (error) {
    throw new RangeError(`payload: cannot be written as JSON: ${String(error)}`);
  }
  if (text === undefined) throw new RangeError(`payload: ${typeof payload} cannot be written as JSON`);
  return encoder.encode(text);
}
