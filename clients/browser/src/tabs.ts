/**
 * The tabs of one client: one leads and has the session (`leader.ts`), the others follow it (`follower.ts`).
 *
 * Who has the state's lock leads. Each follower has a lock of its own, which the leader waits for: so both know when the
 * other is gone, however it ended. They talk over a BroadcastChannel.
 */

import type { Status } from "./core/client.js";
import type { AnyJob } from "./core/delivery/callbackTurns.js";
import type { Floor } from "./core/delivery/floors.js";
import { floorOf } from "./core/delivery/slot.js";
import { type Channel, type Interest, isName, type ShareInterest } from "./core/interests/interests.js";
import { NOW, type Since } from "./core/interests/since.js";
import type { Outgoing } from "./core/publishing/outgoing.js";
import type { PublishAnswer } from "./core/publishing/publications.js";
import type { Application } from "./core/application.js";
import type { KeptShare } from "./core/shares/shareMember.js";
import type { Asked } from "./core/wishes.js";
import * as errors from "./errors.js";
import type { HandedMessage, LeaseControls } from "./handedMessage.js";
import type { Message, Missed } from "./message.js";
import type { Notification } from "./notification.js";
import type { WireAskOutcome, WireOutcome } from "./schemas/wire.js";

/** A tab that answers nothing for this long sleeps, or is of an older release. */
export const SILENT_S = 10;

/** A new leader waits for the others for so long. */
export const GATHER_S = 5;

/** The version of the messages below: tabs with different ones do not talk. */
const MESSAGES = 2;

/** Calls that add and remove callbacks, by number. */
export type Subscribing = Pick<
  Application,
  | "subscribe"
  | "unsubscribe"
  | "subscribeMembers"
  | "unsubscribeMembers"
  | "subscribeMissed"
  | "unsubscribeMissed"
  | "subscribeLost"
  | "unsubscribeLost"
>;

/** The contents of a job, as a callback needs them. */
export type Told =
  | { readonly notification: Notification; readonly floor: Floor; readonly description: string | undefined }
  | { readonly change: { readonly added: ReadonlySet<string>; readonly removed: ReadonlySet<string> } }
  | { readonly message: unknown; readonly channel: string }
  /** `controls`: what the callback may do with the lease; they are made in the tab that has the callback. */
  | { readonly handed: HandedMessage | Missed; readonly leaseS: number; readonly controls?: LeaseControls };

/** What a callback of another tab wants to become of its message once it has ended. */
export interface LeaseWish {
  readonly retryS: number | null;
  readonly rejects: boolean;
}

export interface ErrorFields {
  readonly name: string;
  readonly message: string;
  readonly cause?: ErrorFields | undefined;
}

/** The messages of a follower. */
export type FollowerMessage =
  | { readonly kind: "hello" | "join" | "ready" | "here" | "connect" | "bye" }
  | { readonly kind: "call"; readonly method: keyof (Asked & Subscribing); readonly args: readonly unknown[] }
  | { readonly kind: "begun"; readonly job: number }
  | { readonly kind: "returned"; readonly job: number; readonly error: ErrorFields | null; readonly wish?: LeaseWish }
  /** Its callback settles the message of this job, and waits until that is certain. */
  | { readonly kind: "settle"; readonly job: number }
  | { readonly kind: "publish"; readonly request: number; readonly outgoing: Outgoing }
  | { readonly kind: "ask"; readonly question: WireAskOutcome };

/** The messages of the leader. `seen`: the number of the last message of each tab. */
export type LeaderMessage =
  | { readonly kind: "lead" | "over" }
  /** The tab is not known: not the one that sent this message. */
  | { readonly kind: "left"; readonly number: number }
  /** `late`: callbacks were called before. */
  | { readonly kind: "joined"; readonly text: string; readonly late: boolean }
  | { readonly kind: "view"; readonly text: string }
  | { readonly kind: "stored"; readonly jobs: number; readonly seen: ReadonlyMap<string, number> }
  | { readonly kind: "status"; readonly status: Status; readonly connected: boolean; readonly seen: ReadonlyMap<string, number> }
  | { readonly kind: "told"; readonly told: Told }
  | { readonly kind: "report"; readonly error: ErrorFields }
  | { readonly kind: "job"; readonly job: number; readonly number: number; readonly told: Told }
  /** The lease of this job's message is lost; or its settlement is answered. */
  | { readonly kind: "lost" | "settled"; readonly job: number }
  | { readonly kind: "answer"; readonly request: number; readonly answer: PublishAnswer | null }
  | { readonly kind: "outcome"; readonly outcome: WireOutcome };

