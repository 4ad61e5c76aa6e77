/**
 * The cursor of channels, and the items that hold it back: one number for all channels of a client, however many.
 *
 * It is the highest number that frames reported as complete, or the lowest `limit` of an item that holds it.
 */

import type { Item } from "./feed.js";

/** While so many proofs wait for the cursor, further ones are dropped: those prove what it reaches next. */
const PROOFS_MAX = 64;

/** A client's position in the log of its domain's channels. */
export class ChannelCursor {
  /** The offset up to which everything has come. */
  complete: bigint | null;
  /** Everything acknowledged before that time is told, of these channels; null: not known. */
  asOf: number | null = null;
  /** Times like that, each with the cursor at which it counts; both rise. */
  #proofs: { complete: bigint; asOf: number }[] = [];
  /** A heap with the lowest limit first. An item that no longer holds the cursor is removed once it is first. */
  #held: Item[] = [];

  constructor(
    /** Epoch of the log; null: not known yet. */
    public epoch: number | null,
    /** The offset up to which everything is told, of every channel without a pending registration; null: not known. */
    public cursor: bigint | null,
  ) {
    this.complete = cursor;
  }

  /** Begins another log: no number of the old one counts any more. */
  void(epoch: number | null): void {
    this.epoch = epoch;
    this.cursor = this.complete = null;
    this.#held = [];
    this.#proofs = [];
  }

  /** Notes that everything acknowledged before that time has come: it counts once the cursor is at `complete`. */
  prove(asOf: number): void {
    const { complete, cursor } = this;
    const last = this.#proofs.at(-1);
    if (complete === null || (cursor !== null && cursor >= complete)) this.#reach(asOf);
    else if (last?.complete === complete) last.asOf = Math.max(last.asOf, asOf);
    else if (this.#proofs.length < PROOFS_MAX) this.#proofs.push({ complete, asOf });
  }

  #reach(asOf: number): void {
    this.asOf = Math.max(this.asOf ?? asOf, asOf);
  }

  /** Notes a frame's report that everything up to there has come. */
  completed(complete: bigint): void {
    if (this.epoch !== null && (this.complete === null || complete > this.complete)) this.complete = complete;
  }

  /** Holds the cursor back for an item that is not told yet. */
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

  /**
   * Moves the cursor as far as possible, after an item has come, was told, or holds no more. Returns true if it moved.
   */
  move(): boolean {
    if (this.complete === null) return false;
    while (this.#held[0]?.held === false) this.#takeFirst();
    const first = this.#held[0]?.limit;
    const cursor = first !== undefined && first < this.complete ? first : this.complete;
    if (cursor < 0n || (this.cursor !== null && cursor <= this.cursor)) return false;
    this.cursor = cursor;
    while (this.#proofs[0] !== undefined && this.#proofs[0].complete <= cursor) {
      this.#reach((this.#proofs.shift() as { asOf: number }).asOf);
    }
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
