/**
 * A message of a share in this client's hand, until what was said of it is answered.
 *
 * The table of its states is in the docstring of `lease` in `clients/python/coldnotify/_core/shares`.
 */

import { EARLY } from "../../schemas/shareNames.js";
import { HELD_STATE, type WireMessage, type WireMissed } from "../../schemas/wire.js";
import { isMissed } from "../streams/feed.js";

/** The states of a lease, as a Hold says them. */
export const LeaseState = {
  WAITS: HELD_STATE.HELD_WAITS,
  BEGUN: HELD_STATE.HELD_BEGUN,
  DONE: HELD_STATE.HELD_DONE,
  BACK: HELD_STATE.HELD_BACK,
  REJECTED: HELD_STATE.HELD_REJECTED,
} as const;
export type LeaseState = (typeof LeaseState)[keyof typeof LeaseState];

/** The message that a lease is of: the hash of the share, and the offset. */
export type LeaseKey = string;

/** One hand-out. Times are seconds on a clock that does not jump. */
export class Lease {
  readonly key: LeaseKey;
  /** The hash of the share. */
  readonly share: bigint;
  readonly offset: bigint;
  readonly handOut: number;
  endsAt: number;
  state: LeaseState = LeaseState.WAITS;
  /** With BACK: it is to be handed out again not before so many seconds. */
  afterS = 0;
  /** True once a Hold has left that says that its callback begins. */
  mayRun = false;
  /** True if another member may have the message. */
  isLost = false;
  /** True if nothing is to be said of it any more. */
  isOver = false;
  /** Called once it is over. */
  told: (() => void)[] = [];
  retryWantedS: number | null = null;
  rejectWanted = false;

  /** `beginsAt`: when the Hold was sent that the hand-out names. */
  constructor(
    readonly said: WireMessage | WireMissed,
    beginsAt: number,
    readonly leaseS: number,
  ) {
    this.share = said.channel;
    this.offset = offsetOf(said);
    this.key = keyOf(said);
    this.handOut = said.handOut;
    this.endsAt = this.#endFrom(beginsAt);
  }

  /** True if a Hold is to prolong it. */
  get isHeld(): boolean {
    return (this.state === LeaseState.WAITS || this.state === LeaseState.BEGUN) && !this.isLost && !this.isOver;
  }

  /** Returns true if nobody else can have the message yet. */
  hasTime(now: number): boolean {
    return this.isHeld && now < this.endsAt;
  }

  /** A Hold that was sent at this time has prolonged it. */
  extend(beginsAt: number): void {
    if (this.isHeld) this.endsAt = Math.max(this.endsAt, this.#endFrom(beginsAt));
  }

  /** Its callback is to be called once that is said. */
  begin(): void {
    if (this.state === LeaseState.WAITS) this.state = LeaseState.BEGUN;
  }

  /** A Hold that says this of it has left. */
  written(said: LeaseState): void {
    this.mayRun ||= said === LeaseState.BEGUN;
  }

  /** Returns true if that is to be said. */
  settle(): boolean {
    return this.#become(LeaseState.DONE);
  }

  /** Returns true if that is to be said. What is lost is given back already. */
  giveBack(afterS = 0): boolean {
    this.afterS = afterS;
    return !this.isLost && this.#become(LeaseState.BACK);
  }

  /** Returns true if that is to be said. */
  reject(): boolean {
    return !this.isLost && this.#become(LeaseState.REJECTED);
  }

  /** The application gives it back once its callback has returned. */
  wantRetry(afterS: number): void {
    this.retryWantedS = afterS;
  }

  /** It becomes a dead letter then. */
  wantReject(): void {
    this.rejectWanted = true;
  }

  /** Its time is over by our clock. */
  end(): void {
    this.isLost = true;
    if (this.state === LeaseState.WAITS) this.close();
  }

  /** A Hold that says this is answered: that is durable. */
  answer(said: LeaseState): void {
    if (said !== this.state || said === LeaseState.WAITS || said === LeaseState.BEGUN) return;
    this.isLost = false;
    this.close();
  }

  /** The owner says that it is lost. */
  lose(): void {
    this.isLost = true;
    this.close();
  }

  /** Nothing more is to be said of it. */
  close(): void {
    this.isOver = true;
    for (const one of this.told.splice(0)) one();
  }

  #become(state: LeaseState): boolean {
    if (this.isOver || (this.state !== LeaseState.WAITS && this.state !== LeaseState.BEGUN)) return false;
    this.state = state;
    return true;
  }

  #endFrom(beginsAt: number): number {
    return beginsAt + this.leaseS * (1 - EARLY);
  }
}

/** Returns what a hand-out is of. */
export function keyOf(said: WireMessage | WireMissed): LeaseKey {
  return `${said.channel}/${offsetOf(said)}`;
}

/** Returns the offset of a hand-out. A notice stands at the first offset that is missing. */
function offsetOf(said: WireMessage | WireMissed): bigint {
  if (!isMissed(said)) return said.offset;
  return said.after === undefined ? 0n : said.after + 1n;
}
