/**
 * The cursor, and the holds that keep it back. See `docs/protocol.md`, "The cursor".
 *
 * How it works is in the docstring of `frontier` in `clients/python/coldnotify/_core/streams`. Every step is O(1).
 */

/** A place in the sequence of received frames that is not applied yet. */
export class Hold {
  previous: Hold | null = null;
  next: Hold | null = null;
  /** The value of the cursor once this hold and all before it are gone. */
  complete: bigint | null = null;
  /** Then everything acknowledged before that time has been told. */
  asOf: number | null = null;
}

/** The cursor within one epoch. It never goes down. */
export class Frontier {
  readonly #head = new Hold();
  #tail = this.#head;

  constructor(cursor: bigint | null) {
    this.#head.complete = cursor;
  }

  /** Everything at or below it is applied, or is a pending registration; null: nothing is known. */
  get cursor(): bigint | null {
    return this.#head.complete;
  }

  /** Everything acknowledged before that time is applied, or is a pending registration; null: not known. */
  get asOf(): number | null {
    return this.#head.asOf;
  }

  /** Adds a hold for a received version that is not applied yet: later numbers wait until it is released. */
  hold(): Hold {
    const hold = new Hold();
    hold.previous = this.#tail;
    this.#tail.next = hold;
    this.#tail = hold;
    return hold;
  }

  /** Releases a hold, once its version is applied (or otherwise taken care of). Each hold is released once. */
  release(hold: Hold): void {
    const { previous: before, next: after } = hold;
    if (before === null) throw new Error("a hold is released once");
    before.complete = higher(before.complete, hold.complete);
    before.asOf = higher(before.asOf, hold.asOf);
    before.next = after;
    if (after === null) this.#tail = before;
    else after.previous = before;
    hold.previous = hold.next = null;
  }

  /** Notes a number that a frame carried: it counts once all present holds are released. */
  complete(complete: bigint): void {
    this.#tail.complete = higher(this.#tail.complete, complete);
  }

  /** Notes that everything acknowledged before that time has come: it counts once all present holds are released. */
  prove(asOf: number): void {
    this.#tail.asOf = higher(this.#tail.asOf, asOf);
  }

  /** Begins a new epoch: no number of the old one counts any more. Holds stay. */
  void(): void {
    for (let node: Hold | null = this.#head; node !== null; node = node.next) node.complete = null;
  }
}

function higher<N extends bigint | number>(a: N | null, b: N | null): N | null {
  if (a === null || b === null) return b ?? a;
  return a > b ? a : b;
}
