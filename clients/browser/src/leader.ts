/** The tab that has the session: it calls the other tabs' callbacks, and carries out their requests. */

import type { Client } from "./core/client.js";
import type { AnyJob } from "./core/delivery/callbackTurns.js";
import type { Interest } from "./core/interests/interests.js";
import type { Publications } from "./core/publishing/publications.js";
import { type ColdNotifyError, OutboxFull } from "./errors.js";
import type { Subscription } from "./registration.js";
import type { Of, Subscriptions } from "./subscriptions.js";
import {
  type ErrorFields,
  errorOf,
  fieldsOf,
  type FollowerMessage,
  GATHER_S,
  type Heard,
  type LeaderMessage,
  type LeaseWish,
  lockOf,
  SILENT_S,
  type Subscribing,
  TabChannel,
  TabRequests,
  type Told,
  toldOf,
} from "./tabs.js";

/** Limit on questions for outcomes of one tab: more than a tab asks at a time. */
const QUESTIONS_MAX = 256;

/** A follower. */
interface Tab {
  readonly requests: TabRequests;
  readonly subscriptions: Map<number, Subscription>;
  readonly questions: number[];
  /** Ends the wait for its lock. */
  readonly watch: AbortController;
  /** The number of its last message. */
  seen: number;
  /** True once all that it holds has come. */
  ready: boolean;
}

/** A callback of another tab that runs. */
interface Running {
  readonly tab: string;
  readonly job: AnyJob;
  /** True once the tab has heard that the lease of its message is lost. */
  heardLost: boolean;
  readonly returned: (error: unknown) => void;
  timer: ReturnType<typeof setTimeout> | undefined;
}

/** What the leader uses of its `Notify`. */
export interface Led {
  readonly client: Client;
  readonly requests: TabRequests;
  readonly subscriptions: Subscriptions;
  readonly publications: Publications;
  readonly heard: Heard;
  readonly wake: () => void;
  readonly connect: () => void;
}

/** All followers, from the leader's side. */
export class Leader {
  readonly #name: string;
  readonly #id: string;
  readonly #led: Led;
  readonly #channel: TabChannel<LeaderMessage, FollowerMessage>;
  readonly #tabs = new Map<string, Tab>();
  readonly #running = new Map<number, Running>();
  #lastJob = 0;
  /** The last job whose callbacks have returned. */
  #settled = 0;
  #status = "";
  /** The locks of the tabs that are there, and have not joined yet. */
  #awaited = new Set<string>();
  #gathered: () => void = () => undefined;
  /** True once callbacks may be called. */
  #hasBegun = false;

  constructor(name: string, id: string, led: Led) {
    this.#name = name;
    this.#id = id;
    this.#led = led;
    this.#channel = new TabChannel(name, id, (from, message, number) => this.#receive(from, message, number));
  }

