/**
 * The queries that a client wants: the service's reports of their members, and the end of registrations.
 *
 * `delivery.ts` knows objects only, and asks here which queries want an object and who is told.
 */

import type { ColdNotifyError } from "../../errors.js";
import { AskedDescriptions } from "./askedDescriptions.js";
import { setsDigest } from "../../schemas/digest.js";
import { compareFloors, type Floor } from "./floors.js";
import type { Hold } from "../streams/frontier.js";
import { type Interest, queryOf, type Spare } from "../interests/interests.js";
import type { Journal } from "../journal.js";
import { type KeptQuery, Membership, NEW } from "./membership.js";
import type { Registrations } from "../interests/registrations.js";
import type { ClientSettings } from "../settings.js";
import { type ToldQueries, MembersCallbacks } from "./telling.js";
import { INTEREST_KIND, type PageEnd, type WireInterest } from "../../schemas/wire.js";

/** The interface of those who deliver objects' versions, for queries. */
export interface ObjectVersions {
  hold(): Hold;
  release(hold: Hold): void;
  /** Returns true if callbacks are told the versions of the query's members. */
  isHeard(query: Interest): boolean;
  /** Returns the object's newest version that waits to be told, or is being told. */
  newest(name: string): Floor | null;
  /** Lets the object's waiting version be told, if there is one. */
  offer(name: string): void;
  /** Notes that the query's callbacks do not know the version of the object that others know. */
  unknownTo(query: Interest, name: string): void;
  /** Stops tracking that these callbacks do not know the object's version. */
  forgottenBy(query: Interest, name: string): void;
  /** Notes that this query has no callbacks. */
  withoutCallbacks(query: Interest): void;
  /** Checks if nothing wants the object any more. */
  unwanted(name: string): void;
  /** Removes the floors of objects that nothing wants. */
  prune(): void;
  report(error: ColdNotifyError): void;
}

/** The wanted queries, and the objects that they want. */
export class Queries {
  readonly callbacks: MembersCallbacks;
  readonly descriptions: AskedDescriptions;
  readonly #journal: Journal;
  readonly #registrations: Registrations;
  readonly #objects: ObjectVersions;
  readonly #byHash = new Map<bigint, Membership>();
  readonly #byText = new Map<string, Membership>();
  /** True once the application was told that the service knows no queries. */
  toldUnknown = false;
  /** True unless the service has reported that it forgot some differences, since it began to catch this session up. */
  #allKnown = true;
  /** Number of times in a row that the service's sets differed from ours. */
  #mismatches = 0;

