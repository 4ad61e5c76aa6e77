/** The beginning of a channel's subscription, in the forms of an application, the wire and the document. */

import { SINCE } from "../../schemas/wire.js";

/** The application's form: a text is one of the words, or a message's `position`. */
export type SinceOption = "now" | "oldest" | "newest" | Date | string;

type Kind = "now" | "oldest" | "newest" | "time" | "position";

/** The beginning, until the service has sent the position for it. */
export interface Since {
  readonly kind: Kind;
  /** For a time: Unix ms. For a position: the offset after which it begins. */
  readonly at: bigint;
  /** The epoch of a position's log. */
  readonly epoch: number;
}

const NUMBERS: Readonly<Record<Kind, number>> = {
  now: SINCE.SINCE_NOW,
  oldest: SINCE.SINCE_OLDEST,
  newest: SINCE.SINCE_NEWEST,
  time: SINCE.SINCE_TIME,
  position: SINCE.SINCE_POSITION,
};
const POSITION = /^([0-9a-f]{8})\.(0|[1-9][0-9]{0,18})$/;
const OFFSET_MAX = 2n ** 63n - 1n;

export const NOW: Since = { kind: "now", at: 0n, epoch: 0 };
export const OLDEST: Since = { kind: "oldest", at: 0n, epoch: 0 };

/** Returns the number for a frame. */
export function sinceNumber({ kind }: Since): number {
  return NUMBERS[kind];
}

/** Returns a position in a log of channels, in the form of `Message.position`. */
export function positionText(epoch: number, offset: bigint): string {
  return `${epoch.toString(16).padStart(8, "0")}.${offset}`;
}

/** Parses the application's form. Throws RangeError, whose message begins with `since`. */
export function sinceOf(value: unknown): Since {
  if (value instanceof Date) {
    const at = value.getTime();
    if (!(at >= 0)) throw new RangeError(`since: ${String(value)} is not a time from 1970 on`);
    return { kind: "time", at: BigInt(at), epoch: 0 };
  }
  if (value === "now" || value === "oldest" || value === "newest") return { kind: value, at: 0n, epoch: 0 };
  const [, epoch, offset] = (typeof value === "string" && POSITION.exec(value)) || [];
  if (epoch !== undefined && offset !== undefined && BigInt(offset) <= OFFSET_MAX) {
    return { kind: "position", at: BigInt(offset), epoch: parseInt(epoch, 16) };
  }
  throw new RangeError(`since: ${String(value)} is not "now", "oldest", "newest", a Date or the position of a message`);
}

/** Returns the fields for the document. */
export function sinceFields({ kind, at, epoch }: Since): Record<string, unknown> {
  if (kind === "time") return { since: kind, at: String(at) };
  return kind === "position" ? { since: kind, at: String(at), epoch } : { since: kind };
}

/** Parses the document's fields. Throws RangeError. */
export function sinceFrom({ since, at = "0", epoch = 0 }: Record<string, unknown>): Since {
  if (typeof since !== "string" || !Object.hasOwn(NUMBERS, since)) throw new RangeError("since: is unknown");
  if (typeof at !== "string" || !/^\d{1,19}$/.test(at) || BigInt(at) > OFFSET_MAX) throw new RangeError("at: is not an offset or a time");
  if (!Number.isInteger(epoch) || (epoch as number) < 0 || (epoch as number) >= 2 ** 32) throw new RangeError("epoch: is not a number of 32 bits");
  return { kind: since as Kind, at: BigInt(at), epoch: epoch as number };
}
