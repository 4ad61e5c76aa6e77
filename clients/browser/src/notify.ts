/** `Notify`, what an application uses: the core (`core/client.ts`) with a WebSocket, a clock, a store and callbacks. */

import { Client, type Status } from "./core/client.js";
import { type Identity, type Document, decodeDocument, emptyDocument } from "./core/document.js";
import type { Job } from "./core/delivery.js";
import { checkName, checkObject } from "./core/names.js";
import { type Settings, settingsOf } from "./core/settings.js";
import { type ColdNotifyError, StateDamaged, StateError } from "./errors.js";
import { Link, TIMER_MS_MAX } from "./link.js";
import type { Notification } from "./notification.js";
import { LocalState, type State } from "./state.js";

/** After Bye, the gateway has so long to close its side; then we do. */
const LINGER_S = 1;
/** Timers take milliseconds in 32 bits. */
const SLEEP_S_MAX = 3600;

/** Told the newest version of an object; may be asynchronous. */
export type Callback = (notification: Notification) => unknown;

/** Who the client is, where it connects to, and what may be set; times in seconds. */
export interface Options extends Partial<Settings> {
  readonly domain: string;
  readonly groupId: string;
  readonly clientId: string;
  /** ws:// or wss:// URLs of gateways: any one will do. Default: `/v1/connect` where this page came from. */
  readonly address?: string | readonly string[];
  /** Default: localStorage, under a key made of the client's names. */
  readonly state?: State;
  /** A signed token that says who this is, or what gets one: it is called at each connection, and may throw. */
  readonly token?: string | (() => string | Promise<string>);
  /** Called with every problem that nobody else would hear of (see `errors.ts`). Default: `console.error`. */
  readonly onError?: (error: ColdNotifyError) => unknown;
}

/** A callback that is being told; until `dispose`. */
export interface Subscription {
  /** Call back no more. A call that is under way goes on. Any number of times. */
  dispose(): void;
}

/** The interest in one object. */
export interface Registration {
  readonly objectId: string;
  /**
   * Tell `callback` every newer version from now on, and what has been waiting for a subscriber.
   *
   * A version counts as applied once all subscribers of its object have returned (a promise: is fulfilled); one that
   * throws is told again.
   */
  subscribe(callback: Callback): Subscription;
}

interface Subscriber {
  readonly objectId: string;
  readonly callback: Callback;
}

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
  lastProblem: null,
  nextConnectS: null,
};

