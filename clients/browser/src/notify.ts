/** `Notify`, what an application uses: the core (`core/client.ts`) with a WebSocket, a clock, a store and callbacks. */

import { Client, type Status } from "./core/client.js";
import { type ClientIdentity, type Document, decode, emptyDocument } from "./core/document/document.js";
import type { CallbackJob } from "./core/delivery/slot.js";
import { byChannel, byQuery, channelOf, type Interest, isName, prefixOf } from "./core/interests/interests.js";
import type { ChannelJob } from "./core/streams/feed.js";
import type { MembersJob } from "./core/delivery/telling.js";
import { checkAttributes, checkChannel, checkName, checkObject, checkPrefix, checkQuery } from "./schemas/names.js";
import { messageOf, type MessageOptions, type Outgoing, versionOf, type VersionOptions } from "./core/publishing/outgoing.js";
import { type PublishAnswer, Publications } from "./core/publishing/publications.js";
import { type ClientSettings, settingsOf } from "./core/settings.js";
import { type SinceOption, sinceOf } from "./core/interests/since.js";
import { Wishes, type Asked } from "./core/wishes.js";
import { type ColdNotifyError, PublishGivenUp, PublishRefused, StateDamaged } from "./errors.js";
import type { Message, Missed } from "./message.js";
import type { Description, Notification } from "./notification.js";
import { nowS } from "./clock.js";
import { type Outcome, outcomeOf, unknownOutcome } from "./outcome.js";
import { TIMER_MS_MAX } from "./link.js";
import { Run, type Tell } from "./run.js";
import { LocalState, type State } from "./state.js";

/** Default time to wait for the outcome of a publish, as in Python's library. */
const OUTCOME_S = 5;

/** Receives the newest version of an object; may be asynchronous. */
export type Callback = (notification: Notification) => unknown;

/** Receives the objects that have entered a query, and those that have left it; may be asynchronous. */
export type MembersCallback = (added: ReadonlySet<string>, removed: ReadonlySet<string>) => unknown;

/** Receives a channel's messages, in order; may be asynchronous. */
export type MessageCallback = (message: Message) => unknown;

/** Receives where messages of a channel may be missing, and why; may be asynchronous. */
export type MissedCallback = (missed: Missed) => unknown;

/** The client's names, its gateways and its settings; times in seconds. */
export interface Options extends Partial<ClientSettings> {
  readonly domain: string;
  readonly groupId: string;
  readonly clientId: string;
  /** ws:// or wss:// URLs of gateways: any one will do. Default: `/v1/connect` at this page's origin. */
  readonly address?: string | readonly string[];
  /** Default: localStorage, under a key made of the client's names. */
  readonly state?: State;
  /** A signed token that identifies the client, or a function that returns one: it is called at each connection, and may
   * throw. */
  readonly token?: string | (() => string | Promise<string>);
  /** Called with every problem that nobody else would hear of (see `errors.ts`). Default: `console.error`. */
  readonly onError?: (error: ColdNotifyError) => unknown;
}

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

/** The interest in every message of a channel. */
export interface Channel {
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

/** A publish that is accepted. Every resend has the same version or id. */
export interface Publication {
  /** The version of an object's publish; null for a message. If it comes from this machine's clock and the service finds
   * that the clock is wrong, it changes to another one. */
  readonly version: bigint | null;
  /** The id of a message, by which its repeats are recognized; null for an object's publish. */
  readonly id: string | null;
  /**
   * Its offset in Kafka, once the service has stored it, or a newer publish of the object that replaced it.
   *
   * Rejects with PublishRefused if it would be refused again, and with PublishGivenUp if disconnect() came before. An
   * ignored rejection has no further effect.
   */
  readonly published: Promise<bigint>;
  /**
   * Resolves to the outcome of the version once the service has it: published, repeated, altered, stale, rejected;
   * unknown, with the reason, if that could not be found out within `timeoutS` (5). If a newer publish replaced it, the outcome is
   * that one's. Rejects as `published` does, and with TypeError for a message, which has no outcome.
   */
  outcome(timeoutS?: number): Promise<Outcome>;
}

interface Subscriber {
  readonly interest: Interest;
  /** The kind of calls: objects' versions or channels' messages, changes of a query's members, or gaps of a channel. */
  readonly of: "what comes" | "members" | "missed";
  readonly tell: Tell;
}

/** Size of a message's id: so large that no two are equal by chance. */
const ID_BYTES = 16;

const STOPPED: Status = {
  phase: "stopped",
  address: null,
  caughtUp: false,
  registrations: 0,
  pending: 0,
  waiting: 0,
  parked: [],
  epoch: null,
  cursor: null,
  channelsEpoch: null,
  channelsCursor: null,
  lastProblem: null,
  nextConnectS: null,
};

/** A client of ColdNotify. One for each page and name; methods are called in any order and at any time. */
export class Notify {
  readonly #identity: ClientIdentity;
  readonly #settings: ClientSettings;
  readonly #addresses: readonly string[];
  readonly #state: State;
  readonly #token: () => string | Promise<string>;
  readonly #onError: (error: ColdNotifyError) => unknown;
  readonly #subscribers = new Map<number, Subscriber>();
  #nextSubscriber = 1;
  readonly #publications = new Publications(Date.now);
  /** For each waiting publish, the function that reports that it is given up. */
  readonly #waiting = new Map<(answer: PublishAnswer) => void, () => void>();
  #wishes = new Wishes();
  #run: Run | null = null;
  /** The client of the present or the last run. */
  #client: Client | null = null;

