/** The wanted set and the operations that are pending: what is asked for, and how far the asking has come. */

import { add, digest, objectDigest } from "./digest.js";
import type { Journal } from "./journal.js";
import { OBJECTS_PER_FRAME_MAX } from "./protocol.js";

export type Kind = "register" | "unregister";

/**
 * How far an operation has come in the present session.
 *
 * confirmed: the service has it, durably; the object's newest version is to come. arrived: that came; its callbacks
 * have not returned (or failed too often). Both are of registrations only.
 */
export type Stage = "unsent" | "sent" | "confirmed" | "arrived";

/** A registration or unregistration that is not settled. Its identity is the object's own. */
export class Operation {
  constructor(
    readonly kind: Kind,
    /** The document's revision it first was in; it is sent once that is durable. */
    readonly revision: number,
    public stage: Stage = "unsent",
  ) {}
}

export type Operations = ReadonlyMap<string, Operation>;

/** The wanted set, and at most one pending operation for each object. */
export class Registrations {
  readonly #journal: Journal;
  readonly #wanted: Set<string>;
  readonly #pending = new Map<string, Operation>();
  // Two views on `pending`, kept because sets of 10,000 must not be searched at each step.
  readonly #unsent = new Map<string, Operation>();
  readonly #stages: Record<Stage, number> = { unsent: 0, sent: 0, confirmed: 0, arrived: 0 };
  #digest: bigint;

  constructor(journal: Journal, wanted: Iterable<string> = [], pending: Iterable<[string, Kind]> = []) {
    this.#journal = journal;
    this.#wanted = new Set(wanted);
    this.#digest = digest(this.#wanted);
    for (const [name, kind] of pending) this.#add(name, new Operation(kind, journal.revision));
  }

  get wanted(): ReadonlySet<string> {
    return this.#wanted;
  }

  get pending(): Operations {
    return this.#pending;
  }

  /** Of the wanted set, so of the registrations as they are after the pending operations. */
  get digest(): bigint {
    return this.#digest;
  }

  // What the application asks for

