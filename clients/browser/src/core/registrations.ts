/** The wanted set and the operations that are pending: what is asked for, and how far the asking has come. */

import { add } from "./digest.js";
import { fitInFrame, type Interest, interestDigest, isChannel, isQuery, Room } from "./interests.js";
import type { Journal } from "./journal.js";

export type Kind = "register" | "unregister";

/**
 * How far an operation has come in the present session.
 *
 * confirmed: the service has it, durably; the object's newest version is to come. arrived: that came; its callbacks
 * have not returned (or failed too often). Both are of registrations only; a query's members are what comes for it.
 * withheld: a query's or a channel's, and this service knows none.
 */
export type Stage = "unsent" | "sent" | "confirmed" | "arrived" | "withheld";

/** A registration or unregistration that is not settled. Its identity is the object's own. */
export class Operation {
  constructor(
    readonly kind: Kind,
    /** The document's revision it first was in; it is sent once that is durable. */
    readonly revision: number,
    public stage: Stage = "unsent",
  ) {}
}

export type Operations = ReadonlyMap<Interest, Operation>;

/** The wanted set, and at most one pending operation for each interest. */
export class Registrations {
  readonly #journal: Journal;
  readonly #wanted: Set<Interest>;
  readonly #pending = new Map<Interest, Operation>();
  // Two views on `pending`, kept because sets of 10,000 must not be searched at each step.
  readonly #unsent = new Map<Interest, Operation>();
  readonly #stages: Record<Stage, number> = { unsent: 0, sent: 0, confirmed: 0, arrived: 0, withheld: 0 };
  /** Registrations among `pending`. */
  #registers = 0;
  /** So often something has become pending, or is no more. */
  changes = 0;
  #namesDigest = 0n;
  #queriesDigest = 0n;
  #channelsDigest = 0n;
  /** Those of the wanted set. */
  readonly #channels = new Set<Interest>();
  #knowsQueries = true;
  /** As the service said last. */
  #knowsChannels = true;
  /** It has said in this session that it knows none. */
  #withholdsChannels = false;

