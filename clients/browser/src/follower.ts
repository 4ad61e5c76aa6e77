/** A tab that follows: another one has the session, calls this one's callbacks and carries out its requests. */

import { nowS } from "./clock.js";
import type { Application } from "./core/application.js";
import type { Status } from "./core/client.js";
import { compareFloors, type Floor } from "./core/delivery/floors.js";
import { UNKNOWN } from "./core/delivery/slot.js";
import type { Document } from "./core/document/document.js";
import { channelOf, queryOf } from "./core/interests/interests.js";
import { titleOf } from "./schemas/names.js";
import type { Publications } from "./core/publishing/publications.js";
import type { Asked, Wishes } from "./core/wishes.js";
import {
  CallbackFailed,
  ChannelCallbackFailed,
  type ColdNotifyError,
  MembersCallbackFailed,
  MessagesMissed,
  OpenElsewhere,
} from "./errors.js";
import type { LeaseControls } from "./handedMessage.js";
import { TIMER_MS_MAX } from "./link.js";
import type { Missed } from "./message.js";
import type { Notification } from "./notification.js";
import type { Subscriptions } from "./subscriptions.js";
import {
  type ErrorFields,
  errorOf,
  fieldsOf,
  type FollowerMessage,
  Heard,
  type LeaderMessage,
  type LeaseWish,
  lockOf,
  SILENT_S,
  type Subscribing,
  TabChannel,
  type TabRequests,
  type Told,
} from "./tabs.js";

/** Limit on versions kept until the leader's next document has them. */
const OVERLAY_MAX = 1000;

/** Pause before a publish for which the leader has no room is forwarded again. */
const FULL_MS = 1000;

/** The calls of a client's application that are carried to the leader. */
const ASKED: readonly (keyof Asked)[] = [
  "register",
  "unregister",
  "registerOnly",
  "askDescriptions",
  "registerChannel",
  "unregisterChannel",
  "registerShare",
  "unregisterShare",
];
const CALLS: readonly (keyof (Asked & Subscribing))[] = [
  ...ASKED,
  "subscribe",
  "unsubscribe",
  "subscribeMembers",
  "unsubscribeMembers",
  "subscribeMissed",
  "unsubscribeMissed",
  "subscribeLost",
  "unsubscribeLost",
];

/** What a follower uses of its `Notify`. */
export interface Following {
  readonly requests: TabRequests;
  readonly subscriptions: Subscriptions;
  readonly publications: Publications;
  readonly heard: Heard;
  /** Returns the requests that are not known to be stored. */
  readonly wishes: () => Wishes;
  /** Notes that all requests are stored. */
  readonly stored: () => void;
  /** Returns a document, and a client that looks at it. */
  readonly read: (text: string) => { document: Document; application: Application };
  readonly report: (error: ColdNotifyError) => void;
  readonly changed: () => void;
}

/** The lease of a message that a callback of this tab works at; the leader holds it. */
class FollowedLease implements LeaseControls {
  #isLost = false;
  #isOver = false;
  #retryS: number | null = null;
  #rejects = false;
  readonly #told: (() => void)[] = [];

  constructor(
    readonly leaseS: number,
    readonly ask: () => void,
  ) {}

