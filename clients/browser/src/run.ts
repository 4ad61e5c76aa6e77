/** One run of a client, from connect() to disconnect(): carries out the core's actions with a WebSocket, a clock, a store. */

import { nowS } from "./clock.js";
import type { Client, Status } from "./core/client.js";
import type { AnyJob } from "./core/delivery/callbackTurns.js";
import type { Document } from "./core/document/document.js";
import type { ClientSettings } from "./core/settings.js";
import { Standstill } from "./core/session/standstill.js";
import { type NamedGateway, NoGateway } from "./directory.js";
import { ChannelCallbackFailed, type ColdNotifyError, OpenElsewhere, StateError } from "./errors.js";
import type { Follower } from "./follower.js";
import type { Leader } from "./leader.js";
import { Link, TIMER_MS_MAX } from "./link.js";
import type { State } from "./state.js";
import type { Told } from "./tabs.js";

/** How long the gateway has after Bye to close its side. Then the client closes it. */
const LINGER_S = 1;

/** Calls the application's callback with the contents of a job. */
export type Tell = (job: AnyJob | Told) => unknown;

/** The parts of a run that its `Notify` makes. */
export interface RunParts {
  readonly state: State;
  readonly read: () => Promise<Document>;
  readonly make: (document: Document) => Client;
  /** Makes the leader, if tabs of this browser can share the session. */
  readonly lead: (client: Client) => Leader | null;
  /** Follows the tab that has the session. null: they cannot share it. */
  readonly follow: () => Follower | null;
  readonly ended: () => void;
}

/** The needed part of the page's `document`. (Here `Document` is the name of the state.) */
type Page = Pick<globalThis.Document, "visibilityState" | "addEventListener" | "removeEventListener">;