  constructor(journal: Journal, wanted: Iterable<Interest> = [], pending: Iterable<readonly [Interest, Kind]> = []) {
    this.#journal = journal;
    this.#wanted = new Set(wanted);
    for (const interest of this.#wanted) this.#count(interest, 1n);
    for (const [interest, kind] of pending) this.#add(interest, new Operation(kind, journal.revision));
  }

  get wanted(): ReadonlySet<Interest> {
    return this.#wanted;
  }

  get pending(): Operations {
    return this.#pending;
  }

  /** Of the wanted set, so of the registrations as they are after the pending operations. Queries and channels are in it
   * unless the service is known to know none. */
  get digest(): bigint {
    const digest = this.#knowsQueries ? add(this.#namesDigest, this.#queriesDigest) : this.#namesDigest;
    return this.#knowsChannels ? add(digest, this.#channelsDigest) : digest;
  }

  /** Whether a query is wanted, or to be unregistered. */
  get hasQueries(): boolean {
    return [this.#wanted, this.#pending.keys()].some((all) => [...all].some(isQuery));
  }

  /** The channels in the wanted set. */
  get channels(): ReadonlySet<Interest> {
    return this.#channels;
  }

  /** Whether a channel is wanted, or to be unregistered. */
  get hasChannels(): boolean {
    return this.#channels.size > 0 || [...this.#pending.keys()].some(isChannel);
  }

  /** Whether the service knows channels, as it said last. */
  get knowsChannels(): boolean {
    return this.#knowsChannels;
  }

  /** Whether the service knows queries, as far as it has said. */
  get knowsQueries(): boolean {
    return this.#knowsQueries;
  }

  // What the application asks for

  /** Want this. Whether that is a change: what is wanted already is not asked for again. */
  register(interest: Interest): boolean {
    if (this.#wanted.has(interest)) return false;
    this.#wanted.add(interest);
    this.#count(interest, 1n);
    this.#put(interest, "register", "unsent", true);
    return true;
  }

  /** Want this no more. Whether that is a change. */
  unregister(interest: Interest): boolean {
    if (!this.#forget(interest)) return false;
    this.#put(interest, "unregister", "unsent", true);
    return true;
  }

  /**
   * Make what is wanted a pending registration, so that it is answered again in the next session.
   *
   * For what was received and cannot be told now. In this session nothing is sent for it.
   */
  owe(interest: Interest): void {
    if (this.#wanted.has(interest) && !this.#pending.has(interest)) this.#put(interest, "register", "arrived", false);
  }

  /** Register for it again, as soon as that is durable. */
  askAgain(interest: Interest): void {
    if (this.#wanted.has(interest)) this.#put(interest, "register", "unsent", true);
  }

  /** The service is going to answer it without being asked. */
  expect(interest: Interest): void {
    if (this.#wanted.has(interest) && !this.#pending.has(interest)) this.#put(interest, "register", "confirmed", false);
  }

  /** Whether it is a pending registration: then it need not hold the cursor. */
  isOwed(interest: Interest): boolean {
    return this.#pending.get(interest)?.kind === "register";
  }

  /** Whether a registration is pending. */
  get owes(): boolean {
    return this.#registers > 0;
  }

  /** Of its pending operation; null: there is none. */
  stageOf(interest: Interest): Stage | null {
    return this.#pending.get(interest)?.stage ?? null;
  }

  // What a session does with it

  /** A new session: nothing is sent yet. The operations for its Hello, as sent: all, or none if they are many. */
  beginSession(): Operations {
    this.#withholdsChannels = false;
    for (const [interest, operation] of this.#pending) this.#move(interest, operation, "unsent");
    return fitInFrame(this.#pending.keys()) ? this.#allSent() : new Map();
  }

  /**
   * The service's set is to be replaced: the whole wanted set is pending now. All operations, as sent.
   *
   * The revision that this makes has to be durable before the first chunk leaves.
   */
  beginSync(): Operations {
    const revision = this.#journal.changed(true);
    for (const interest of this.#wanted) {
      if (!this.#pending.has(interest)) this.#add(interest, new Operation("register", revision));
    }
    if (!this.#knowsChannels) this.#withholdChannels();
    return this.#allSent();
  }

  /** The service knows queries, or does not: then those that are pending wait for one that does. */
  knowQueries(knowsQueries: boolean): void {
    this.#knowsQueries = knowsQueries;
    for (const [interest, operation] of this.#pending) {
      if (!isQuery(interest)) continue;
      if (!knowsQueries) this.#move(interest, operation, "withheld");
      else if (operation.stage === "withheld") this.#move(interest, operation, "unsent");
    }
  }

  /** The same of channels. Their cursor stays where it is: those that are not pending wait for nothing. */
  knowChannels(knowsChannels: boolean): void {
    this.#knowsChannels = knowsChannels;
    this.#withholdsChannels = !knowsChannels;
    if (!knowsChannels) {
      this.#withholdChannels();
      return;
    }
    for (const [interest, operation] of this.#pending) {
      if (isChannel(interest) && operation.stage === "withheld") this.#move(interest, operation, "unsent");
    }
  }

  #withholdChannels(): void {
    for (const [interest, operation] of this.#pending) if (isChannel(interest)) this.#move(interest, operation, "withheld");
  }

  /** Operations of one kind for the next request, as sent; null if nothing is to be sent, or not durable yet. */
  nextRequest(): { kind: Kind; operations: Operations } | null {
    let kind: Kind | null = null;
    const room = new Room();
    const operations = new Map<Interest, Operation>();
    for (const [interest, operation] of this.#unsent) {
      if (!this.#journal.isDurable(operation.revision)) continue;
      kind ??= operation.kind;
      if (operation.kind !== kind) continue;
      if (!room.takes(interest)) break;
      operations.set(interest, operation);
    }
    if (kind === null) return null;
    for (const [interest, operation] of operations) this.#move(interest, operation, "sent");
    return { kind, operations };
  }

  /** Those of `operations` that are still pending and at `stage` are to be sent again. */
  resend(operations: Operations, stage: Stage): void {
    for (const [interest, operation] of operations) {
      if (this.#pending.get(interest) === operation && operation.stage === stage) this.#move(interest, operation, "unsent");
    }
  }

  /** The service has these, durably. Those of which it now owes an answer. Answers to operations that have been replaced
   * change nothing. */
  confirm(operations: Operations): Interest[] {
    const owed: Interest[] = [];
    for (const [interest, operation] of operations) {
      if (this.#pending.get(interest) !== operation || operation.stage !== "sent") continue;
      if (operation.kind === "register") {
        this.#move(interest, operation, "confirmed");
        owed.push(interest);
      } else {
        this.#remove(interest);
        this.#journal.changed();
      }
    }
    return owed;
  }

  /** The service refused this one of `operations`. Whether it has left the wanted set for it. */
  refuse(interest: Interest, operations: Operations): boolean {
    const operation = operations.get(interest);
    if (operation === undefined || this.#pending.get(interest) !== operation || operation.kind !== "register") return false;
    return this.#leave(interest);
  }

  /** The service refused it after it had taken its registration. Whether it has left the wanted set: one that was sent
   * since is answered by itself. */
  refuseLater(interest: Interest): boolean {
    const stage = this.stageOf(interest);
    return stage !== "unsent" && stage !== "sent" && this.#leave(interest);
  }

  /** Its answer came: if its registration was confirmed before. Whether it was. */
  arrived(interest: Interest): boolean {
    const operation = this.#pending.get(interest);
    if (operation?.stage !== "confirmed") return false;
    this.#move(interest, operation, "arrived");
    return true;
  }

  /** All that came of it is applied: if the answer to its registration was among it, that is done. */
  settle(interest: Interest): void {
    if (this.#pending.get(interest)?.stage !== "arrived") return;
    this.#remove(interest);
    this.#journal.changed();
  }

  /** The operations that are confirmed, and whose answer has not come. */
  unanswered(): Operations {
    if (this.#stages.confirmed === 0) return new Map();
    return new Map([...this.#pending].filter(([, operation]) => operation.stage === "confirmed"));
  }

  /** Whether the service knows all operations that it can know: then the digest says what it should have. */
  get allConfirmed(): boolean {
    return this.#stages.unsent + this.#stages.sent === 0;
  }

  /** Whether every registration has been answered. */
  get allArrived(): boolean {
    return this.allConfirmed && this.#stages.confirmed + this.#stages.withheld === 0;
  }

  // One interest

  #allSent(): Operations {
    for (const [interest, operation] of this.#pending) {
      if (operation.stage !== "withheld") this.#move(interest, operation, "sent");
    }
    return new Map(this.#pending);
  }

  #leave(interest: Interest): boolean {
    if (!this.#forget(interest)) return false;
    this.#remove(interest);
    this.#journal.changed();
    return true;
  }

  #forget(interest: Interest): boolean {
    if (!this.#wanted.delete(interest)) return false;
    this.#count(interest, -1n);
    return true;
  }

  /** It comes to the digest (1n), or goes (-1n). */
  #count(interest: Interest, sign: bigint): void {
    const share = sign * interestDigest(interest);
    if (isQuery(interest)) {
      this.#queriesDigest = add(this.#queriesDigest, share);
    } else if (isChannel(interest)) {
      this.#channelsDigest = add(this.#channelsDigest, share);
      if (sign > 0n) this.#channels.add(interest);
      else this.#channels.delete(interest);
    } else {
      this.#namesDigest = add(this.#namesDigest, share);
    }
  }

  #put(interest: Interest, kind: Kind, stage: Stage, urgent: boolean): void {
    this.#remove(interest);
    this.#add(interest, new Operation(kind, this.#journal.changed(urgent), stage));
  }

  #add(interest: Interest, operation: Operation): void {
    if (isQuery(interest) && !this.#knowsQueries) operation.stage = "withheld";
    if (isChannel(interest) && this.#withholdsChannels && operation.stage === "unsent") operation.stage = "withheld";
    this.#pending.set(interest, operation);
    this.#stages[operation.stage] += 1;
    this.#note(operation, 1);
    if (operation.stage === "unsent") this.#unsent.set(interest, operation);
  }

  #remove(interest: Interest): void {
    const operation = this.#pending.get(interest);
    if (operation === undefined) return;
    this.#pending.delete(interest);
    this.#stages[operation.stage] -= 1;
    this.#note(operation, -1);
    this.#unsent.delete(interest);
  }

  /** It is pending from now on (1), or no more (-1). */
  #note({ kind }: Operation, sign: 1 | -1): void {
    if (kind === "register") this.#registers += sign;
    this.changes += 1;
  }

  #move(interest: Interest, operation: Operation, stage: Stage): void {
    this.#stages[operation.stage] -= 1;
    this.#stages[stage] += 1;
    operation.stage = stage;
    if (stage === "unsent") this.#unsent.set(interest, operation);
    else this.#unsent.delete(interest);
  }
}
