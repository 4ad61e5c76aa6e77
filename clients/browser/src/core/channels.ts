/**
 * The channels that a client wants: what the service says of them, what callbacks are told, and the cursor.
 *
 * Of channels the document says two things that are true together:
 *
 *     Of every wanted channel that is no pending registration, all up to the cursor of channels has been told, or
 *     missed and told as missed. Of one that is pending, all up to its position has.
 *
 * - A channel that was just registered is pending until the service has told where it begins, has sent what lies behind
 *   (`last`), and as much of that has been told as the cursor says.
 * - A channel that cannot be told for now becomes pending at its position, so that the cursor passes: nobody has
 *   subscribed, its callbacks failed too often (it is *parked*), or too much waits for them.
 * - What comes of a channel waits in its `Feed`, in order. All of them together have a bound in bytes. Above it the
 *   longest is cut, and is *deaf*: what comes of it is left, until what it has kept is told. Then it is asked for again.
 * - What comes must follow what is known: `back` says from where on nothing lies between. If something does, a frame
 *   was lost: the session ends, and the next Hello says where everything stands.
 *
 * The module is `channels` of `clients/python/coldnotify/_core`, whose docstring says more.
 */

import { ChannelCallbackFailed, ChannelParked, type ColdNotifyError, MessagesMissed } from "../errors.js";
import type { Missed } from "../message.js";
import { ChannelCursor } from "./channelCursor.js";
import { BEGINNING, type ChannelJob, Feed, highest, isMissed, Item, type KeptChannel } from "./feed.js";
import { byChannel, type Channel, channelOf, type Interest } from "./interests.js";
import type { Journal } from "./journal.js";
import type { Operations, Registrations } from "./registrations.js";
import { CHANNELS_BACKLOG_BYTES_MAX, type Settings } from "./settings.js";
import { OLDEST, type Since } from "./since.js";
import { type Position, REASON, type WireInterest, type WireMessage, type WireMissed } from "./wire.js";

/** What the document holds of all of them. */
export interface KeptChannels {
  /** By interest. */
  readonly channels: ReadonlyMap<Interest, KeptChannel>;
  readonly epoch: number | null;
  readonly cursor: bigint | null;
}

export const NO_CHANNELS: KeptChannels = { channels: new Map(), epoch: null, cursor: null };

/** All channels that are wanted, by name, and the cursor. */
export class Channels {
  /** The application has heard that the service knows no channels. */
  toldUnknown = false;
  /** So often something of a pending channel was told, or was found to be nothing. */
  progress = 0;
  readonly #journal: Journal;
  readonly #registrations: Registrations;
  readonly #settings: Settings;
  readonly #report: (error: ColdNotifyError) => void;
  readonly #cursor: ChannelCursor;
  readonly #feeds = new Map<string, Feed>();
  readonly #byHash = new Map<bigint, Feed>();
  readonly #subscribers = new Map<string, Set<number>>();
  readonly #missedSubscribers = new Map<string, Set<number>>();
  readonly #ready = new Map<string, Feed>();
  /** They wait for their `retryAt`. */
  readonly #resting = new Map<string, Feed>();
  /** Their positions are above the cursor, or there is none: they are pending until it has come there. */
  #ahead = new Map<string, Feed>();
  readonly #jobs = new Set<ChannelJob>();
  #bytes = 0;

  constructor(
    journal: Journal,
    registrations: Registrations,
    settings: Settings,
    report: (error: ColdNotifyError) => void,
    kept: KeptChannels,
  ) {
    this.#journal = journal;
    this.#registrations = registrations;
    this.#settings = settings;
    this.#report = report;
    this.#cursor = new ChannelCursor(kept.epoch, kept.cursor);
    for (const interest of [...registrations.channels].sort()) {
      const feed = new Feed(channelOf(interest) as Channel, kept.channels.get(interest) ?? null);
      if (feed.since === null && this.#isOwed(feed)) this.#leave(feed);
      this.#add(feed);
    }
  }

  #add(feed: Feed): void {
    this.#feeds.set(feed.channel.name, feed);
    this.#byHash.set(feed.hash, feed);
  }