/** A client of ColdNotify. One for each page and name; methods are called in any order and at any time. */
export class Notify {
  readonly #identity: Identity;
  readonly #settings: Settings;
  readonly #addresses: readonly string[];
  readonly #state: State;
  readonly #token: () => string | Promise<string>;
  readonly #onError: (error: ColdNotifyError) => unknown;
  readonly #subscribers = new Map<number, Subscriber>();
  #nextSubscriber = 1;
  #asked = new Asked();
  #run: Run | null = null;

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
    this.#wishes.register(objectId);
    this.#run?.wake();
    return this.#registration(objectId);
  }

  /** Want this object no more: its subscriptions end, the service is told. Throws RangeError. */
  unregister(objectId: string): void {
    checkObject(objectId);
    this.#wishes.unregister(objectId);
    this.#unsubscribeAll((name) => name === objectId);
    this.#run?.wake();
  }

  /** Want exactly these objects: the others are unregistered. Throws RangeError, before anything is changed. */
  registerOnly(objectIds: Iterable<string>): Registration[] {
    if (typeof objectIds === "string") throw new RangeError("objectIds: is one text, not several");
    const names = new Set(Array.from(objectIds, checkObject));
    this.#wishes.registerOnly(names);
    this.#unsubscribeAll((name) => !names.has(name));
    this.#run?.wake();
    return [...names].map((name) => this.#registration(name));
  }

  /**
   * Start the client, which from now on connects, and connects again, by itself. No change if it runs.
   *
   * Resolves once the state is read; the network may be away for long. If another page of this browser is the same
   * client, it waits until that one is gone. Rejects with StateError: the state cannot be read, or is another client's.
   */
  async connect(): Promise<void> {
    if (this.#run?.client?.refused) await this.disconnect();
    if (this.#run !== null) return this.#run.opened;
    const run = new Run(this.#settings, this.#token, this.#onError, (number) => this.#subscribers.get(number)?.callback);
    this.#run = run;
    const ended = (): void => {
      if (this.#run === run) this.#run = null;
    };
    return run.open(this.#state, () => this.#document(), (document) => this.#client(document), ended);
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
  }

  /** Whether there is a session: the service has answered. */
  get connected(): boolean {
    return this.#run?.client?.connected ?? false;
  }

  /** Whether everything owed has been told, and all callbacks have returned. */
  get caughtUp(): boolean {
    return this.#run?.client?.caughtUp ?? false;
  }

  /** What the client is doing. */
  get status(): Status {
    if (this.#run === null) return STOPPED;
    return this.#run.client?.status(nowS()) ?? { ...STOPPED, phase: "locked" };
  }

  get #wishes(): Wishes {
    return this.#run?.client ?? this.#asked;
  }

  #registration(objectId: string): Registration {
    return { objectId, subscribe: (callback) => this.#subscribe(objectId, callback) };
  }

  #subscribe(objectId: string, callback: Callback): Subscription {
    if (typeof callback !== "function") throw new RangeError("callback: cannot be called");
    const number = this.#nextSubscriber++;
    this.#subscribers.set(number, { objectId, callback });
    this.#run?.client?.subscribe(objectId, number);
    this.#run?.wake();
    return { dispose: () => this.#unsubscribe(number) };
  }

  #unsubscribe(number: number): void {
    const subscriber = this.#subscribers.get(number);
    if (subscriber === undefined) return;
    this.#subscribers.delete(number);
    this.#run?.client?.unsubscribe(subscriber.objectId, number);
    this.#run?.wake();
  }

  #unsubscribeAll(ends: (name: string) => boolean): void {
    for (const [number, { objectId }] of this.#subscribers) if (ends(objectId)) this.#unsubscribe(number);
  }

  #client(document: Document): Client {
    const client = new Client(document, this.#addresses, this.#settings, Math.random, nowS());
    this.#asked.apply(client);
    this.#asked = new Asked();
    for (const [number, { objectId }] of this.#subscribers) client.subscribe(objectId, number);
    return client;
  }

  async #document(): Promise<Document> {
    const text = await this.#state.read();
    if (text === null) return emptyDocument(this.#identity);
    try {
      return decodeDocument(text, this.#identity);
    } catch (error) {
      if (!(error instanceof StateDamaged)) throw error;
      const aside = await this.#state.setAside();
      this.#onError(new StateDamaged(`${error.message}; it is kept as ${aside}`));
      return emptyDocument(this.#identity);
    }
  }
}

/** What an application may want; a client does it, else it is noted until there is one. */
type Wishes = Pick<Client, "register" | "unregister" | "registerOnly">;

/** What the application asked for while no client was running: applied to the document once it is read. */
class Asked implements Wishes {
  #only: ReadonlySet<string> | null = null;
  /** By object: unregister (false), register (true), or both in this order. */
  #steps = new Map<string, readonly boolean[]>();

  register(name: string): void {
    this.#steps.set(name, this.#steps.get(name)?.includes(false) ? [false, true] : [true]);
  }

  unregister(name: string): void {
    this.#steps.set(name, [false]);
  }

  registerOnly(names: ReadonlySet<string>): void {
    this.#only = names;
    this.#steps = new Map([...this.#steps].filter(([name, steps]) => names.has(name) && steps.includes(true)));
  }

  apply(client: Client): void {
    if (this.#only !== null) client.registerOnly(this.#only);
    for (const [name, steps] of this.#steps) {
      for (const wanted of steps) {
        if (wanted) client.register(name);
        else client.unregister(name);
      }
    }
  }
}

/** What goes on between a connect() and its disconnect(). */
class Run {
  client: Client | null = null;
  opened: Promise<void> = Promise.resolve();
  readonly #settings: Settings;
  readonly #token: () => string | Promise<string>;
  readonly #onError: (error: ColdNotifyError) => unknown;
  readonly #callback: (number: number) => Callback | undefined;
  readonly #waiters = new Set<() => void>();
  readonly #unlocked = new AbortController();
  #state: State | null = null;
  #release: () => void = () => undefined;
  #ended: () => void = () => undefined;
  #link: Link | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Timers of 0 ms take 4, and a second in a page that is not seen; messages do not. */
  readonly #channel = new MessageChannel();
  #woken = false;
  #stepping = false;
  #callingBack = false;
  #closing = false;
  #over = false;
  readonly #leave = (): void => this.#saveNow();

  constructor(
    settings: Settings,
    token: () => string | Promise<string>,
    onError: (error: ColdNotifyError) => unknown,
    callback: (number: number) => Callback | undefined,
  ) {
    this.#settings = settings;
    this.#token = token;
    this.#onError = onError;
    this.#callback = callback;
    this.#channel.port1.onmessage = (): void => {
      this.#woken = false;
      this.#step();
    };
  }

  // From outside

  open(
    state: State,
    read: () => Promise<Document>,
    make: (document: Document) => Client,
    ended: () => void,
  ): Promise<void> {
    this.#ended = ended;
    this.opened = this.#open(state, read, make);
    return this.opened;
  }

  async #open(state: State, read: () => Promise<Document>, make: (document: Document) => Client): Promise<void> {
    try {
      this.#release = await state.lock(this.#unlocked.signal);
      this.client = make(await read());
    } catch (error) {
      this.#end();
      if (this.#closing) return; // disconnect() came before
      throw error instanceof StateError ? error : new StateError(`the state cannot be read: ${String(error)}`);
    }
    this.#state = state;
    globalThis.addEventListener?.("pagehide", this.#leave);
    if (this.#closing) this.client.stop();
    this.#step();
  }

  /** Something has changed: look again. */
  wake(): void {
    if (this.#over || this.#woken) return;
    this.#woken = true;
    this.#channel.port2.postMessage(null);
  }

  async waitCaughtUp(timeoutS: number): Promise<boolean> {
    const decided = (): boolean => this.#over || this.#closing || !!this.client?.caughtUp || !!this.client?.refused;
    await this.#until(decided, timeoutS);
    return this.client?.caughtUp ?? false;
  }

  async stop(timeoutS: number): Promise<void> {
    this.#closing = true;
    this.#unlocked.abort();
    this.client?.stop();
    this.wake();
    await this.#until(() => this.#over, timeoutS);
    if (this.#over) return;
    this.client?.stop(true);
    this.wake();
    await this.#until(() => this.#over, 2 * LINGER_S);
    this.#end();
  }

  /** `decided` is looked at after each step; a limit to the wait is the caller's business. */
  async #until(decided: () => boolean, timeoutS: number): Promise<void> {
    if (decided()) return;
    await new Promise<void>((resolve) => {
      const look = (): void => {
        if (!decided()) return;
        finish();
      };
      const finish = (): void => {
        clearTimeout(timer);
        this.#waiters.delete(look);
        resolve();
      };
      const timer = setTimeout(finish, Math.min(1000 * timeoutS, TIMER_MS_MAX));
      this.#waiters.add(look);
    });
  }

  #end(): void {
    if (this.#over) return;
    this.#over = true;
    clearTimeout(this.#timer);
    this.#channel.port1.close();
    globalThis.removeEventListener?.("pagehide", this.#leave);
    this.#link?.close();
    this.#link = null;
    this.#release();
    this.#ended();
    this.#look();
  }

  #look(): void {
    for (const look of [...this.#waiters]) look();
  }

  // The loop

  #sleep(seconds: number): void {
    clearTimeout(this.#timer);
    if (seconds <= 0) this.wake();
    else this.#timer = setTimeout(() => this.#step(), Math.ceil(1000 * Math.min(seconds, SLEEP_S_MAX)));
  }

  /** Do all that is due, then sleep until there is more. */
  #step(): void {
    const { client } = this;
    if (this.#over || this.#stepping || client === null) return;
    this.#stepping = true;
    try {
      client.tick(nowS());
      this.#save(client);
      client.tick(nowS());
      this.#drive(client);
      this.#callBack(client);
      this.#tell(client);
      this.#look();
      if (client.finished) this.#end();
      else this.#sleep(Math.min(client.deadline(), this.#jobAt(client), this.#link?.lookAgainAt ?? Infinity) - nowS());
    } catch (error) {
      console.error("ColdNotify's client stops: this is a bug in it", error);
      this.#end();
    } finally {
      this.#stepping = false;
    }
  }

  #jobAt(client: Client): number {
    return this.#callingBack ? Infinity : client.nextJobAt();
  }

  /** Tell reports; they may come at any time. */
  #tell(client: Client): void {
    for (const report of client.takeReports()) {
      try {
        this.#onError(report);
      } catch (error) {
        console.error("onError threw", error);
      }
    }
  }

  // The state

  #save(client: Client): void {
    const save = client.saveDue(nowS());
    if (save !== null) this.#write(client, save);
  }

  /** The page is being left: what is not stored yet would be told again. */
  #saveNow(): void {
    const save = this.client?.saveNow() ?? null;
    if (save !== null) this.#write(this.client as Client, save);
  }

  #write(client: Client, save: NonNullable<ReturnType<Client["saveNow"]>>): void {
    const failed = (error: unknown): void => {
      const problem = error instanceof StateError ? error : new StateError(`the state: ${String(error)}`);
      client.saveFailed(problem, nowS());
    };
    let written: void | Promise<void>;
    try {
      written = (this.#state as State).write(save.document);
    } catch (error) {
      failed(error);
      return;
    }
    // What is stored at once is acknowledged with this very step.
    if (written === undefined) client.saved(save, nowS());
    else void written.then(() => client.saved(save, nowS()), failed).then(() => this.wake());
  }

  // The connection

  #drive(client: Client): void {
    if (this.#link === null) {
      const address = client.connectDue(nowS());
      if (address !== null) this.#connect(client, address);
      return;
    }
    this.#link.drive(() => client.dataToSend(nowS()), client.linkWanted, this.#closing, LINGER_S);
  }

  #connect(client: Client, address: string): void {
    const link: Link = new Link(address, this.#settings.connectTimeoutS, this.#token, {
      up: (token) => client.linkUp(nowS(), token),
      received: (data) => client.receive(data, nowS()),
      down: (reason) => {
        if (this.#link === link) this.#link = null;
        client.linkDown(reason, nowS());
      },
      changed: () => this.#step(),
    });
    this.#link = link;
  }

  // The callbacks: one after the other, so that an object's versions are told in order

  #callBack(client: Client): void {
    if (this.#callingBack) return;
    const job = client.nextJob(nowS());
    if (job === null) return;
    this.#callingBack = true;
    void this.#runJob(job).then((failed) => {
      this.#callingBack = false;
      client.jobDone(job, failed, nowS());
      this.wake();
    });
  }

  async #runJob(job: Job): Promise<ReadonlyMap<number, unknown>> {
    const failed = new Map<number, unknown>();
    for (const number of job.subscribers) {
      try {
        await this.#callback(number)?.(job.notification);
      } catch (error) {
        failed.set(number, error);
      }
    }
    return failed;
  }
}

/** Seconds, on a clock that does not jump. */
function nowS(): number {
  return performance.now() / 1000;
}

function addressesOf(given: string | readonly string[] | undefined): string[] {
  const entries = given === undefined ? [pageAddress()] : typeof given === "string" ? [given] : [...given];
  if (entries.length === 0) throw new RangeError("address: is empty");
  const addresses = entries.map((entry) => {
    let url: URL;
    try {
      url = new URL(entry);
    } catch {
      throw new RangeError(`address: ${JSON.stringify(entry)} is no URL`);
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
  if (page === undefined) throw new RangeError("address: is missing, and there is no page that it could come from");
  return `${page.protocol === "https:" ? "wss" : "ws"}://${page.host}/v1/connect`;
}

