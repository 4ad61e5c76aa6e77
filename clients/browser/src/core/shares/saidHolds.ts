/** The Holds of one session, when each was sent, and what it said. */

import type { LeaseKey, LeaseState } from "./lease.js";

/**
 * A gateway passes on so many that are unanswered. A hand-out, or an answer, that names an older one counts for nothing.
 */
export const HOLDS_KEPT = 64;

/** One Hold. */
export interface SaidHold {
  /** When it was made, which is before it was sent. */
  readonly at: number;
  /** Lengths of leases, by the hash of the share. */
  readonly leaseS: ReadonlyMap<bigint, number>;
  /** By message: the hand-out, and what was said of it. */
  readonly named: ReadonlyMap<LeaseKey, { readonly handOut: number; readonly state: LeaseState }>;
}

/** The numbers rise from 1 in each session. */
export class SaidHolds {
  #number = 0;
  #answered = 0;
  readonly #kept = new Map<number, SaidHold>();

  /** Number of Holds that are not answered yet. */
  get unanswered(): number {
    return this.#number - this.#answered;
  }

  /** Returns the number of this Hold, which leaves now. */
  say(hold: SaidHold): number {
    this.#number += 1;
    this.#kept.set(this.#number, hold);
    this.#kept.delete(this.#number - HOLDS_KEPT);
    return this.#number;
  }

  /** Returns the Hold of this number; undefined: it is too old, or there is none. */
  of(number: number): SaidHold | undefined {
    return this.#kept.get(number);
  }

  /** Notes an answer. Returns the Hold; undefined: it is answered already, or too old. Later hand-outs may name it. */
  answered(number: number): SaidHold | undefined {
    if (number <= this.#answered || number > this.#number) return undefined;
    this.#answered = number;
    return this.#kept.get(number);
  }
}
