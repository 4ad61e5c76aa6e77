/** One query's members: as the application was told, as the service reported, and as an unfinished answer lists them. */

import { digest, queryHash } from "../../schemas/digest.js";
import type { Floor } from "./floors.js";
import type { Hold } from "../streams/frontier.js";
import { byQuery, type Interest } from "../interests/interests.js";
import { MemberDescriptions } from "./memberDescriptions.js";

/** The progress of an answer: all members up to this name, as of this offset. */
export interface Reached {
  readonly name: string;
  readonly offset: bigint;
}

/** Names that entered and left, for members callbacks. */
export interface MembersChange {
  readonly added: ReadonlySet<string>;
  readonly removed: ReadonlySet<string>;
}

/** The state of a query in the document. */
export interface KeptQuery {
  /** The members that the application was told, once it is told `telling`. */
  readonly members: ReadonlySet<string>;
  /** A change that members callbacks may have been told, and are told again. */
  readonly telling: MembersChange | null;
  /** True if no members callback has been told of any member, because there was none. */
  readonly followed: boolean;
  /** True if versions of members have been dropped, because nobody had subscribed to them. */
  readonly dropped: boolean;
  /** Members whose version at their entry may not have been told. */
  readonly entering: ReadonlySet<string>;
  /** The members of an answer that is not whole yet. Never there without `reached`. */
  readonly answer: ReadonlySet<string> | null;
  /** The part of an answer that need not be repeated. */
  readonly reached: Reached | null;
  /** Members' descriptions that the application was told, as JSON; null: it did not ask for them. */
  readonly descriptions: ReadonlyMap<string, string> | null;
}

/** The state of a new query. */
export const NEW: KeptQuery = {
  members: new Set(),
  telling: null,
  followed: false,
  dropped: false,
  entering: new Set(),
  answer: null,
  reached: null,
  descriptions: null,
};

/** A change that members callbacks are told. It stays unchanged until all of them know it, or fail too often. */
export interface Telling {
  readonly change: MembersChange;
  /** Revision of the document that first contained it; the callbacks wait until that is durable. */
  readonly revision: number;
  /** Subscribers that know it, or are told everything instead. */
  readonly spared: Set<number>;
  hold: Hold | null;
}

/** The members of one query. Nothing here waits for anything. */
export class Membership {
  readonly interest: Interest;
  readonly hash: bigint;

  // In the document
  members: Set<string>;
  telling: Telling | null;
  followed: boolean;
  dropped: boolean;
  answer: Set<string> | null;
  reached: Reached | null;
  /** The members' descriptions; null: the application does not ask for them. */
  descriptions: MemberDescriptions | null;

  // Reports of the service
  readonly received: Set<string>;
  /** True if no version of the answer was dropped, or failed to be told. */
  whole: boolean;
  /** True if the service was told in this session how far the answer had come. */
  saidReached = false;
  /** True if only differences are requested: the digest of the present members is sent. */
  held = false;
  saidHeld = false;
  /** True if the service has reported that it does not know all differences, and is going to compare the sets. */
  isInDoubt = false;
  /**
   * True if the service holds other sets, and must send them: until then it is not known why versions of members came.
   */
  isInQuestion = false;
  /** True if an update cannot be told: it must be answered again, whole. */
  spoilt = false;

  // Changes to tell
  /** Names that may differ between `received` and `members`. */
  touched: Set<string>;
  /** Members that have left: that is told once this version of theirs is. */
  readonly deferred = new Map<string, Floor>();
  /**
   * Members whose version at their entry is still to be told. It may be older than the cursor: it comes because they
   * entered, not because of its offset.
   */
  readonly entering = new Set<string>();
  /**
   * The value of `entering` before a restart, until they come again. A service that does not know who entered would not
   * send them again, even if its set is the same.
   */
  readonly doubtful: Set<string>;
  /** Members with a version that does not hold the cursor, and must be told before the registration is settled. */
  readonly untold = new Set<string>();
  /** Becomes `reached` once versions of these members are told. */
  candidate: { readonly reached: Reached; readonly untold: Set<string> } | null = null;
  /** The cursor's hold for names in `touched`. */
  hold: Hold | null = null;
  /** Members subscribers that came later: they are told all members first. */
  readonly fresh = new Set<number>();
  running = false;
  failures = 0;
  retryAt: number | null = null;
  parked = false;

