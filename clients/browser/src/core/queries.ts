/**
 * The queries that a client wants: what the service says of their members, and when a registration is settled.
 *
 * What differs between a name and a query is in this module, and in those that it is made of: `interests.ts` (on the
 * wire), `membership.ts` (the sets), `telling.ts` (members callbacks), `askedDescriptions.ts` (how members are described),
 * `storedQueries.ts` (the document). `delivery.ts` knows of objects only, and asks here for whose sake an object is wanted
 * and who is told.
 */

import type { ColdNotifyError } from "../errors.js";
import { AskedDescriptions } from "./askedDescriptions.js";
import { setsDigest } from "./digest.js";
import { compareFloors, type Floor } from "./floors.js";
import type { Hold } from "./frontier.js";
import { type Interest, queryOf, type Spare } from "./interests.js";
import type { Journal } from "./journal.js";
import { type Kept, Membership, NEW } from "./membership.js";
import type { Registrations } from "./registrations.js";
import type { Settings } from "./settings.js";
import { type Keeper, MembersCallbacks } from "./telling.js";
import { INTEREST_KIND, type PageEnd, type WireInterest } from "./wire.js";

/** What queries need of those who deliver objects' versions. */
export interface Objects {
  hold(): Hold;
  release(hold: Hold): void;
  /** Whether callbacks are told the versions of the query's members. */
  isHeard(query: Interest): boolean;
  /** The object's newest version that waits to be told, or is being told. */
  newest(name: string): Floor | null;
  /** The object's version may be told, if one waits. */
  offer(name: string): void;
  /** The query's callbacks do not know what others know of the object. */
  unknownTo(query: Interest, name: string): void;
  /** What they know of the object means nothing any more. */
  forgottenBy(query: Interest, name: string): void;
  /** There are no callbacks for this query. */
  withoutCallbacks(query: Interest): void;
  /** It may be that nothing wants the object any more. */
  unwanted(name: string): void;
  /** Let go of the floors of what nothing wants. */
  prune(): void;
  report(error: ColdNotifyError): void;
}

/** All queries that are wanted, and for the sake of which of them an object is. */
export class Queries {
  readonly callbacks: MembersCallbacks;
  readonly descriptions: AskedDescriptions;
  readonly #journal: Journal;
  readonly #registrations: Registrations;
  readonly #objects: Objects;
  readonly #byHash = new Map<bigint, Membership>();
  readonly #byText = new Map<string, Membership>();
  /** The application was told that the service knows no queries. */
  toldUnknown = false;
  /** The service has not said that it forgot some differences, since it began to catch this session up. */
  #allKnown = true;
  /** So many times in a row the service's sets were others than ours. */
  #mismatches = 0;

