/** Floors: the newest version of each object that the application has been told. */

import type { Interest } from "./interests.js";
import type { Journal } from "./journal.js";

/** The order of an object's versions. */
export interface Floor {
  readonly incarnation: bigint;
  readonly version: bigint;
}

/** Below zero: the first is older. */
export function compareFloors(one: Floor, other: Floor): number {
  if (one.incarnation !== other.incarnation) return one.incarnation < other.incarnation ? -1 : 1;
  return one.version < other.version ? -1 : one.version > other.version ? 1 : 0;
}

/** Told to some, and not to the callbacks of queries that the object has entered since, or of its own name. */
interface Partly {
  floor: Floor | null;
  readonly untold: Set<Interest>;
}

/**
 * Of each object the version that all its callbacks know; they are stored.
 *
 * One that a query's callbacks have not been told is kept in memory only: after a crash it is told to all again.
 */
export class Floors {
  readonly #journal: Journal;
  readonly #told: Map<string, Floor>;
  readonly #partly = new Map<string, Partly>();

  constructor(journal: Journal, told: Iterable<readonly [string, Floor]>) {
    this.#journal = journal;
    this.#told = new Map(told);
  }

  /** What is stored. */
  get told(): ReadonlyMap<string, Floor> {
    return this.#told;
  }

  get(name: string): Floor | undefined {
    return this.#told.get(name) ?? this.#partly.get(name)?.floor ?? undefined;
  }

  /** Whose callbacks do not know what the others know. */
  untold(name: string): ReadonlySet<Interest> {
    return this.#partly.get(name)?.untold ?? NONE;
  }

  /** All callbacks know this version, but those of `untold` for which `knows` is false. */
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

  /** These callbacks do not know what the others know of the object. */
  unknownTo(interest: Interest, name: string): void {
    const partly = this.#partly.get(name);
    if (partly !== undefined) {
      partly.untold.add(interest);
      return;
    }
    this.#partly.set(name, { floor: this.#told.get(name) ?? null, untold: new Set([interest]) });
    if (this.#told.delete(name)) this.#journal.changed();
  }

  /** What these callbacks know of the object means nothing any more. */
  forgottenBy(interest: Interest, name: string): void {
    if (this.untold(name).has(interest)) this.raise(name, null, (one) => one === interest);
  }

  /** There are none of these callbacks any more that could know less than others. */
  without(interest: Interest): void {
    for (const name of this.#partly.keys()) this.forgottenBy(interest, name);
  }

  forget(name: string): void {
    this.#partly.delete(name);
    if (this.#told.delete(name)) this.#journal.changed();
  }

  /** Forget all but those that `keep` says. */
  prune(keep: (name: string) => boolean): void {
    for (const name of [...this.#told.keys(), ...this.#partly.keys()]) if (!keep(name)) this.forget(name);
  }
}

const NONE: ReadonlySet<Interest> = new Set();