interface Envelope<M> {
  readonly from: string;
  /** null: all tabs. */
  readonly to: string | null;
  /** It rises by 1 with each message of this tab. */
  readonly number: number;
  readonly message: M;
}

/** Returns true if tabs of this browser can share a session. */
export function canShare(): boolean {
  const { navigator, BroadcastChannel } = globalThis as Partial<typeof globalThis>;
  return navigator?.locks !== undefined && BroadcastChannel !== undefined;
}

/** Returns the name of the lock that a follower has. */
export function lockOf(name: string, tab: string): string {
  return `${name} tab ${tab}`;
}

/** The way to the other tabs: `Out` goes, `In` comes. */
export class TabChannel<Out, In> {
  /** The number of the last message. */
  posted = 0;
  readonly #channel: BroadcastChannel;

  constructor(
    name: string,
    readonly tab: string,
    receive: (from: string, message: In, number: number) => void,
  ) {
    this.#channel = new BroadcastChannel(`${name} ${MESSAGES}`);
    this.#channel.onmessage = ({ data }: MessageEvent<Envelope<In>>): void => {
      if (data.to === null || data.to === tab) receive(data.from, data.message, data.number);
    };
  }

  post(message: Out, to: string | null = null): void {
    const envelope: Envelope<Out> = { from: this.tab, to, number: (this.posted += 1), message };
    this.#channel.postMessage(envelope);
  }

  close(): void {
    this.#channel.onmessage = null;
    this.#channel.close();
  }
}

/** The requests of one tab, and the interests that it holds: one ends once no tab holds it. */
export class TabRequests implements Asked {
  readonly #held = new Set<Interest>();
  readonly #described = new Set<Interest>();
  readonly #channels = new Map<string, Channel>();
  readonly #shares = new Map<string, readonly [ShareInterest, KeptShare]>();
  readonly #next: () => Asked;
  readonly #others: () => Iterable<TabRequests>;

  constructor(next: () => Asked, others: () => Iterable<TabRequests>) {
    this.#next = next;
    this.#others = others;
  }

  register(interest: Interest): void {
    this.#held.add(interest);
    this.#next().register(interest);
  }