  constructor(
    journal: Journal,
    registrations: Registrations,
    settings: Settings,
    objects: Objects,
    kept: ReadonlyMap<string, Kept>,
  ) {
    this.#journal = journal;
    this.#registrations = registrations;
    this.#objects = objects;
    const keeper: Keeper = {
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

  // What the application asks for

  /** It is wanted from now on. */
  add(text: string): void {
    this.#add(text, NEW, false);
  }

  /** It is not wanted any more. Its subscribers stay. */
  forget(membership: Membership): void {
    const names = new Set([...membership.received, ...membership.deferred.keys(), ...membership.members]);
    this.callbacks.forget(membership);
    this.#byHash.delete(membership.hash);
    this.#byText.delete(membership.text);
    this.#objects.withoutCallbacks(membership.interest);
    this.#unwanted(names);
    this.#journal.changed();
  }

  /** What is held of it. */
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

  /** For the document, by text. */
  get kept(): Map<string, Kept> {
    return new Map([...this.all].map((membership) => [membership.text, membership.kept]));
  }

  /** As the members callbacks are told; where there is none, as the service said. */
  members(interest: Interest): ReadonlySet<string> {
    const membership = this.get(interest);
    if (!this.callbacks.areFor(interest)) return new Set(membership?.received);
    return new Set(membership?.followed ? [] : membership?.members);
  }

  /** There is a callback for the members' versions, and there was none. */
  heard(interest: Interest): void {
    const membership = this.get(interest);
    if (membership === undefined) return;
    if (membership.dropped) {
      // Also of those that have left, if that was not told: they may enter again before.
      const names = new Set([...membership.received, ...membership.members]);
      for (const name of names) this.#objects.unknownTo(membership.interest, name);
      this.#askAgain(membership);
    }
    if (membership.touched.size > 0) this.callbacks.touch(membership);
  }

  /** There is none any more. */
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

  // What a session says

  /** A new session. */
  beginSession(): void {
    this.#mismatches = 0;
    this.#allKnown = true;
    this.descriptions.beginSession();
    for (const membership of this.all) membership.beginSession();
  }

  /** The service has these registrations: its frames speak of them, and answers are to come. */
  confirmed(interests: readonly Interest[]): void {
    for (const interest of interests) {
      const membership = this.get(interest);
      if (membership !== undefined) membership.isRegistered = true;
      if (membership !== undefined) membership.spoilt = false;
    }
  }

  /** All registrations are said anew, and answered whole. */
  beginSync(): void {
    for (const membership of this.all) {
      membership.held = false;
      if (membership.forgetAnswer()) this.#journal.changed();
    }
  }

  /** Their answers begin. */
  begun(hashes: readonly bigint[]): void {
    for (const membership of this.#registered(hashes)) if (membership.beginAnswer()) this.#journal.changed();
  }

  /** A frame says that the object is a member of these. */
  enter(name: string, hashes: readonly bigint[]): void {
    for (const membership of this.#registered(hashes)) {
      const isNew = !membership.knows(name);
      if (membership.enter(name)) this.callbacks.touch(membership);
      if (isNew && this.#objects.isHeard(membership.interest)) this.#objects.unknownTo(membership.interest, name);
      if (membership.reached !== null) this.#journal.changed();
      this.#objects.offer(name); // its turn may come later now
    }
  }

  /** A frame says that it is a member of these no more. */
  leave(name: string, hashes: readonly bigint[]): void {
    for (const membership of this.#registered(hashes)) this.#leave(membership, name);
  }

  #leave(membership: Membership, name: string): void {
    // What waits while it is in question came when the object may have been no member any more.
    const isFor = this.#objects.isHeard(membership.interest) && !membership.isInQuestion;
    const newest = isFor ? this.#objects.newest(name) : null;
    if (membership.leave(name, newest)) this.callbacks.touch(membership);
    if (membership.reached !== null) this.#journal.changed();
    this.#tell(membership, name);
    this.#objects.unwanted(name);
  }

  /** What a page said of an answer need not come again, once it is told. */
  pageEnd({ query: hash, reached: name, reachedAt: offset }: PageEnd): void {
    const membership = hash === undefined ? undefined : this.#byHash.get(hash);
    if (membership === undefined || !membership.whole || membership.candidate !== null || name === "") return;
    membership.candidate = { reached: { name, offset }, untold: new Set(membership.untold) };
    this.#reach(membership);
  }

  /** All their members have come. An answer whose beginning has not come is none: CaughtUp finds that. */
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

  /** Their members are those that are held. */
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
    // Whoever entered above the cursor has come again.
    if (this.#allKnown) for (const membership of this.all) membership.doubtful.clear();
    if ([...this.all].some(({ isInDoubt }) => isInDoubt)) this.#askAll();
    this.#allKnown = true;
  }

  /** `whole`: with the newest version of each. */
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

  /** The service said the digest of all sets. Whoever holds others asks, before its cursor passes. */
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

  /** The service does not know all differences, and tells the digest of all sets only with CaughtUp: until then the
   * queries are pending registrations. */
  doubtAll(): void {
    this.#allKnown = false;
    for (const membership of this.#known) {
      membership.isInDoubt = true;
      membership.held ||= this.#mayStay(membership);
      this.#registrations.owe(membership.interest);
    }
  }

  /**
   * Some sets may differ from the service's: which ones is found out. If that does not help, they are all answered whole,
   * and if that does not help either, they are in the next session.
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

  /** Who lacks versions needs the whole answer. */
  #mayStay(membership: Membership): boolean {
    return !(this.isOwed(membership) || membership.dropped || membership.doubtful.size > 0);
  }

  /** The client has no cursor any more: all queries are answered whole. */
  newEpoch(): void {
    for (const membership of this.all) {
      const { interest, saidHeld, saidReached } = membership;
      this.#spoil(membership);
      membership.spoilt = false;
      // What was said of it meant the old one.
      if ((saidHeld || saidReached) && this.#registrations.isOwed(interest)) this.#registrations.askAgain(interest);
      else this.#registrations.expect(interest);
    }
  }

  /** The service knows no queries: the cursor passes what it does not tell. */
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

  /** Returns the query for a frame that has so much room left; null: it is none. */
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

  // What becomes of members' versions

  /** Those for whose sake the object's versions are told. */
  concerning(name: string): Membership[] {
    return [...this.all].filter((membership) => membership.concerns(name));
  }

  /** The object has left these, which the application has not been told: they are not told its versions. */
  leaving(name: string): Membership[] {
    return [...this.all].filter((membership) => membership.members.has(name) && !membership.concerns(name));
  }

  /** Whether the application takes the object for a member of some query. */
  know(name: string): boolean {
    return [...this.all].some((membership) => membership.knows(name));
  }

  /** Whether what comes of the query comes again, as it is a pending registration. */
  isOwed(membership: Membership): boolean {
    const stage = this.#registrations.stageOf(membership.interest);
    return stage !== null && (stage !== "arrived" || membership.spoilt);
  }

  /** A version of the object came, be it told to others already. Who has no callback for it misses it. */
  missed(name: string): void {
    for (const membership of this.concerning(name)) {
      if (!this.isHeard(membership.interest) && membership.received.has(name)) this.miss(membership);
    }
  }

  /** A version of a member is dropped, or its description, as there is no callback for it. */
  miss(membership: Membership): void {
    if (!membership.dropped || membership.reached !== null) this.#journal.changed();
    membership.dropped = true;
    membership.whole = false;
    membership.candidate = membership.reached = null;
    if (!this.callbacks.areFor(membership.interest)) this.owe(membership);
  }

  /** Whether callbacks are told the versions of its members. */
  isHeard(interest: Interest): boolean {
    return this.#objects.isHeard(interest);
  }

  /** It is to be answered again, whole. False: it is going to be answered in any case, be it whole or not. */
  askWhole(membership: Membership): boolean {
    if (!["arrived", null].includes(this.#registrations.stageOf(membership.interest))) return false;
    this.#askAgain(membership);
    return true;
  }

  /** A newer version stands in for one that waited. */
  replaced(name: string): void {
    for (const membership of this.concerning(name)) if (membership.deferred.has(name)) this.#undefer(membership, name);
  }

  /** It does not hold the cursor for these: their registrations are settled when it was told. */
  awaits(name: string): void {
    for (const membership of this.concerning(name)) if (this.isOwed(membership)) membership.untold.add(name);
  }

  /** Its version came with the frame that says that it entered these. */
  awaitsAsEntered(name: string, hashes: readonly bigint[]): void {
    for (const membership of this.#registered(hashes)) {
      if (!this.#objects.isHeard(membership.interest)) continue;
      membership.entering.add(name);
      // It has come again: what is left is to tell it, and nothing to be asked for.
      membership.doubtful.delete(name);
    }
  }

  /** What waited of the object was told, or `newest` of it; null: nothing waits any more. */
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

  /** A version of the object could not be told: its queries are to be answered again, whole. */
  lost(name: string): void {
    for (const membership of this.concerning(name)) {
      if (this.#objects.isHeard(membership.interest)) this.owe(membership);
    }
  }

  /** Whether it is to be known first whose member the object is, or a members callback told that it has entered. */
  isBlocked(name: string): boolean {
    for (const membership of this.all) {
      if (membership.isInQuestion && membership.concerns(name)) return true;
      // Where no members callback has been told of any member, one that has come is told of all.
      const isUntold = membership.isEntering(name) || (membership.followed && membership.concerns(name));
      if (isUntold && !membership.parked && this.callbacks.areFor(membership.interest)) return true;
    }
    return false;
  }

  /** Something of it cannot be told for now: the query is to be answered again, whole. */
  owe(membership: Membership): void {
    this.#spoil(membership);
    this.#registrations.owe(membership.interest);
  }

  /** If all was told, the registration is settled. */
  settle(membership: Membership): void {
    const { telling, touched, untold, spoilt, dropped, interest } = membership;
    const isTold = telling === null && touched.size === 0 && untold.size === 0;
    const isMissed = dropped && this.#objects.isHeard(interest);
    if (!isTold || isMissed || membership.isInDoubt || spoilt || this.#registrations.stageOf(interest) !== "arrived") return;
    this.#registrations.settle(interest);
    this.#objects.prune();
  }

  // One query

  #add(text: string, kept: Kept, isRegistered: boolean): Membership {
    const membership = new Membership(text, kept, isRegistered);
    this.#byHash.set(membership.hash, membership);
    this.#byText.set(text, membership);
    return membership;
  }

  /** Those that frames can speak of: a frame may name a query that is wanted no more, or was wanted earlier. */
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

  /** What came of its answer does not count: it is to come whole again. */
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

  /** Nothing of the object waits for the query's sake. */
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
