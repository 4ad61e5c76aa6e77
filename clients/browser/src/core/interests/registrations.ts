/** The wanted set and the pending operations: what is requested, and the progress of the requests. */

import { add } from "../../schemas/digest.js";
import { fitInFrame, type Interest, hashOf, isChannel, isQuery, isShare, FrameRoom } from "./interests.js";
import type { Journal } from "../journal.js";

export type OperationKind = "register" | "unregister";

/**
 * The progress of an operation in the present session.
 *
 * confirmed: the service has it, durably; the object's newest version is still to come. arrived: that came; its
 * callbacks have not returned (or failed too often). Both are for registrations only; for a query, its members take the
 * version's place. withheld: a query, a channel or a share, and this service knows none.
 */
export type OperationStage = "unsent" | "sent" | "confirmed" | "arrived" | "withheld";

/** A registration or unregistration that is not settled. It is identified by the object itself. */
export class Operation {
  constructor(
    readonly kind: OperationKind,
    /** The document's first revision that contains it; it is sent once that is durable. */
    readonly revision: number,
    public stage: OperationStage = "unsent",
    /** False: the service surely has not been asked for it, in whatever session. */
    public mayBeKnown = true,
  ) {}
}

export type Operations = ReadonlyMap<Interest, Operation>;

/** The wanted set, and at most one pending operation for each interest. */
export class Registrations {
  readonly #journal: Journal;
  readonly #wanted: Set<Interest>;
  readonly #pending = new Map<Interest, Operation>();
  // Two views of `pending`, because sets of 10,000 must not be searched at each step.
  readonly #unsent = new Map<Interest, Operation>();
  readonly #stages: Record<OperationStage, number> = { unsent: 0, sent: 0, confirmed: 0, arrived: 0, withheld: 0 };
  /** Number of registrations in `pending`. */
  #registers = 0;
  /** Number of changes of `pending`. */
  changes = 0;
  #namesDigest = 0n;
  #queriesDigest = 0n;
  #channelsDigest = 0n;
  #sharesDigest = 0n;
  /** The channels of the wanted set. */
  readonly #channels = new Set<Interest>();
  /** The shares of the wanted set. */
  readonly #shares = new Set<Interest>();
  #knowsQueries = true;
  /** True unless the service last reported that it knows no channels. */
  #knowsChannels = true;
  /** True if the service has reported in this session that it knows none. */
  #withholdsChannels = false;
  /** The same of shares. */
  #knowsShares = true;
  #withholdsShares = false;

