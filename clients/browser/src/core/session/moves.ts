/**
 * When a client that has a session tries another gateway beside it. What for, and how often, is in the docstring of
 * `moves` in `clients/python/coldnotify/_core/session`.
 */

import type { Random } from "./reconnect.js";

const HOME_FIRST_S = 30;
const HOME_LONGEST_S = 600;
const STALE_FIRST_S = 60;
const STALE_LONGEST_S = 900;
/** A client has been stale for so many times `freshS` before it looks elsewhere. */
const STALE_PATIENCE = 2;

/** The times of the next tries. */
export class Moves {
  readonly #random: Random;
  #homeAt: number | null = null;
  #homeTries = 0;
  #staleAt: number | null = null;
  #staleTries = 0;

  constructor(random: Random) {
    this.#random = random;
  }

  /** Notes that a session has ended, or moved: the next one has its own times. */
  sessionEnded(): void {
    this.#homeAt = this.#staleAt = null;
    this.#staleTries = 0;
  }

  // On the way home

  /** Notes whether there is a home, and a session elsewhere. */
  lookHome(now: number, away: boolean): void {
    if (!away) {
      this.#homeAt = null;
      this.#homeTries = 0;
    } else this.#homeAt ??= now + this.#homeDelayS();
  }

  /** The time to try the home; Infinity: never. */
  get homeAt(): number {
    return this.#homeAt ?? Infinity;
  }

  /** Notes that the home did not take it. */
  homeFailed(now: number): void {
    this.#homeTries += 1;
    this.#homeAt = now + this.#homeDelayS();
  }

  #homeDelayS(): number {
    const baseS = HOME_FIRST_S * 2 ** this.#homeTries;
    if (baseS >= HOME_LONGEST_S) this.#homeTries -= 1;
    return Math.min(HOME_LONGEST_S, baseS * this.#between(1, 2));
  }

  // Away from a gateway that tells nothing fresh

  /** Notes since when the session has been stale; null: it is not. */
  lookStale(staleAt: number | null, freshS: number): void {
    if (staleAt === null) {
      this.#staleAt = null;
      this.#staleTries = 0;
    } else this.#staleAt ??= staleAt + STALE_PATIENCE * freshS + this.#between(0, STALE_FIRST_S);
  }

  /** The time to try another address; Infinity: never. */
  get staleAt(): number {
    return this.#staleAt ?? Infinity;
  }

  /** Notes that no other address is known before that time. */
  staleNotBefore(at: number): void {
    if (this.#staleAt !== null) this.#staleAt = Math.max(this.#staleAt, at);
  }

  /** Notes that a try did not help. `retryAfterS`: not before, as the gateway said. */
  staleFailed(now: number, retryAfterS: number): void {
    this.#staleTries += 1;
    const longestS = Math.min(STALE_LONGEST_S, STALE_FIRST_S * 2 ** this.#staleTries);
    if (longestS === STALE_LONGEST_S) this.#staleTries -= 1;
    this.#staleAt = now + Math.max(retryAfterS, this.#between(longestS / 2, longestS));
  }

  #between(least: number, most: number): number {
    return least + (most - least) * this.#random();
  }
}
