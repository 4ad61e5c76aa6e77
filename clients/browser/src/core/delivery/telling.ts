/**
 * Delivers changes of a query's members to members callbacks.
 *
 * A change that is being told is in the document before its callbacks begin, and stays there until all have returned.
 */

import { type ColdNotifyError, MembersCallbackFailed, QueryParked } from "../../errors.js";
import type { Hold } from "../streams/frontier.js";
import type { Interest } from "../interests/interests.js";
import type { Journal } from "../journal.js";
import type { MembersChange, Membership, Telling } from "./membership.js";
import type { ClientSettings } from "../settings.js";

/** A job: run the members callbacks of these subscribers with this change, then call `Delivery.done`. */
export interface MembersJob {
  readonly query: string;
  readonly subscribers: readonly number[];
  readonly change: MembersChange;
  readonly membership: Membership;
  /** The change; null: these subscribers came later, and are told all members. */
  readonly telling: Telling | null;
}

/** The interface of those who keep the queries and their objects, for telling. */
export interface ToldQueries {
  /** Holds the cursor. */
  hold(): Hold;
  /** Ends a hold of the cursor. */
  release(hold: Hold): void;
  /** Returns true if callbacks are told the versions of its members. */
  isHeard(query: Interest): boolean;
  /** Lets the object's waiting version be told, if there is one. */
  offer(name: string): void;
  /** Notes that the application has been told, or is about to be, that these are members of a query no more. */
  gone(membership: Membership, names: Iterable<string>): void;
  /** Requests the query's answer again, because it cannot be told for now. */
  owe(membership: Membership): void;
  /** Settles the registration if everything was told. */
  settle(membership: Membership): void;
  /** Reports an error to the application. */
  report(error: ColdNotifyError): void;
}

const NOBODY: ReadonlySet<string> = new Set();

/** The members callbacks, and the changes that they still have to be told. */
export class MembersCallbacks {
  /** True once a session was caught up in this process. A later subscriber has missed something. */
  begun = false;
  readonly #journal: Journal;
  readonly #settings: ClientSettings;
  readonly #keeper: ToldQueries;
  readonly #subscribers = new Map<Interest, Set<number>>();
  /** Queries whose members may differ from those told. */
  readonly #touched = new Set<Membership>();
  /** Queries with a change to tell. */
  readonly #telling = new Set<Membership>();

  constructor(journal: Journal, settings: ClientSettings, keeper: ToldQueries) {
    this.#journal = journal;
    this.#settings = settings;
    this.#keeper = keeper;
  }

  // Subscribers

  /** Returns true if the query has members callbacks. */
  areFor(query: Interest): boolean {
    return this.#subscribers.has(query);
  }

  /** Adds a callback. One that comes late is told all members first. */
  subscribe(query: Interest, membership: Membership | undefined, subscriber: number): void {
    this.#subscribers.set(query, (this.#subscribers.get(query) ?? new Set()).add(subscriber));
    if (membership === undefined) return;
    if (this.begun && !membership.followed && membership.members.size > 0) {
      membership.fresh.add(subscriber);
      membership.telling?.spared.add(subscriber);
    }
    this.#unpark(membership);
    if (membership.followed || membership.touched.size > 0) this.touch(membership);
    this.#consider(membership);
  }

  /** Removes a callback. Returns true if it existed. */
  unsubscribe(query: Interest, membership: Membership | undefined, subscriber: number): boolean {
    const subscribers = this.#subscribers.get(query);
    if (!subscribers?.delete(subscriber)) return false;
    if (subscribers.size === 0) this.#subscribers.delete(query);
    if (membership !== undefined) {
      membership.fresh.delete(subscriber);
      this.touch(membership);
    }
    return true;
  }

  /** Resumes a query that the document contains. */
  resume(membership: Membership): void {
    if (membership.telling !== null || membership.touched.size > 0) this.#touched.add(membership);
  }

