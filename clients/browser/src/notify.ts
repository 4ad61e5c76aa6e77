/** `Notify`, what an application uses: the core (`core/client.ts`) with a WebSocket, a clock, a store and callbacks. */

import { gatewaysFrom, type Where } from "./addresses.js";
import { nowS } from "./clock.js";
import type { Application } from "./core/application.js";
import { Client, type Status } from "./core/client.js";
import type { AnyJob } from "./core/delivery/callbackTurns.js";
import { type ClientIdentity, decode, type Document, emptyDocument } from "./core/document/document.js";
import { byChannel, byQuery, byShare, channelOf, type Interest, isName, prefixOf, shareOf } from "./core/interests/interests.js";
import { sinceOf } from "./core/interests/since.js";
import { messageOf, type MessageOptions, type Outgoing, patchOf, versionOf, type VersionOptions } from "./core/publishing/outgoing.js";
import type { Patch } from "./core/publishing/patches.js";
import { Publications } from "./core/publishing/publications.js";
import type { Gateways } from "./core/session/reconnect.js";
import { LEASE_S } from "./core/shares/shareMember.js";
import { type ClientSettings, type Profile, settingsOf } from "./core/settings.js";
import { type Asked, Wishes } from "./core/wishes.js";
import { askDirectory, type NamedGateway } from "./directory.js";
import { type ColdNotifyError, StateDamaged } from "./errors.js";
import type { Description, Notification } from "./notification.js";
import { newId, type Publication, SessionPublishing } from "./publishing.js";
import type { Channel, ChannelOptions, Query, QueryOptions, Registration, Share, ShareOptions } from "./registration.js";
import { Run, type Tell } from "./run.js";
import {
  checkAttributes,
  checkChannel,
  checkName,
  checkObject,
  checkPrefix,
  checkQuery,
  patternName,
  prefixExpression,
  titleOf,
} from "./schemas/names.js";
import { checkShare, checkWhole, HELD_MAX, LEASE_S_MAX, LEASE_S_MIN } from "./schemas/shareNames.js";
import { Follower } from "./follower.js";
import { Leader } from "./leader.js";
import { LocalState, type State } from "./state.js";
import { Subscriptions } from "./subscriptions.js";
import { canShare, Heard, TabRequests } from "./tabs.js";

/** The client's names, its gateways and its settings; times in seconds. */
export interface Options extends Partial<ClientSettings>, Where {
  readonly domain: string;
  readonly groupId: string;
  readonly clientId: string;
  /**
   * web: a line that costs nothing, with a keepalive of 4 s, so that a dead connection is noticed within 14 s. Default,
   * and radio: one that costs battery or money.
   */
  readonly profile?: Profile;
  /** Default: localStorage, under a key made of the client's names. */
  readonly state?: State;
  /** A signed token that identifies the client, or a function that returns one: it is called at each connection, and may
   * throw. */
  readonly token?: string | (() => string | Promise<string>);
  /** Called with every problem that nobody else would hear of (see `errors.ts`). Default: `console.error`. */
  readonly onError?: (error: ColdNotifyError) => unknown;
}