  /** Nothing is read or connected yet. Throws RangeError, whose message begins with the option's name. */
  constructor(options: Options) {
    this.#identity = {
      domain: checkName("domain", options.domain),
      group: checkName("groupId", options.groupId),
      client: checkName("clientId", options.clientId),
    };
    this.#settings = settingsOf(options);
    this.#addresses = addressesOf(options.address);
    this.#state = options.state ?? new LocalState(`coldnotify:${Object.values(this.#identity).join("/")}`);
    const { token = "" } = options;
    this.#token = typeof token === "string" ? () => token : token;
    this.#onError = options.onError ?? ((error) => console.error(error));
  }

  /** Want to be told the newest version of this object. What is registered already costs nothing. Throws RangeError. */
  register(objectId: string): Registration {
    checkObject(objectId);
    this.#asked.register(objectId);
    this.#run?.wake();
    return this.#registration(objectId);
  }

  /** Want this object no more: its subscriptions end, the service is told. Throws RangeError. */
  unregister(objectId: string): void {
    checkObject(objectId);
    this.#asked.unregister(objectId);
    this.#unsubscribeAll((interest) => interest === objectId);
    this.#run?.wake();
  }

  /**
   * Want to be told of the objects that this query describes, and of their newest versions.
   *
   * The service reads the query. One that it does not understand is refused: `onError` gets RegistrationRefused, which
   * says why, and the query is wanted no more. Registering what is registered already changes nothing but whether it
   * asks for descriptions. Throws RangeError for what cannot be a query's text at all.
   */
  registerQuery(text: string, { descriptions = false }: QueryOptions = {}): Query {
    const interest = byQuery(checkQuery(text));
    this.#asked.register(interest);
    this.#asked.askDescriptions(interest, descriptions);
    this.#run?.wake();
    return this.#query(text, interest);
  }

  /** The same for all objects whose names begin so. Throws RangeError. */
  registerPrefix(prefix: string, options: QueryOptions = {}): Query {
    return this.registerQuery(prefixOf(checkPrefix(prefix)), options);
  }

  /** Want this query no more: its subscriptions end, the service is told. A prefix's is its `text`. Throws RangeError. */
  unregisterQuery(text: string): void {
    const interest = byQuery(checkQuery(text));
    this.#asked.unregister(interest);
    this.#unsubscribeAll((one) => one === interest);
    this.#run?.wake();
  }

  /**
   * Want to be told every message of this channel.
   *
   * `since` says where that begins: "now" (the default), "oldest" (what the log still has), "newest" (with the newest
   * message), a Date, or the `position` of a message: behind that one. It counts once: a channel that is wanted already
   * goes on where it is, also after a reload. `attributes`: only messages that are sent to one of these, or to all. Of
   * one name there is one set of attributes, the one that was said last. Throws RangeError, which names the option.
   */
  channel(name: string, options: { since?: SinceOption; attributes?: Iterable<string> } = {}): Channel {
    const channel = { name: checkChannel(name), attributes: checkAttributes(options.attributes ?? []) };
    const interest = byChannel(channel);
    this.#asked.registerChannel(channel, sinceOf(options.since ?? "now"));
    this.#run?.wake();
    return {
      name,
      attributes: new Set(channel.attributes),
      subscribe: (callback, onMissed) => this.#subscribeChannel(interest, callback, onMissed),
    };
  }