  unregister(interest: Interest): void {
    this.#held.delete(interest);
    this.#described.delete(interest);
    if (![...this.#others()].some((one) => one.#held.has(interest))) this.#next().unregister(interest);
  }

  registerOnly(names: ReadonlySet<string>): void {
    for (const interest of this.#held) if (isName(interest)) this.#held.delete(interest);
    for (const name of names) this.#held.add(name);
    const others = [...this.#others()].flatMap((one) => [...one.#held].filter(isName));
    this.#next().registerOnly(new Set([...names, ...others]));
  }

  askDescriptions(query: Interest, wanted: boolean): void {
    if (wanted) this.#described.add(query);
    else this.#described.delete(query);
    this.#next().askDescriptions(query, wanted || [...this.#others()].some((one) => one.#described.has(query)));
  }

  registerChannel(channel: Channel, since: Since): void {
    this.#channels.set(channel.name, channel);
    this.#next().registerChannel(channel, since);
  }

  unregisterChannel(name: string): void {
    this.#channels.delete(name);
    if (![...this.#others()].some((one) => one.#channels.has(name))) this.#next().unregisterChannel(name);
  }

  registerShare(share: ShareInterest, kept: KeptShare): void {
    this.#next().registerShare(share, kept);
    this.#shares.set([share.channel, share.share].join("\0"), [share, kept]);
  }

  unregisterShare(channel: string, share: string): void {
    const key = [channel, share].join("\0");
    this.#shares.delete(key);
    if (![...this.#others()].some((one) => one.#shares.has(key))) this.#next().unregisterShare(channel, share);
  }

  /** Repeats what is held, to a leader that may not know it. */
  repeat(to: Asked): void {
    for (const interest of this.#held) to.register(interest);
    for (const query of this.#described) to.askDescriptions(query, true);
    for (const channel of this.#channels.values()) to.registerChannel(channel, NOW);
    for (const [share, kept] of this.#shares.values()) to.registerShare(share, kept);
  }
}

/**
 * Versions and messages that a leader has told this tab, and may not have stored. The next leader may tell them again:
 * callbacks hear them once.
 */
export class Heard {
  readonly #heard = new Map<string, { content: string; leader: string; job: number; result: Promise<unknown> }>();

  /** Calls this callback for the leader, unless another leader has told it the same. */
  tell(number: number, told: Told, leader: string, job: number, call: () => unknown): Promise<unknown> {
    const { place, content } = placeOf(number, told);
    const before = this.#heard.get(place);
    if (before !== undefined && before.leader !== leader && before.content === content) return before.result;
    const result = (async () => call())();
    this.#heard.set(place, { content, leader, job, result });
    result.catch(() => this.#heard.delete(place));
    return result;
  }

  /** Returns the end of the callback, if another leader has told it the same. */
  before(number: number, job: AnyJob): Promise<unknown> | undefined {
    if (this.#heard.size === 0) return undefined;
    const { place, content } = placeOf(number, toldOf(job));
    const before = this.#heard.get(place);
    this.#heard.delete(place);
    return before?.content === content ? before.result : undefined;
  }

  /** Forgets what a leader has told until this job: it is stored. */
  stored(leader: string, job: number): void {
    for (const [place, one] of this.#heard) if (one.leader === leader && one.job <= job) this.#heard.delete(place);
  }

  /** Forgets what others have told: this leader is caught up, so it tells none of it again. */
  caughtUp(leader: string): void {
    for (const [place, one] of this.#heard) if (one.leader !== leader) this.#heard.delete(place);
  }
}

/** Changes of members, and messages of shares, are not compared: they may be told again. */
function placeOf(number: number, told: Told): { place: string; content: string } {
  if ("notification" in told) {
    const { notification, floor, description } = told;
    const content = [floor.incarnation, floor.version, notification.deleted, description].join(" ");
    return { place: `${number} ${notification.objectId}`, content };
  }
  if ("change" in told || "handed" in told) return { place: `${number}`, content: `${Math.random()}` };
  const { channel, position, before } = told.message as Message & { before?: bigint };
  return { place: `${number} ${channel} ${position} ${before}`, content: "" };
}

/** Returns a message with bytes of its own: a view would take the whole frame with it. */
function posted<M extends Message>(message: M): M {
  const data = message.data.slice();
  return { ...message, data, payload: message.payload === message.data ? data : message.payload };
}

/** Returns the contents of a job, which can be posted. */
export function toldOf(job: AnyJob): Told {
  if ("feed" in job) {
    const { message, feed } = job;
    const channel = feed.channel.name;
    if (!("data" in message)) return { message, channel };
    return { message: posted(message), channel };
  }
  if ("membership" in job) return { change: job.change };
  if ("lease" in job) {
    const { handed, lease } = job;
    return { handed: "data" in handed ? posted(handed) : handed, leaseS: lease.leaseS };
  }
  const { notification, update, description } = job;
  return { notification, floor: floorOf(update), description };
}

/** Returns what can be posted of an error. */
export function fieldsOf(error: unknown): ErrorFields {
  if (!(error instanceof Error)) return { name: "Error", message: String(error) };
  const { name, message, cause } = error;
  const fields = error instanceof errors.ColdNotifyError ? { ...error } : {};
  return { ...fields, name: String(name), message, cause: cause === undefined ? undefined : fieldsOf(cause) };
}

/** Returns the error: one of this library's is of its class. */
export function errorOf({ cause, message, ...fields }: ErrorFields): Error {
  const made = (errors as unknown as Record<string, typeof Error | undefined>)[fields.name];
  const error = new Error(message, cause === undefined ? {} : { cause: errorOf(cause) });
  return Object.assign(made === undefined ? error : Object.setPrototypeOf(error, made.prototype), fields);
}
