/**
 * Detects a standstill of the page: its machine slept, the browser froze it, or it was not run for long.
 *
 * Afterwards the state of its connection is in doubt. The shell looks at least every LOOK_S, and before it reports that
 * it is caught up; it passes each standstill to the client (`Client.doubt`).
 */

/** Interval of looks, which is the delay until a sleep is noticed. */
export const LOOK_S = 5;
/** A longer time between two looks is a standstill. */
export const STOOD_STILL_S = 10;
/** The same limit for a hidden page, because browsers run it once a minute. */
export const HIDDEN_STOOD_STILL_S = 75;

/** The standstills of one page. */
export class Standstill {
  #lookedAt: number;

  constructor(now: number) {
    this.#lookedAt = now;
  }

  /** Returns the seconds for which it has stood still until now; 0: it has not. `hidden`: nobody sees the page. */
  look(now: number, hidden = false): number {
    const passedS = now - this.#lookedAt;
    this.#lookedAt = now;
    return passedS > (hidden ? HIDDEN_STOOD_STILL_S : STOOD_STILL_S) ? passedS : 0;
  }

  /** Returns the time of the next look. */
  deadline(): number {
    return this.#lookedAt + LOOK_S;
  }
}