  readonly isLost = (): boolean => this.#isLost;
  readonly retry = (afterS: number): void => void (this.#retryS = afterS);
  readonly reject = (): void => void (this.#rejects = true);

  readonly settle = (told: () => void): void => {
    if (this.#isOver) return told();
    this.#told.push(told);
    this.ask();
  };

  get wish(): LeaseWish {
    return { retryS: this.#retryS, rejects: this.#rejects };
  }

  lose(): void {
    this.#isLost = true;
    this.settled();
  }

  settled(): void {
    this.#isOver = true;
    for (const one of this.#told.splice(0)) one();
  }
}

/** The session of another tab, from this tab's side. */
export class Follower {
  /** The calls of the application, which are carried to the leader. */
  readonly remote: Asked & Subscribing;
  /** Resolves when this tab has joined a leader. */
  readonly joined: Promise<void>;
  readonly #parts: Following;
  readonly #channel: TabChannel<FollowerMessage, LeaderMessage>;
  #hasJoined: () => void = () => undefined;
  #release: () => void = () => undefined;
  #hasLock = false;
  /** The tab that leads, once this one begins to join it. */
  #leader: string | null = null;
  #isJoined = false;
  /** True if the leader has not answered for SILENT_S. */
  #isLost = false;
  #answerTimer: ReturnType<typeof setTimeout> | undefined;
  #publishTimer: ReturnType<typeof setTimeout> | undefined;
  /** The number of the last request. */
  #asked = 0;
  /** The number of the message by which it joined. */
  #joinedBy = 0;
  /** True if the leader's status may be from before it. */
  #isOwed = true;
  #status: Status | null = null;
  #connected = false;
  #text: string | null = null;
  #view: { document: Document; application: Application } | null = null;
  /** What was told since the view. */
  readonly #overlay = new Map<string, { notification: Notification; floor: Floor }>();
  readonly #messages = new Map<string, bigint>();
  /** The messages of shares that callbacks work at, by the leader's job. */
  readonly #leases = new Map<number, FollowedLease>();
  /** The end of the callback that was begun last: they run one after the other. */
  #turn: Promise<unknown> = Promise.resolve();
  #over = false;
  readonly #awake = (): void => this.probe();

  constructor(name: string, id: string, parts: Following) {
    this.#parts = parts;
    this.joined = new Promise((resolve) => (this.#hasJoined = resolve));
    this.#channel = new TabChannel(name, id, (from, message) => this.#receive(from, message));
    const call = (method: (typeof CALLS)[number]) => (...args: unknown[]): void => {
      if (this.#leader !== null) this.#ask({ kind: "call", method, args });
    };
    this.remote = Object.fromEntries(CALLS.map((method) => [method, call(method)])) as unknown as Asked & Subscribing;
    const released = new Promise<void>((resolve) => (this.#release = resolve));
    const hello = (): Promise<void> => {
      this.#hasLock = true;
      this.#channel.post({ kind: "hello" });
      return released;
    };
    navigator.locks.request(lockOf(name, id), hello).catch(() => undefined);
    this.#expectAnswer();
    globalThis.addEventListener?.("pageshow", this.#awake);
    (globalThis as Partial<typeof globalThis>).document?.addEventListener("visibilitychange", this.#awake);
  }

  /** The requests of the application: they are kept until they are stored, too. */
  get asked(): Asked {
    const both = (method: keyof Asked) => (...args: unknown[]): void => {
      for (const to of [this.#parts.wishes(), this.remote]) (to[method] as (...args: unknown[]) => void)(...args);
    };
    return Object.fromEntries(ASKED.map((method) => [method, both(method)])) as unknown as Asked;
  }

  // Looking in

  /** null: it has not joined, or the leader is silent. */
  get status(): Status | null {
    return this.#isJoined && !this.#isLost && !this.#over ? this.#status && { ...this.#status, caughtUp: this.caughtUp } : null;
  }

  get caughtUp(): boolean {
    return this.connected && this.#status?.caughtUp === true && !this.#isOwed;
  }

  get connected(): boolean {
    return this.#isJoined && !this.#isLost && !this.#over && this.#connected;
  }

  /** Resolves when no callback runs. */
  get idle(): Promise<unknown> {
    return this.#turn;
  }

  get application(): Application | undefined {
    if (this.#view === null && this.#text !== null) this.#view = this.#parts.read(this.#text);
    return this.#view?.application;
  }

  /** Returns the last notification that callbacks of this object were told. */
  current(name: string): Notification | null {
    return this.#overlay.get(name)?.notification ?? this.application?.current(name) ?? null;
  }

  /** Returns the newest version of this object that is known here; -1: none. */
  floor(name: string): bigint {
    return this.#overlay.get(name)?.floor.version ?? this.application?.floor(name) ?? -1n;
  }

  // From this tab

  /** Asks the leader for an answer: it may sleep. */
  probe(): void {
    if (this.#leader === null) this.#channel.post({ kind: "hello" });
    else this.#ask({ kind: "here" });
  }

  /** Connects now instead of waiting for the next try. */
  connectNow(): void {
    if (this.#leader !== null) this.#ask({ kind: "connect" });
  }

  /** Forwards what waits to be published. */
  publish(): void {
    if (this.#leader === null) return;
    clearTimeout(this.#publishTimer);
    const { publications } = this.#parts;
    for (let next = publications.nextSaid(nowS()); next !== null; next = publications.nextSaid(nowS())) {
      this.#ask({ kind: "publish", ...next });
    }
    for (let question = publications.nextQuestion(); question !== null; question = publications.nextQuestion()) {
      this.#ask({ kind: "ask", question });
    }
    const inS = publications.deadline() - nowS();
    if (inS < Infinity) this.#publishTimer = setTimeout(() => this.publish(), 1000 * Math.max(0, inS) + 1);
  }

  /** Stops to follow: its callbacks that run may return, for at most `timeoutS`. */
  async leave(timeoutS: number): Promise<void> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise((resolve) => (timer = setTimeout(resolve, Math.min(1000 * timeoutS, TIMER_MS_MAX))));
    await Promise.race([late, this.#turn]);
    clearTimeout(timer);
    if (this.#leader !== null && !this.#over) this.#channel.post({ kind: "bye" }, this.#leader);
    this.close();
  }

  /** Follows no more. What was told last stays to be looked at. */
  close(): void {
    if (this.#over) return;
    this.#over = true;
    this.#leader = null;
    this.#loseLeases();
    this.#release();
    clearTimeout(this.#answerTimer);
    clearTimeout(this.#publishTimer);
    globalThis.removeEventListener?.("pageshow", this.#awake);
    (globalThis as Partial<typeof globalThis>).document?.removeEventListener("visibilitychange", this.#awake);
    this.#channel.close();
  }

  #ask(message: FollowerMessage): void {
    if (this.#leader === null) return;
    this.#channel.post(message, this.#leader);
    this.#asked = this.#channel.posted;
    this.#isOwed = true;
    this.#expectAnswer();
  }

  /** A leader that is silent sleeps, or is of an older release. The application hears of it once. */
  #expectAnswer(): void {
    this.#answerTimer ??= setTimeout(() => {
      this.#answerTimer = undefined;
      this.#isLost = true;
      this.#parts.report(new OpenElsewhere());
      this.#parts.changed();
    }, 1000 * SILENT_S);
  }

  // From the leader

  #receive(from: string, message: LeaderMessage): void {
    if (message.kind === "lead") {
      if (this.#hasLock) this.#join(from); // otherwise the leader would take this tab for gone
    } else if (from === this.#leader) this.#take(from, message);
    this.#parts.changed();
  }

  #join(leader: string): void {
    this.#loseLeases();
    const { requests, subscriptions, publications, wishes } = this.#parts;
    this.#isJoined = false;
    this.#leader = leader;
    this.#ask({ kind: "join" });
    this.#joinedBy = this.#asked;
    wishes().apply(this.remote);
    requests.repeat(this.remote);
    subscriptions.join(this.remote);
    publications.beginSession();
    this.#ask({ kind: "ready" });
    this.publish();
  }

  #take(from: string, message: LeaderMessage): void {
    const { heard, publications, report } = this.#parts;
    switch (message.kind) {
      case "joined":
        this.#showJoined(message.text, message.late);
        return this.#hasJoined();
      case "left":
        if (message.number >= this.#joinedBy) this.#join(from);
        return;
      case "over":
        this.#loseLeases();
        this.#isJoined = false;
        this.#leader = null;
        return;
      case "view":
        if (this.#isJoined) this.#show(message.text);
        return;
      case "status":
        this.#status = message.status;
        this.#connected = message.connected;
        if (message.status.caughtUp) heard.caughtUp(from);
        if (this.#hasSeenAll(message.seen)) this.#answered();
        return;
      case "stored":
        heard.stored(from, message.jobs);
        if (this.#hasSeenAll(message.seen)) this.#parts.stored();
        return;
      case "told":
        return this.#put(message.told);
      case "report":
        return report(errorOf(message.error) as ColdNotifyError);
      case "job":
        return void this.#callBack(from, message.job, message.number, message.told);
      case "lost":
        return this.#leases.get(message.job)?.lose();
      case "settled":
        return this.#leases.get(message.job)?.settled();
      case "answer": {
        const { request, answer } = message;
        if (answer === null) publications.notPublished(request, "", FULL_MS, nowS());
        else if ("offset" in answer) publications.published(request, answer.offset);
        else if ("reason" in answer) publications.notPublished(request, answer.reason, 0, nowS());
        else publications.renumbered(request, answer.renumbered, answer.expiresAt);
        return this.publish();
      }
      case "outcome":
        publications.became(message.outcome);
        return this.publish();
    }
  }

  #hasSeenAll(seen: ReadonlyMap<string, number>): boolean {
    return (seen.get(this.#channel.tab) ?? 0) >= this.#asked;
  }

  #answered(): void {
    this.#isOwed = false;
    clearTimeout(this.#answerTimer);
    this.#answerTimer = undefined;
    this.#isLost = false;
  }

  #callBack(leader: string, job: number, number: number, told: Told): void {
    const { heard, subscriptions } = this.#parts;
    this.#channel.post({ kind: "begun", job }, leader);
    const lease = "handed" in told ? new FollowedLease(told.leaseS, () => this.#ask({ kind: "settle", job })) : null;
    const given = lease === null ? told : { ...told, controls: lease };
    if (lease !== null) this.#leases.set(job, lease);
    const call = (): unknown => subscriptions.tell(number)?.(given);
    const returned = (error: ErrorFields | null): void => {
      this.#leases.delete(job);
      if (this.#leader === leader) this.#ask({ kind: "returned", job, error, ...(lease !== null && { wish: lease.wish }) });
    };
    void this.#next(() => heard.tell(number, told, leader, job, call)).then(
      () => {
        this.#put(told);
        returned(null);
      },
      (error: unknown) => returned(fieldsOf(error)),
    );
  }

  /** The leader that held the leases is gone: the next one does not know that callbacks here work at their messages. */
  #loseLeases(): void {
    for (const lease of this.#leases.values()) lease.lose();
    this.#leases.clear();
  }

  /** Calls this once all callbacks before it have returned. */
  #next(call: () => unknown): Promise<unknown> {
    const done = this.#turn.then(call);
    this.#turn = done.catch(() => undefined);
    return done;
  }

  // What is shown

  #show(text: string): void {
    this.#text = text;
    this.#view = null;
    this.#overlay.clear();
    this.#messages.clear();
  }

  #put(told: Told): void {
    if ("notification" in told) {
      const { objectId } = told.notification;
      this.#overlay.delete(objectId);
      this.#overlay.set(objectId, told);
      if (this.#overlay.size > OVERLAY_MAX) this.#overlay.delete(this.#overlay.keys().next().value as string);
    } else if ("message" in told) {
      const { offset, before } = told.message as { offset?: bigint; before?: bigint };
      this.#messages.set(told.channel, offset ?? (before as bigint) - 1n);
    }
  }

  /** `late`: others may have been told what this tab was not, if it had joined before. */
  #showJoined(text: string, late: boolean): void {
    const known = late && this.application !== undefined ? this.#view : null;
    const [overlay, messages] = [new Map(this.#overlay), new Map(this.#messages)];
    this.#show(text);
    this.#isJoined = true;
    if (known !== null && this.application !== undefined && this.#view !== null) {
      this.#catchUp(known.document, this.#view, (name) => overlay.get(name)?.floor ?? known.document.applied.get(name) ?? UNKNOWN, messages);
    }
  }

  /** Tells the callbacks what others were told while this tab slept. */
  #catchUp(
    known: Document,
    { document, application }: { document: Document; application: Application },
    floor: (name: string) => Floor,
    messages: ReadonlyMap<string, bigint>,
  ): void {
    const { subscriptions, report } = this.#parts;
    const missed = new Map<string, Missed>();
    for (const [interest, { told }] of document.channels.channels) {
      const name = channelOf(interest)?.name ?? "";
      const [before] = [...known.channels.channels].filter(([one]) => channelOf(one)?.name === name);
      const after = messages.get(name) ?? before?.[1].told ?? null;
      if (told !== null && told > (after ?? -1n)) missed.set(name, { channel: titleOf(name), after, before: told + 1n, reason: "UNSAID" });
    }
    const isNewer = (name: string): boolean => compareFloors(document.applied.get(name) ?? UNKNOWN, floor(name)) > 0;
    for (const [, { interest, of, tell }] of subscriptions.local) {
      const query = queryOf(interest);
      const channel = channelOf(interest)?.name;
      if (channel !== undefined) {
        const gap = missed.get(channel);
        if (gap !== undefined && of === "missed") {
          this.#call(() => tell({ message: gap, channel: gap.channel }), (cause) => new ChannelCallbackFailed(gap.channel, gap.before, cause));
        }
        if (of === "missed") missed.delete(channel);
        continue;
      }
      const before = query === null ? [] : [...(known.queries.get(query)?.members ?? [])];
      const now = query === null ? new Set([interest]) : application.members(interest);
      const removed = new Set(before.filter((name) => !now.has(name)));
      if (of === "members") {
        if (removed.size > 0) {
          this.#call(() => tell({ change: { added: new Set(), removed } }), (cause) => new MembersCallbackFailed(query ?? "", cause));
        }
        continue;
      }
      for (const name of now) {
        const notification = isNewer(name) ? application.current(name) : null;
        if (notification !== null) {
          const told = { notification, floor: UNKNOWN, description: undefined };
          this.#call(() => tell(told), (cause) => new CallbackFailed(name, notification.version, cause));
        }
      }
    }
    const heard = new Set(subscriptions.local.map(([, { interest }]) => channelOf(interest)?.name));
    for (const [name, gap] of missed) if (heard.has(name)) report(new MessagesMissed(gap));
  }

  #call(callback: () => unknown, failed: (cause: unknown) => ColdNotifyError): void {
    void this.#next(callback).catch((cause: unknown) => this.#parts.report(failed(cause)));
  }
}
