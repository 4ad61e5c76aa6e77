/**
 * One query's members: as the application was told, as the service said, and as an answer is going to say.
 *
 * Pure bookkeeping. What comes of a change (who is told, what waits for it) is that of `queries.ts` and `telling.ts`.
 */

import { digest, queryHash } from "./digest.js";
import type { Floor } from "./floors.js";
import type { Hold } from "./frontier.js";
import { byQuery, type Interest } from "./interests.js";
import { Descriptions } from "./memberDescriptions.js";

/** How far an answer has come: all members up to this name, as of this offset. */
export interface Reached {
  readonly name: string;
  readonly offset: bigint;
}

/** Names that entered and left, as the members callbacks are told. */
export interface Change {
  readonly added: ReadonlySet<string>;
  readonly removed: ReadonlySet<string>;
}

/** What the document holds of a query. */
export interface Kept {
  /** As the application was told, once it is told `telling`. */
  readonly members: ReadonlySet<string>;
  /** What members callbacks may have been told, and are told again. */
  readonly telling: Change | null;
  /** No members callback has been told of any member: there was none. */
  readonly followed: boolean;
  /** Versions of members have been dropped, as nobody had subscribed to them. */
  readonly dropped: boolean;
  /** Members of which the version that came when they entered may not have been told. */
  readonly entering: ReadonlySet<string>;
  /** The members of an answer that is not whole yet. Never there without `reached`. */
  readonly answer: ReadonlySet<string> | null;
  /** What need not be answered again of it. */
  readonly reached: Reached | null;
  /** Of members, as the application was told, as JSON; null: it did not ask for them. */
  readonly descriptions: ReadonlyMap<string, string> | null;
}

/** Of a query that is new. */
export const NEW: Kept = {
  members: new Set(),
  telling: null,
  followed: false,
  dropped: false,
  entering: new Set(),
  answer: null,
  reached: null,
  descriptions: null,
};

/** A change that members callbacks are told. It stays as it is until all of them know it, or fail too often. */
export interface Telling {
  readonly change: Change;
  /** Of the document that first had it; the callbacks wait until that is durable. */
  readonly revision: number;
  /** Subscribers that know it, or are told everything instead. */
  readonly spared: Set<number>;
  hold: Hold | null;
}

/** The members of one query. Nothing here waits for anything. */
export class Membership {
  readonly interest: Interest;
  readonly hash: bigint;

  // As in the document
  members: Set<string>;
  telling: Telling | null;
  followed: boolean;
  dropped: boolean;
  answer: Set<string> | null;
  reached: Reached | null;
  /** null: the application does not ask for them. */
  descriptions: Descriptions | null;

  // What the service said
  readonly received: Set<string>;
  /** No version of the answer was dropped, or could not be told. */
  whole: boolean;
  /** The service was told in this session how far the answer had come. */
  saidReached = false;
  /** Only which sets differ is to be found out: the digest of what is held is said. */
  held = false;
  saidHeld = false;
  /** The service has said that not all differences are known, and is going to say whether the sets are the same. */
  isInDoubt = false;
  /** The service holds other sets, and is to say which: what versions of members are for, is known after that. */
  isInQuestion = false;
  /** Something that came cannot be told: it is to be answered again, whole. */
  spoilt = false;

  // What is to be told
  /** Names that may differ between `received` and `members`. */
  touched: Set<string>;
  /** Members that have left: that is told once this version of theirs is. */
  readonly deferred = new Map<string, Floor>();
  /**
   * Members of which the version that came when they entered is still to be told. It may be older than the cursor: it
   * comes again because they entered, not because of its offset.
   */
  readonly entering = new Set<string>();
  /** What was `entering` before a restart, until it comes again. A service that does not know who entered would not send
   * it again, though it has the same members. */
  readonly doubtful: Set<string>;
  /** Members of which a version that does not hold the cursor is to be told, before the registration is settled. */
  readonly untold = new Set<string>();
  /** Becomes `reached` once versions of these members are told. */
  candidate: { readonly reached: Reached; readonly untold: Set<string> } | null = null;
  /** Of what is touched. */
  hold: Hold | null = null;
  /** Members subscribers that came later: they are told all members first. */
  readonly fresh = new Set<number>();
  running = false;
  failures = 0;
  retryAt: number | null = null;
  parked = false;