  constructor(
    readonly text: string,
    kept: KeptQuery,
    /** True if frames refer to this registration. Before it is confirmed, they may refer to an earlier one. */
    public isRegistered: boolean,
  ) {
    this.interest = byQuery(text);
    this.hash = queryHash(text);
    this.members = new Set(kept.members);
    this.telling = kept.telling === null ? null : { change: kept.telling, revision: 0, spared: new Set(), hold: null };
    this.followed = kept.followed;
    this.dropped = kept.dropped;
    this.answer = kept.answer === null ? null : new Set(kept.answer);
    this.reached = kept.reached;
    this.descriptions = kept.descriptions === null ? null : new MemberDescriptions(kept.descriptions);
    this.whole = kept.reached !== null;
    this.received = new Set([...this.members, ...(this.answer ?? [])]);
    this.doubtful = new Set(kept.entering);
    this.touched = new Set([...this.received].filter((name) => !this.members.has(name)));
  }

  /** The state for the document. */
  get kept(): KeptQuery {
    const { members, telling, followed, dropped, answer, reached, descriptions } = this;
    const isResumable = answer !== null && reached !== null;
    return {
      members,
      telling: telling === null ? null : telling.change,
      followed,
      dropped,
      entering: new Set([...this.entering, ...this.doubtful]),
      answer: isResumable ? answer : null,
      reached: isResumable ? reached : null,
      descriptions: descriptions === null ? null : descriptions.told,
    };
  }

  /** The digest of the members, as the service reported them. */
  get digest(): bigint {
    return digest(this.received);
  }

  /** True if descriptions are wanted, and one of a member was never received. */
  get isUndescribed(): boolean {
    return this.descriptions !== null && this.descriptions.lack(this.received);
  }

  /** Returns true if the object's versions are told because of this query. */
  concerns(name: string): boolean {
    return this.received.has(name) || this.deferred.has(name);
  }

  /** Returns true if the application considers the object a member, or it is one. */
  knows(name: string): boolean {
    return this.concerns(name) || this.members.has(name);
  }

  /** Returns true if a members callback must still be told that the object has entered. */
  isEntering(name: string): boolean {
    if (this.telling?.change.added.has(name)) return true;
    return !this.members.has(name) && this.received.has(name);
  }

  // Events of the service

  /** Adds a member. Returns true if it was none before. */
  enter(name: string): boolean {
    this.answer?.add(name);
    this.deferred.delete(name);
    if (this.received.has(name)) return false;
    this.received.add(name);
    this.touched.add(name);
    return true;
  }

  /** Removes a member. `newest`: a version of it that must be told before. Returns true if it was a member. */
  leave(name: string, newest: Floor | null): boolean {
    this.answer?.delete(name);
    if (!this.received.delete(name)) return false;
    this.heard(name);
    this.touched.add(name);
    if (newest !== null && this.members.has(name)) this.deferred.set(name, newest);
    else this.descriptions?.forget(name);
    return true;
  }

  /** Ends the delay of telling that the object has left. */
  undefer(name: string): void {
    this.deferred.delete(name);
    if (!this.received.has(name)) this.descriptions?.forget(name);
  }

  /** Notes that the version that came when the object entered is told, or need not be. */
  heard(name: string): void {
    this.entering.delete(name);
    this.doubtful.delete(name);
  }

  /** Begins an answer, and drops an unfinished former one. Returns true if the document knew of that. */
  beginAnswer(): boolean {
    const wasKept = this.forgetAnswer();
    this.answer = new Set();
    this.whole = true;
    return wasKept;
  }

  /** Forgets an unfinished answer, which is sent again. Returns true if the document knew of it. */
  forgetAnswer(): boolean {
    const wasKept = this.reached !== null;
    this.candidate = this.answer = this.reached = null;
    this.whole = false;
    return wasKept;
  }

  /** Begins a session: an unfinished answer continues after the name it had reached. */
  beginSession(): void {
    this.saidHeld = this.saidReached = this.isInDoubt = false;
    this.candidate = null;
    if (this.reached === null) this.forgetAnswer();
  }

  // Telling

  /**
   * Returns the next change for members callbacks, which is in `members` from here on; and the names that are no longer
   * members.
   */
  nextChange(): { change: MembersChange; gone: ReadonlySet<string> } {
    const change = this.#catchUp();
    if (!this.followed) return { change, gone: change.removed };
    // Nobody has been told anything.
    this.followed = false;
    return { change: { added: new Set(this.members), removed: new Set() }, gone: change.removed };
  }

  /**
   * Updates `members` without telling, because there is no members callback. Returns the names that are no longer
   * members.
   */
  follow(): ReadonlySet<string> {
    this.followed = true;
    return this.#catchUp().removed;
  }

  #catchUp(): MembersChange {
    const added = new Set([...this.touched].filter((name) => this.received.has(name) && !this.members.has(name)));
    const removed = new Set([...this.touched].filter((name) => this.members.has(name) && !this.concerns(name)));
    for (const name of added) this.members.add(name);
    for (const name of removed) this.members.delete(name);
    this.touched = new Set(this.deferred.keys());
    return { added, removed };
  }
}
