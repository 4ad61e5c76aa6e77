/**
 * Stream: how far a session has come in its objects, or in the log of its domain's channels, and what it acknowledges.
 *
 * Frames say these numbers of objects themselves, and those of other streams by place: `firstOf` reads the first place,
 * and the only one, which is the log of the domain's channels.
 */

/** The number of the first stream in a PageEnd; there 0 is objects. */
export const FIRST = 1;

/** What an Ack says of one stream. */
export interface Acknowledgement {
  readonly complete: bigint | undefined;
  readonly page: number;
}

/** One stream of a session. */
export class Stream {
  /** The cursor in the durable document. */
  acknowledgeable: bigint | null = null;
  /** The page to acknowledge with the next bytes that leave; 0: none. */
  pageEnd = 0;
  /** The service sends what comes into the stream as it comes. */
  live = false;
  #acknowledged: bigint | null;

  /** Begins with the cursor that the Hello says; null: it says none. */
  constructor(acknowledged: bigint | null) {
    this.#acknowledged = acknowledged;
  }

  /** Returns the cursor to acknowledge; null: the service knows it. */
  get acknowledgement(): bigint | null {
    return this.acknowledgeable === this.#acknowledged ? null : this.acknowledgeable;
  }

  /** Forgets both cursors: they are of another epoch. */
  beginEpoch(): void {
    this.#acknowledged = this.acknowledgeable = null;
  }

  /** Returns the page that an Ack says, and the cursor, unless that `isHeld`; null: there is nothing to say. */
  acknowledge(isHeld: boolean): Acknowledgement | null {
    const complete = isHeld ? null : this.acknowledgement;
    const page = this.pageEnd;
    this.pageEnd = 0;
    if (complete !== null) this.#acknowledged = complete;
    return complete === null && page === 0 ? null : { complete: complete ?? undefined, page };
  }
}

/** Returns what a frame says of the first stream; undefined: it says nothing. */
export function firstOf<T>(streams: readonly T[]): T | undefined {
  return streams[FIRST - 1];
}
