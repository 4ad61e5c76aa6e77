/** Floors: the newest version of each object that the application has been told. */

import type { Interest } from "../interests/interests.js";
import type { Journal } from "../journal.js";

/** A version's place in the order of an object's versions. */
export interface Floor {
  readonly incarnation: bigint;
  readonly version: bigint;
}

/** Compares two floors; below zero if the first is older. */
export function compareFloors(one: Floor, other: Floor): number {
  if (one.incarnation !== other.incarnation) return one.incarnation < other.incarnation ? -1 : 1;
  return one.version < other.version ? -1 : one.version > other.version ? 1 : 0;
}

/** Returns the newer of two floors. */
export function highestFloor(one: Floor, other: Floor): Floor {
  return compareFloors(one, other) > 0 ? one : other;
}

/**
 * A version told to some subscribers, but not to the callbacks of queries that the object has entered since, or of its
 * own name.
 */
interface Partly {
  floor: Floor | null;
  readonly untold: Set<Interest>;
}

/**
 * For each object the version that all its callbacks know; these are stored.
 *
 * A version that a query's callbacks have not been told is kept in memory only: after a crash it is told to all again.
 */
export class Floors {
  readonly #journal: Journal;
  readonly #told: Map<string, Floor>;
  readonly #partly = new Map<string, Partly>();

  constructor(journal: Journal, told: Iterable<readonly [string, Floor]>) {
    this.#journal = journal;
    this.#told = new Map(told);
  }

  /** The stored floors. */
  get told(): ReadonlyMap<string, Floor> {
    return this.#told;
  }

  get(name: string): Floor | undefined {
    return this.#told.get(name) ?? this.#partly.get(name)?.floor ?? undefined;
  }

  /** Returns the interests whose callbacks do not know the version that others know. */
  untold(name: string): ReadonlySet<Interest> {
    return this.#partly.get(name)?.untold ?? NONE;
  }

  /** Notes that all callbacks know this version, except those of `untold` for which `knows` returns false. */
  raise(name: string, floor: Floor | null, knows: (interest: Interest) => boolean): void {
    const partly = this.#partly.get(name);
    for (const interest of partly?.untold ?? []) if (knows(interest)) partly?.untold.delete(interest);
    if (partly !== undefined && partly.untold.size > 0) {
      partly.floor = floor ?? partly.floor;
      return;
    }
    this.#partly.delete(name);
    const all = floor ?? partly?.floor ?? null;
    if (all !== null) this.#told.set(name, all);
  }

  /** Notes that these callbacks do not know the version of the object that others know. */
  unknownTo(interest: Interest, name: string): void {
    const partly = this.#partly.get(name);
    if (partly !== undefined) {
      partly.untold.add(interest);
      return;
    }
    this.#partly.set(name, { floor: this.#told.get(name) ?? null, untold: new Set([interest]) });
    if (this.#told.delete(name)) this.#journal.changed();
  }

  /** Stops tracking that these callbacks do not know the object's version, because that does not matter any more. */
  forgottenBy(interest: Interest, name: string): void {
    if (this.untold(name).has(interest)) this.raise(name, null, (one) => one === interest);
  }

  /** Removes an interest whose callbacks are gone, so none of them can know less than others. */
  without(interest: Interest): void {
    for (const name of this.#partly.keys()) this.forgottenBy(interest, name);
  }

  forget(name: string): void {
    this.#partly.delete(name);
    if (this.#told.delete(name)) this.#journal.changed();
  }

  /** Forgets all floors except those for which `keep` returns true. */
  prune(keep: (name: string) => boolean): void {
    for (const name of [...this.#told.keys(), ...this.#partly.keys()]) if (!keep(name)) this.forget(name);
  }
}

const NONE: ReadonlySet<Interest> = new Set();
