/**
 * The cursor, and what holds it back. See `docs/protocol.md`, "The cursor".
 *
 * The frames of all sessions are one sequence. A received version that is not applied yet is a *hold* at its place in
 * the sequence; a number that a frame carries (`complete`) lies after all holds that came with or before it. So holds
 * are a linked list, each with the highest number that lies between it and the next. Taking a hold out gives its number
 * to the one before it; what arrives at the list's head is the cursor. Every step is O(1), and the memory is one node
 * per hold, however many frames there were.
 */

/** A place in the sequence of received frames that is not applied yet. */
export class Hold {
  previous: Hold | null = null;
  next: Hold | null = null;
  /** What the cursor becomes when this hold and all before it are gone. */
  complete: bigint | null = null;
}

/** The cursor within one epoch. It never goes down. */
export class Frontier {
  readonly #head = new Hold();
  #tail = this.#head;

  constructor(cursor: bigint | null) {
    this.#head.complete = cursor;
  }

  /** All at or below it is applied, or is a pending registration. null: nothing is known. */
  get cursor(): bigint | null {
    return this.#head.complete;
  }

  /** Something was received that is not applied yet: later numbers wait until it is released. */
  hold(): Hold {
    const hold = new Hold();
    hold.previous = this.#tail;
    this.#tail.next = hold;
    this.#tail = hold;
    return hold;
  }

  /** What `hold` stands for is applied (or otherwise taken care of). Each hold is released once. */
  release(hold: Hold): void {
    const { previous: before, next: after } = hold;
    if (before === null) throw new Error("a hold is released once");
    before.complete = higher(before.complete, hold.complete);
    before.next = after;
    if (after === null) this.#tail = before;
    else after.previous = before;
    hold.previous = hold.next = null;
  }

  /** A frame said this number: it counts once all that is held now is released. */
  complete(complete: bigint): void {
    this.#tail.complete = higher(this.#tail.complete, complete);
  }

  /** A new epoch: no number of the old one counts any more. Holds stay. */
  void(): void {
    for (let node: Hold | null = this.#head; node !== null; node = node.next) node.complete = null;
  }
}

function higher(a: bigint | null, b: bigint | null): bigint | null {
  if (a === null || b === null) return b ?? a;
  return a > b ? a : b;
}