  /** Want this channel no more: its subscriptions end, the service is told. Throws RangeError. */
  unregisterChannel(name: string): void {
    this.#asked.unregisterChannel(checkChannel(name));
    this.#unsubscribeAll((interest) => channelOf(interest)?.name === name);
    this.#run?.wake();
  }

  /** Want exactly these objects by name: others are unregistered. Queries and channels stay. Throws RangeError, before anything is
   * changed. */
  registerOnly(objectIds: Iterable<string>): Registration[] {
    if (typeof objectIds === "string") throw new RangeError("objectIds: is one text, not several");
    const names = new Set(Array.from(objectIds, checkObject));
    this.#asked.registerOnly(names);
    this.#unsubscribeAll((interest) => isName(interest) && !names.has(interest));
    this.#run?.wake();
    return [...names].map((name) => this.#registration(name));
  }

  /**
   * Publish a version of an object of this page's group, on its session: now, or once there is one.
   *
   * It is sent until the service answers, in the order of the calls. It waits in memory: a reload or disconnect() gives
   * it up. `payload`: what JSON can say, at most 4 KiB. Without `version` it gets the time in ms, or
   * one above the newest that is known here. A newer publish of the object takes out one that waits. The other clients
   * are told, not this one. Throws RangeError, which names the field, and OutboxFull.
   */
  publish(objectId: string, payload?: unknown, options: VersionOptions = {}): Publication {
    return this.#publish(versionOf(objectId, payload, options));
  }

  /**
   * Send a message to a channel of this page's group, likewise. `payload`: a Uint8Array, or what JSON can say; a frame
   * has 32 KiB. Without `id` it gets a new one. Who subscribed is told its own message, too.
   */
  send(channel: string, payload: unknown, options: MessageOptions = {}): Publication {
    return this.#publish(messageOf(channel, payload, options.id ?? newId(), options));
  }

  /** The same, at most once: only if there is a session now. Nothing says whether it arrived, nor keeps its order. */
  publishOnce(objectId: string, payload?: unknown, options: VersionOptions = {}): void {
    this.#publishOnce(versionOf(objectId, payload, options));
  }

  /** The same of a message. */
  sendOnce(channel: string, payload: unknown, options: MessageOptions = {}): void {
    this.#publishOnce(messageOf(channel, payload, options.id ?? newId(), options));
  }

  /** Publishes that wait for the service's answer. */
  get unanswered(): number {
    return this.#publications.size;
  }

  /**
   * Start the client, which from now on connects, and connects again, by itself. If it runs and waits for its next try,
   * that comes now.
   *
   * Resolves once the state is read; the network may be away for long. If another page of this browser is the same
   * client, it waits until that one is gone. Rejects with StateError: the state cannot be read, or is another client's.
   */
  async connect(): Promise<void> {
    if (this.#run?.client?.refused) await this.disconnect();
    if (this.#run !== null) {
      this.#run.connectNow();
      return this.#run.opened;
    }
    const run = new Run(this.#settings, this.#token, this.#onError, (number) => this.#subscribers.get(number)?.tell);
    this.#run = run;
    const ended = (): void => {
      if (this.#run === run) this.#run = null;
    };
    return run.open(this.#state, () => this.#document(), (document) => this.#make(document), ended);
  }

  /** Wait until everything owed has been told and all callbacks have returned; whether that came in `timeoutS`. False
   * at once if the client does not run, or the service refuses it. */
  async waitCaughtUp(timeoutS: number): Promise<boolean> {
    return this.#run === null ? false : this.#run.waitCaughtUp(timeoutS);
  }

  /**
   * Stop: begin no callback any more, wait for the one that runs, store, acknowledge, say Bye. No change if it is
   * stopped. What a callback that still runs after `timeoutS` was told will be told again.
   */
  async disconnect(timeoutS = 5): Promise<void> {
    const run = this.#run;
    this.#run = null;
    await run?.stop(timeoutS);
    if (this.#run !== null) return; // connected again: what waits goes on
    for (const told of this.#publications.withdraw()) this.#waiting.get(told)?.();
    this.#waiting.clear();
  }

  #publish(said: Outgoing): Publication {
    const outgoing = this.#complete(said);
    let { version } = outgoing;
    let told: (answer: PublishAnswer) => void = () => undefined;
    let giveUp = (): void => undefined;
    const published = new Promise<bigint>((resolve, reject) => {
      told = (answer): void => {
        if ("renumbered" in answer) {
          version = answer.renumbered;
          return;
        }
        this.#waiting.delete(told);
        if ("offset" in answer) return resolve(answer.offset);
        const error = new PublishRefused(outgoing.name, answer.reason);
        this.#onError(error);
        reject(error);
      };
      giveUp = (): void => reject(new PublishGivenUp(outgoing.name));
    });
    published.catch(() => undefined); // who wants to know awaits it
    this.#publications.say(outgoing, told);
    this.#waiting.set(told, giveUp);
    this.#run?.wake();
    const id = outgoing.isMessage ? outgoing.id : null;
    return {
      get version(): bigint | null {
        return version;
      },
      id,
      published,
      outcome: (timeoutS = OUTCOME_S) => this.#outcome(outgoing, published, timeoutS),
    };
  }

  async #outcome({ isMessage, name }: Outgoing, published: Promise<bigint>, timeoutS: number): Promise<Outcome> {
    if (isMessage) throw new TypeError("outcome: a message has none");
    let question: number | null = null;
    let over = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<Outcome>((resolve) => {
      const reason = `the service has not said it within ${timeoutS} s`;
      timer = setTimeout(() => resolve(unknownOutcome(reason)), Math.min(1000 * timeoutS, TIMER_MS_MAX));
    });
    const told = published.then((offset) => new Promise<Outcome>((resolve) => {
      if (over) return;
      question = this.#publications.ask(name, offset, (outcome) => resolve(outcomeOf(outcome)));
      this.#run?.wake();
    }));
    try {
      return await Promise.race([told, late]);
    } finally {
      over = true;
      clearTimeout(timer);
      if (question !== null) this.#publications.forget(question);
    }
  }

  #publishOnce(said: Outgoing): void {
    if (!this.connected) return;
    this.#publications.sayOnce(this.#complete(said));
    this.#run?.wake();
  }

  #complete(outgoing: Outgoing): Outgoing {
    return this.#publications.complete(outgoing, this.#client?.application.floor(outgoing.name) ?? -1n);
  }

  /** True while the client has a session, which begins when the service has answered. */
  get connected(): boolean {
    return this.#run?.client?.connected ?? false;
  }

  /** True if everything due has been delivered, and all callbacks have returned. */
  get caughtUp(): boolean {
    return this.#run?.caughtUp ?? false;
  }

  /** The present state of the client. */
  get status(): Status {
    if (this.#run === null) return STOPPED;
    return this.#run.status ?? { ...STOPPED, phase: "locked" };
  }

  get #asked(): Asked {
    return this.#run?.client?.application ?? this.#wishes;
  }

  #registration(objectId: string): Registration {
    const current = (): Notification | null => this.#client?.application.current(objectId) ?? null;
    return {
      objectId,
      get current() {
        return current();
      },
      subscribe: (callback) => this.#subscribe(objectId, callback),
    };
  }

  #query(text: string, interest: Interest): Query {
    const members = (): ReadonlySet<string> => new Set(this.#client?.application.members(interest));
    const membersKnown = (): boolean => this.#client?.application.knowsMembers(interest) ?? false;
    const descriptions = (): ReadonlyMap<string, Description | null> => this.#client?.application.descriptions(interest) ?? new Map();
    const current = (): ReadonlyMap<string, Notification> => {
      const found = [...members()].map((name) => [name, this.#client?.application.current(name) ?? null] as const);
      return new Map(found.filter((entry): entry is [string, Notification] => entry[1] !== null));
    };
    return {
      text,
      get members() {
        return members();
      },
      get membersKnown() {
        return membersKnown();
      },
      get current() {
        return current();
      },
      get descriptions() {
        return descriptions();
      },
      subscribe: (callback) => this.#subscribe(interest, callback),
      subscribeMembers: (callback) => this.#subscribeMembers(interest, callback),
    };
  }

  #subscribe(interest: Interest, callback: Callback): Subscription {
    const tell = (job: unknown): unknown => callback((job as CallbackJob).notification);
    return this.#addSubscriber(callback, { interest, tell, of: "what comes" });
  }

  #subscribeChannel(interest: Interest, callback: MessageCallback, onMissed?: MissedCallback): Subscription {
    if (onMissed !== undefined && typeof onMissed !== "function") throw new RangeError("onMissed: cannot be called");
    const message = (job: unknown): Message | Missed => (job as ChannelJob).message;
    const told: Subscriber = { interest, tell: (job) => callback(message(job) as Message), of: "what comes" };
    const subscriptions = [this.#addSubscriber(callback, told)];
    if (onMissed !== undefined) {
      const missed: Subscriber = { interest, tell: (job) => onMissed(message(job) as Missed), of: "missed" };
      subscriptions.unshift(this.#addSubscriber(onMissed, missed));
    }
    return { dispose: () => subscriptions.forEach((one) => one.dispose()) };
  }

  #subscribeMembers(interest: Interest, callback: MembersCallback): Subscription {
    const tell = (job: unknown): unknown => {
      const { added, removed } = (job as MembersJob).change;
      return callback(new Set(added), new Set(removed)); // it may keep them
    };
    return this.#addSubscriber(callback, { interest, tell, of: "members" });
  }

  #addSubscriber(callback: unknown, subscriber: Subscriber): Subscription {
    if (typeof callback !== "function") throw new RangeError("callback: cannot be called");
    const number = this.#nextSubscriber++;
    this.#subscribers.set(number, subscriber);
    if (this.#run?.client) this.#tellClient(this.#run.client, number, subscriber);
    this.#run?.wake();
    return { dispose: () => this.#unsubscribe(number) };
  }

  #tellClient(client: Client, number: number, { interest, of }: Subscriber): void {
    if (of === "members") client.application.subscribeMembers(interest, number);
    else if (of === "missed") client.application.subscribeMissed(channelOf(interest)?.name ?? "", number);
    else client.application.subscribe(interest, number);
  }

  #unsubscribe(number: number): void {
    const subscriber = this.#subscribers.get(number);
    if (subscriber === undefined) return;
    this.#subscribers.delete(number);
    const { interest, of } = subscriber;
    const client = this.#run?.client;
    if (of === "members") client?.application.unsubscribeMembers(interest, number);
    else if (of === "missed") client?.application.unsubscribeMissed(channelOf(interest)?.name ?? "", number);
    else client?.application.unsubscribe(interest, number);
    this.#run?.wake();
  }

  #unsubscribeAll(ends: (interest: Interest) => boolean): void {
    for (const [number, { interest }] of this.#subscribers) if (ends(interest)) this.#unsubscribe(number);
  }

  #make(document: Document): Client {
    const client = new Client(document, this.#addresses, this.#settings, Math.random, nowS(), this.#publications);
    this.#wishes.apply(client.application);
    this.#wishes = new Wishes();
    for (const [number, subscriber] of this.#subscribers) this.#tellClient(client, number, subscriber);
    this.#client = client;
    return client;
  }

  async #document(): Promise<Document> {
    const text = await this.#state.read();
    if (text === null) return emptyDocument(this.#identity);
    try {
      return decode(text, this.#identity);
    } catch (error) {
      if (!(error instanceof StateDamaged)) throw error;
      const aside = await this.#state.setAside();
      this.#onError(new StateDamaged(`${error.message}; it is kept as ${aside}`));
      return emptyDocument(this.#identity);
    }
  }
}

/** Not randomUUID(), which pages have only that came by TLS or from this machine. */
function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(ID_BYTES));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function addressesOf(given: string | readonly string[] | undefined): string[] {
  const entries = given === undefined ? [pageAddress()] : typeof given === "string" ? [given] : [...given];
  if (entries.length === 0) throw new RangeError("address: is empty");
  const addresses = entries.map((entry) => {
    let url: URL;
    try {
      url = new URL(entry);
    } catch {
      throw new RangeError(`address: ${JSON.stringify(entry)} is not a URL`);
    }
    if (url.protocol !== "ws:" && url.protocol !== "wss:") {
      throw new RangeError(`address: ${JSON.stringify(entry)} is no ws:// or wss:// URL`);
    }
    if (url.hash !== "") throw new RangeError(`address: ${JSON.stringify(entry)} has a fragment (#)`);
    if (url.pathname === "/") url.pathname = "/v1/connect";
    return url.href;
  });
  return [...new Set(addresses)];
}

function pageAddress(): string {
  const page = (globalThis as { location?: Location }).location;
  if (page === undefined) throw new RangeError("address: is missing, and no page provides one");
  return `${page.protocol === "https:" ? "wss" : "ws"}://${page.host}/v1/connect`;
}