  constructor(
    journal: Journal,
    registrations: Registrations,
    settings: ClientSettings,
    objects: ObjectVersions,
    kept: ReadonlyMap<string, KeptQuery>,
  ) {
    this.#journal = journal;
    this.#registrations = registrations;
    this.#objects = objects;
    const keeper: ToldQueries = {
      hold: () => objects.hold(),
      release: (hold) => objects.release(hold),
      isHeard: (query) => objects.isHeard(query),
      offer: (name) => objects.offer(name),
      gone: (membership, names) => {
        for (const name of names) this.#objects.forgottenBy(membership.interest, name);
        this.#unwanted(names);
      },
      owe: (membership) => this.owe(membership),
      settle: (membership) => this.settle(membership),
      report: (error) => objects.report(error),
    };
    this.callbacks = new MembersCallbacks(journal, settings, keeper);
    this.descriptions = new AskedDescriptions(journal, this);
    for (const [text, one] of kept) this.callbacks.resume(this.#add(text, one, true));
  }

  // Calls of the application

  /** Adds a query to the wanted set. */
  add(text: string): void {
    this.#add(text, NEW, false);
  }

  /** Removes a query from the wanted set. Its subscribers stay. */
  forget(membership: Membership): void {
    const names = new Set([...membership.received, ...membership.deferred.keys(), ...membership.members]);
    this.callbacks.forget(membership);
    this.#byHash.delete(membership.hash);
    this.#byText.delete(membership.text);
    this.#objects.withoutCallbacks(membership.interest);
    this.#unwanted(names);
    this.#journal.changed();
  }

  /** Returns the state of a query. */
  get(interest: Interest): Membership | undefined {
    const text = queryOf(interest);
    return text === null ? undefined : this.#byText.get(text);
  }

  ofHash(hash: bigint): Membership | undefined {
    return this.#byHash.get(hash);
  }

  get all(): Iterable<Membership> {
    return this.#byText.values();
  }

  /** The state for the document, by text. */
  get kept(): Map<string, KeptQuery> {
    return new Map([...this.all].map((membership) => [membership.text, membership.kept]));
  }

  /**
   * Returns the members that the members callbacks were told; without such callbacks, those that the service reported.
   */
  members(interest: Interest): ReadonlySet<string> {
    const membership = this.get(interest);
    if (!this.callbacks.areFor(interest)) return new Set(membership?.received);
    return new Set(membership?.followed ? [] : membership?.members);
  }

  /** Handles the first callback for the members' versions. */
  heard(interest: Interest): void {
    const membership = this.get(interest);
    if (membership === undefined) return;
    if (membership.dropped) {
      // Also members that have left, if that was not told: they may enter again before.
      const names = new Set([...membership.received, ...membership.members]);
      for (const name of names) this.#objects.unknownTo(membership.interest, name);
      this.#askAgain(membership);
    }
    if (membership.touched.size > 0) this.callbacks.touch(membership);
  }

  /** Handles the end of the last such callback. */
  unheard(interest: Interest): void {
    const membership = this.get(interest);
    if (membership === undefined) return;
    this.#objects.withoutCallbacks(membership.interest);
    const deferred = [...membership.deferred.keys()];
    for (const name of deferred) membership.undefer(name);
    membership.entering.clear();
    this.descriptions.unheard(membership);
    this.#unwanted(deferred);
    this.callbacks.touch(membership);
  }

  // Events of a session

  /** Begins a new session. */
  beginSession(): void {
    this.#mismatches = 0;
    this.#allKnown = true;
    this.descriptions.beginSession();
    for (const membership of this.all) membership.beginSession();
  }

  /** The service has these registrations: its frames refer to them, and answers will come. */
  confirmed(interests: readonly Interest[]): void {
    for (const interest of interests) {
      const membership = this.get(interest);
      if (membership !== undefined) membership.isRegistered = true;
      if (membership !== undefined) membership.spoilt = false;
    }
  }

  /** Begins a reg-sync: all registrations are sent again, and answered whole. */
  beginSync(): void {
    for (const membership of this.all) {
      membership.held = false;
      if (membership.forgetAnswer()) this.#journal.changed();
    }
  }

  /** The answers to these queries begin. */
  begun(hashes: readonly bigint[]): void {
    for (const membership of this.#registered(hashes)) if (membership.beginAnswer()) this.#journal.changed();
  }

  /** Handles a frame that reports the object as a member of these queries. */
  enter(name: string, hashes: readonly bigint[]): void {
    for (const membership of this.#registered(hashes)) {
      const isNew = !membership.knows(name);
      if (membership.enter(name)) this.callbacks.touch(membership);
      if (isNew && this.#objects.isHeard(membership.interest)) this.#objects.unknownTo(membership.interest, name);
      if (membership.reached !== null) this.#journal.changed();
      this.#objects.offer(name); // its turn may come later now
    }
  }

  /** Handles a frame that reports that the object left these queries. */
  leave(name: string, hashes: readonly bigint[]): void {
    for (const membership of this.#registered(hashes)) this.#leave(membership, name);
  }

  #leave(membership: Membership, name: string): void {
    // A version that waits while the sets are in question came when the object may have left already.
    const isFor = this.#objects.isHeard(membership.interest) && !membership.isInQuestion;
    const newest = isFor ? this.#objects.newest(name) : null;
    if (membership.leave(name, newest)) this.callbacks.touch(membership);
    if (membership.reached !== null) this.#journal.changed();
    this.#tell(membership, name);
    this.#objects.unwanted(name);
  }

  /** Notes that this part of an answer need not come again, once it is told. */
  pageEnd({ query: hash, reached: name, reachedAt: offset }: PageEnd): void {
    const membership = hash === undefined ? undefined : this.#byHash.get(hash);
    if (membership === undefined || !membership.whole || membership.candidate !== null || name === "") return;
    membership.candidate = { reached: { name, offset }, untold: new Set(membership.untold) };
    this.#reach(membership);
  }

  /**
   * Handles the end of answers: all their members have come. An answer without a beginning is ignored: CaughtUp detects
   * that.
   */
  answered(hashes: readonly bigint[]): void {
    for (const membership of this.#registered(hashes)) {
      const { answer, whole } = membership;
      if (answer === null) continue;
      const gone = [...membership.received].filter((name) => !answer.has(name));
      membership.forgetAnswer();
      for (const name of gone) this.#leave(membership, name);
      this.#arrived(membership, whole);
    }
  }

  /** Handles the answer that these queries' members are the present ones. */
  unchanged(hashes: readonly bigint[]): void {
    for (const membership of this.#registered(hashes)) {
      membership.forgetAnswer();
      this.#arrived(membership, false);
    }
  }

  /** The client is complete. */
  caughtUp(): void {
    this.callbacks.begun = true;
    this.descriptions.caughtUp();
    // Members that entered above the cursor have come again.
    if (this.#allKnown) for (const membership of this.all) membership.doubtful.clear();
    if ([...this.all].some(({ isInDoubt }) => isInDoubt)) this.#askAll();
    this.#allKnown = true;
  }

  /** Handles the end of an answer. `whole`: with the newest version of each member. */
  #arrived(membership: Membership, whole: boolean): void {
    membership.held = membership.saidHeld = membership.isInDoubt = membership.isInQuestion = false;
    this.#offerAll([membership]);
    if (whole) membership.doubtful.clear();
    this.#journal.changed();
    this.#registrations.arrived(membership.interest);
    if (membership.dropped && this.#objects.isHeard(membership.interest)) {
      if (whole) membership.dropped = false;
      else this.#askAgain(membership);
    }
    this.callbacks.tryAgain(membership);
    this.settle(membership);
  }

  /**
   * Compares the service's digest of all sets with ours. If they differ, the client requests the sets before its cursor
   * passes.
   */
  compare(digest: bigint): void {
    const known = this.#known;
    this.#allKnown = false;
    if (known.length > 0 && setsDigest(known.map((one) => [one.hash, one.digest])) !== digest) {
      this.#askAll();
      return;
    }
    this.#mismatches = 0;
    for (const membership of known) {
      if (membership.doubtful.size > 0 && !this.isOwed(membership)) this.#askAgain(membership);
      if (!membership.isInDoubt) continue;
      membership.isInDoubt = membership.held = false;
      this.settle(membership);
    }
  }

  /**
   * Handles the service's report that it does not know all differences. It sends the digest of all sets only with
   * CaughtUp: until then the queries are pending registrations.
   */
  doubtAll(): void {
    this.#allKnown = false;
    for (const membership of this.#known) {
      membership.isInDoubt = true;
      membership.held ||= this.#mayStay(membership);
      this.#registrations.owe(membership.interest);
    }
  }

  /**
   * Finds out which sets differ from the service's. If that does not help, all are answered whole; if that does not
   * help either, they are answered whole in the next session.
   */
  #askAll(): void {
    const known = this.#known;
    if (known.every(({ interest }) => ["unsent", "sent"].includes(this.#registrations.stageOf(interest) ?? ""))) return;
    this.#mismatches += 1;
    for (const membership of known) {
      membership.held = this.#mismatches === 1 && (membership.held || this.#mayStay(membership));
      membership.isInDoubt = false;
      membership.isInQuestion = this.#mismatches <= 2;
      if (membership.isInQuestion) this.#registrations.askAgain(membership.interest);
      else this.owe(membership);
    }
    this.#offerAll(known);
  }

  /** Returns true if only differences are needed: a query that lacks versions needs the whole answer. */
  #mayStay(membership: Membership): boolean {
    return !(this.isOwed(membership) || membership.dropped || membership.doubtful.size > 0);
  }

  /** Begins a new epoch, without a cursor: all queries are answered whole. */
  newEpoch(): void {
    for (const membership of this.all) {
      const { interest, saidHeld, saidReached } = membership;
      this.#spoil(membership);
      membership.spoilt = false;
      // The request referred to the old epoch.
      if ((saidHeld || saidReached) && this.#registrations.isOwed(interest)) this.#registrations.askAgain(interest);
      else this.#registrations.expect(interest);
    }
  }

  /**
   * Makes all queries pending registrations, because the service knows none: the cursor passes changes that it does not
   * send.
   */
  oweAll(): void {
    for (const membership of this.all) {
      this.owe(membership);
      membership.isInQuestion = false;
    }
    this.#offerAll(this.all);
  }

  #offerAll(memberships: Iterable<Membership>): void {
    for (const { received, deferred } of memberships) {
      for (const name of [...received, ...deferred.keys()]) this.#objects.offer(name);
    }
  }

  /** Returns the query for a frame that has so much room left; null if the interest is not one. */
  said(interest: Interest, spare: Spare): WireInterest | null {
    const membership = this.get(interest);
    if (membership === undefined) return null;
    if (membership.isUndescribed) this.#spoil(membership);
    const { text, held, reached } = membership;
    const query = { kind: INTEREST_KIND.INTEREST_QUERY, text };
    membership.saidHeld = held;
    if (held) return { ...query, held: membership.digest };
    membership.saidReached = reached !== null && spare.takes(reached.name);
    return membership.saidReached ? { ...query, reached: reached?.name, reachedAt: reached?.offset } : query;
  }

  // Versions of members

  /** Returns the queries for which the object's versions are told. */
  concerning(name: string): Membership[] {
    return [...this.all].filter((membership) => membership.concerns(name));
  }

  /**
   * Returns the queries that the object has left, which the application has not been told: they are not told its
   * versions.
   */
  leaving(name: string): Membership[] {
    return [...this.all].filter((membership) => membership.members.has(name) && !membership.concerns(name));
  }

  /** Returns true if the application considers the object a member of some query. */
  know(name: string): boolean {
    return [...this.all].some((membership) => membership.knows(name));
  }

  /** Returns true if updates of the query come again, because it is a pending registration. */
  isOwed(membership: Membership): boolean {
    const stage = this.#registrations.stageOf(membership.interest);
    return stage !== null && (stage !== "arrived" || membership.spoilt);
  }

  /**
   * Notes a new version of the object, even if others were told it already. Queries without a callback for it miss it.
   */
  missed(name: string): void {
    for (const membership of this.concerning(name)) {
      if (!this.isHeard(membership.interest) && membership.received.has(name)) this.miss(membership);
    }
  }

  /** Notes that a member's version, or its description, is dropped, because there is no callback for it. */
  miss(membership: Membership): void {
    if (!membership.dropped || membership.reached !== null) this.#journal.changed();
    membership.dropped = true;
    membership.whole = false;
    membership.candidate = membership.reached = null;
    if (!this.callbacks.areFor(membership.interest)) this.owe(membership);
  }

  /** Returns true if callbacks are told the versions of its members. */
  isHeard(interest: Interest): boolean {
    return this.#objects.isHeard(interest);
  }

  /** Requests the whole answer again. Returns false if an answer is due in any case, whole or not. */
  askWhole(membership: Membership): boolean {
    if (!["arrived", null].includes(this.#registrations.stageOf(membership.interest))) return false;
    this.#askAgain(membership);
    return true;
  }

  /** Notes that a newer version has replaced one that waited. */
  replaced(name: string): void {
    for (const membership of this.concerning(name)) if (membership.deferred.has(name)) this.#undefer(membership, name);
  }

  /**
   * Notes a version that does not hold the cursor for pending queries: their registrations are settled once it is told.
   */
  awaits(name: string): void {
    for (const membership of this.concerning(name)) if (this.isOwed(membership)) membership.untold.add(name);
  }

  /** Notes that the version came with the frame that reported its entry into these queries. */
  awaitsAsEntered(name: string, hashes: readonly bigint[]): void {
    for (const membership of this.#registered(hashes)) {
      if (!this.#objects.isHeard(membership.interest)) continue;
      membership.entering.add(name);
      // It has come again: it only has to be told, not requested.
      membership.doubtful.delete(name);
    }
  }

  /** Notes that the object's waiting version was told, or `newest` of it; null: nothing waits any more. */
  told(name: string, newest: Floor | null): void {
    for (const membership of this.all) {
      const deferred = membership.deferred.get(name);
      if (deferred !== undefined && (newest === null || compareFloors(newest, deferred) >= 0)) {
        this.#undefer(membership, name);
        this.#objects.unwanted(name);
      }
      if (newest !== null) continue;
      this.#tell(membership, name);
      membership.heard(name);
    }
  }

  /** Handles a version that could not be told: the object's queries must be answered again, whole. */
  lost(name: string): void {
    for (const membership of this.concerning(name)) {
      if (this.#objects.isHeard(membership.interest)) this.owe(membership);
    }
  }

  /**
   * Returns true if the object's membership must be known first, or a members callback must be told first that it has
   * entered.
   */
  isBlocked(name: string): boolean {
    for (const membership of this.all) {
      if (membership.isInQuestion && membership.concerns(name)) return true;
      // If no members callback was told of any member, one that has come since is told of all.
      const isUntold = membership.isEntering(name) || (membership.followed && membership.concerns(name));
      if (isUntold && !membership.parked && this.callbacks.areFor(membership.interest)) return true;
    }
    return false;
  }

  /** Requests the whole answer again, because an update cannot be told for now. */
  owe(membership: Membership): void {
    this.#spoil(membership);
    this.#registrations.owe(membership.interest);
  }

  /** Settles the registration if everything was told. */
  settle(membership: Membership): void {
    const { telling, touched, untold, spoilt, dropped, interest } = membership;
    const isTold = telling === null && touched.size === 0 && untold.size === 0;
    const isMissed = dropped && this.#objects.isHeard(interest);
    if (!isTold || isMissed || membership.isInDoubt || spoilt || this.#registrations.stageOf(interest) !== "arrived") return;
    this.#registrations.settle(interest);
    this.#objects.prune();
  }

  // One query

  #add(text: string, kept: KeptQuery, isRegistered: boolean): Membership {
    const membership = new Membership(text, kept, isRegistered);
    this.#byHash.set(membership.hash, membership);
    this.#byText.set(text, membership);
    return membership;
  }

  /**
   * Returns the queries that frames can refer to: a frame may name a query that is no longer wanted, or was wanted
   * earlier.
   */
  #registered(hashes: readonly bigint[]): Membership[] {
    return hashes.flatMap((hash) => this.#byHash.get(hash) ?? []).filter(({ isRegistered }) => isRegistered);
  }

  get #known(): Membership[] {
    return [...this.all].filter((one) => one.isRegistered && this.#registrations.stageOf(one.interest) !== "withheld");
  }

  #askAgain(membership: Membership): void {
    this.#spoil(membership);
    this.#registrations.askAgain(membership.interest);
  }

  /** Discards the answer so far: it must come whole again. */
  #spoil(membership: Membership): void {
    membership.spoilt = true;
    membership.held = membership.whole = false;
    membership.candidate = null;
    if (membership.reached !== null) this.#journal.changed();
    membership.reached = null;
  }

  #unwanted(names: Iterable<string>): void {
    for (const name of names) this.#objects.unwanted(name);
  }

  #undefer(membership: Membership, name: string): void {
    membership.undefer(name);
    this.callbacks.touch(membership);
  }

  /** Notes that no version of the object waits to be told for this query. */
  #tell(membership: Membership, name: string): void {
    membership.candidate?.untold.delete(name);
    this.#reach(membership);
    if (membership.untold.delete(name)) this.settle(membership);
  }

  #reach(membership: Membership): void {
    if (membership.candidate === null || membership.candidate.untold.size > 0) return;
    membership.reached = membership.candidate.reached;
    membership.candidate = null;
    this.#journal.changed();
  }
}
