/** Where a channel's subscription begins, as an application says it, and as the wire and the document do. */

import { SINCE } from "./wire.js";

/** As an application says it: a text is one of the words, or a message's `position`. */
export type SinceOption = "now" | "oldest" | "newest" | Date | string;

type Kind = "now" | "oldest" | "newest" | "time" | "position";

/** Where it begins, until the service has said which position that is. */
export interface Since {
  readonly kind: Kind;
  /** Of time: Unix ms. Of position: the offset behind which it begins. */
  readonly at: bigint;
  /** Of a position's log. */
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

/** As a frame says it. */
export function sinceNumber({ kind }: Since): number {
  return NUMBERS[kind];
}

/** A place in a log of channels, as `Message.position` says it. */
export function positionText(epoch: number, offset: bigint): string {
  return `${epoch.toString(16).padStart(8, "0")}.${offset}`;
}

/** What an application says. Throws RangeError, whose message begins with `since`. */
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

/** For the document. */
export function sinceFields({ kind, at, epoch }: Since): Record<string, unknown> {
  if (kind === "time") return { since: kind, at: String(at) };
  return kind === "position" ? { since: kind, at: String(at), epoch } : { since: kind };
}

/** What the document has. Throws RangeError. */
export function sinceFrom({ since, at = "0", epoch = 0 }: Record<string, unknown>): Since {
  if (typeof since !== "string" || !Object.hasOwn(NUMBERS, since)) throw new RangeError("since: is unknown");
  if (typeof at !== "string" || !/^\d{1,19}$/.test(at) || BigInt(at) > OFFSET_MAX) throw new RangeError("at: is not an offset or a time");
  if (!Number.isInteger(epoch) || (epoch as number) < 0 || (epoch as number) >= 2 ** 32) throw new RangeError("epoch: is not a number of 32 bits");
  return { kind: since as Kind, at: BigInt(at), epoch: epoch as number };
}
