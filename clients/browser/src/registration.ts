/** What an application holds of its registrations: an object's, a query's, a channel's, and their callbacks. */

import type { SinceOption } from "./core/interests/since.js";
import type { LeasedMessage } from "./leasedMessage.js";
import type { Message, Missed } from "./message.js";
import type { Description, Notification } from "./notification.js";

/** Receives the newest version of an object; may be asynchronous. */
export type Callback = (notification: Notification) => unknown;

/** Receives the objects that have entered a query, and those that have left it; may be asynchronous. */
export type MembersCallback = (added: ReadonlySet<string>, removed: ReadonlySet<string>) => unknown;

/** Receives a channel's messages, in order; may be asynchronous. */
export type MessageCallback = (message: Message) => unknown;

/** Receives where messages of a channel may be missing, and why; may be asynchronous. */
export type MissedCallback = (missed: Missed) => unknown;

/** Receives a message of a share, under a lease; may be asynchronous. */
export type LeasedCallback = (message: LeasedMessage) => unknown;

/** A callback that is called until `dispose`. */
export interface Subscription {
  /** Ends the subscription. A call that is under way goes on. May be called any number of times. */
  dispose(): void;
}

/** The interest in one object. */
export interface Registration {
  readonly objectId: string;
  /**
   * The notification that its callbacks received last, even before a reload, because the state holds it. Read it once
   * `connect()` has resolved.
   *
   * null: they have not received any, the state is not read yet, or the state has no room for it (`newestBytesMax`).
   */
  readonly current: Notification | null;
  /**
   * Calls `callback` with every newer version from now on, and with the one that has been waiting for a subscriber.
   *
   * A version counts as applied once all subscribers of its object have returned (a promise: is fulfilled); one that
   * throws receives it again.
   */
  subscribe(callback: Callback): Subscription;
}

/** Options of a query's registration. */
export interface QueryOptions {
  /** If true, notifications contain the object's description, and a change of a member's description is delivered, too.
   * Default: false. */
  readonly descriptions?: boolean;
}

/** The interest in the objects that a query describes, its members. */
export interface Query {
  /** The text as it was registered. Only the service parses it. */
  readonly text: string;
  /** The members that the members callbacks have received; without such callbacks, those that the service has sent. Empty
   * until the state is read. */
  readonly members: ReadonlySet<string>;
  /**
   * True if `members` are complete, as far as the client has received changes. false: the service has not sent all of
   * them yet, or is being asked again, or callbacks are still due. Then empty `members` do not mean that the query has
   * none.
   */
  readonly membersKnown: boolean;
  /** The `current` of each member that has one, as of a registration, by name. */
  readonly current: ReadonlyMap<string, Notification>;
  /** The members' descriptions, by name, as the service sent them last; null: the object has no description. Empty unless
   * the query was registered with `descriptions`, and until the state is read. */
  readonly descriptions: ReadonlyMap<string, Description | null>;
  /**
   * Calls `callback` with every newer version of each member from now on. An object that enters is delivered with its
   * newest version.
   *
   * If the query was registered with `descriptions`, the notification contains the object's description. If only that
   * changes, the same version is delivered again with it.
   */
  subscribe(callback: Callback): Subscription;
  /**
   * Calls `callback` with the objects that enter and leave. They enter before their versions are delivered, and leave
   * after them.
   *
   * The delivered members are stored: after a restart only the changes since then are delivered. A callback that
   * subscribes after the client has caught up receives all members first. It may be asynchronous, and is called again if
   * it throws.
   */
  subscribeMembers(callback: MembersCallback): Subscription;
}

/** How messages are subscribed to. */
export interface ChannelOptions {
  readonly since?: SinceOption;
  readonly attributes?: Iterable<string>;
}

/** The interest in every message of a channel. */
export interface Channel {
  /** The channel's name, or the pattern's expression. */
  readonly name: string;
  /** The attributes of the subscription. */
  readonly attributes: ReadonlySet<string>;
  /**
   * Calls `callback` with every message, in the order of the log, and `onMissed` where messages may be missing.
   *
   * A message counts as delivered once all subscribers of its channel have returned (a promise: is fulfilled). One that
   * throws receives it again; after several tries the channel is parked, which blocks neither other channels nor objects.
   * A gap is delivered before the message that follows it. Without an `onMissed` it is reported as MessagesMissed.
   */
  subscribe(callback: MessageCallback, onMissed?: MissedCallback): Subscription;
}

/** How a share of a channel is taken. */
export interface ShareOptions extends ChannelOptions {
  /** The share's name. */
  readonly share: string;
  /** Length of a lease in seconds, 3 to 43,200; 30 unless said. The library prolongs it, whatever the callback does. */
  readonly leaseS?: number;
  /** So many messages this client may have at once, with those that wait for their callback: 1 to 1,000; 1 unless said. */
  readonly prefetch?: number;
}

/** The membership in a share: each message of the channel is handed to one of its members. */
export interface Share {
  /** The channel's name. */
  readonly name: string;
  /** The share's name. */
  readonly share: string;
  /** The attributes of the subscription. */
  readonly attributes: ReadonlySet<string>;
  /**
   * Calls `callback` with each message that is handed to this client, one after the other, under a lease.
   *
   * A callback that returns (a promise: is fulfilled) settles the message; one that throws gives it back, for a time that
   * doubles with each attempt. `onMissed` is called where messages may be missing, at one member; `onLost` as soon as
   * another member may have a message whose callback still runs, or that is not settled for certain.
   */
  subscribe(callback: LeasedCallback, onMissed?: MissedCallback, onLost?: LeasedCallback): Subscription;
}
