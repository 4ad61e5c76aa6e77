/** A session's Register and Unregister until they are answered, and the versions that must follow the answers. */

import { isName, type Interest } from "../interests/interests.js";
import type { Operation, Operations, Registrations, OperationStage } from "../interests/registrations.js";
import { REQUESTS_UNANSWERED_MAX } from "../../schemas/protocol.js";
import type { ClientSettings } from "../settings.js";

/** Operations that wait: for an answer (`stage` sent), or for a notification after it (confirmed). */
interface Request {
  readonly stage: OperationStage;
  readonly operations: Operations;
  readonly due: number;
}

/** The requests of a session. What is not answered in time is sent again. */
export class SessionRequests {
  readonly #registrations: Registrations;
  readonly #settings: ClientSettings;
  readonly #sent = new Map<number, Request>();
  #answered: Request[] = [];
  #number = 0;

  constructor(registrations: Registrations, settings: ClientSettings) {
    this.#registrations = registrations;
    this.#settings = settings;
  }

  /** The number of the next request of any kind; it is used by `numbered`. */
  get nextNumber(): number {
    return this.#number + 1;
  }

  /** Returns the number of a request that is sent now. */
  numbered(): number {
    this.#number += 1;
    return this.#number;
  }

  /** True if no further request may be sent before an answer. */
  get isFull(): boolean {
    return this.#sent.size >= REQUESTS_UNANSWERED_MAX;
  }

  /** Notes that these operations were sent under this number. */
  sent(number: number, operations: Operations, now: number): void {
    this.#sent.set(number, { stage: "sent", operations, due: now + this.#settings.requestTimeoutS });
  }

  /** Returns the operations of an unanswered request. */
  of(number: number): Operations | undefined {
    return this.#sent.get(number)?.operations;
  }

  /** Handles an answer. Returns the operations; undefined: nothing of this number was asked. */
  take(number: number): Operations | undefined {
    const operations = this.of(number);
    this.#sent.delete(number);
    return operations;
  }

  /**
   * Limits the time in which versions of these objects must come. Answers of queries may take long: CaughtUp is their
   * limit.
   */
  awaitVersions(operations: Operations, now: number): void {
    const names = new Map<Interest, Operation>([...operations].filter(([interest]) => isName(interest)));
    if (names.size === 0) return;
    this.#answered.push({ stage: "confirmed", operations: names, due: now + this.#settings.requestTimeoutS });
  }

  /** Handles the end of catching up: what was confirmed before has come, or was lost. */
  caughtUp(): void {
    this.#answered = [];
  }

  /** Forgets all of them, because a reg-sync begins. */
  beginSync(): void {
    this.#sent.clear();
    this.#answered = [];
  }

  /** Sends again what is overdue. `overdue` returns when a request is, by its `due`. */
  tick(now: number, overdue: (due: number) => number): void {
    for (const [number, request] of this.#sent) {
      if (overdue(request.due) > now) continue;
      this.#sent.delete(number);
      this.#registrations.resend(request.operations, request.stage);
    }
    for (let first = this.#answered[0]; first && overdue(first.due) <= now; first = this.#answered[0]) {
      this.#answered.shift();
      this.#registrations.resend(first.operations, first.stage);
    }
  }

  /** The times by which answers must come. */
  get due(): number[] {
    return [...this.#sent.values(), ...this.#answered.slice(0, 1)].map(({ due }) => due);
  }
}
