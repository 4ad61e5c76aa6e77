/** The application's calls: what it registers for, its callbacks, and what it has been told. */

import type { Description, Notification } from "../notification.js";
import type { Delivery } from "./delivery/delivery.js";
import { parsedDescription } from "./delivery/memberDescriptions.js";
import { type Channel, channelOf, type Interest, isName, type ShareInterest } from "./interests/interests.js";
import type { Registrations } from "./interests/registrations.js";
import type { Since } from "./interests/since.js";
import type { Lease } from "./shares/lease.js";
import type { KeptShare } from "./shares/shareMember.js";

/** The calls of one client's application. They need no connection, and nothing here waits for one. */
export class Application {
  readonly #registrations: Registrations;
  readonly #delivery: Delivery;

  constructor(registrations: Registrations, delivery: Delivery) {
    this.#registrations = registrations;
    this.#delivery = delivery;
  }

  /** Registers for this interest. Does nothing if it is wanted already. */
  register(interest: Interest): void {
    if (this.#registrations.register(interest)) this.#delivery.wants(interest);
  }

  /** Ends the registration. Its subscribers stay, until the shell removes them. */
  unregister(interest: Interest): void {
    if (this.#registrations.unregister(interest)) this.#delivery.forget(interest);
  }

  /** Registers for every message of this channel. `since` applies if no channel of this name is wanted. */
  registerChannel(channel: Channel, since: Since): void {
    this.#delivery.channels.want(channel, since);
  }

  /** Ends the registration. Its subscribers stay. */
  unregisterChannel(name: string): void {
    const interest = this.#delivery.channels.of(name);
    if (interest !== null) this.unregister(interest);
  }

  /** Is a member of this share, with these leases. Throws RangeError if the client's shares have no room. */
  registerShare(share: ShareInterest, kept: KeptShare): void {
    this.#delivery.shares.want(share, kept);
  }

  /** Is a member of the share no more. Its subscribers stay. */
  unregisterShare(channel: string, share: string): void {
    const interest = this.#delivery.shares.of(channel, share);
    if (interest !== null) this.unregister(interest);
  }

  /** Settles a message of a share while its callback runs. `told` is called once that is answered, or lost. */
  settle(lease: Lease, told: () => void): void {
    this.#delivery.shares.settle(lease, told);
  }

  /** Registers for exactly these objects; queries and channels stay as they are. */
  registerOnly(names: ReadonlySet<string>): void {
    const others = [...this.#registrations.wanted].filter((interest) => isName(interest) && !names.has(interest));
    for (const name of others.sort()) this.unregister(name);
    for (const name of [...names].sort()) this.register(name);
  }

  /**
   * Adds callback number `subscriber` for this object, for the members of this query, or for this channel's messages.
   */
  subscribe(interest: Interest, subscriber: number): void {
    this.#delivery.subscribe(interest, subscriber);
  }

  /** Removes callback number `subscriber`. */
  unsubscribe(interest: Interest, subscriber: number): void {
    this.#delivery.unsubscribe(interest, subscriber);
  }

  /** Adds callback number `subscriber` for objects that enter and leave this query. */
  subscribeMembers(query: Interest, subscriber: number): void {
    this.#delivery.subscribeMembers(query, subscriber);
  }

  /** Removes members callback number `subscriber`. */
  unsubscribeMembers(query: Interest, subscriber: number): void {
    this.#delivery.unsubscribeMembers(query, subscriber);
  }

  /** Adds callback number `subscriber` for missed messages of this channel, or of this share. */
  subscribeMissed(interest: Interest, subscriber: number): void {
    const channel = channelOf(interest);
    if (channel === null) this.#delivery.shares.subscribeMissed(interest, subscriber);
    else this.#delivery.channels.subscribeMissed(channel.name, subscriber);
  }

  /** Removes callback number `subscriber` for missed messages. */
  unsubscribeMissed(interest: Interest, subscriber: number): void {
    const channel = channelOf(interest);
    if (channel === null) this.#delivery.shares.unsubscribeMissed(interest, subscriber);
    else this.#delivery.channels.unsubscribeMissed(channel.name, subscriber);
  }

  /** Adds callback number `subscriber` for leases that are lost. */
  subscribeLost(share: Interest, subscriber: number): void {
    this.#delivery.shares.subscribeLost(share, subscriber);
  }

  /** Removes callback number `subscriber` for leases that are lost. */
  unsubscribeLost(share: Interest, subscriber: number): void {
    this.#delivery.shares.unsubscribeLost(share, subscriber);
  }

  /**
   * Returns the last notification that callbacks of this object were told; null if there is none, or it is not kept.
   */
  current(name: string): Notification | null {
    const { newest, queries } = this.#delivery;
    const found = newest.get(name);
    return found === null ? null : { ...found, description: parsedDescription(queries.descriptions.of(name)) };
  }

  /** Returns the newest version of this object that is known here; -1: none. */
  floor(name: string): bigint {
    return this.#delivery.floors.get(name)?.version ?? -1n;
  }

  /** Returns a query's members, as members callbacks are told; without such callbacks, as the service sent them. */
  members(query: Interest): ReadonlySet<string> {
    return this.#delivery.queries.members(query);
  }

  /** Returns true if the members are complete as of the last change told: no answer or change is outstanding. */
  knowsMembers(query: Interest): boolean {
    return this.#registrations.wanted.has(query) && !this.#registrations.isOwed(query);
  }

  /** Sets whether the members of this query are described to the application. */
  askDescriptions(query: Interest, wanted: boolean): void {
    this.#delivery.queries.descriptions.ask(query, wanted);
  }

  /** Returns the last descriptions of a query's members, for a query that asks for them; null: the object has none. */
  descriptions(query: Interest): ReadonlyMap<string, Description | null> {
    return this.#delivery.queries.descriptions.get(query);
  }
}