  /** Want this object. Whether that is a change: an object that is wanted already is not asked for again. */
  register(name: string): boolean {
    if (this.#wanted.has(name)) return false;
    this.#wanted.add(name);
    this.#digest = add(this.#digest, objectDigest(name));
    this.#put(name, "register", "unsent", true);
    return true;
  }

  /** Want this object no more. Whether that is a change. */
  unregister(name: string): boolean {
    if (!this.#forget(name)) return false;
    this.#put(name, "unregister", "unsent", true);
    return true;
  }

  /**
   * Make a wanted object a pending registration, so that it is answered again in the next session.
   *
   * For what was received and cannot be told now. In this session nothing is sent for it.
   */
  owe(name: string): void {
    if (this.#wanted.has(name) && !this.#pending.has(name)) this.#put(name, "register", "arrived", false);
  }

  /** Whether the object is a pending registration: then it need not hold the cursor. */
  isOwed(name: string): boolean {
    return this.#pending.get(name)?.kind === "register";
  }

  // What a session does with it

  /** A new session: nothing is sent yet. The operations for its Hello, as sent: all, or none if they are many. */
  beginSession(): Operations {
    for (const [name, operation] of this.#pending) this.#move(name, operation, "unsent");
    if (this.#pending.size > OBJECTS_PER_FRAME_MAX) return new Map();
    return this.#allSent();
  }

  /**
   * The service's set is to be replaced: the whole wanted set is pending now. All operations, as sent.
   *
   * The revision that this makes has to be durable before the first chunk leaves.
   */
  beginSync(): Operations {
    const revision = this.#journal.changed(true);
    for (const name of this.#wanted) {
      if (!this.#pending.has(name)) this.#add(name, new Operation("register", revision));
    }
    return this.#allSent();
  }

  /** Operations of one kind for the next request, as sent; null if nothing is to be sent, or not durable yet. */
  nextRequest(): { kind: Kind; operations: Operations } | null {
    let kind: Kind | null = null;
    const operations = new Map<string, Operation>();
    for (const [name, operation] of this.#unsent) {
      if (!this.#journal.isDurable(operation.revision)) continue;
      kind ??= operation.kind;
      if (operation.kind !== kind) continue;
      operations.set(name, operation);
      if (operations.size === OBJECTS_PER_FRAME_MAX) break;
    }
    if (kind === null) return null;
    for (const [name, operation] of operations) this.#move(name, operation, "sent");
    return { kind, operations };
  }

  /** Those of `operations` that are still pending and at `stage` are to be sent again. */
  resend(operations: Operations, stage: Stage): void {
    for (const [name, operation] of operations) {
      if (this.#pending.get(name) === operation && operation.stage === stage) this.#move(name, operation, "unsent");
    }
  }

  /** The service has these, durably. Answers to operations that have been replaced change nothing. */
  confirm(operations: Operations): void {
    for (const [name, operation] of operations) {
      if (this.#pending.get(name) !== operation || operation.stage !== "sent") continue;
      if (operation.kind === "register") {
        this.#move(name, operation, "confirmed");
      } else {
        this.#remove(name);
        this.#journal.changed();
      }
    }
  }

  /** The service refused this one of `operations`. Whether the object has left the wanted set for it. */
  refuse(name: string, operations: Operations): boolean {
    const operation = operations.get(name);
    if (operation === undefined || this.#pending.get(name) !== operation || operation.kind !== "register") return false;
    this.#forget(name);
    this.#remove(name);
    this.#journal.changed();
    return true;
  }

  /** A notification of this object came: if its registration was confirmed before, this is the answer. */
  arrived(name: string): void {
    const operation = this.#pending.get(name);
    if (operation?.stage === "confirmed") this.#move(name, operation, "arrived");
  }

  /** All that came of this object is applied: if the answer to its registration was among it, that is done. */
  settle(name: string): void {
    if (this.#pending.get(name)?.stage !== "arrived") return;
    this.#remove(name);
    this.#journal.changed();
  }

  /** The operations that are confirmed, and whose object's newest version has not come. */
  unanswered(): Operations {
    if (this.#stages.confirmed === 0) return new Map();
    return new Map([...this.#pending].filter(([, operation]) => operation.stage === "confirmed"));
  }

  /** Whether the service knows all operations: then the digest says what it should have. */
  get allConfirmed(): boolean {
    return this.#stages.unsent + this.#stages.sent === 0;
  }

  /** Whether every registration has been answered with the newest version. */
  get allArrived(): boolean {
    return this.allConfirmed && this.#stages.confirmed === 0;
  }

  // One object

  #allSent(): Operations {
    for (const [name, operation] of this.#pending) this.#move(name, operation, "sent");
    return new Map(this.#pending);
  }

  #forget(name: string): boolean {
    if (!this.#wanted.delete(name)) return false;
    this.#digest = add(this.#digest, -objectDigest(name));
    return true;
  }

  #put(name: string, kind: Kind, stage: Stage, urgent: boolean): void {
    this.#remove(name);
    this.#add(name, new Operation(kind, this.#journal.changed(urgent), stage));
  }

  #add(name: string, operation: Operation): void {
    this.#pending.set(name, operation);
    this.#stages[operation.stage] += 1;
    if (operation.stage === "unsent") this.#unsent.set(name, operation);
  }

  #remove(name: string): void {
    const operation = this.#pending.get(name);
    if (operation === undefined) return;
    this.#pending.delete(name);
    this.#stages[operation.stage] -= 1;
    this.#unsent.delete(name);
  }

  #move(name: string, operation: Operation, stage: Stage): void {
    this.#stages[operation.stage] -= 1;
    this.#stages[stage] += 1;
    operation.stage = stage;
    if (stage === "unsent") this.#unsent.set(name, operation);
    else this.#unsent.delete(name);
  }
}
