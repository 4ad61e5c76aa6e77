/**
 * The queries that ask for their members' descriptions: what the service has sent, what was told, and what is missing.
 *
 * If nothing is known of a member, nobody was told: then its query is answered again.
 */

import type { Description } from "../../notification.js";
import type { Interest } from "../interests/interests.js";
import type { Journal } from "../journal.js";
import { MemberDescriptions, parsedDescription } from "./memberDescriptions.js";
import type { Membership } from "./membership.js";

/** The interface of those who keep the queries, for descriptions. */
export interface DescribedQueries {
  readonly all: Iterable<Membership>;
  get(interest: Interest): Membership | undefined;
  /** Returns the members that the application sees. */
  members(interest: Interest): ReadonlySet<string>;
  /** Returns the queries for which the object's versions are told. */
  concerning(name: string): readonly Membership[];
  /** Returns true if callbacks are told the versions of its members. */
  isHeard(interest: Interest): boolean;
  /** Drops a member's description, because there is no callback for it. */
  miss(membership: Membership): void;
  /** Requests the whole answer again. Returns false if an answer is due in any case, whole or not. */
  askWhole(membership: Membership): boolean;
}

/** The descriptions of all queries of a client. */
export class AskedDescriptions {
  readonly #journal: Journal;
  readonly #keeper: DescribedQueries;
  /** True once the application was told that the service sends no descriptions. */
  toldUnknown = false;
  /** True if the service sends this session descriptions. */
  #isTold = false;
  /** Queries whose missing descriptions have not been requested in this session. */
  #unasked = new Set<Membership>();

  constructor(journal: Journal, keeper: DescribedQueries) {
    this.#journal = journal;
    this.#keeper = keeper;
  }

  // Requests of the application

  /** True if a query asks for descriptions. */
  get asked(): boolean {
    return [...this.#keeper.all].some(({ descriptions }) => descriptions !== null);
  }

  /** Sets whether the application is told the descriptions of this query's members. */
  ask(interest: Interest, wanted: boolean): void {
    const membership = this.#keeper.get(interest);
    if (membership === undefined || wanted === (membership.descriptions !== null)) return;
    membership.descriptions = wanted ? new MemberDescriptions(new Map()) : null;
    this.#journal.changed();
    if (!this.#isTold || !membership.isRegistered) return;
    this.#unasked.add(membership);
    this.#askIfMissing(membership);
  }

  /**
   * Returns its members' descriptions, as the service sent them; null: the object has none, or none was sent so far.
   */
  get(interest: Interest): ReadonlyMap<string, Description | null> {
    const descriptions = this.#keeper.get(interest)?.descriptions;
    if (!descriptions) return new Map();
    return new Map([...this.#keeper.members(interest)].map((name) => [name, parsedDescription(descriptions.get(name))]));
  }

  // Events of a session

  /** Begins a new session. */
  beginSession(): void {
    this.#isTold = false;
    this.#unasked.clear();
  }

  /** Notes if the service sends this session descriptions. If not, the cursor passes changes of them. */
  welcomed(isTold: boolean): void {
    this.#isTold = isTold;
    this.#unasked = new Set(isTold ? this.#keeper.all : []);
    if (isTold) return;
    for (const { descriptions } of this.#keeper.all) if (descriptions?.forgetAll()) this.#journal.changed();
  }

  /** The client is complete, except for descriptions that nobody has told it. */
  caughtUp(): void {
    for (const membership of this.#keeper.all) this.#askIfMissing(membership);
  }

  /**
   * Notes an object's description. Returns the queries whose callbacks must be told. `telling`: returns the description
   * they are being told now, or null.
   */
  say(name: string, description: string, telling: (membership: Membership) => string | null): Membership[] {
    return this.#asking(name).filter((membership) => {
      const isHeard = this.#keeper.isHeard(membership.interest);
      if (!membership.descriptions.say(name, description, isHeard ? telling(membership) : null)) return false;
      if (isHeard) return true;
      this.#keeper.miss(membership);
      if (membership.descriptions.apply(name)) this.#journal.changed();
      return false;
    });
  }

  /** Notes that the callbacks of these queries were told this description. A newer one may have come meanwhile. */
  toldAs(name: string, description: string, wereTold: (membership: Membership) => boolean): void {
    for (const membership of this.#asking(name)) if (wereTold(membership)) membership.descriptions.toldAs(name, description);
    this.#journal.changed();
  }

  /** Notes that callbacks of these queries were told a description, and that some of them threw. */
  failed(name: string, wereTold: (membership: Membership) => boolean): void {
    for (const membership of this.#asking(name)) if (wereTold(membership)) membership.descriptions.failed(name);
  }

  /** Drops descriptions that still had to be told: the query has no callbacks any more. */
  unheard(membership: Membership): void {
    if (!membership.descriptions?.apply()) return;
    this.#keeper.miss(membership);
    this.#journal.changed();
  }

  /** Returns the last description of a member of a query that asks for it; undefined if the service sent none. */
  of(name: string): string | undefined {
    return this.#asking(name)
      .map(({ descriptions }) => descriptions.get(name))
      .find((description) => description !== undefined);
  }

  /** Returns the object's queries that ask for descriptions. */
  #asking(name: string): (Membership & { readonly descriptions: MemberDescriptions })[] {
    return this.#keeper.concerning(name).filter((one): one is Membership & { descriptions: MemberDescriptions } => one.descriptions !== null);
  }

  #askIfMissing(membership: Membership): void {
    if (!this.#unasked.has(membership) || !membership.isUndescribed) return;
    if (this.#keeper.askWhole(membership)) this.#unasked.delete(membership);
  }
}