/** The activity between a connect() and its disconnect(). */
export class Run {
  client: Client | null = null;
  opened: Promise<void> = Promise.resolve();
  readonly #settings: ClientSettings;
  readonly #token: () => string | Promise<string>;
  readonly #askDirectory: () => Promise<NamedGateway>;
  readonly #onError: (error: ColdNotifyError) => unknown;
  readonly #callback: (number: number) => Tell | undefined;
  readonly #waiters = new Set<() => void>();
  readonly #unlocked = new AbortController();
  /** null until the first step. */
  #state: State | null = null;
  #follower: Follower | null = null;
  #leader: Leader | null = null;
  #followed: () => void = () => undefined;
  #hasFollowed = false;
  #release: () => void = () => undefined;
  #ended: () => void = () => undefined;
  /** The connection of the session, and one beside it, by number. */
  readonly #links = new Map<number, Link>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Timers of 0 ms take 4, and a second in a page that is not seen; messages do not. */
  readonly #channel = new MessageChannel();
  #woken = false;
  #stepping = false;
  #callingBack = false;
  #closing = false;
  #over = false;
  readonly #standstill = new Standstill(nowS());
  readonly #leave = (): void => this.#saveNow();
  /** The page is seen again, or goes on after the browser has frozen it. */
  readonly #awake = (): void => this.#step();
  readonly #newNetwork = (): void => {
    this.client?.doubt(nowS(), 0);
    this.#step();
  };

  constructor(
    settings: ClientSettings,
    token: () => string | Promise<string>,
    askDirectory: () => Promise<NamedGateway>,
    onError: (error: ColdNotifyError) => unknown,
    callback: (number: number) => Tell | undefined,
  ) {
    this.#settings = settings;
    this.#token = token;
    this.#askDirectory = askDirectory;
    this.#onError = onError;
    this.#callback = callback;
    this.#channel.port1.onmessage = (): void => {
      this.#woken = false;
      this.#step();
    };
  }

  // From outside

  open(parts: RunParts): Promise<void> {
    this.#ended = parts.ended;
    const follows = new Promise<void>((resolve) => (this.#followed = resolve));
    const leads = this.#open(parts);
    leads.catch((error: unknown) => {
      if (this.#hasFollowed) this.report(error as ColdNotifyError);
    });
    this.opened = Promise.race([leads, follows]);
    return this.opened;
  }

  async #open({ state, read, make, lead, follow }: RunParts): Promise<void> {
    let client: Client;
    try {
      this.#release = await state.lock(this.#unlocked.signal, () => this.#follow(follow()));
      client = this.client = make(await read());
      this.#goOnFrom(this.#follower);
      this.#follower = null;
      this.#leader = lead(client);
      await this.#leader?.gather();
    } catch (error) {
      this.#end();
      if (this.#closing) return; // disconnect() came before
      throw error instanceof StateError ? error : new StateError(`the state cannot be read: ${String(error)}`);
    }
    if (this.#over) return;
    this.#state = state;
    this.#listen("addEventListener");
    if (this.#closing) client.stop();
    this.#step();
  }

  /** Follows the tab that has the session, until this one gets the lock. */
  #follow(follower: Follower | null): void {
    if (follower === null) return this.report(new OpenElsewhere());
    this.#follower = follower;
    void follower.joined.then(() => {
      this.#hasFollowed = true;
      this.#followed();
    });
  }

  /** Follows no more. Callbacks begin once the one that runs has returned. */
  #goOnFrom(follower: Follower | null): void {
    if (follower === null) return;
    follower.close();
    this.#callingBack = true;
    void follower.idle.then(() => {
      this.#callingBack = false;
      this.wake();
    });
  }

  /** Adds or removes listeners for the page's events. Outside of a page it adds none. */
  #listen(change: "addEventListener" | "removeEventListener"): void {
    const { document } = globalThis as { document?: Page };
    globalThis[change]?.("pagehide", this.#leave);
    globalThis[change]?.("pageshow", this.#awake);
    globalThis[change]?.("online", this.#newNetwork);
    document?.[change]("visibilitychange", this.#awake);
    document?.[change]("resume", this.#awake);
  }

  /** Notes that something has changed: the next turn looks at everything again. */
  wake(): void {
    if (this.#over || this.#woken) return;
    this.#woken = true;
    this.#channel.port2.postMessage(null);
  }

  /** Connects now instead of waiting for the next try. */
  connectNow(): void {
    if (this.client !== null) this.client.connectNow(this.#now(this.client));
    this.#follower?.connectNow();
    this.wake();
  }

  // Looking in. A page that wakes may ask before anything else has looked.

  get caughtUp(): boolean {
    if (this.client === null) return this.#follower?.caughtUp ?? false;
    return this.client.caughtUp(this.#now(this.client));
  }

  /** null: it waits until another page is gone, or its state is being read. */
  get status(): Status | null {
    if (this.client === null) return this.#follower?.status ?? null;
    return this.client.status(this.#now(this.client), Date.now());
  }

  /** True while there is a session, in this tab or another. */
  get connected(): boolean {
    return this.client?.connected ?? this.#follower?.connected ?? false;
  }

  /** True if the service has refused this client for good. */
  get refused(): boolean {
    return this.client?.refused ?? this.#follower?.status?.phase === "refused";
  }

  async waitCaughtUp(timeoutS: number): Promise<boolean> {
    this.#follower?.probe();
    await this.#until(() => this.#over || this.#closing || this.caughtUp || this.refused, timeoutS);
    return this.caughtUp;
  }

  /** The time. The client hears of it if this page has stood still. */
  #now(client: Client): number {
    const now = nowS();
    const stoodStillS = this.#standstill.look(now, isHidden());
    if (stoodStillS > 0) {
      client.doubt(now, stoodStillS);
      this.wake();
    }
    return now;
  }

  async stop(timeoutS: number): Promise<void> {
    this.#closing = true;
    await this.#follower?.leave(timeoutS);
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
    this.#listen("removeEventListener");
    for (const link of this.#links.values()) link.close();
    this.#links.clear();
    this.#follower?.close();
    this.#leader?.close();
    this.#release();
    this.#ended();
    this.look();
  }

  /** Looks whether what is waited for has come. */
  look(): void {
    for (const look of [...this.#waiters]) look();
  }

  // The loop

  #sleep(seconds: number): void {
    clearTimeout(this.#timer);
    if (seconds <= 0) this.wake();
    else this.#timer = setTimeout(() => this.#step(), Math.ceil(1000 * seconds));
  }

  /** Do all that is due, then sleep until there is more. */
  #step(): void {
    const { client } = this;
    this.#follower?.publish();
    if (this.#over || this.#stepping || client === null || this.#state === null) return;
    this.#stepping = true;
    try {
      client.tick(this.#now(client));
      this.#save(client);
      client.tick(nowS());
      this.#drive(client);
      this.#tellLost(client);
      this.#callBack(client);
      this.#tell(client);
      this.#leader?.stepped(nowS());
      this.look();
      if (client.finished && this.#links.size === 0) this.#end();
      else {
        const looks = Array.from(this.#links.values(), ({ lookAgainAt }) => lookAgainAt);
        const lookAgainAt = Math.min(this.#standstill.deadline(), ...looks);
        this.#sleep(Math.min(client.deadline(), this.#jobAt(client), lookAgainAt) - nowS());
      }
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
    for (const error of client.takeReports()) {
      this.report(error);
      this.#leader?.report(error);
    }
  }

  report(error: ColdNotifyError): void {
    try {
      this.#onError(error);
    } catch (thrown) {
      console.error("onError threw", thrown);
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
    const stored = this.#leader?.writes(save.document);
    const saved = (): void => {
      client.saved(save, nowS());
      stored?.();
    };
    let written: void | Promise<void>;
    try {
      written = (this.#state as State).write(save.document);
    } catch (error) {
      failed(error);
      return;
    }
    // What is stored at once is acknowledged with this very step.
    if (written === undefined) saved();
    else void written.then(saved, failed).then(() => this.wake());
  }

  // The connection

  #drive(client: Client): void {
    for (const [number, link] of [...this.#links]) {
      const isMain = number === client.mainLink;
      const wanted = isMain ? client.linkWanted : client.trialWanted;
      if (!isMain && !wanted) link.end();
      else {
        link.drive(() => client.dataToSend(nowS(), number), wanted, this.#closing && isMain, LINGER_S);
        client.sent(number); // the browser has the bytes: they leave even if this page dies now
      }
    }
    const main = client.mainLink;
    if (!this.#links.has(main)) this.#connect(client, client.connectDue(nowS()), main);
    if (client.questionDue(nowS())) void this.#ask(client);
    if (!this.#links.has(1 - main)) this.#connect(client, client.besideDue(nowS()), 1 - main);
  }

  #connect(client: Client, address: string | null, number: number): void {
    if (address === null) return;
    const link: Link = new Link(address, this.#settings.connectTimeoutS, this.#token, {
      up: (token) => client.linkUp(nowS(), token, number),
      received: (data) => client.receive(data, this.#now(client), number),
      down: (reason) => {
        if (this.#links.get(number) === link) this.#links.delete(number);
        client.linkDown(reason, nowS(), number);
      },
      changed: () => this.#step(),
    });
    this.#links.set(number, link);
  }

  async #ask(client: Client): Promise<void> {
    try {
      const { address, homeOutS } = await this.#askDirectory();
      client.named(address, nowS(), homeOutS);
    } catch (error) {
      client.unnamed(String(error), nowS(), error instanceof NoGateway ? error.retryAfterS : 0);
    }
    this.wake();
  }

  // The callbacks: one after the other, so that an object's versions are told in order

  /** Tells who is to hear it that a lease is lost, beside the callback that runs. */
  #tellLost(client: Client): void {
    for (let job = client.nextLost(); job !== null; job = client.nextLost()) {
      const { handed, lease } = job;
      void this.#runJob(job).then((failed) => {
        for (const cause of failed.values()) this.report(new ChannelCallbackFailed(handed.channel, lease.offset, cause));
      });
    }
  }

  #callBack(client: Client): void {
    if (this.#callingBack) return;
    const job = client.nextJob(nowS());
    if (job === null) return;
    this.#callingBack = true;
    void this.#runJob(job).then((failed) => {
      this.#callingBack = false;
      client.jobDone(job, failed, nowS());
      if (failed.size === 0) this.#leader?.told(job);
      this.wake();
    });
  }

  async #runJob(job: AnyJob): Promise<ReadonlyMap<number, unknown>> {
    const failed = new Map<number, unknown>();
    for (const number of job.subscribers) {
      try {
        await this.#callback(number)?.(job);
      } catch (error) {
        failed.set(number, error);
      }
    }
    return failed;
  }
}

/** Browsers give a page that nobody sees a turn now and then. */
function isHidden(): boolean {
  return (globalThis as { document?: Page }).document?.visibilityState === "hidden";
}
