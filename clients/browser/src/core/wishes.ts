/** The application's requests while no client is running. */

import type { Application } from "./application.js";
import { byShare, type Channel, type Interest, isName, type ShareInterest } from "./interests/interests.js";
import type { Since } from "./interests/since.js";
import { checkRoom, type KeptShare } from "./shares/shareMember.js";

/** The requests of an application; a running client executes them, otherwise they are noted until there is one. */
export type Asked = Pick<
  Application,
  | "register"
  | "unregister"
  | "registerOnly"
  | "askDescriptions"
  | "registerChannel"
  | "unregisterChannel"
  | "registerShare"
  | "unregisterShare"
>;

/** Notes the application's requests while no client is running: they are applied to the document once it is read. */
export class Wishes implements Asked {
  #only: ReadonlySet<string> | null = null;
  /** The steps by interest: unregister (false), register (true), or both in this order. */
  #steps = new Map<Interest, readonly boolean[]>();
  /** For registered queries: true if descriptions are wanted. */
  readonly #descriptions = new Map<Interest, boolean>();

  /** For channels by name: true if it is unregistered first, and the registrations after that. */
  readonly #channels = new Map<string, { ends: boolean; wanted: (readonly [Channel, Since])[] }>();

  /** For shares by channel and name: true if it is unregistered first, and the registration after that. */
  readonly #shares = new Map<string, { place: readonly [string, string]; ends: boolean; wanted: readonly [ShareInterest, KeptShare] | null }>();

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
    // Among those of one name, the first determines the beginning, the last the attributes.
    this.#channels.set(channel.name, { ends, wanted: [...wanted.slice(0, 1), [channel, since]] });
  }

  unregisterChannel(name: string): void {
    this.#channels.set(name, { ends: true, wanted: [] });
  }

  /** Throws RangeError if the client's shares have no room. */
  registerShare(share: ShareInterest, kept: KeptShare): void {
    const place = [share.channel, share.share] as const;
    const key = place.join("\0");
    const others = [...this.#shares].flatMap(([one, { wanted }]) => (one === key || wanted === null ? [] : [wanted]));
    checkRoom(new Map([...others, [share, kept] as const].map(([one, of]) => [byShare(one), of])));
    this.#shares.set(key, { place, ends: this.#shares.get(key)?.ends ?? false, wanted: [share, kept] });
  }

  unregisterShare(channel: string, share: string): void {
    this.#shares.set([channel, share].join("\0"), { place: [channel, share], ends: true, wanted: null });
  }

  apply(application: Asked): void {
    if (this.#only !== null) application.registerOnly(this.#only);
    for (const [interest, steps] of this.#steps) {
      for (const wanted of steps) {
        if (wanted) application.register(interest);
        else application.unregister(interest);
      }
    }
    for (const [query, wanted] of this.#descriptions) application.askDescriptions(query, wanted);
    for (const [name, { ends, wanted }] of this.#channels) {
      if (ends) application.unregisterChannel(name);
      for (const [channel, since] of wanted) application.registerChannel(channel, since);
    }
    for (const { place, ends, wanted } of this.#shares.values()) {
      if (ends) application.unregisterShare(...place);
      if (wanted !== null) application.registerShare(...wanted);
    }
  }
}