  // What the application asks for

  /** It is wanted from now on. One that is wanted stays where it is; with other attributes, too. */
  want(channel: Channel, since: Since): void {
    const interest = byChannel(channel);
    if (this.#registrations.wanted.has(interest)) return;
    const old = this.#feeds.get(channel.name);
    let kept: KeptChannel = { since, position: null, told: null, lost: false };
    if (old !== undefined) {
      const position = old.since === null ? old.applied(this.#cursor.cursor) : null;
      kept = { since: old.since, position, told: old.told, lost: old.lost };
      this.#registrations.unregister(old.interest);
      this.forget(old.interest);
    }
    this.#registrations.register(interest);
    this.#add(new Feed(channel, kept));
  }

  /** The channel of this name that is wanted; null: none is. */
  of(name: string): Interest | null {
    return this.#feeds.get(name)?.interest ?? null;
  }

  /** It is not wanted any more: nothing of it waits. Its subscribers stay. */
  forget(interest: Interest): void {
    const feed = this.#feedOf(interest);
    if (feed === undefined) return;
    this.#byHash.delete(feed.hash);
    this.#feeds.delete(feed.channel.name);
    this.#drop(feed);
    this.#move();
  }

  /** Another callback for messages. What waited for one is told; what was left is asked for again. */
  subscribe(name: string, subscriber: number): void {
    this.#subscribers.set(name, (this.#subscribers.get(name) ?? new Set()).add(subscriber));
    const feed = this.#feeds.get(name);
    if (feed === undefined) return;
    if (feed.parked) {
      feed.retryAt = null;
      this.#resting.delete(name);
    }
    this.#offer(feed);
    this.#settle(feed);
    this.#refill(feed);
  }

  /** One callback less. A job that has begun with it is not called back. */
  unsubscribe(name: string, subscriber: number): void {
    const subscribers = this.#subscribers.get(name);
    subscribers?.delete(subscriber);
    if (subscribers !== undefined && subscribers.size > 0) return;
    this.#subscribers.delete(name);
    const feed = this.#feeds.get(name);
    if (feed === undefined || feed.items.length === 0) return;
    this.#owe(feed);
    this.#ready.delete(name);
  }

  /** Another callback for what is missed. */
  subscribeMissed(name: string, subscriber: number): void {
    this.#missedSubscribers.set(name, (this.#missedSubscribers.get(name) ?? new Set()).add(subscriber));
  }

  /** One callback less. */
  unsubscribeMissed(name: string, subscriber: number): void {
    const subscribers = this.#missedSubscribers.get(name);
    subscribers?.delete(subscriber);
    if (subscribers?.size === 0) this.#missedSubscribers.delete(name);
  }

  // What a session says

  /** A new session: pending channels are asked for anew. */
  beginSession(): void {
    if (!this.#registrations.hasChannels) this.#cursor.void(null);
    for (const feed of this.#feeds.values()) {
      if (this.#isOwed(feed)) this.#fold(feed);
      else feed.live = true;
    }
  }

  /** The service is told all registrations anew, with where each channel is. Before they are pending. */
  beginSync(): void {
    for (const feed of this.#feeds.values()) {
      if (feed.since !== null) continue;
      this.#leave(feed);
      this.#fold(feed);
    }
  }

  /** Returns the channel for a frame; null: it is none. */
  said(interest: Interest): WireInterest | null {
    const feed = this.#feedOf(interest);
    if (feed === undefined) return null;
    if (feed.since !== null && this.#isForeign(feed.since)) this.#lose(feed);
    feed.askedFrom = feed.received;
    return feed.registered;
  }

  /**
   * The service said which log it is. `isVoid`: so a cursor that the Hello said counts no more, and the service tells
   * each channel from the beginning. Whether this session can go on: positions that it was told are of this log.
   */
  beginEpoch(epoch: number, isVoid: boolean): boolean {
    if (!isVoid && (this.#cursor.epoch === null || this.#cursor.epoch === epoch)) {
      this.#cursor.epoch = epoch;
      return true;
    }
    this.#cursor.void(epoch);
    this.#journal.changed(true);
    for (const feed of this.#feeds.values()) {
      if (feed.since !== null) continue;
      this.#beginAnew(feed);
      this.#registrations.expect(feed.interest);
    }
    return isVoid;
  }

  /** What is known of it is of another log: it is told from the beginning, and the loss is to be told before. */
  #beginAnew(feed: Feed): void {
    this.#drop(feed);
    feed.told = null;
    feed.lost = true;
    feed.position = feed.received = feed.askedFrom = BEGINNING;
    feed.live = feed.deaf = feed.parked = false;
    this.#journal.changed(true);
  }

  /** The service said where channels of these operations begin. */
  resolved(positions: readonly Position[], operations: Operations): void {
    for (const { interest, position } of positions) {
      const feed = this.#byHash.get(interest);
      if (feed !== undefined && feed.since !== null && this.#isAnswered(feed, operations)) this.#resolve(feed, position ?? BEGINNING);
    }
  }

  /** The service has these registrations: it tells what lies behind their positions. */
  confirmed(interests: readonly Interest[]): void {
    for (const interest of interests) {
      const feed = this.#feedOf(interest);
      if (feed === undefined) continue;
      // What was parked or cut since the service was asked is not among what it tells now.
      feed.deaf = feed.received < feed.askedFrom;
      feed.failures = 0;
      if (feed.deaf && !feed.parked) this.#refill(feed);
      if (feed.since?.kind === "position") this.#resolve(feed, feed.since.at);
    }
  }

  /** A message came. What is wrong if others before it have not; "": nothing. */
  message(said: WireMessage): string {
    const feed = this.#byHash.get(said.channel);
    if (feed !== undefined && this.#listens(feed, said.paged)) {
      const known = this.#known(feed);
      if (said.offset > known) {
        if (said.offset - said.back > known) return this.#gap(feed, known, said.offset);
        this.#lossFirst(feed, said.offset);
        // A copy: else it would keep all the bytes that came with it.
        this.#put(feed, new Item({ ...said, payload: said.payload.slice() }, this.#known(feed)));
      }
    }
    if (!said.paged) this.complete(said.offset);
    return "";
  }

  /** Messages may be missing. As `message`. */
  missed(said: WireMissed): string {
    const feed = this.#byHash.get(said.channel);
    if (feed !== undefined && this.#listens(feed, said.paged)) {
      if (said.reason === REASON.LOST && said.after === undefined && said.before <= feed.askedFrom) {
        // The position that this session has said is above the log's end, so it is none of this log.
        this.#beginAnew(feed);
      }
      const known = this.#known(feed);
      if (said.before - 1n > known || (said.reason === REASON.LOST && !feed.tellsLoss)) {
        if (said.after !== undefined && said.after > known) return this.#gap(feed, known, said.before);
        if (said.reason !== REASON.LOST) this.#lossFirst(feed, said.before);
        this.#put(feed, new Item(said, known));
      }
    }
    if (!said.paged && said.before > 0n) this.complete(said.before - 1n);
    return "";
  }

  /** All at or below it has come, of all channels that the service tells as messages come. */
  complete(complete: bigint): void {
    this.#cursor.completed(complete);
    this.#move();
  }

  /** What channels lacked has come, up to `complete`: the service tells what comes from here on. */
  caughtUp(complete: bigint | null): void {
    if (complete !== null) this.#cursor.completed(complete);
    for (const interest of this.#registrations.unanswered().keys()) {
      const feed = this.#feedOf(interest);
      if (feed === undefined) continue;
      this.#registrations.arrived(interest);
      this.progress += 1;
      if (complete !== null && !feed.deaf) this.#lossFirst(feed, complete + 1n);
      feed.live = !feed.deaf;
    }
    this.#move();
    for (const feed of [...this.#feeds.values()]) this.#settle(feed);
  }

  /** Epoch and cursor. Without a cursor there is no epoch to say. */
  get forHello(): { epoch: number | undefined; cursor: bigint | undefined } {
    const { epoch, cursor } = this.#cursor;
    if (cursor === null || !this.#registrations.hasChannels) return { epoch: undefined, cursor: undefined };
    return { epoch: epoch ?? undefined, cursor };
  }

  // What runs the callbacks says

  /** The callbacks to run next, or null. One message of a channel after another. */
  nextJob(now: number): ChannelJob | null {
    for (const [name, feed] of [...this.#resting]) {
      if (feed.retryAt !== null && feed.retryAt > now) continue;
      feed.retryAt = null;
      this.#resting.delete(name);
      this.#offer(feed);
    }
    for (const [name, feed] of this.#ready) {
      this.#ready.delete(name);
      const item = feed.items[0] as Item;
      const message = feed.message(item, this.#cursor.epoch ?? 0);
      const audience = (isMissed(item.said) ? this.#missedSubscribers : this.#subscribers).get(name) ?? new Set();
      const subscribers = [...audience].filter((one) => !item.toldTo.has(one)).sort((a, b) => a - b);
      if (subscribers.length === 0) {
        if (isMissed(item.said) && item.toldTo.size === 0) this.#report(new MessagesMissed(message as Missed));
        // Else those whose callback failed have gone; the others know already.
        this.#told(feed);
        continue;
      }
      feed.running = { feed, item, subscribers, message };
      this.#jobs.add(feed.running);
      return feed.running;
    }
    return null;
  }

  /** When the next job can begin: -Infinity is now; Infinity: nothing waits for a time. */
  readyAt(): number {
    if (this.#ready.size > 0) return -Infinity;
    return Math.min(...[...this.#resting.values()].map(({ retryAt }) => retryAt ?? -Infinity));
  }

  /** The job's callbacks have returned, or threw what `failed` says by subscriber. */
  done(job: ChannelJob, failed: ReadonlyMap<number, unknown>, now: number): void {
    this.#jobs.delete(job);
    const { feed, item } = job;
    const { name } = feed.channel;
    for (const cause of failed.values()) this.#report(new ChannelCallbackFailed(name, item.end, cause));
    if (feed.running !== job) return; // unregistered meanwhile, or the log is another one
    if (failed.size === 0) {
      this.#told(feed);
      return;
    }
    feed.running = null;
    for (const one of job.subscribers) if (!failed.has(one)) item.toldTo.add(one);
    feed.failures += 1;
    const { retryMinS, retryMaxS, triesMax } = this.#settings;
    feed.retryAt = now + Math.min(retryMaxS, retryMinS * 2 ** (feed.failures - 1));
    this.#resting.set(name, feed);
    if (feed.failures >= triesMax) this.#park(feed, item);
  }

  // What others ask

  /** Whether something of a pending channel is to be told, or is still to come. */
  lacks(interest: Interest): boolean {
    const feed = this.#feedOf(interest);
    return feed === undefined || this.#registrations.stageOf(interest) !== "arrived" || feed.items.length > 0 || feed.deaf;
  }

  /** All of a pending channel up to there is told; -1: nothing is. */
  told(interest: Interest): bigint {
    return this.#feedOf(interest)?.applied(null) ?? BEGINNING;
  }

  /** Of the log of the domain's channels. */
  get epoch(): number | null {
    return this.#cursor.epoch;
  }

  /** All at or below it is told, of every channel that is no pending registration. */
  get cursor(): bigint | null {
    return this.#cursor.cursor;
  }

  /** For the document. */
  get kept(): KeptChannels {
    const channels = new Map([...this.#feeds.values()].map((feed) => [feed.interest, feed.kept]));
    return { channels, epoch: this.epoch, cursor: this.cursor };
  }

  /** Channels of which something waits to be told. */
  get waiting(): number {
    return [...this.#feeds.values()].filter(({ items }) => items.length > 0).length;
  }

  /** Channels whose callbacks failed too often, until they succeed. */
  get parked(): Interest[] {
    return [...this.#feeds.values()].filter(({ parked }) => parked).map(({ interest }) => interest);
  }

  /** Whether a job is out. */
  get running(): boolean {
    return this.#jobs.size > 0;
  }

  /** Whether all callbacks have returned: what still waits has no subscriber, or is parked. */
  get idle(): boolean {
    if (this.#ready.size + this.#jobs.size > 0) return false;
    return ![...this.#resting.values()].some(({ items }) => items.length > 0);
  }

  // One channel

  #feedOf(interest: Interest): Feed | undefined {
    const channel = channelOf(interest);
    const feed = channel === null ? undefined : this.#feeds.get(channel.name);
    return feed?.interest === interest ? feed : undefined;
  }

  #isOwed(feed: Feed): boolean {
    return this.#registrations.isOwed(feed.interest);
  }

  /** Whether an answer to these operations is about the registration that is pending. */
  #isAnswered({ interest }: Feed, operations: Operations): boolean {
    return this.#registrations.pending.get(interest) === operations.get(interest);
  }

  /** Whether the service is being asked, or is yet to be asked. */
  #isAsked({ interest }: Feed): boolean {
    const stage = this.#registrations.stageOf(interest);
    return stage === "unsent" || stage === "withheld" || stage === "sent";
  }

  /** Whether it is a position of another log. */
  #isForeign(since: Since): boolean {
    return since.kind === "position" && this.#cursor.epoch !== null && since.epoch !== this.#cursor.epoch;
  }

  /** It was to begin at a position of another log: it begins with what this one has, and that is told. */
  #lose(feed: Feed): void {
    feed.since = OLDEST;
    feed.lost = true;
    this.#journal.changed(true);
  }

  #resolve(feed: Feed, position: bigint): void {
    if (feed.since !== null && this.#isForeign(feed.since)) {
      this.#lose(feed);
      this.#registrations.askAgain(feed.interest);
      return;
    }
    feed.since = null;
    feed.position = feed.received = position;
    // Durable before the service hears of this position: who then says `since` again might get another one.
    this.#journal.changed(true);
    this.#lossFirst(feed, position + 1n);
  }

  /** Whether what comes of it is kept. What is parked is asked for again when something comes. */
  #listens(feed: Feed, paged: boolean): boolean {
    const isAsked = this.#isAsked(feed);
    if (feed.deaf && feed.parked && feed.retryAt === null && !paged) this.#refill(feed);
    return !feed.deaf && feed.since === null && !isAsked;
  }

  /** All up to there has come. */
  #known(feed: Feed): bigint {
    return feed.live ? highest(feed.received, this.#cursor.complete) : feed.received;
  }

  /** The service tells it from another place than where it is, which the next Hello says. */
  #gap(feed: Feed, known: bigint, before: bigint): string {
    this.#owe(feed);
    return `channel ${JSON.stringify(feed.channel.name)}: messages between ${known} and ${before} have not come`;
  }

  /** If it is still to be told that the log is another one, that comes first. */
  #lossFirst(feed: Feed, before: bigint): void {
    if (feed.tellsLoss) return;
    const said = { channel: feed.hash, after: undefined, before, reason: REASON.LOST, paged: false };
    // What frames say to be complete does not stand for that: the channel is pending until it is told.
    this.#put(feed, new Item(said, feed.received));
  }

  #put(feed: Feed, item: Item): void {
    if (!this.#isOwed(feed) && !this.#subscribers.has(feed.channel.name)) this.#owe(feed);
    if (!this.#isOwed(feed)) this.#cursor.hold(item);
    feed.put(item);
    this.#bytes += item.bytes;
    this.#offer(feed);
    if (this.#bytes <= CHANNELS_BACKLOG_BYTES_MAX) return;
    this.#cut([...this.#feeds.values()].reduce((most, one) => (one.bytes > most.bytes ? one : most)));
  }

  /** Too much waits: the rest of what came of it is asked for again, once it has told what it keeps. */
  #cut(feed: Feed): void {
    this.#owe(feed);
    const dropped = feed.cut(Math.floor(feed.bytes / 2));
    if (dropped.length === 0) return;
    feed.deaf = true;
    feed.live = false;
    this.#release(dropped);
  }

  #park(feed: Feed, item: Item): void {
    this.#report(new ChannelParked(feed.channel.name, item.end, feed.failures));
    this.#owe(feed);
    this.#drop(feed);
    feed.deaf = feed.parked = true;
    feed.live = false;
    feed.failures = 0;
    this.#move();
  }

  #told(feed: Feed): void {
    this.#release([feed.pop()]);
    feed.failures = 0;
    feed.parked = false;
    if (this.#isOwed(feed)) this.progress += 1;
    this.#journal.changed();
    this.#move();
    this.#offer(feed);
    this.#settle(feed);
    this.#refill(feed);
  }

  /** Let the first of its items be told as soon as it may. */
  #offer(feed: Feed): void {
    const { name } = feed.channel;
    if (feed.items.length > 0 && this.#subscribers.has(name) && feed.running === null && feed.retryAt === null) {
      this.#ready.set(name, feed);
    }
  }

  /** If it has come as far as the cursor, it is no pending registration any more. */
  #settle(feed: Feed): void {
    const { cursor } = this.#cursor;
    const { name } = feed.channel;
    if (feed.deaf || this.#registrations.stageOf(feed.interest) !== "arrived") return;
    // Also where the log has nothing yet: the next message may not come for long.
    this.#lossFirst(feed, highest(feed.received, cursor) + 1n);
    if (cursor === null) {
      this.#ahead.set(name, feed);
      return;
    }
    const [first] = feed.items;
    if (first !== undefined && (!this.#subscribers.has(name) || first.limit < cursor)) return;
    if (feed.position !== null && feed.position > highest(cursor, feed.told)) {
      // The cursor alone would let what lies in front of the position be told.
      this.#ahead.set(name, feed);
      return;
    }
    this.#registrations.settle(feed.interest);
    feed.position = null;
    for (const item of feed.items) this.#cursor.hold(item);
  }

  /** What was left is asked for, once all that was kept is told. */
  #refill(feed: Feed): void {
    if (!feed.deaf || feed.items.length > 0 || !this.#subscribers.has(feed.channel.name) || this.#isAsked(feed)) return;
    this.#leave(feed);
    this.#fold(feed);
    this.#registrations.askAgain(feed.interest);
  }

  /** It cannot be told for now: it is a pending registration, and the cursor passes. */
  #owe(feed: Feed): void {
    if (this.#isOwed(feed)) return;
    this.#leave(feed);
    this.#registrations.owe(feed.interest);
    this.#move();
  }

  /** The cursor says nothing of it from here on: its position does. */
  #leave(feed: Feed): void {
    feed.position ??= feed.applied(this.#cursor.cursor);
    for (const item of feed.items) item.held = false;
  }

  /** What frames say to be complete does not concern it from here on. */
  #fold(feed: Feed): void {
    feed.received = this.#known(feed);
    feed.live = false;
  }

  #drop(feed: Feed): void {
    this.#release(feed.drop());
    this.#ready.delete(feed.channel.name);
  }

  #release(items: readonly Item[]): void {
    for (const item of items) {
      item.held = false;
      this.#bytes -= item.bytes;
    }
  }

  #move(): void {
    if (!this.#cursor.move()) return;
    this.#journal.changed();
    const ahead = this.#ahead;
    this.#ahead = new Map();
    for (const [name, feed] of ahead) if (this.#feeds.get(name) === feed) this.#settle(feed);
  }
}
