/** What the application asks for while no client is running. */

import type { Client } from "./client.js";
import { type Interest, isName } from "./interests.js";

/** What an application may want; a client does it, else it is noted until there is one. */
export type Wishes = Pick<Client, "register" | "unregister" | "registerOnly">;

/** What the application asked for while no client was running: applied to the document once it is read. */
export class Asked implements Wishes {
  #only: ReadonlySet<string> | null = null;
  /** By interest: unregister (false), register (true), or both in this order. */
  #steps = new Map<Interest, readonly boolean[]>();

  register(interest: Interest): void {
    this.#steps.set(interest, this.#steps.get(interest)?.includes(false) ? [false, true] : [true]);
  }

  unregister(interest: Interest): void {
    this.#steps.set(interest, [false]);
  }

  registerOnly(names: ReadonlySet<string>): void {
    this.#only = names;
    this.#steps = new Map(
      [...this.#steps].filter(([one, steps]) => !isName(one) || (names.has(one) && steps.includes(true))),
    );
  }

  apply(client: Client): void {
    if (this.#only !== null) client.registerOnly(this.#only);
    for (const [interest, steps] of this.#steps) {
      for (const wanted of steps) {
        if (wanted) client.register(interest);
        else client.unregister(interest);
      }
    }
  }
}