  constructor(journal: Journal, wanted: Iterable<Interest> = [], pending: Iterable<readonly [Interest, OperationKind]> = []) {
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

  /**
   * The digest of the wanted set, which is the set after the pending operations. It includes queries, channels
   * and shares unless the service is known to know none.
   */
  get digest(): bigint {
    const digest = this.#knowsQueries ? add(this.#namesDigest, this.#queriesDigest) : this.#namesDigest;
    const both = this.#knowsChannels ? add(digest, this.#channelsDigest) : digest;
    return this.#knowsShares ? add(both, this.#sharesDigest) : both;
  }

  /** True if a query is wanted, or to be unregistered. */
  get hasQueries(): boolean {
    return [this.#wanted, this.#pending.keys()].some((all) => [...all].some(isQuery));
  }

  /** The channels in the wanted set. */
  get channels(): ReadonlySet<Interest> {
    return this.#channels;
  }

  /** True if a channel is wanted, or to be unregistered. */
  get hasChannels(): boolean {
    return this.#channels.size > 0 || [...this.#pending.keys()].some(isChannel);
  }

  /** The shares in the wanted set. */
  get shares(): ReadonlySet<Interest> {
    return this.#shares;
  }

  /** True if a share is wanted, or to be unregistered. */
  get hasShares(): boolean {
    return this.#shares.size > 0 || [...this.#pending.keys()].some(isShare);
  }

  /** True if the service knows shares, as it last reported. */
  get knowsShares(): boolean {
    return this.#knowsShares;
  }

  /** True if the service knows channels, as it last reported. */
  get knowsChannels(): boolean {
    return this.#knowsChannels;
  }

  /** True if the service knows queries, as far as it has reported. */
  get knowsQueries(): boolean {
    return this.#knowsQueries;
  }

  // Calls of the application

  /** Registers for the interest. Returns true if that is a change: a wanted interest is not requested again. */
  register(interest: Interest): boolean {
    if (this.#wanted.has(interest)) return false;
    this.#wanted.add(interest);
    this.#count(interest, 1n);
    const mayBeKnown = this.#pending.has(interest);
    this.#put(interest, "register", "unsent", true, mayBeKnown);
    return true;
  }

  /** Ends the registration. Returns true if that is a change. */
  unregister(interest: Interest): boolean {
    if (!this.#forget(interest)) return false;
    this.#put(interest, "unregister", "unsent", true);
    return true;
  }

  /**
   * Makes a wanted interest a pending registration, so that it is answered again in the next session.
   *
   * For updates that were received and cannot be told now. In this session nothing is sent for it.
   */
  owe(interest: Interest): void {
    if (this.#wanted.has(interest) && !this.#pending.has(interest)) this.#put(interest, "register", "arrived", false);
  }

  /** Registers for it again, as soon as that is durable. */
  askAgain(interest: Interest): void {
    if (this.#wanted.has(interest)) this.#put(interest, "register", "unsent", true);
  }

  /** Expects an answer that the service will send unasked. */
  expect(interest: Interest): void {
    if (this.#wanted.has(interest) && !this.#pending.has(interest)) this.#put(interest, "register", "confirmed", false);
  }

  /** Returns true if it is a pending registration, so that it need not hold the cursor. */
  isOwed(interest: Interest): boolean {
    return this.#pending.get(interest)?.kind === "register";
  }

  /** True if a registration is pending. */
  get owes(): boolean {
    return this.#registers > 0;
  }

  /** Returns the stage of its pending operation; null if there is none. */
  stageOf(interest: Interest): OperationStage | null {
    return this.#pending.get(interest)?.stage ?? null;
  }

  // Calls of a session

  /**
   * Begins a session, in which nothing is sent yet. Returns the operations for its Hello, as sent: all, or none if they
   * are many, or not to be `inHello`.
   */
  beginSession(inHello = true): Operations {
    this.#withholdsChannels = this.#withholdsShares = false;
    for (const [interest, operation] of this.#pending) this.#move(interest, operation, "unsent");
    return inHello && fitInFrame(this.#pending.keys()) ? this.#allSent() : new Map();
  }

  /**
   * Begins a reg-sync, which replaces the service's set: the whole wanted set becomes pending. Returns all operations,
   * as sent.
   *
   * The revision that this makes has to be durable before the first chunk leaves.
   */
  beginSync(): Operations {
    const revision = this.#journal.changed(true);
    for (const interest of this.#wanted) {
      if (!this.#pending.has(interest)) this.#add(interest, new Operation("register", revision));
    }
    if (!this.#knowsChannels) this.#withhold(isChannel);
    if (!this.#knowsShares) this.#withhold(isShare);
    return this.#allSent();
  }

  /** Notes if the service knows queries. If not, pending ones wait for a service that does. */
  knowQueries(knowsQueries: boolean): void {
    this.#knowsQueries = knowsQueries;
    for (const [interest, operation] of this.#pending) {
      if (!isQuery(interest)) continue;
      if (!knowsQueries) this.#move(interest, operation, "withheld");
      else if (operation.stage === "withheld") this.#move(interest, operation, "unsent");
    }
  }

  /**
   * Notes if the service knows channels. If not, pending ones wait for a service that does; their cursor stays, and the
   * others wait for nothing.
   */
  knowChannels(knowsChannels: boolean): void {
    this.#knowsChannels = knowsChannels;
    this.#withholdsChannels = !knowsChannels;
    if (knowsChannels) this.#sendWithheld(isChannel);
    else this.#withhold(isChannel);
  }

  /** Notes if the service knows shares. If not, pending ones wait for a service that does. */
  knowShares(knowsShares: boolean): void {
    this.#knowsShares = knowsShares;
    this.#withholdsShares = !knowsShares;
    if (knowsShares) this.#sendWithheld(isShare);
    else this.#withhold(isShare);
  }

  #withhold(isOne: (interest: Interest) => boolean): void {
    for (const [interest, operation] of this.#pending) if (isOne(interest)) this.#move(interest, operation, "withheld");
  }

  #sendWithheld(isOne: (interest: Interest) => boolean): void {
    for (const [interest, operation] of this.#pending) {
      if (isOne(interest) && operation.stage === "withheld") this.#move(interest, operation, "unsent");
    }
  }

  /**
   * Returns operations of one kind for the next request, as sent; null if there are none, or they are not durable yet.
   */
  nextRequest(): { kind: OperationKind; operations: Operations } | null {
    let kind: OperationKind | null = null;
    const room = new FrameRoom();
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

  /** Sends those of `operations` again that are still pending and at `stage`. */
  resend(operations: Operations, stage: OperationStage): void {
    for (const [interest, operation] of operations) {
      if (this.#pending.get(interest) === operation && operation.stage === stage) this.#move(interest, operation, "unsent");
    }
  }

  /**
   * Notes that the service has these operations, durably. Returns the interests for which it owes an answer. Ignores
   * operations that have been replaced.
   */
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

  /** Handles the refusal of one of `operations`. Returns true if the interest has left the wanted set because of it. */
  refuse(interest: Interest, operations: Operations): boolean {
    const operation = operations.get(interest);
    if (operation === undefined || this.#pending.get(interest) !== operation || operation.kind !== "register") return false;
    return this.#leave(interest);
  }

  /**
   * Handles a refusal that came after the service had accepted the registration. Returns true if the interest has left
   * the wanted set: a registration sent since gets its own answer.
   */
  refuseLater(interest: Interest): boolean {
    const stage = this.stageOf(interest);
    return stage !== "unsent" && stage !== "sent" && this.#leave(interest);
  }

  /** Notes the arrival of an answer, if the registration was confirmed before. Returns true if it was. */
  arrived(interest: Interest): boolean {
    const operation = this.#pending.get(interest);
    if (operation?.stage !== "confirmed") return false;
    this.#move(interest, operation, "arrived");
    return true;
  }

  /** Settles a registration if its answer is among the updates applied so far. */
  settle(interest: Interest): void {
    if (this.#pending.get(interest)?.stage !== "arrived") return;
    this.#remove(interest);
    this.#journal.changed();
  }

  /** Returns the confirmed operations whose answer has not come. */
  unanswered(): Operations {
    if (this.#stages.confirmed === 0) return new Map();
    return new Map([...this.#pending].filter(([, operation]) => operation.stage === "confirmed"));
  }

  /** True if the service knows all operations that it can know: then the digest describes the set it should have. */
  get allConfirmed(): boolean {
    return this.#stages.unsent + this.#stages.sent === 0;
  }

  /** True if every registration has been answered. */
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

  /** Adds the interest to the digest (1n), or removes it (-1n). */
  #count(interest: Interest, sign: bigint): void {
    const share = sign * hashOf(interest);
    if (isQuery(interest)) {
      this.#queriesDigest = add(this.#queriesDigest, share);
    } else if (isChannel(interest)) {
      this.#channelsDigest = add(this.#channelsDigest, share);
      if (sign > 0n) this.#channels.add(interest);
      else this.#channels.delete(interest);
    } else if (isShare(interest)) {
      this.#sharesDigest = add(this.#sharesDigest, share);
      if (sign > 0n) this.#shares.add(interest);
      else this.#shares.delete(interest);
    } else {
      this.#namesDigest = add(this.#namesDigest, share);
    }
  }

  #put(interest: Interest, kind: OperationKind, stage: OperationStage, urgent: boolean, mayBeKnown = true): void {
    this.#remove(interest);
    this.#add(interest, new Operation(kind, this.#journal.changed(urgent), stage, mayBeKnown));
  }

  #add(interest: Interest, operation: Operation): void {
    if (isQuery(interest) && !this.#knowsQueries) operation.stage = "withheld";
    const withholds = (isChannel(interest) && this.#withholdsChannels) || (isShare(interest) && this.#withholdsShares);
    if (withholds && operation.stage === "unsent") operation.stage = "withheld";
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

  /** Notes that the operation becomes pending (1), or ends (-1). */
  #note({ kind }: Operation, sign: 1 | -1): void {
    if (kind === "register") this.#registers += sign;
    this.changes += 1;
  }

  #move(interest: Interest, operation: Operation, stage: OperationStage): void {
    this.#stages[operation.stage] -= 1;
    this.#stages[stage] += 1;
    operation.stage = stage;
    operation.mayBeKnown ||= stage === "sent";
    if (stage === "unsent") this.#unsent.set(interest, operation);
    else this.#unsent.delete(interest);
  }
}
