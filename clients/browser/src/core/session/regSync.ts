/** A reg-sync under way: the whole wanted set, in chunks, because the service's set differs. */

import { framesOf, type Interest, isChannel, isName, isQuery, isShare } from "../interests/interests.js";
import type { Operations, Registrations } from "../interests/registrations.js";
import type { Journal } from "../journal.js";

/** The chunks of one set. None leaves before the document is durable in which all of it is pending. */
export class RegSync {
  readonly operations: Operations;
  readonly #revision: number;
  readonly #journal: Journal;
  readonly #chunks: readonly (readonly Interest[])[];
  #sent = 0;
  #due: number | null = null;

  constructor(journal: Journal, registrations: Registrations, operations: Operations) {
    this.operations = operations;
    this.#revision = journal.revision;
    this.#journal = journal;
    const wanted = [...registrations.wanted].sort();
    const queries = registrations.knowsQueries ? wanted.filter(isQuery) : [];
    const channels = registrations.knowsChannels ? wanted.filter(isChannel) : [];
    const shares = registrations.knowsShares ? wanted.filter(isShare) : [];
    this.#chunks = framesOf([...wanted.filter(isName), ...queries, ...channels, ...shares]);
  }

  /** True once the last chunk has left. */
  get allSent(): boolean {
    return this.#sent === this.#chunks.length;
  }

  /** True if a chunk may leave. */
  get isReady(): boolean {
    return !this.allSent && this.#journal.isDurable(this.#revision);
  }

  /** Returns the next chunk's place, its interests, and true if it is the last one. */
  nextChunk(): { index: number; interests: readonly Interest[]; last: boolean } {
    const index = this.#sent;
    this.#sent += 1;
    return { index, interests: this.#chunks[index] as readonly Interest[], last: this.allSent };
  }

  /** The time by which the answer must come; null: the chunks have not all left. */
  get due(): number | null {
    return this.#due;
  }

  /** Limits the time for the answer. */
  awaitAnswer(due: number): void {
    this.#due = due;
  }
}