  /** Removes a query from the wanted set. Its subscribers stay. */
  forget(membership: Membership): void {
    this.#touched.delete(membership);
    this.#telling.delete(membership);
    membership.fresh.clear();
    this.#release(membership);
  }

  // Changes

  /** Notes that its members may differ from those told: the cursor waits until `prepare` has handled it. */
  touch(membership: Membership): void {
    this.#touched.add(membership);
    membership.hold ??= this.#keeper.hold();
    this.#unpark(membership);
  }

  /** Handles the changes. Called before the document is written, because it must contain a change before it is told. */
  prepare(): void {
    for (const membership of [...this.#touched]) {
      const { interest } = membership;
      if (this.#subscribers.has(interest)) {
        if (membership.telling === null) this.#beginTelling(membership);
        else this.#consider(membership);
      } else if (this.#keeper.isHeard(interest)) {
        this.#follow(membership);
      } else {
        this.#touched.delete(membership);
        this.#telling.delete(membership);
        this.#release(membership);
        this.#keeper.owe(membership);
      }
    }
  }

  #beginTelling(membership: Membership): void {
    this.#touched.delete(membership);
    const { change, gone } = membership.nextChange();
    const { hold } = membership;
    membership.hold = null;
    this.#keeper.gone(membership, gone);
    if (change.added.size + change.removed.size > 0) {
      const revision = this.#journal.changed(true);
      const more = membership.deferred.size > 0;
      if (more) membership.hold = hold; // it holds for these, too, until the next change has been told
      membership.telling = { change, revision, spared: new Set(membership.fresh), hold: more ? null : hold };
      membership.failures = 0;
      this.#consider(membership);
    } else {
      this.#rest(membership, hold);
      this.#keeper.settle(membership);
    }
  }

