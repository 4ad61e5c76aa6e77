/** What a published version has changed, as the service tells it. */

import type { WireOutcome } from "./core/wire.js";

/** The newest version of an object. */
export interface Newest {
  readonly version: bigint;
  /** How often the versions were started over. */
  readonly incarnation: bigint;
  /** Unix time; null: not known. */
  readonly publishedMs: number | null;
}

/** What a published version has changed. */
export interface Outcome {
  /**
   * published: it was the newest, and clients are told it. repeated: it was that already, with the very same content.
   * altered: it was that already, with other content: clients that have it are not told. stale: a newer version was
   * there, no client is ever told this one. rejected: it could not be understood. unknown: it could not be found out.
   */
  readonly outcome: "published" | "repeated" | "altered" | "stale" | "rejected" | "unknown";
  /** The object's newest version once the publish was taken in; null where it is not known. */
  readonly newest: Newest | null;
  /** Why it was rejected, or is not known. */
  readonly reason: string;
  /** Whether clients will not be told what was published, as far as is known: stale, altered, rejected. */
  readonly inVain: boolean;
}

/** In the order of `OutcomeKind` in `schemas/wire.proto`. */
const KINDS = ["unknown", "published", "repeated", "altered", "stale", "rejected"] as const;
const IN_VAIN: readonly string[] = ["altered", "stale", "rejected"];

/** Of what the service says. */
export function outcomeOf({ kind, version, incarnation, publishedMs, reason }: WireOutcome): Outcome {
  const outcome = KINDS[kind] ?? "unknown";
  const time = publishedMs === 0n ? null : Number(publishedMs);
  const newest = version === undefined ? null : { version, incarnation, publishedMs: time };
  return { outcome, newest, reason, inVain: IN_VAIN.includes(outcome) };
}

/** One that could not be found out. */
export function unknownOutcome(reason: string): Outcome {
  return { outcome: "unknown", newest: null, reason, inVain: false };
}
