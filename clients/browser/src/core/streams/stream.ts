/**
 * Stream: a session's position in its objects, or in the log of its domain's channels, and its acknowledgements.
 *
 * Frames carry the numbers of objects in their own fields, and those of other streams by place: `firstOf` returns the
 * first place, and the only one, which is the log of the domain's channels; `streamsOf` writes it.
 */

/** The number of the first stream in a PageEnd; there 0 is objects. */
export const FIRST = 1;

/** An Ack's fields for one stream. */
interface Acknowledgement {
  readonly complete: bigint | undefined;
  readonly page: number;
}

/** One stream of a session. A service and a client count each stream for itself. */
export class Stream {
  #acknowledgeable: bigint | null = null;
  #acknowledged: bigint | null;
  #pageEnd = 0;
  #live = false;

  /** Begins with the cursor in the Hello; null: it has none. */
  constructor(acknowledged: bigint | null) {
    this.#acknowledged = acknowledged;
  }

  /** The page to acknowledge with the next bytes that leave; 0: none. */
  get pageEnd(): number {
    return this.#pageEnd;
  }

  /** True once the service sends the stream live. */
  get live(): boolean {
    return this.#live;
  }

  /** Returns the cursor to acknowledge; null: the service knows it. */
  get acknowledgement(): bigint | null {
    return this.#acknowledgeable === this.#acknowledged ? null : this.#acknowledgeable;
  }

  /** Handles a Welcome: what is missing comes first. */
  welcomed(): void {
    this.#live = false;
  }

  /** Handles the end of catching up. */
  caughtUp(): void {
    this.#live = true;
  }

  /** Handles the end of a page, which the next Ack acknowledges. */
  pageEnded(page: number): void {
    this.#pageEnd = page;
  }

  /** The durable document contains this cursor. */
  durable(cursor: bigint | null): void {
    this.#acknowledgeable = cursor;
  }

  /** Forgets both cursors: they are of another epoch. */
  beginEpoch(): void {
    this.#acknowledged = this.#acknowledgeable = null;
  }

  /** Returns the page for an Ack, and the cursor, unless that `isHeld`; null: there is nothing to acknowledge. */
  acknowledge(isHeld: boolean): Acknowledgement | null {
    const complete = isHeld ? null : this.acknowledgement;
    const page = this.#pageEnd;
    this.#pageEnd = 0;
    if (complete !== null) this.#acknowledged = complete;
    return complete === null && page === 0 ? null : { complete: complete ?? undefined, page };
  }
}

/** Returns a frame's entry for the first stream; undefined: it has none. */
export function firstOf<T>(streams: readonly T[]): T | undefined {
  return streams[FIRST - 1];
}

/** Returns the streams of a frame that has this entry for the first one; null: none. */
export function streamsOf<T>(first: T | null): T[] {
  return first === null ? [] : [first];
}
