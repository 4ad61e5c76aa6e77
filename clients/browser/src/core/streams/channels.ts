/**
 * The channels that a client wants: the service's messages, their callbacks, and the cursor.
 *
 * What must be true of them, and what *parked* and *deaf* mean, is in the docstring of `channels` in `clients/python/coldnotify/_core/streams`.
 */

import { titleOf } from "../../schemas/names.js";
import { ChannelCallbackFailed, ChannelParked, type ColdNotifyError, MessagesMissed } from "../../errors.js";
import type { Missed } from "../../message.js";
import { ChannelCursor } from "./channelCursor.js";
import { BEGINNING, type ChannelJob, Feed, highest, isMissed, Item, type KeptChannel } from "./feed.js";
import { byChannel, type Channel, channelOf, type Interest } from "../interests/interests.js";
import type { Journal } from "../journal.js";
import type { Operations, Registrations } from "../interests/registrations.js";
import { CHANNELS_BACKLOG_BYTES_MAX, type ClientSettings } from "../settings.js";
import { OLDEST, type Since } from "../interests/since.js";
import { type Position, REASON, type WireInterest, type WireMessage, type WireMissed } from "../../schemas/wire.js";

/** The state of all channels in the document. */
export interface KeptChannels {
  /** The channels by interest. */
  readonly channels: ReadonlyMap<Interest, KeptChannel>;
  readonly epoch: number | null;
  readonly cursor: bigint | null;
}

export const NO_CHANNELS: KeptChannels = { channels: new Map(), epoch: null, cursor: null };

/** The wanted channels, by name, and the cursor. */
export class Channels {
  /** True once the application was told that the service knows no channels. */
  toldUnknown = false;
  /**
   * Number of times that an item of a pending channel was told, or that such a channel turned out to have nothing to
   * tell.
   */
  progress = 0;
  readonly #journal: Journal;
  readonly #registrations: Registrations;
  readonly #settings: ClientSettings;
  readonly #report: (error: ColdNotifyError) => void;
  readonly #cursor: ChannelCursor;
  readonly #feeds = new Map<string, Feed>();
  readonly #byHash = new Map<bigint, Feed>();
  readonly #subscribers = new Map<string, Set<number>>();
  readonly #missedSubscribers = new Map<string, Set<number>>();
  readonly #ready = new Map<string, Feed>();
  /** Channels that wait for their `retryAt`. */
  readonly #resting = new Map<string, Feed>();
  /** Channels whose positions are above the cursor, or without one: they are pending until it has come there. */
  #ahead = new Map<string, Feed>();
  readonly #jobs = new Set<ChannelJob>();
  #bytes = 0;

