/** Whom a version is told: callbacks, by number, of objects by their names and of queries' members. */

import type { Interest } from "../interests/interests.js";
import type { Membership } from "./membership.js";

const NOBODY: ReadonlySet<number> = new Set();

/** The numbers of the callbacks that are told versions. */
export class Subscribers {
  readonly #of = new Map<Interest, Set<number>>();

  /** Adds a callback. Returns true if there is no other. */
  add(interest: Interest, subscriber: number): boolean {
    const subscribers = this.#of.get(interest) ?? new Set();
    this.#of.set(interest, subscribers.add(subscriber));
    return subscribers.size === 1;
  }

  /** Removes a callback. Returns true if none is left. */
  remove(interest: Interest, subscriber: number): boolean {
    const subscribers = this.#of.get(interest);
    subscribers?.delete(subscriber);
    if (subscribers !== undefined && subscribers.size > 0) return false;
    this.#of.delete(interest);
    return true;
  }

  /** Returns true if there is a callback. */
  has(interest: Interest): boolean {
    return this.#of.has(interest);
  }

  /** Returns the callbacks of one interest. */
  of(interest: Interest): ReadonlySet<number> {
    return this.#of.get(interest) ?? NOBODY;
  }

  /** Returns the callbacks of these interests. */
  ofAll(interests: Iterable<Interest>): Set<number> {
    return new Set([...interests].flatMap((interest) => [...this.of(interest)]));
  }

  /**
   * Returns the callbacks that are told a version of this object. `isUnknown`: that it has none. That is told to those
   * that asked for it by its name, or for its description.
   */
  audience(name: string, memberships: Iterable<Membership>, isUnknown: boolean): Set<number> {
    const subscribers = new Set(this.#of.get(name));
    for (const { interest, descriptions } of memberships) {
      if (isUnknown && descriptions === null) continue;
      for (const subscriber of this.of(interest)) subscribers.add(subscriber);
    }
    return subscribers;
  }
}
