/**
 * Which queries ask how their members are described, and what the service says of that: what is told, and asked for.
 *
 * Where nothing is known of a member, nobody was told: its query was answered before it asked, or by a service that tells
 * no descriptions. Such a query is answered again.
 */

import type { Description } from "../notification.js";
import type { Interest } from "./interests.js";
import type { Journal } from "./journal.js";
import { Descriptions, parsedDescription } from "./memberDescriptions.js";
import type { Membership } from "./membership.js";

/** What describing needs of those who keep the queries. */
export interface Keeper {
  readonly all: Iterable<Membership>;
  get(interest: Interest): Membership | undefined;
  /** As the application sees them. */
  members(interest: Interest): ReadonlySet<string>;
  /** Those for whose sake the object's versions are told. */
  concerning(name: string): readonly Membership[];
  /** Whether callbacks are told the versions of its members. */
  isHeard(interest: Interest): boolean;
  /** What is said of a member is dropped, as there is no callback for it. */
  miss(membership: Membership): void;
  /** It is to be answered again, whole. False: it is going to be answered in any case, be it whole or not. */
  askWhole(membership: Membership): boolean;
}

/** Of all queries of a client. */
export class AskedDescriptions {
  readonly #journal: Journal;
  readonly #keeper: Keeper;
  /** The application was told that the service tells no descriptions. */
  toldUnknown = false;
  /** The service tells this session descriptions. */
  #isTold = false;
  /** Queries of which the descriptions that are missing have not been asked for in this session. */
  #unasked = new Set<Membership>();

  constructor(journal: Journal, keeper: Keeper) {
    this.#journal = journal;
    this.#keeper = keeper;
  }

  // What the application asks for

  /** Whether a query asks for descriptions. */
  get asked(): boolean {
    return [...this.#keeper.all].some(({ descriptions }) => descriptions !== null);
  }

  /** The application wants to be told how the members of this query are described, or does not. */
  ask(interest: Interest, wanted: boolean): void {
    const membership = this.#keeper.get(interest);
    if (membership === undefined || wanted === (membership.descriptions !== null)) return;
    membership.descriptions = wanted ? new Descriptions(new Map()) : null;
    this.#journal.changed();
    if (!this.#isTold || !membership.isRegistered) return;
    this.#unasked.add(membership);
    this.#askIfMissing(membership);
  }

  /** Of its members, as the service said; null: the object has none, or nothing was said so far. */
  get(interest: Interest): ReadonlyMap<string, Description | null> {
    const descriptions = this.#keeper.get(interest)?.descriptions;
    if (!descriptions) return new Map();
    return new Map([...this.#keeper.members(interest)].map((name) => [name, parsedDescription(descriptions.get(name))]));
  }

  // What a session says

  /** A new session. */
  beginSession(): void {
    this.#isTold = false;
    this.#unasked.clear();
  }

  /** The service says whether it tells this session descriptions. If not, the cursor passes what they become. */
  welcomed(isTold: boolean): void {
    this.#isTold = isTold;
    this.#unasked = new Set(isTold ? this.#keeper.all : []);
    if (isTold) return;
    for (const { descriptions } of this.#keeper.all) if (descriptions?.forgetAll()) this.#journal.changed();
  }

  /** The client is complete, but for what nobody has told it. */
  caughtUp(): void {
    for (const membership of this.#keeper.all) this.#askIfMissing(membership);
  }

  /** The object is described like this. Those whose callbacks are to be told. `telling`: what they are being told at this
   * moment; null: nothing. */
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

  /** The callbacks of these queries were told this one. A newer one may have been said meanwhile. */
  toldAs(name: string, description: string, wereTold: (membership: Membership) => boolean): void {
    for (const membership of this.#asking(name)) if (wereTold(membership)) membership.descriptions.toldAs(name, description);
    this.#journal.changed();
  }

  /** Callbacks of these queries were told one, and some of them threw. */
  failed(name: string, wereTold: (membership: Membership) => boolean): void {
    for (const membership of this.#asking(name)) if (wereTold(membership)) membership.descriptions.failed(name);
  }

  /** Nobody hears of the query's members any more. */
  unheard(membership: Membership): void {
    if (!membership.descriptions?.apply()) return;
    this.#keeper.miss(membership);
    this.#journal.changed();
  }

  /** Of a member of a query that asks for it, as the service said last; undefined: it said nothing. */
  of(name: string): string | undefined {
    return this.#asking(name)
      .map(({ descriptions }) => descriptions.get(name))
      .find((description) => description !== undefined);
  }

  /** Those of the object's queries that ask. */
  #asking(name: string): (Membership & { readonly descriptions: Descriptions })[] {
    return this.#keeper.concerning(name).filter((one): one is Membership & { descriptions: Descriptions } => one.descriptions !== null);
  }

  #askIfMissing(membership: Membership): void {
    if (!this.#unasked.has(membership) || !membership.isUndescribed) return;
    if (this.#keeper.askWhole(membership)) this.#unasked.delete(membership);
  }
}