  constructor(
    readonly text: string,
    kept: Kept,
    /** Frames speak of this registration. Before it is confirmed, they may speak of an earlier one. */
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
    this.descriptions = kept.descriptions === null ? null : new Descriptions(kept.descriptions);
    this.whole = kept.reached !== null;
    this.received = new Set([...this.members, ...(this.answer ?? [])]);
    this.doubtful = new Set(kept.entering);
    this.touched = new Set([...this.received].filter((name) => !this.members.has(name)));
  }

  /** For the document. */
  get kept(): Kept {
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

  /** Of the members, as the service said. */
  get digest(): bigint {
    return digest(this.received);
  }

  /** Descriptions are asked for, and one of a member was never said. */
  get isUndescribed(): boolean {
    return this.descriptions !== null && this.descriptions.lack(this.received);
  }

  /** Whether the object's versions are told for this query's sake. */
  concerns(name: string): boolean {
    return this.received.has(name) || this.deferred.has(name);
  }

  /** Whether the application takes the object for a member, or it is one. */
  knows(name: string): boolean {
    return this.concerns(name) || this.members.has(name);
  }

  /** Whether a members callback is still to be told that the object has entered. */
  isEntering(name: string): boolean {
    if (this.telling?.change.added.has(name)) return true;
    return !this.members.has(name) && this.received.has(name);
  }

  // What the service says

  /** The object is a member. Whether it was none. */
  enter(name: string): boolean {
    this.answer?.add(name);
    this.deferred.delete(name);
    if (this.received.has(name)) return false;
    this.received.add(name);
    this.touched.add(name);
    return true;
  }

  /** The object is no member. `newest`: a version of it that is to be told before. Whether it was a member. */
  leave(name: string, newest: Floor | null): boolean {
    this.answer?.delete(name);
    if (!this.received.delete(name)) return false;
    this.heard(name);
    this.touched.add(name);
    if (newest !== null && this.members.has(name)) this.deferred.set(name, newest);
    else this.descriptions?.forget(name);
    return true;
  }

  /** That it has left need not wait any more. */
  undefer(name: string): void {
    this.deferred.delete(name);
    if (!this.received.has(name)) this.descriptions?.forget(name);
  }

  /** The version that came when the object entered is told, or need not be. */
  heard(name: string): void {
    this.entering.delete(name);
    this.doubtful.delete(name);
  }

  /** An answer begins, whatever came of it before. Whether the document knew of that. */
  beginAnswer(): boolean {
    const wasKept = this.forgetAnswer();
    this.answer = new Set();
    this.whole = true;
    return wasKept;
  }

  /** Whatever has come of an answer is told again. Whether the document knew of it. */
  forgetAnswer(): boolean {
    const wasKept = this.reached !== null;
    this.candidate = this.answer = this.reached = null;
    this.whole = false;
    return wasKept;
  }

  /** What was under way is told again, behind what was reached. */
  beginSession(): void {
    this.saidHeld = this.saidReached = this.isInDoubt = false;
    this.candidate = null;
    if (this.reached === null) this.forgetAnswer();
  }

  // What is told

  /** What members callbacks are told next, which is in `members` from here on; and those that are no members. */
  nextChange(): { change: Change; gone: ReadonlySet<string> } {
    const change = this.#catchUp();
    if (!this.followed) return { change, gone: change.removed };
    // Nobody has been told anything.
    this.followed = false;
    return { change: { added: new Set(this.members), removed: new Set() }, gone: change.removed };
  }

  /** There is no members callback to be told. Those that are no members from here on. */
  follow(): ReadonlySet<string> {
    this.followed = true;
    return this.#catchUp().removed;
  }

  #catchUp(): Change {
    const added = new Set([...this.touched].filter((name) => this.received.has(name) && !this.members.has(name)));
    const removed = new Set([...this.touched].filter((name) => this.members.has(name) && !this.concerns(name)));
    for (const name of added) this.members.add(name);
    for (const name of removed) this.members.delete(name);
    this.touched = new Set(this.deferred.keys());
    return { added, removed };
  }
}
