/**
 * Whether a page stood still: its machine slept, the browser froze it, or nothing gave it a turn for long.
 *
 * What it knew of its connection is in doubt then. The shell looks at least every LOOK_S, and before it says that it is
 * caught up; what it finds, it tells the client (`Client.doubt`).
 */

/** The shell looks this often: so late does it notice a sleep by itself. */
export const LOOK_S = 5;
/** More than this between two looks is a standstill. */
export const STOOD_STILL_S = 10;
/** The same of a page that is not seen: browsers give it a turn each minute. */
export const HIDDEN_STOOD_STILL_S = 75;

/** Of one page. */
export class Standstill {
  #lookedAt: number;

  constructor(now: number) {
    this.#lookedAt = now;
  }

  /** Seconds for which it has stood still until now; 0: it has not. `hidden`: nobody sees the page. */
  look(now: number, hidden = false): number {
    const passedS = now - this.#lookedAt;
    this.#lookedAt = now;
    return passedS > (hidden ? HIDDEN_STOOD_STILL_S : STOOD_STILL_S) ? passedS : 0;
  }

  /** When to look next. */
  deadline(): number {
    return this.#lookedAt + LOOK_S;
  }
}
