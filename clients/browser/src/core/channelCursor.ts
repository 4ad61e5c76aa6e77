/**
 * The cursor of channels, and what holds it back: one number for all channels of a client, however many there are.
 *
 * Messages of all channels have offsets in one log. So what was received and is not told yet holds the cursor by its
 * offset, not by when it came: the cursor is the highest number that frames said to be complete, or the lowest `limit`
 * of an item that holds it, whichever is lower. It never goes down within an epoch: an item that holds it has a limit
 * at or above it.
 */

import type { Item } from "./feed.js";

/** How far a client is in the log of its domain's channels. */
export class ChannelCursor {
  /** All at or below it has come. */
  complete: bigint | null;
  /** A heap: the lowest limit first. What holds no more is taken out once it is first. */
  #held: Item[] = [];

  constructor(
    /** Of the log. null: it is not known yet. */
    public epoch: number | null,
    /** All at or below it is told, of every channel that is no pending registration. null: nothing is known. */
    public cursor: bigint | null,
  ) {
    this.complete = cursor;
  }

  /** Another log: no number of the old one counts any more. */
  void(epoch: number | null): void {
    this.epoch = epoch;
    this.cursor = this.complete = null;
    this.#held = [];
  }

  /** A frame said that all up to there has come. */
  completed(complete: bigint): void {
    if (this.epoch !== null && (this.complete === null || complete > this.complete)) this.complete = complete;
  }

  /** It is not told yet: the cursor waits in front of it. */
  hold(item: Item): void {
    if (item.held) return;
    item.held = true;
    this.#held.push(item);
    for (let at = this.#held.length - 1; at > 0; ) {
      const parent = (at - 1) >> 1;
      if (this.#limit(parent) <= item.limit) break;
      this.#swap(at, parent);
      at = parent;
    }
  }

  /** As far as it goes: after something has come, was told, or holds no more. Whether that is a change. */
  move(): boolean {
    if (this.complete === null) return false;
    while (this.#held[0]?.held === false) this.#takeFirst();
    const first = this.#held[0]?.limit;
    const cursor = first !== undefined && first < this.complete ? first : this.complete;
    if (cursor < 0n || (this.cursor !== null && cursor <= this.cursor)) return false;
    this.cursor = cursor;
    return true;
  }

  #takeFirst(): void {
    const last = this.#held.pop() as Item;
    if (this.#held.length === 0) return;
    this.#held[0] = last;
    for (let at = 0; ; ) {
      let least = at;
      for (const child of [2 * at + 1, 2 * at + 2]) {
        if (child < this.#held.length && this.#limit(child) < this.#limit(least)) least = child;
      }
      if (least === at) return;
      this.#swap(at, least);
      at = least;
    }
  }

  #limit(at: number): bigint {
    return (this.#held[at] as Item).limit;
  }

  #swap(one: number, other: number): void {
    [this.#held[one], this.#held[other]] = [this.#held[other] as Item, this.#held[one] as Item];
  }
}