  /** The requests of the other tabs. */
  get others(): TabRequests[] {
    return [...this.#tabs.values()].map(({ requests }) => requests);
  }

  /** Waits until the tabs that are there have joined, so that none misses what comes first. One that sleeps does not count. */
  async gather(): Promise<void> {
    this.#channel.post({ kind: "lead" });
    const { held = [] } = await navigator.locks.query();
    const own = lockOf(this.#name, this.#id);
    const locks = held.map(({ name = "" }) => name);
    this.#awaited = new Set(locks.filter((lock) => lock.startsWith(lockOf(this.#name, "")) && lock !== own));
    const over = new AbortController();
    for (const lock of this.#awaited) {
      navigator.locks.request(lock, { signal: over.signal }, () => this.#arrived(lock)).catch(() => undefined);
    }
    const timer = setTimeout(() => this.#gathered(), 1000 * GATHER_S);
    await new Promise<void>((resolve) => {
      this.#gathered = resolve;
      for (const [tab, { ready }] of this.#tabs) if (ready) this.#arrived(lockOf(this.#name, tab));
      this.#arrived("");
    });
    clearTimeout(timer);
    over.abort();
    this.#hasBegun = true;
  }

  /** Notes that the tab with this lock has joined, or is gone. */
  #arrived(lock: string): void {
    this.#awaited.delete(lock);
    if (this.#awaited.size === 0) this.#gathered();
  }

  /** Tells the followers the status, if it has changed, and what is lost of what they work at. */
  stepped(now: number): void {
    const { client, heard } = this.#led;
    for (const [id, running] of this.#running) {
      if (running.heardLost || !("lease" in running.job) || !running.job.lease.isLost) continue;
      running.heardLost = true;
      this.#channel.post({ kind: "lost", job: id }, running.tab);
    }
    if (client.caughtUp(now)) heard.caughtUp(this.#id);
    if (this.#tabs.size === 0) return;
    const [status, { connected }] = [client.status(now, Date.now()), client];
    const seen = this.#seen;
    const text = JSON.stringify([status, connected, [...seen]], (key, value: unknown) =>
      typeof value === "bigint" ? String(value) : key === "nextConnectS" ? null : value,
    );
    if (text === this.#status) return;
    this.#status = text;
    this.#channel.post({ kind: "status", status, connected, seen });
  }

  /** Tells the followers the document. Returns a function to call once it is stored. */
  writes(text: string): () => void {
    if (this.#tabs.size === 0) return () => undefined;
    const [jobs, seen] = [this.#settled, this.#seen];
    this.#channel.post({ kind: "view", text });
    return () => this.#channel.post({ kind: "stored", jobs, seen });
  }

  /** Notes that all callbacks of a job have returned. */
  told(job: AnyJob): void {
    this.#settled = this.#lastJob;
    if (this.#tabs.size > 0 && "notification" in job) this.#channel.post({ kind: "told", told: toldOf(job) });
  }

  report(error: ColdNotifyError): void {
    if (this.#tabs.size > 0) this.#channel.post({ kind: "report", error: fieldsOf(error) });
  }

  /** Leads no more. */
  close(): void {
    for (const id of [...this.#tabs.keys()]) this.#remove(id);
    this.#channel.post({ kind: "over" });
    this.#channel.close();
    this.#gathered();
  }

  get #seen(): ReadonlyMap<string, number> {
    return new Map([...this.#tabs].map(([id, { seen }]) => [id, seen]));
  }

  #receive(from: string, message: FollowerMessage, number: number): void {
    if (message.kind === "hello") return this.#channel.post({ kind: "lead" }, from);
    if (message.kind === "join") return this.#join(from, number);
    const tab = this.#tabs.get(from);
    if (tab === undefined) {
      // It slept, and does not know that it has been left behind.
      if (message.kind !== "bye") this.#channel.post({ kind: "left", number }, from);
      return;
    }
    tab.seen = number;
    this.#take(from, tab, message);
    this.#led.wake();
  }

  #join(from: string, seen: number): void {
    this.#remove(from);
    const { client, requests: own } = this.#led;
    const others = (): TabRequests[] => [own, ...this.others.filter((one) => one !== requests)];
    const requests: TabRequests = new TabRequests(() => client.application, others);
    const tab: Tab = { requests, subscriptions: new Map(), questions: [], watch: new AbortController(), seen, ready: false };
    this.#tabs.set(from, tab);
    const gone = (): void => {
      if (this.#tabs.get(from) === tab) this.#remove(from);
      this.#led.wake();
    };
    navigator.locks.request(lockOf(this.#name, from), { signal: tab.watch.signal }, gone).catch(() => undefined);
  }

  #take(from: string, tab: Tab, message: FollowerMessage): void {
    const { publications, wake } = this.#led;
    switch (message.kind) {
      case "ready":
        tab.ready = true;
        this.#status = "";
        this.#channel.post({ kind: "joined", text: this.#led.client.document, late: this.#hasBegun }, from);
        return this.#arrived(lockOf(this.#name, from));
      case "call":
        return this.#call(from, tab, message.method, message.args);
      case "begun":
        return clearTimeout(this.#running.get(message.job)?.timer);
      case "returned":
        return this.#returned(message.job, message.error, message.wish);
      case "settle":
        return this.#settle(from, tab, message.job);
      case "publish":
        return this.#publish(from, tab, message.request, message.outgoing);
      case "ask": {
        const { ask = 0, object = "", offset = 0n } = message.question;
        const tell = this.#answering(from, tab);
        tab.questions.push(publications.ask(object, offset, (outcome) => tell({ kind: "outcome", outcome: { ...outcome, ask } })));
        if (tab.questions.length > QUESTIONS_MAX) publications.forget(tab.questions.shift() as number);
        return wake();
      }
      case "connect":
        return this.#led.connect();
      case "bye":
        return this.#remove(from);
    }
  }

  #returned(job: number, error: ErrorFields | null, wish: LeaseWish | undefined): void {
    const running = this.#running.get(job);
    if (running === undefined) return;
    if ("lease" in running.job && wish !== undefined) {
      if (wish.retryS !== null) running.job.lease.wantRetry(wish.retryS);
      if (wish.rejects) running.job.lease.wantReject();
    }
    running.returned(error === null ? null : errorOf(error));
  }

  #settle(from: string, tab: Tab, id: number): void {
    const running = this.#running.get(id);
    if (running === undefined || !("lease" in running.job)) return;
    const { lease } = running.job;
    const tell = this.#answering(from, tab);
    this.#led.client.application.settle(lease, () => {
      if (lease.isLost) tell({ kind: "lost", job: id });
      tell({ kind: "settled", job: id });
    });
  }

  /** Answers go to this life of a tab alone: one that joins again counts its requests anew. */
  #answering(from: string, tab: Tab): (message: LeaderMessage) => void {
    return (message) => {
      if (this.#tabs.get(from) === tab) this.#channel.post(message, from);
    };
  }

  #publish(from: string, tab: Tab, request: number, outgoing: Parameters<Publications["say"]>[0]): void {
    const { publications, client } = this.#led;
    const tell = this.#answering(from, tab);
    if (request === 0) {
      if (client.connected) publications.sayOnce(outgoing);
      return;
    }
    try {
      publications.say(outgoing, (answer) => tell({ kind: "answer", request, answer }));
    } catch (error) {
      if (!(error instanceof OutboxFull)) throw error;
      tell({ kind: "answer", request, answer: null });
    }
  }

  #call(from: string, tab: Tab, method: string, args: readonly unknown[]): void {
    const [interest, number] = args as readonly [Interest, number];
    const of = OF[method];
    if (of !== undefined) {
      const tell = (job: AnyJob | Told): Promise<unknown> => this.#tell(from, number, job as AnyJob);
      tab.subscriptions.set(number, this.#led.subscriptions.addRemote({ interest, of, tell, isRemote: true }));
    } else if (method.startsWith("unsubscribe")) {
      tab.subscriptions.get(number)?.dispose();
      tab.subscriptions.delete(number);
    } else {
      (tab.requests[method as keyof TabRequests] as (...args: readonly unknown[]) => void)(...args);
    }
  }

  /** Calls a callback of another tab. One that does not begin within SILENT_S sleeps, and is left behind. */
  #tell(tab: string, number: number, job: AnyJob): Promise<unknown> {
    const id = (this.#lastJob += 1);
    return new Promise<void>((resolve, reject) => {
      const returned = (error: unknown): void => {
        clearTimeout(running.timer);
        this.#running.delete(id);
        if (error === null) resolve();
        else reject(error as Error);
      };
      const leave = (): void => {
        this.#channel.post({ kind: "left", number: this.#tabs.get(tab)?.seen ?? 0 }, tab);
        this.#remove(tab);
        this.#led.wake();
      };
      const running: Running = { tab, job, heardLost: false, returned, timer: setTimeout(leave, 1000 * SILENT_S) };
      this.#running.set(id, running);
      this.#channel.post({ kind: "job", job: id, number, told: toldOf(job) }, tab);
    });
  }

  #remove(id: string): void {
    const tab = this.#tabs.get(id);
    if (tab === undefined) return;
    this.#tabs.delete(id);
    tab.watch.abort();
    for (const subscription of tab.subscriptions.values()) subscription.dispose();
    for (const question of tab.questions) this.#led.publications.forget(question);
    for (const running of [...this.#running.values()]) {
      if (running.tab === id) running.returned(new Error("its tab was gone before it returned"));
    }
  }
}

const OF: Readonly<Record<string, Of | undefined>> = {
  subscribe: "what comes",
  subscribeMembers: "members",
  subscribeMissed: "missed",
  subscribeLost: "lost",
} satisfies Partial<Record<keyof Subscribing, Of>>;