const STOPPED: Status = {
  phase: "stopped",
  address: null,
  caughtUp: false,
  freshAsOf: null,
  streams: { objects: null, channels: null },
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
  readonly #gateways: Gateways;
  readonly #directory: string | undefined;
  readonly #state: State;
  readonly #token: () => string | Promise<string>;
  readonly #onError: (error: ColdNotifyError) => unknown;
  readonly #subscriptions: Subscriptions;
  readonly #publications = new Publications(Date.now);
  readonly #publishing: SessionPublishing;
  /** This tab's requests, and what it holds of those of all tabs. */
  readonly #requests = new TabRequests(() => this.#asked, () => this.#leader?.others ?? []);
  readonly #heard = new Heard();
  readonly #tab = newId();
  /** Requests that no client has, or has not stored yet. */
  #wishes = new Wishes();
  #run: Run | null = null;
  /** The client of the present or the last run of this tab... */
  #client: Client | null = null;
  /** ...or what it follows, or followed last. */
  #follower: Follower | null = null;
  #leader: Leader | null = null;

  /** Nothing is read or connected yet. Throws RangeError, whose message begins with the option's name. */
  constructor(options: Options) {
    this.#identity = {
      domain: checkName("domain", options.domain),
      group: checkName("groupId", options.groupId),
      client: checkName("clientId", options.clientId),
    };
    this.#settings = settingsOf(options, options.profile);
    this.#gateways = gatewaysFrom(options);
    this.#directory = options.directory;
    this.#state = options.state ?? new LocalState(`coldnotify:${Object.values(this.#identity).join("/")}`);
    const { token = "" } = options;
    this.#token = typeof token === "string" ? () => token : token;
    this.#onError = options.onError ?? ((error) => console.error(error));
    const wake = (): void => this.#run?.wake();
    const floor = (name: string): bigint => this.#follower?.floor(name) ?? this.#client?.application.floor(name) ?? -1n;
    this.#publishing = new SessionPublishing(this.#publications, this.#onError, wake, floor);
    this.#subscriptions = new Subscriptions(
      () => this.#run?.client?.application ?? this.#follower?.remote,
      wake,
      (lease, told) => this.#client?.application.settle(lease, told),
    );
  }

  /** Want to be told the newest version of this object. What is registered already costs nothing. Throws RangeError. */
  register(objectId: string): Registration {
    checkObject(objectId);
    this.#requests.register(objectId);
    this.#run?.wake();
    return this.#registration(objectId);
  }

  /** Want this object no more: its subscriptions end, the service is told. Throws RangeError. */
  unregister(objectId: string): void {
    checkObject(objectId);
    this.#requests.unregister(objectId);
    this.#subscriptions.endAll((interest) => interest === objectId);
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
    this.#requests.register(interest);
    this.#requests.askDescriptions(interest, descriptions);
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
    this.#requests.unregister(interest);
    this.#subscriptions.endAll((one) => one === interest);
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
  channel(name: string, options?: ChannelOptions & { readonly share?: never }): Channel;
  /**
   * Be a member of a share of this channel: each of its messages is handed to one member, under a lease
   * (`docs/queues.md`).
   *
   * The first member of a share decides `since` and `attributes`; others have to say the same. Said again, `leaseS` and
   * `prefetch` become what is said. Throws RangeError, which names the option.
   */
  channel(name: string, options: ShareOptions): Share;
  channel(name: string, options: ChannelOptions | ShareOptions = {}): Channel | Share {
    const checked = checkChannel(name);
    return "share" in options && options.share !== undefined ? this.#share(checked, options) : this.#channel(checked, options);
  }

  /**
   * The same for all channels of the group whose names begin with a prefix, or in whose names `pattern` is found, a
   * regular expression as RE2 has it; also for channels that come later. It is one subscription, whose messages say their
   * channels, in the order of the log.
   */
  channels(of: string | { pattern: string }, options: ChannelOptions = {}): Channel {
    return this.#channel(patternOf(of), options);
  }

  /**
   * Want this channel no more: its subscriptions end, the service is told. With `share`: be a member of that no more, which
   * gives back what it has. Throws RangeError.
   */
  unregisterChannel(name: string, share?: string): void {
    const channel = checkChannel(name);
    if (share === undefined) return this.#unregisterChannel(channel);
    this.#requests.unregisterShare(channel, checkShare(share, channel));
    this.#subscriptions.endAll((interest) => {
      const found = shareOf(interest);
      return found?.channel === channel && found.share === share;
    });
    this.#run?.wake();
  }

  /** The same for all channels of this prefix or pattern, as `channels` was told it. */
  unregisterChannels(of: string | { pattern: string }): void {
    this.#unregisterChannel(patternOf(of));
  }

  #channel(name: string, options: ChannelOptions): Channel {
    const channel = { name, attributes: checkAttributes(options.attributes ?? []) };
    const interest = byChannel(channel);
    this.#requests.registerChannel(channel, sinceOf(options.since ?? "now"));
    this.#run?.wake();
    return {
      name: titleOf(name),
      attributes: new Set(channel.attributes),
      subscribe: (callback, onMissed) => this.#subscriptions.subscribeChannel(interest, callback, onMissed),
    };
  }

  #share(channel: string, { share, since = "now", attributes = [], leaseS = LEASE_S, prefetch = 1 }: ShareOptions): Share {
    const of = { channel, share: checkShare(share, channel), attributes: checkAttributes(attributes) };
    const interest = byShare(of);
    this.#requests.registerShare(of, {
      since: sinceOf(since),
      leaseS: checkWhole("leaseS", leaseS, LEASE_S_MIN, LEASE_S_MAX),
      prefetch: checkWhole("prefetch", prefetch, 1, HELD_MAX),
    });
    this.#run?.wake();
    return {
      name: channel,
      share,
      attributes: new Set(of.attributes),
      subscribe: (callback, onMissed, onLost) => this.#subscriptions.subscribeShare(interest, callback, onMissed, onLost),
    };
  }

  #unregisterChannel(name: string): void {
    this.#requests.unregisterChannel(name);
    this.#subscriptions.endAll((interest) => channelOf(interest)?.name === name);
    this.#run?.wake();
  }

  /** Want exactly these objects by name: others are unregistered. Queries and channels stay. Throws RangeError, before anything is
   * changed. */
  registerOnly(objectIds: Iterable<string>): Registration[] {
    if (typeof objectIds === "string") throw new RangeError("objectIds: is one text, not several");
    const names = new Set(Array.from(objectIds, checkObject));
    this.#requests.registerOnly(names);
    this.#subscriptions.endAll((interest) => isName(interest) && !names.has(interest));
    this.#run?.wake();
    return [...names].map((name) => this.#registration(name));
  }

  /**
   * Publish a version of an object of this page's group, on its session: now, or once there is one.
   *
   * It is sent until the service answers, in the order of the calls. It waits in memory: a reload or disconnect() gives
   * it up. `payload`: a Uint8Array, or what JSON can say, with all fields at most 32 KiB; the service has its own limit,
   * 4 KiB by default, and rejects what is above it. Without `version` it gets the time in ms, or one above the newest
   * that is known here. A newer publish of the object takes out one that waits. The other clients are told, not this
   * one. Throws RangeError, which names the field, and OutboxFull.
   */
  publish(objectId: string, payload?: unknown, options: VersionOptions = {}): Publication {
    return this.#publishing.publish(versionOf(objectId, payload, options));
  }

  /**
   * Merge these keys into the description of an object of this page's group, and remove those whose value is null;
   * likewise, in the order of its publishes. Patches of one object that wait become one. Throws RangeError, OutboxFull.
   */
  describe(objectId: string, description: Patch): Publication {
    return this.#publishing.publish(patchOf(objectId, description));
  }

  /**
   * Send a message to a channel of this page's group, likewise. `payload`: a Uint8Array, or what JSON can say; a frame
   * has 32 KiB. Without `id` it gets a new one. Who subscribed is told its own message, too.
   */
  send(channel: string, payload: unknown, options: MessageOptions = {}): Publication {
    return this.#publishing.publish(messageOf(channel, payload, options.id ?? newId(), options));
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
   * client, this one shares its session. Rejects with StateError: the state cannot be read, or is another client's.
   */
  async connect(): Promise<void> {
    if (this.#run?.client?.refused) await this.disconnect();
    if (this.#run !== null) {
      this.#run.connectNow();
      return this.#run.opened;
    }
    const ask = (): Promise<NamedGateway> => this.#askDirectory();
    const run: Run = new Run(this.#settings, this.#token, ask, this.#onError, (number) => this.#callback(number));
    this.#run = run;
    return run.open({
      state: this.#state,
      read: () => this.#document(),
      make: (document) => this.#make(document),
      lead: (client) => this.#lead(run, client),
      follow: () => this.#follow(run),
      ended: () => {
        this.#leader = null;
        if (this.#run === run) this.#run = null;
      },
    });
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
    this.#publishing.withdraw();
  }

  async #askDirectory(): Promise<NamedGateway> {
    const { home = null } = this.#gateways;
    const token = await this.#token();
    return askDirectory(this.#directory ?? "", this.#identity, home, token, this.#settings.connectTimeoutS);
  }

  #publishOnce(outgoing: Outgoing): void {
    if (this.connected) this.#publishing.publishOnce(outgoing);
  }

  /** True while the client has a session, which begins when the service has answered. */
  get connected(): boolean {
    return this.#run?.connected ?? false;
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
    return this.#run?.client?.application ?? this.#follower?.asked ?? this.#wishes;
  }

  get #application(): Application | undefined {
    return this.#follower?.application ?? this.#client?.application;
  }

  #current(objectId: string): Notification | null {
    return this.#follower?.current(objectId) ?? this.#application?.current(objectId) ?? null;
  }

  #callback(number: number): Tell | undefined {
    const tell = this.#subscriptions.tell(number);
    return tell && ((job) => this.#heard.before(number, job as AnyJob) ?? tell(job));
  }

  #registration(objectId: string): Registration {
    const current = (): Notification | null => this.#current(objectId);
    return {
      objectId,
      get current() {
        return current();
      },
      subscribe: (callback) => this.#subscriptions.subscribe(objectId, callback),
    };
  }

  #query(text: string, interest: Interest): Query {
    const members = (): ReadonlySet<string> => new Set(this.#application?.members(interest));
    const membersKnown = (): boolean => this.#application?.knowsMembers(interest) ?? false;
    const descriptions = (): ReadonlyMap<string, Description | null> => this.#application?.descriptions(interest) ?? new Map();
    const current = (): ReadonlyMap<string, Notification> => {
      const found = [...members()].map((name) => [name, this.#current(name)] as const);
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
      subscribe: (callback) => this.#subscriptions.subscribe(interest, callback),
      subscribeMembers: (callback) => this.#subscriptions.subscribeMembers(interest, callback),
    };
  }

  #make(document: Document): Client {
    const client = new Client(document, this.#gateways, this.#settings, Math.random, nowS(), this.#publications);
    this.#follower = null;
    this.#wishes.apply(client.application);
    this.#wishes = new Wishes();
    this.#subscriptions.join(client.application);
    this.#client = client;
    return client;
  }

  #lead(run: Run, client: Client): Leader | null {
    const { shared } = this.#state;
    if (shared === undefined || !canShare()) return null;
    this.#leader = new Leader(shared, this.#tab, {
      client,
      requests: this.#requests,
      subscriptions: this.#subscriptions,
      publications: this.#publications,
      heard: this.#heard,
      wake: () => run.wake(),
      connect: () => void this.connect().catch((error: ColdNotifyError) => run.report(error)),
    });
    return this.#leader;
  }

  #follow(run: Run): Follower | null {
    const { shared } = this.#state;
    if (shared === undefined || !canShare()) return null;
    this.#follower = new Follower(shared, this.#tab, {
      requests: this.#requests,
      subscriptions: this.#subscriptions,
      publications: this.#publications,
      heard: this.#heard,
      wishes: () => this.#wishes,
      stored: () => (this.#wishes = new Wishes()),
      read: (text) => {
        const document = decode(text, this.#identity);
        const { application } = new Client(document, this.#gateways, this.#settings, Math.random, nowS());
        return { document, application };
      },
      report: (error) => run.report(error),
      changed: () => run.look(),
    });
    return this.#follower;
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

/** Returns the name of a pattern. Throws RangeError. */
function patternOf(of: string | { pattern: string }): string {
  return patternName(typeof of === "string" ? prefixExpression(of) : of.pattern);
}
