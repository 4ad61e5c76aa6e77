/** The outcome of a publish, as the service reports it. */

import type { WireOutcome } from "./schemas/wire.js";

/** The newest version of an object. */
export interface Newest {
  readonly version: bigint;
  /** The number of times that the versions were started over. */
  readonly incarnation: bigint;
  /** Unix time; null: not known. */
  readonly publishedMs: number | null;
}

/** The outcome of a publish: what it has changed. */
export interface Outcome {
  /**
   * published: it became the newest version, and clients receive it. repeated: it was the newest already, with the same
   * content. altered: it was the newest already, with other content: clients that have it do not receive this one. stale:
   * there was a newer version, so no client receives this one. rejected: it is invalid. unknown: it could not be
   * found out.
   */
  readonly outcome: "published" | "repeated" | "altered" | "stale" | "rejected" | "unknown";
  /** The object's newest version after the publish was handled; null if it is not known. */
  readonly newest: Newest | null;
  /** The reason why it was rejected, or why the outcome is unknown. */
  readonly reason: string;
  /** True if clients will not receive the publish, as far as is known: stale, altered, rejected. */
  readonly inVain: boolean;
}

/** In the order of `OutcomeKind` in `schemas/wire.proto`. */
const KINDS = ["unknown", "published", "repeated", "altered", "stale", "rejected"] as const;
const IN_VAIN: readonly string[] = ["altered", "stale", "rejected"];

/** Returns the outcome that the service has sent. */
export function outcomeOf({ kind, version, incarnation, publishedMs, reason }: WireOutcome): Outcome {
  const outcome = KINDS[kind] ?? "unknown";
  const time = publishedMs === 0n ? null : Number(publishedMs);
  const newest = version === undefined ? null : { version, incarnation, publishedMs: time };
  return { outcome, newest, reason, inVain: IN_VAIN.includes(outcome) };
}

/** Returns an outcome that could not be found out. */
export function unknownOutcome(reason: string): Outcome {
  return { outcome: "unknown", newest: null, reason, inVain: false };
}
