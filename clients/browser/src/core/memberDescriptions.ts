/**
 * How the members of one query are described: as the application was told, and as the service has said since.
 *
 * What was told is in the document. What was only said is not: until it is told the cursor waits, and after a crash the
 * service says it again.
 */

import type { Description } from "../notification.js";

/** As applications see it. null: the object has none, or it is not known. */
export function parsedDescription(text: string | undefined): Description | null {
  try {
    const found: unknown = text ? JSON.parse(text) : null;
    return typeof found === "object" && !Array.isArray(found) ? (found as Description | null) : null;
  } catch {
    return null;
  }
}

/** Those of one query's members, as JSON; "": the object has none. */
export class Descriptions {
  readonly #told: Map<string, string>;
  readonly #said = new Map<string, string>();
  /**
   * Members of which callbacks may have been told another one than `told` says: before a crash, or by a callback that
   * returned while another one threw. The next one that is said is told, be it the same.
   */
  readonly #unsure: Set<string>;

  constructor(told: ReadonlyMap<string, string>) {
    this.#told = new Map(told);
    this.#unsure = new Set(told.keys());
  }

  /** For the document. */
  get told(): ReadonlyMap<string, string> {
    return this.#told;
  }

  /** As the service said last; undefined: it said nothing of this object. */
  get(name: string): string | undefined {
    return this.#said.get(name) ?? this.#told.get(name);
  }

  /**
   * The service says so. Whether the application has been told another one, or none.
   *
   * `telling`: what its callbacks are being told at this moment; null: nothing.
   */
  say(name: string, description: string, telling: string | null): boolean {
    if (telling === null && this.#told.get(name) === description && !this.#unsure.has(name)) {
      this.#said.delete(name);
      return false;
    }
    this.#said.set(name, description);
    return telling !== description;
  }

  /** The application was told this one, which may be older than what was said last. If all was forgotten while it was
   * told, that stays so: it is not known whether the cursor passed a newer one. */
  toldAs(name: string, description: string): void {
    if (this.get(name) === undefined) return;
    if (this.#said.get(name) === description) this.#said.delete(name);
    this.#told.set(name, description);
    this.#unsure.delete(name);
  }

  /** A callback was told, and threw: others may have taken in what it was told. */
  failed(name: string): void {
    this.#unsure.add(name);
  }

  /** Nobody is to be told what was said of this object, or of all. Whether something was. */
  apply(name?: string): boolean {
    const names = name === undefined ? [...this.#said.keys()] : [name];
    const said = names.filter((one) => this.#said.has(one));
    for (const one of said) this.toldAs(one, this.#said.get(one) as string);
    return said.length > 0;
  }

  /** The object is no member. */
  forget(name: string): void {
    this.#said.delete(name);
    this.#told.delete(name);
    this.#unsure.delete(name);
  }

  /** Nothing of it can be relied on any more. Whether there was something. */
  forgetAll(): boolean {
    const had = this.#told.size + this.#said.size > 0;
    for (const all of [this.#told, this.#said, this.#unsure]) all.clear();
    return had;
  }

  /** Whether nothing was said of one of these. */
  lack(names: Iterable<string>): boolean {
    return [...names].some((name) => this.get(name) === undefined);
  }
}
