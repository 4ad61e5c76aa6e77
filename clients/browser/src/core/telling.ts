/**
 * From a change of a query's members to members callbacks that returned.
 *
 * A change that is being told is in the document before its callbacks begin, and stays there until all have returned.
 * After a crash it is told again, as it was. So the sum of what an application was told is what the document says, whatever
 * the service says next: the service tells where a name stands, not what the application may have heard of it.
 */

import { type ColdNotifyError, MembersCallbackFailed, QueryParked } from "../errors.js";
import type { Hold } from "./frontier.js";
import type { Interest } from "./interests.js";
import type { Journal } from "./journal.js";
import type { Change, Membership, Telling } from "./membership.js";
import type { Settings } from "./settings.js";

/** Run the members callbacks of these subscribers with this change, then say `Delivery.done`. */
export interface MembersJob {
  readonly query: string;
  readonly subscribers: readonly number[];
  readonly change: Change;
  readonly membership: Membership;
  /** null: these subscribers came later, and are told all members. */
  readonly telling: Telling | null;
}

/** What telling needs of those who keep the queries and their objects. */
export interface Keeper {
  /** The cursor waits from here on. */
  hold(): Hold;
  /** It need not wait for this any more. */
  release(hold: Hold): void;
  /** Whether callbacks are told the versions of its members. */
  isHeard(query: Interest): boolean;
  /** The object's version may be told, if one waits. */
  offer(name: string): void;
  /** The application has heard, or is about to hear, that these are members of a query no more. */
  gone(membership: Membership, names: Iterable<string>): void;
  /** It cannot be told for now: the query is to be answered again. */
  owe(membership: Membership): void;
  /** All may have been told: if so, the registration is settled. */
  settle(membership: Membership): void;
  /** The application should hear of this. */
  report(error: ColdNotifyError): void;
}

const NOBODY: ReadonlySet<string> = new Set();

/** Who is told of members, and what is still to be told. */
export class MembersCallbacks {
  /** A session was caught up in this process. Who subscribes later has missed something. */
  begun = false;
  readonly #journal: Journal;
  readonly #settings: Settings;
  readonly #keeper: Keeper;
  readonly #subscribers = new Map<Interest, Set<number>>();
  /** Their members may differ from what was told. */
  readonly #touched = new Set<Membership>();
  /** They have something to be told. */
  readonly #telling = new Set<Membership>();

  constructor(journal: Journal, settings: Settings, keeper: Keeper) {
    this.#journal = journal;
    this.#settings = settings;
    this.#keeper = keeper;
  }

  // Subscribers

  /** Whether there are any for this query. */
  areFor(query: Interest): boolean {
    return this.#subscribers.has(query);
  }

  /** Another callback. One that comes late is told all members first. */
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

  /** One callback less. Whether it was one. */
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

  /** A query that the document knows. */
  resume(membership: Membership): void {
    if (membership.telling !== null || membership.touched.size > 0) this.#touched.add(membership);
  }

  /** The query is not wanted any more. Its subscribers stay. */
  forget(membership: Membership): void {
    this.#touched.delete(membership);
    this.#telling.delete(membership);
    membership.fresh.clear();
    this.#release(membership);
  }

  // Changes

  /** Its members may differ from what was told: the cursor waits, until `prepare` has seen to it. */
  touch(membership: Membership): void {
    this.#touched.add(membership);
    membership.hold ??= this.#keeper.hold();
    this.#unpark(membership);
  }

  /** See to what has changed. Called before the document is written: what is told is in there first. */
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
      membership.telling = { change, revision, spared: new Set(membership.fresh), hold };
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

  /** What `hold` stands for is told, but for members that have left and have a version that comes first. */
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

  /** Nothing holds the cursor any more: all queries are pending registrations. */
  releaseAll(memberships: Iterable<Membership>): void {
    for (const membership of memberships) this.#release(membership);
  }

  // Jobs

  /** The callbacks to run next, or null. */
  nextJob(now: number): MembersJob | null {
    for (const membership of [...this.#telling]) {
      const job = this.#at(membership) <= now ? this.#job(membership) : null;
      if (job !== null) return job;
    }
    return null;
  }

  /** When the next job can begin: -Infinity is now; Infinity: nothing waits for a time. */
  readyAt(): number {
    return Math.min(...[...this.#telling].map((membership) => this.#at(membership)));
  }

  /** Whether all callbacks have returned, or have failed too often. */
  get idle(): boolean {
    return [...this.#touched, ...this.#telling].every(({ parked }) => parked);
  }

  /** Queries whose callbacks failed too often. */
  get parked(): Interest[] {
    return [...this.#telling].filter(({ parked }) => parked).map(({ interest }) => interest);
  }

  /** The job's callbacks have returned, or threw what `failed` says by subscriber. `isWanted`: its query still is. */
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

  /** When it can be told. */
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
    const begin = (to: number[], change: Change, told: Telling | null): MembersJob => {
      membership.running = true;
      return { query, subscribers: to.sort((a, b) => a - b), change, membership, telling: told };
    };
    const late = [...fresh].filter((one) => subscribers.has(one));
    fresh.clear();
    if (late.length > 0 && membership.members.size > 0) return begin(late, { added: new Set(membership.members), removed: NOBODY }, null);
    if (telling !== null && this.#journal.mayRestOn(telling.revision)) {
      const due = [...subscribers].filter((one) => !telling.spared.has(one));
      if (due.length > 0) return begin(due, telling.change, telling);
      // Those whose callback failed have gone; the others know already.
      if (subscribers.size > 0) this.#told(membership, telling);
    }
    this.#consider(membership);
    this.#keeper.settle(membership);
    return null;
  }

  /** All know it. */
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
    // Also what has left again: its versions are told before that is.
    for (const name of [...membership.received, ...membership.deferred.keys()]) this.#keeper.offer(name);
  }

  /** The query was answered: what failed too often gets new tries. */
  tryAgain(membership: Membership): void {
    this.#unpark(membership);
    this.#consider(membership);
  }

  #unpark(membership: Membership): void {
    if (!membership.parked) return;
    membership.parked = false;
    this.#consider(membership);
  }

  /** Keep the two lists: what has something to be told, and what is to be seen to. */
  #consider(membership: Membership): void {
    const isTold = membership.telling !== null || membership.fresh.size > 0;
    if (isTold && this.#subscribers.has(membership.interest)) this.#telling.add(membership);
    else if (!membership.running) this.#telling.delete(membership);
  }
}