  #follow(membership: Membership): void {
    this.#touched.delete(membership);
    this.#telling.delete(membership);
    const { telling } = membership;
    membership.telling = null;
    const gone = membership.follow();
    this.#journal.changed();
    this.#keeper.gone(membership, gone);
    if (telling !== null) this.#endTelling(membership, telling);
    const { hold } = membership;
    membership.hold = null;
    this.#rest(membership, hold);
    this.#keeper.settle(membership);
  }

  /** Ends a hold whose change was told, unless members have left whose last version must be told first. */
  #rest(membership: Membership, hold: Hold | null): void {
    if (hold === null) return;
    if (membership.deferred.size === 0) {
      this.#keeper.release(hold);
      return;
    }
    if (membership.hold !== null) this.#keeper.release(membership.hold);
    membership.hold = hold;
  }

  #release(membership: Membership): void {
    for (const holder of [membership, membership.telling]) {
      if (holder === null || holder.hold === null) continue;
      this.#keeper.release(holder.hold);
      holder.hold = null;
    }
  }

  /** Ends all holds, because all queries are pending registrations. */
  releaseAll(memberships: Iterable<Membership>): void {
    for (const membership of memberships) this.#release(membership);
  }

  // Jobs

  /** Returns the callbacks to run next, or null. */
  nextJob(now: number): MembersJob | null {
    for (const membership of [...this.#telling]) {
      const job = this.#at(membership) <= now ? this.#job(membership) : null;
      if (job !== null) return job;
    }
    return null;
  }

  /** Returns the time at which the next job can begin: -Infinity for now; Infinity if nothing waits for a time. */
  readyAt(): number {
    return Math.min(...[...this.#telling].map((membership) => this.#at(membership)));
  }

  /** True if all callbacks have returned, or have failed too often. */
  get idle(): boolean {
    return [...this.#touched, ...this.#telling].every(({ parked }) => parked);
  }

  /** The queries whose callbacks failed too often. */
  get parked(): Interest[] {
    return [...this.#telling].filter(({ parked }) => parked).map(({ interest }) => interest);
  }

  /**
   * Handles the end of a job's callbacks; `failed` contains the errors of those that threw, by subscriber. `isWanted`:
   * its query still is.
   */
  done(job: MembersJob, isWanted: boolean, failed: ReadonlyMap<number, unknown>, now: number): void {
    const { membership, telling, query } = job;
    for (const cause of failed.values()) this.#keeper.report(new MembersCallbackFailed(query, cause));
    if (!isWanted || !membership.running) return; // unregistered meanwhile
    membership.running = false;
    const returned = job.subscribers.filter((one) => !failed.has(one));
    if (telling !== null) for (const one of returned) telling.spared.add(one);
    else for (const one of failed.keys()) if (this.#subscribers.get(membership.interest)?.has(one)) membership.fresh.add(one);
    if (failed.size > 0) {
      this.#failed(membership, now);
    } else {
      membership.failures = 0;
      if (telling !== null && telling === membership.telling) this.#told(membership, telling);
    }
    this.#consider(membership);
    this.#keeper.settle(membership);
  }

  /** Returns the time at which it can be told. */
  #at({ running, parked, retryAt, telling, fresh }: Membership): number {
    if (running || parked) return Infinity;
    if (retryAt !== null) return retryAt;
    const isDurable = telling !== null && this.#journal.mayRestOn(telling.revision);
    return fresh.size > 0 || isDurable ? -Infinity : Infinity;
  }

  #job(membership: Membership): MembersJob | null {
    membership.retryAt = null;
    const { text: query, interest, telling, fresh } = membership;
    const subscribers = this.#subscribers.get(interest) ?? new Set();
    const begin = (to: number[], change: MembersChange, told: Telling | null): MembersJob => {
      membership.running = true;
      return { query, subscribers: to.sort((a, b) => a - b), change, membership, telling: told };
    };
    const late = [...fresh].filter((one) => subscribers.has(one));
    fresh.clear();
    if (late.length > 0 && membership.members.size > 0) return begin(late, { added: new Set(membership.members), removed: NOBODY }, null);
    if (telling !== null && this.#journal.mayRestOn(telling.revision)) {
      const due = [...subscribers].filter((one) => !telling.spared.has(one));
      if (due.length > 0) return begin(due, telling.change, telling);
      // The callbacks that failed were removed; the others know the change already.
      if (subscribers.size > 0) this.#told(membership, telling);
    }
    this.#consider(membership);
    this.#keeper.settle(membership);
    return null;
  }

  /** Ends the telling of a change that all callbacks know. */
  #told(membership: Membership, telling: Telling): void {
    membership.telling = null;
    this.#journal.changed();
    this.#endTelling(membership, telling);
  }

  #endTelling(membership: Membership, telling: Telling): void {
    this.#rest(membership, telling.hold);
    telling.hold = null;
    for (const name of telling.change.added) this.#keeper.offer(name);
  }

  #failed(membership: Membership, now: number): void {
    membership.failures += 1;
    const { triesMax, retryMinS, retryMaxS } = this.#settings;
    if (membership.failures < triesMax) {
      membership.retryAt = now + Math.min(retryMaxS, retryMinS * 2 ** (membership.failures - 1));
      return;
    }
    this.#keeper.report(new QueryParked(membership.text, membership.failures));
    membership.parked = true;
    membership.failures = 0;
    this.#keeper.owe(membership);
    this.#release(membership);
    // Also members that have left again: their versions are told before that is.
    for (const name of [...membership.received, ...membership.deferred.keys()]) this.#keeper.offer(name);
  }

  /** Retries callbacks that failed too often, because the query was answered. */
  tryAgain(membership: Membership): void {
    this.#unpark(membership);
    this.#consider(membership);
  }

  #unpark(membership: Membership): void {
    if (!membership.parked) return;
    membership.parked = false;
    this.#consider(membership);
  }

  /** Updates the two lists: queries with a change to tell, and queries to prepare. */
  #consider(membership: Membership): void {
    const isTold = membership.telling !== null || membership.fresh.size > 0;
    if (isTold && this.#subscribers.has(membership.interest)) this.#telling.add(membership);
    else if (!membership.running) this.#telling.delete(membership);
  }
}
