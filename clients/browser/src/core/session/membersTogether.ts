/**
 * Members of a set, which the application is told together: those that came wait for the others.
 *
 * How it works is in the docstring of `members_together` in `clients/python/coldnotify/_core/session`.
 */

import type { WireNotification } from "../../schemas/wire.js";

/** Limit on the frames that wait. A set has 100 members. */
export const WAITING_MAX = 1_000;

/** The waiting frames of one session. */
export class MembersTogether {
  #waiting: WireNotification[] = [];
  /** The offset up to which the waiting frames make the client complete. */
  #complete = -1n;

  /** Returns the frames to handle now, in order, with this one. */
  take(notification: WireNotification): readonly WireNotification[] {
    const { answer, behind, more, offset } = notification;
    if (answer) return [notification];
    const complete = offset - behind;
    const released = this.release(complete);
    if (more && this.#waiting.length < WAITING_MAX) {
      this.#waiting.push(notification);
      if (complete > this.#complete) this.#complete = complete;
      return released;
    }
    const ended = this.#waiting.some((one) => one.offset === offset) ? this.#waiting : [];
    if (ended.length > 0) this.#waiting = [];
    return [...released, ...ended, notification];
  }

  /** Returns the frames that wait no longer, because everything up to `complete` was sent. */
  release(complete: bigint): readonly WireNotification[] {
    if (this.#waiting.length === 0 || complete <= this.#complete) return [];
    const released = this.#waiting;
    this.#waiting = [];
    this.#complete = -1n;
    return released;
  }
}
