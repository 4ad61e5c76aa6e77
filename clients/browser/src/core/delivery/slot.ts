/**
 * One object's place in the delivery: a version that its callbacks are being told, and a newer one that waits.
 *
 * A still newer one replaces the waiting one.
 */

import type { Notification } from "../../notification.js";
import type { Hold } from "../streams/frontier.js";
import { type Floor, highestFloor } from "./floors.js";

/** An object's version in a Notification frame. */
export interface Update {
  readonly incarnation: bigint;
  readonly version: bigint | null;
  readonly payload: Uint8Array;
  readonly deleted: boolean;
  /** True: the payload is any bytes, and need not be JSON. */
  readonly raw?: boolean;
}

/** A job: run the callbacks of these subscribers with this notification, then call `CallbackTurns.done`. */
export interface CallbackJob {
  readonly notification: Notification;
  readonly subscribers: readonly number[];
  readonly update: Update;
  /** The object's description, if a query asks for it; undefined: not known. */
  readonly description: string | undefined;
}

/** A floor below every version. */
export const UNKNOWN: Floor = { incarnation: -1n, version: -1n };

/** Returns its floor; UNKNOWN if the object has no version. */
export function floorOf(update: Update): Floor {
  return update.version === null ? UNKNOWN : { incarnation: update.incarnation, version: update.version };
}

/** The slot of one object. An empty one is removed. */
export class Slot {
  waiting: Update | null = null;
  waitingHold: Hold | null = null;
  /** Subscribers whose callback has returned for `waiting`: a retry leaves them out. */
  told = new Set<number>();
  running: CallbackJob | null = null;
  runningHold: Hold | null = null;
  failures = 0;
  retryAt: number | null = null;

  /**
   * Floor of the version that waits, or runs; a slot has one of them. The waiting one is newer, unless it only carries
   * a description.
   */
  get newest(): Floor {
    const { waiting, running } = this;
    if (waiting === null && running === null) throw new Error("an empty slot is removed");
    return highestFloor(waiting === null ? UNKNOWN : floorOf(waiting), running === null ? UNKNOWN : floorOf(running.update));
  }

  /** Notes that the waiting version is being told from here on, or skipped. */
  take(): void {
    this.waiting = null;
    this.runningHold = this.waitingHold;
    this.waitingHold = null;
  }
}