  constructor(
    journal: Journal,
    registrations: Registrations,
    settings: ClientSettings,
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

  // Requests of the application

  /** Adds a channel to the wanted set. A wanted channel keeps its position; with other attributes, too. */
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

  /** Returns the wanted channel of this name, or null. */
  of(name: string): Interest | null {
    return this.#feeds.get(name)?.interest ?? null;
  }

  /** Removes a channel from the wanted set, and drops its waiting items. Its subscribers stay. */
  forget(interest: Interest): void {
    const feed = this.#feedOf(interest);
    if (feed === undefined) return;
    this.#byHash.delete(feed.hash);
    this.#feeds.delete(feed.channel.name);
    this.#drop(feed);
    this.#move();
  }

  /** Adds a callback for messages. Items that waited for one are told; dropped ones are requested again. */
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

  /** Removes a callback. A job that has begun with it does not call it again. */
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

  /** Adds a callback for missed messages. */
  subscribeMissed(name: string, subscriber: number): void {
    this.#missedSubscribers.set(name, (this.#missedSubscribers.get(name) ?? new Set()).add(subscriber));
  }

  /** Removes a callback for missed messages. */
  unsubscribeMissed(name: string, subscriber: number): void {
    const subscribers = this.#missedSubscribers.get(name);
    subscribers?.delete(subscriber);
    if (subscribers?.size === 0) this.#missedSubscribers.delete(name);
  }

  // Events of a session

  /** Begins a new session: pending channels are requested again. */
  beginSession(): void {
    if (!this.#registrations.hasChannels) this.#cursor.void(null);
    for (const feed of this.#feeds.values()) {
      if (this.#isOwed(feed)) this.#fold(feed);
      else feed.live = true;
    }
  }

  /**
   * Begins a reg-sync: the service gets all registrations again, with each channel's position. Before, they become
   * pending.
   */
  beginSync(): void {
    for (const feed of this.#feeds.values()) {
      if (feed.since !== null) continue;
      this.#leave(feed);
      this.#fold(feed);
    }
  }

  /** Returns the channel for a frame; null if the interest is not one. */
  said(interest: Interest): WireInterest | null {
    const feed = this.#feedOf(interest);
    if (feed === undefined) return null;
    if (feed.since !== null && this.#isForeign(feed.since)) this.#lose(feed);
    feed.askedFrom = feed.received;
    return feed.registered;
  }

  /**
   * Notes the log's epoch. Returns true if this session can continue, because the positions that it sent are of this
   * log.
   *
   * `isVoid`: a cursor that the Hello carried does not count, and the service sends each channel from the beginning.
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

  /** Restarts a channel whose state is of another log: it is told from the beginning, after a report of the loss. */
  #beginAnew(feed: Feed): void {
    this.#drop(feed);
    feed.told = null;
    feed.lost = true;
    feed.position = feed.received = feed.askedFrom = BEGINNING;
    feed.live = feed.deaf = feed.parked = false;
    this.#journal.changed(true);
  }

  /** Notes the beginnings of these operations' channels, as the service sent them. */
  resolved(positions: readonly Position[], operations: Operations): void {
    for (const { interest, position } of positions) {
      const feed = this.#byHash.get(interest);
      if (feed !== undefined && feed.since !== null && this.#isAnswered(feed, operations)) this.#resolve(feed, position ?? BEGINNING);
    }
  }

  /** The service has these registrations: it sends the messages after their positions. */
  confirmed(interests: readonly Interest[]): void {
    for (const interest of interests) {
      const feed = this.#feedOf(interest);
      if (feed === undefined) continue;
      // Messages parked or cut since the request are not among those that the service sends now.
      feed.deaf = feed.received < feed.askedFrom;
      feed.failures = 0;
      if (feed.deaf && !feed.parked) this.#refill(feed);
      if (feed.since?.kind === "position") this.#resolve(feed, feed.since.at);
    }
  }

  /** Handles a message. Returns an error if earlier ones are missing, otherwise "". */
  message(said: WireMessage): string {
    const feed = this.#byHash.get(said.channel);
    if (feed !== undefined && this.#listens(feed, said.paged)) {
      const known = this.#known(feed);
      if (said.offset > known) {
        if (said.offset - said.back > known) return this.#gap(feed, known, said.offset);
        this.#lossFirst(feed, said.offset);
        // A copy, because a slice would keep all the bytes that came with it.
        this.#put(feed, new Item({ ...said, payload: said.payload.slice() }, this.#known(feed)));
      }
    }
    if (!said.paged) this.complete(said.offset);
    return "";
  }

  /** Handles a report of missed messages. Returns as `message`. */
  missed(said: WireMissed): string {
    const feed = this.#byHash.get(said.channel);
    if (feed !== undefined && this.#listens(feed, said.paged)) {
      if (said.reason === REASON.LOST && said.after === undefined && said.before <= feed.askedFrom) {
        // The position that this session has sent is above the log's end, so it is not of this log.
        this.#beginAnew(feed);
      }
      const known = this.#known(feed);
      if (said.before - 1n > known || (said.reason === REASON.LOST && !feed.tellsLoss)) {
        if (said.after !== undefined && said.after > known) return this.#gap(feed, known, said.before);
        if (said.reason !== REASON.LOST) this.#lossFirst(feed, known + 1n);
        this.#put(feed, new Item(said, known));
      }
    }
    if (!said.paged && said.before > 0n) this.complete(said.before - 1n);
    return "";
  }

  /** Everything at or below it has come, of all channels that the service sends live. */
  complete(complete: bigint): void {
    this.#cursor.completed(complete);
    this.#move();
  }

  /** Notes that everything acknowledged before that time has come, of all channels that the service sends live. */
  prove(asOf: number): void {
    this.#cursor.prove(asOf);
  }

  /** Everything acknowledged before that time is told, of every channel without a pending registration. */
  get asOf(): number | null {
    return this.#cursor.asOf;
  }

  /** Handles the end of catching up, complete up to `complete`: the service sends live messages from here on. */
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

  /** Epoch and cursor for the Hello. Without a cursor, there is no epoch to send. */
  get forHello(): { epoch: number | undefined; cursor: bigint | undefined } {
    const { epoch, cursor } = this.#cursor;
    if (cursor === null || !this.#registrations.hasChannels) return { epoch: undefined, cursor: undefined };
    return { epoch: epoch ?? undefined, cursor };
  }

  // Calls of the shell that runs callbacks

  /** Returns the callbacks to run next, or null. A channel's messages follow one after another. */
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
        // Otherwise the callbacks that failed were removed; the others know the message already.
        this.#told(feed);
        continue;
      }
      feed.running = { feed, item, subscribers, message };
      this.#jobs.add(feed.running);
      return feed.running;
    }
    return null;
  }

  /** Returns the time at which the next job can begin: -Infinity for now; Infinity if nothing waits for a time. */
  readyAt(): number {
    if (this.#ready.size > 0) return -Infinity;
    return Math.min(...[...this.#resting.values()].map(({ retryAt }) => retryAt ?? -Infinity));
  }

  /** Handles the end of a job's callbacks; `failed` contains the errors of those that threw, by subscriber. */
  done(job: ChannelJob, failed: ReadonlyMap<number, unknown>, now: number): void {
    this.#jobs.delete(job);
    const { feed, item } = job;
    const { name } = feed.channel;
    for (const cause of failed.values()) this.#report(new ChannelCallbackFailed(titleOf(name), item.end, cause));
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

  // Queries of other modules

  /** Returns true if an item of a pending channel must be told, or is still to come. */
  lacks(interest: Interest): boolean {
    const feed = this.#feedOf(interest);
    return feed === undefined || this.#registrations.stageOf(interest) !== "arrived" || feed.items.length > 0 || feed.deaf;
  }

  /** Returns the offset up to which a pending channel is told; -1 if nothing is. */
  told(interest: Interest): bigint {
    return this.#feedOf(interest)?.applied(null) ?? BEGINNING;
  }

  /** Epoch of the log of the domain's channels. */
  get epoch(): number | null {
    return this.#cursor.epoch;
  }

  /** The offset up to which everything is told, of every channel without a pending registration. */
  get cursor(): bigint | null {
    return this.#cursor.cursor;
  }

  /** The state for the document. */
  get kept(): KeptChannels {
    const channels = new Map([...this.#feeds.values()].map((feed) => [feed.interest, feed.kept]));
    return { channels, epoch: this.epoch, cursor: this.cursor };
  }

  /** The number of channels with items that wait to be told. */
  get waiting(): number {
    return [...this.#feeds.values()].filter(({ items }) => items.length > 0).length;
  }

  /** Channels whose callbacks failed too often, until they succeed. */
  get parked(): Interest[] {
    return [...this.#feeds.values()].filter(({ parked }) => parked).map(({ interest }) => interest);
  }

  /** True if a job is running. */
  get running(): boolean {
    return this.#jobs.size > 0;
  }

  /** True if all callbacks have returned: items that still wait have no subscriber, or are parked. */
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

  /** Returns true if an answer to these operations concerns the pending registration. */
  #isAnswered({ interest }: Feed, operations: Operations): boolean {
    return this.#registrations.pending.get(interest) === operations.get(interest);
  }

  /** Returns true if the service is being asked for the channel, or will be. */
  #isAsked({ interest }: Feed): boolean {
    const stage = this.#registrations.stageOf(interest);
    return stage === "unsent" || stage === "withheld" || stage === "sent";
  }

  /** Returns true if it is a position in another log. */
  #isForeign(since: Since): boolean {
    return since.kind === "position" && this.#cursor.epoch !== null && since.epoch !== this.#cursor.epoch;
  }

  /**
   * Handles a beginning in another log: the channel begins with the first message of this one, after a report of the
   * loss.
   */
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
    // Durable before the service learns this position, because a client that sent `since` again might get another one.
    this.#journal.changed(true);
    this.#lossFirst(feed, position + 1n);
  }

  /**
   * Returns true if incoming messages of the channel are kept. A parked channel is requested again when a message
   * comes.
   */
  #listens(feed: Feed, paged: boolean): boolean {
    const isAsked = this.#isAsked(feed);
    if (feed.deaf && feed.parked && feed.retryAt === null && !paged) this.#refill(feed);
    return !feed.deaf && feed.since === null && !isAsked;
  }

  /** Returns the offset up to which everything of this channel has come. */
  #known(feed: Feed): bigint {
    return feed.live ? highest(feed.received, this.#cursor.complete) : feed.received;
  }

  /** Handles a gap: the service sends from another position than the channel's, which the next Hello carries. */
  #gap(feed: Feed, known: bigint, before: bigint): string {
    this.#owe(feed);
    return `channel ${JSON.stringify(titleOf(feed.channel.name))}: messages between ${known} and ${before} have not come`;
  }

  /** Reports the loss of the former log first, if that is still to be told. */
  #lossFirst(feed: Feed, before: bigint): void {
    if (feed.tellsLoss) return;
    const unshared = { handOut: 0, attempts: 0, hold: 0 };
    const said = { channel: feed.hash, after: undefined, before, reason: REASON.LOST, paged: false, ...unshared };
    // Numbers that frames report as complete do not cover the loss: the channel is pending until it is told.
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

  /** Cuts a channel with too many waiting bytes: it requests the rest again once it has told the items it keeps. */
  #cut(feed: Feed): void {
    this.#owe(feed);
    const dropped = feed.cut(Math.floor(feed.bytes / 2));
    if (dropped.length === 0) return;
    feed.deaf = true;
    feed.live = false;
    this.#release(dropped);
  }

  #park(feed: Feed, item: Item): void {
    this.#report(new ChannelParked(titleOf(feed.channel.name), item.end, feed.failures));
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

  /** Lets the first of its items be told as soon as possible. */
  #offer(feed: Feed): void {
    const { name } = feed.channel;
    if (feed.items.length > 0 && this.#subscribers.has(name) && feed.running === null && feed.retryAt === null) {
      this.#ready.set(name, feed);
    }
  }

  /** Ends the pending registration once the channel's position has reached the cursor. */
  #settle(feed: Feed): void {
    const { cursor } = this.#cursor;
    const { name } = feed.channel;
    if (feed.deaf || this.#registrations.stageOf(feed.interest) !== "arrived") return;
    // Also if the log has no message yet, because the next one may take long to come.
    this.#lossFirst(feed, highest(feed.received, cursor) + 1n);
    if (cursor === null) {
      this.#ahead.set(name, feed);
      return;
    }
    const [first] = feed.items;
    if (first !== undefined && (!this.#subscribers.has(name) || first.limit < cursor)) return;
    if (feed.position !== null && feed.position > highest(cursor, feed.told)) {
      // The cursor alone would allow messages before the position to be told.
      this.#ahead.set(name, feed);
      return;
    }
    this.#registrations.settle(feed.interest);
    feed.position = null;
    for (const item of feed.items) this.#cursor.hold(item);
  }

  /** Requests dropped messages, once all kept ones are told. */
  #refill(feed: Feed): void {
    if (!feed.deaf || feed.items.length > 0 || !this.#subscribers.has(feed.channel.name) || this.#isAsked(feed)) return;
    this.#leave(feed);
    this.#fold(feed);
    this.#registrations.askAgain(feed.interest);
  }

  /** Makes the channel a pending registration, so that the cursor passes: it cannot be told for now. */
  #owe(feed: Feed): void {
    if (this.#isOwed(feed)) return;
    this.#leave(feed);
    this.#registrations.owe(feed.interest);
    this.#move();
  }

  /** Excludes the channel from the cursor: from here on, its own position counts. */
  #leave(feed: Feed): void {
    feed.position ??= feed.applied(this.#cursor.cursor);
    for (const item of feed.items) item.held = false;
  }

  /** Excludes the channel from numbers that frames report as complete. */
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
