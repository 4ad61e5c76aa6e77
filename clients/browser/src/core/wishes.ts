/** What the application asks for while no client is running. */

import type { Client } from "./client.js";
import { type Channel, type Interest, isName } from "./interests.js";
import type { Since } from "./since.js";

/** What an application may want; a client does it, else it is noted until there is one. */
export type Wishes = Pick<
  Client,
  "register" | "unregister" | "registerOnly" | "askDescriptions" | "registerChannel" | "unregisterChannel"
>;

/** What the application asked for while no client was running: applied to the document once it is read. */
export class Asked implements Wishes {
  #only: ReadonlySet<string> | null = null;
  /** By interest: unregister (false), register (true), or both in this order. */
  #steps = new Map<Interest, readonly boolean[]>();
  /** Of queries that are registered: whether descriptions are asked for. */
  readonly #descriptions = new Map<Interest, boolean>();

  /** By name: whether it is unregistered first, and what is registered then. */
  readonly #channels = new Map<string, { ends: boolean; wanted: (readonly [Channel, Since])[] }>();

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

  askDescriptions(query: Interest, wanted: boolean): void {
    this.#descriptions.set(query, wanted);
  }

  registerChannel(channel: Channel, since: Since): void {
    const { ends, wanted } = this.#channels.get(channel.name) ?? { ends: false, wanted: [] };
    // Of those of one name, the first says where it begins, the last which attributes it has.
    this.#channels.set(channel.name, { ends, wanted: [...wanted.slice(0, 1), [channel, since]] });
  }

  unregisterChannel(name: string): void {
    this.#channels.set(name, { ends: true, wanted: [] });
  }

  apply(client: Client): void {
    if (this.#only !== null) client.registerOnly(this.#only);
    for (const [interest, steps] of this.#steps) {
      for (const wanted of steps) {
        if (wanted) client.register(interest);
        else client.unregister(interest);
      }
    }
    for (const [query, wanted] of this.#descriptions) client.askDescriptions(query, wanted);
    for (const [name, { ends, wanted }] of this.#channels) {
      if (ends) client.unregisterChannel(name);
      for (const [channel, since] of wanted) client.registerChannel(channel, since);
    }
  }
}
