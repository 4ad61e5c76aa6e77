/**
 * Descriptions of one query's members: as the application was told, and as the service has sent them since.
 *
 * Descriptions that were told are in the document. Descriptions that were only received are not: until one is told the
 * cursor waits, and after a crash the service sends it again.
 */

import type { Description } from "../../notification.js";

/** Returns the description in the form for applications; null: the object has none, or it is not known. */
export function parsedDescription(text: string | undefined): Description | null {
  try {
    const found: unknown = text ? JSON.parse(text) : null;
    return typeof found === "object" && !Array.isArray(found) ? (found as Description | null) : null;
  } catch {
    return null;
  }
}

/** The descriptions of one query's members, as JSON; "": the object has none. */
export class MemberDescriptions {
  readonly #told: Map<string, string>;
  readonly #said = new Map<string, string>();
  /**
   * Members whose callbacks may have been told another description than `told` contains: before a crash, or by a
   * callback that returned while another one threw. The next description is told, even if it is the same.
   */
  readonly #unsure: Set<string>;

  constructor(told: ReadonlyMap<string, string>) {
    this.#told = new Map(told);
    this.#unsure = new Set(told.keys());
  }

  /** The state for the document. */
  get told(): ReadonlyMap<string, string> {
    return this.#told;
  }

  /** Returns the last description of the object that the service sent; undefined: none. */
  get(name: string): string | undefined {
    return this.#said.get(name) ?? this.#told.get(name);
  }

  /**
   * Notes a description. Returns true if the application has been told another one, or none.
   *
   * `telling`: the description that its callbacks are being told now; null: none.
   */
  say(name: string, description: string, telling: string | null): boolean {
    if (telling === null && this.#told.get(name) === description && !this.#unsure.has(name)) {
      this.#said.delete(name);
      return false;
    }
    this.#said.set(name, description);
    return telling !== description;
  }

  /**
   * Notes that the application was told this description, which may be older than the last one received. If all were
   * forgotten while it was told, that stays so, because the cursor may have passed a newer one.
   */
  toldAs(name: string, description: string): void {
    if (this.get(name) === undefined) return;
    if (this.#said.get(name) === description) this.#said.delete(name);
    this.#told.set(name, description);
    this.#unsure.delete(name);
  }

  /** Notes that a callback was told a description and threw: others may have accepted it. */
  failed(name: string): void {
    this.#unsure.add(name);
  }

  /** Drops waiting descriptions of this object, or of all. Returns true if there were any. */
  apply(name?: string): boolean {
    const names = name === undefined ? [...this.#said.keys()] : [name];
    const said = names.filter((one) => this.#said.has(one));
    for (const one of said) this.toldAs(one, this.#said.get(one) as string);
    return said.length > 0;
  }

  /** Forgets an object that is not a member any more. */
  forget(name: string): void {
    this.#said.delete(name);
    this.#told.delete(name);
    this.#unsure.delete(name);
  }

  /** Forgets all descriptions, because none is reliable any more. Returns true if there were any. */
  forgetAll(): boolean {
    const had = this.#told.size + this.#said.size > 0;
    for (const all of [this.#told, this.#said, this.#unsure]) all.clear();
    return had;
  }

  /** Returns true if the description of one of these was never received. */
  lack(names: Iterable<string>): boolean {
    return [...names].some((name) => this.get(name) === undefined);
  }
}
