/** A publish of an application, checked and complete: a version of an object, or a message of a channel. Pure. */

import { checkAttributes, checkChannel, checkObject } from "../../schemas/names.js";
import { CLIENT_FRAME_BYTES_MAX, MESSAGE_BYTES_MAX, MESSAGE_ID_BYTES_MAX } from "../../schemas/protocol.js";
import { composed, encodePatch, type Patch } from "./patches.js";
import { CLIENT_FRAME, encodeFrame, type WirePublish } from "../../schemas/wire.js";

export const VERSION_MAX = (1n << 63n) - 1n;
const REQUEST_MAX = 2 ** 32 - 1;
/** High priority, as in `Priority` of `schemas/wire.proto`. */
const PRIORITY_HIGH = 1;

const encoder = new TextEncoder();

/** One version or message. Every resend is identical. */
export interface Outgoing {
  /** The name of the object or the channel. */
  readonly name: string;
  readonly isMessage: boolean;
  /** Any bytes; of a version, empty: it has no payload. */
  readonly payload: Uint8Array;
  /** The version; null until it is accepted, which assigns one; a message has none. */
  readonly version: bigint | null;
  readonly deleted: boolean;
  readonly priority: "high" | null;
  /** A message's id, which identifies repeats. */
  readonly id: string;
  readonly to: readonly string[];
  readonly expiresAt: bigint | null;
  /**
   * Its version, if that comes from this machine's clock; otherwise the time when it was accepted, if it expires;
   * otherwise null.
   */
  readonly clockMs: bigint | null;
  /** A merge patch of the object's description, as JSON; empty: none. */
  readonly describe: string;
  /** It is such a patch alone, and no version. */
  readonly onlyDescribe: boolean;
}

/** Options of a version. Numbers are whole, as number or bigint. */
export interface VersionOptions {
  readonly version?: number | bigint;
  readonly deleted?: boolean;
  /** "high": never delayed, and sent before other updates that wait for a client's connection. */
  readonly priority?: "high" | null;
  /** The expiry, Unix time in ms. */
  readonly expiresAt?: number | bigint;
  /** As in `describe()`, in force before the version is told; where it is refused, so is the version. */
  readonly description?: Patch;
}

/** Options of a message. */
export interface MessageOptions {
  /** The id that identifies repeats: 1 to 64 bytes. */
  readonly id?: string;
  /** Delivers it to subscriptions with one of these attributes; otherwise to all. */
  readonly to?: Iterable<string>;
  /** "high": waiting messages of this channel are sent to a client before those of other channels. */
  readonly priority?: "high" | null;
  /** The expiry, Unix time in ms. */
  readonly expiresAt?: number | bigint;
}

/** Returns a version with these fields. Throws RangeError, whose message begins with the wrong field. */
export function versionOf(objectId: string, payload: unknown, options: VersionOptions): Outgoing {
  const { deleted = false } = options;
  if ("incarnation" in options) {
    throw new RangeError("incarnation: is not a client's to say; `coldnotify object reset` begins versions over");
  }
  if (typeof deleted !== "boolean") throw new RangeError(`deleted: ${String(deleted)} is neither true nor false`);
  const data = payload === undefined || payload === null ? new Uint8Array() : bytesOf(payload);
  return checkFrame({
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
    describe: options.description === undefined ? "" : encodePatch(options.description),
    onlyDescribe: false,
  });
}

/** Returns the patch of an object's description alone. Throws RangeError, whose message begins with the wrong field. */
export function patchOf(objectId: string, description: Patch): Outgoing {
  return { ...versionOf(objectId, null, { description }), onlyDescribe: true };
}

/**
 * Returns `later` with the patch of `earlier` in front of its own; null: the two are too long for one.
 */
export function afterAnother(earlier: Outgoing, later: Outgoing): Outgoing | null {
  const describe = composed(earlier.describe, later.describe);
  if (describe === null) return null;
  try {
    return checkFrame({ ...later, describe });
  } catch {
    return null;
  }
}

/**
 * Returns a message: bytes unchanged, anything else as JSON. Throws RangeError, whose message begins with the wrong
 * field.
 */
export function messageOf(channel: string, payload: unknown, id: string, options: MessageOptions): Outgoing {
  const data = bytesOf(payload);
  if (data.length > MESSAGE_BYTES_MAX) {
    throw new RangeError(`payload: has ${data.length} bytes (at most ${MESSAGE_BYTES_MAX} are allowed)`);
  }
  const bytes = typeof id === "string" ? encoder.encode(id).length : 0;
  if (bytes < 1 || bytes > MESSAGE_ID_BYTES_MAX) {
    throw new RangeError(`id: ${JSON.stringify(String(id).slice(0, 80))} has not 1 to ${MESSAGE_ID_BYTES_MAX} bytes`);
  }
  return checkFrame({
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
    describe: "",
    onlyDescribe: false,
  });
}

/**
 * Returns true if `one` makes `other`, an earlier publish of the same object, superfluous: not if only `other` is of
 * high priority.
 */
export function outdoes(one: Outgoing, other: Outgoing): boolean {
  if (one.isMessage || other.isMessage || one.name !== other.name) return false;
  if (one.priority === null && other.priority !== null) return false;
  return one.version !== null && other.version !== null && one.version >= other.version;
}

/** Returns it as a Publish frame. */
export function publishOf(outgoing: Outgoing, request: number): WirePublish {
  const { name, payload, id, to, expiresAt, clockMs } = outgoing;
  const priority = outgoing.priority === null ? 0 : PRIORITY_HIGH;
  const both = { request, payload, expiresAt: expiresAt ?? 0n, priority, clockMs: clockMs ?? 0n };
  if (outgoing.isMessage) return { ...both, channel: name, id, to };
  const { version, deleted, onlyDescribe } = outgoing;
  const patched = { describe: encoder.encode(outgoing.describe), onlyDescribe };
  return { ...both, ...patched, object: name, ...(version === null ? {} : { version }), deleted };
}

/** Returns it. Throws RangeError if it is too large for a session. */
export function checkFrame(outgoing: Outgoing): Outgoing {
  const version = outgoing.version ?? (outgoing.isMessage || outgoing.onlyDescribe ? null : VERSION_MAX);
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

function bytesOf(payload: unknown): Uint8Array {
  return payload instanceof Uint8Array ? payload.slice() : jsonOf(payload);
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
