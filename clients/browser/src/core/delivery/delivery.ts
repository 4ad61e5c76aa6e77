/**
 * Delivers received notifications to callbacks: floors, slots, retries, parking, and the cursor they hold.
 *
 * Each wanted object has at most one slot, so the waiting versions are bounded by the number of objects.
 */

import { CallbackFailed, type ColdNotifyError, ObjectParked, PayloadUnreadable } from "../../errors.js";
import type { Notification } from "../../notification.js";
import { Channels, type KeptChannels, NO_CHANNELS } from "../streams/channels.js";
import { CallbackTurns } from "./callbackTurns.js";
import { compareFloors, type Floor, Floors, highestFloor } from "./floors.js";
import { Frontier, type Hold } from "../streams/frontier.js";
import { channelOf, type Interest, isName, isShare, queryOf } from "../interests/interests.js";
import { type KeptPayload, NewestUpdates } from "./newest.js";
import type { Journal } from "../journal.js";
import { parsedDescription } from "./memberDescriptions.js";
import type { KeptQuery, Membership } from "./membership.js";
import { saidBy } from "../streams/payloads.js";
import { Queries } from "./queries.js";
import type { Registrations } from "../interests/registrations.js";
import type { ClientSettings } from "../settings.js";
import { type CallbackJob, floorOf, Slot, UNKNOWN, type Update } from "./slot.js";
import { type KeptShare, ShareMember } from "../shares/shareMember.js";
import { Subscribers } from "./subscribers.js";
import { Failing } from "./unsettled.js";

export type Report = (error: ColdNotifyError) => void;

export interface Applied {
  readonly floors: Iterable<readonly [string, Floor]>;
  /** The newest payloads by name. */
  readonly newest?: ReadonlyMap<string, KeptPayload>;
  /** The queries by text. */
  readonly queries?: ReadonlyMap<string, KeptQuery>;
  readonly epoch: number | null;
  readonly cursor: bigint | null;
  readonly channels?: KeptChannels;
  /** The shares by interest. */
  readonly shares?: ReadonlyMap<Interest, KeptShare>;
}

const fromUtf8 = new TextDecoder("utf-8", { fatal: true });

const NOBODY: ReadonlySet<number> = new Set();
const NOTHING = new Uint8Array();

function without(all: Iterable<number>, some: ReadonlySet<number>): Set<number> {
  return new Set([...all].filter((one) => !some.has(one)));
}

/** Versions that are received and not applied yet, the floors and the cursor. */
export class Delivery {
  readonly queries: Queries;
  readonly channels: Channels;
  readonly shares: ShareMember;
  readonly failing: Failing;
  readonly turns: CallbackTurns;
  /** The versions that callbacks were told last. */
  readonly newest: NewestUpdates;
  readonly #journal: Journal;
  readonly #registrations: Registrations;
  readonly #settings: ClientSettings;
  readonly #report: Report;
  readonly #frontier: Frontier;
  readonly #floors: Floors;
  readonly #slots = new Map<string, Slot>();
  readonly #subscribers = new Subscribers();
  readonly #ready = new Set<string>();
  /** Retries, ordered by time. */
  readonly #retries: { at: number; name: string }[] = [];
  readonly #parked = new Set<string>();
  #epoch: number | null;

  constructor(journal: Journal, registrations: Registrations, settings: ClientSettings, report: Report, applied: Applied) {
    this.#journal = journal;
    this.#registrations = registrations;
    this.#settings = settings;
    this.#report = report;
    this.failing = new Failing(settings.sayErrors);
    this.#floors = new Floors(journal, applied.floors);
    this.newest = new NewestUpdates(settings.newestBytesMax, applied.newest ?? new Map(), this.#floors.told);
    this.#epoch = applied.epoch;
    this.#frontier = new Frontier(applied.cursor);
    const objects = {
      hold: () => this.#frontier.hold(),
      release: (hold: Hold) => this.#move(() => this.#frontier.release(hold)),
      isHeard: (query: Interest) => this.#subscribers.has(query),
      newest: (name: string) => this.#slots.get(name)?.newest ?? null,
      offer: (name: string) => this.#offer(name),
      unknownTo: (query: Interest, name: string) => this.#unknownTo(query, name),
      forgottenBy: (query: Interest, name: string) => this.#floors.forgottenBy(query, name),
      withoutCallbacks: (query: Interest) => this.#floors.without(query),
      unwanted: (name: string) => this.#unwanted(name),
      prune: () => this.#prune(),
      report,
    };
    this.queries = new Queries(journal, registrations, settings, objects, applied.queries ?? new Map());
    this.channels = new Channels(journal, registrations, settings, report, applied.channels ?? NO_CHANNELS);
    const shares = applied.shares ?? new Map<Interest, KeptShare>();
    this.shares = new ShareMember(journal, registrations, settings, report, shares, () => this.channels.epoch);
    this.turns = new CallbackTurns(this, this.queries, this.channels, this.shares, this.failing);
  }

  // Events of a session

  /**
   * Handles a notification of an object that this client uses. Drops duplicates, and objects not wanted any more.
   *
   * `lacking`: queries whose callbacks have not been told the object's current description, even if they know its
   * version.
   */
  arrived(name: string, update: Update, lacking: readonly Membership[] = []): void {
    const memberships = this.queries.concerning(name);
    const isNamed = this.#registrations.wanted.has(name);
    if (!isNamed && memberships.length === 0) return;
    const isAnswer = this.#registrations.arrived(name);
    if (update.version !== null) this.queries.missed(name);
    let slot = this.#slots.get(name);
    const next = this.#next(name, update, slot, this.#due(name, update, slot, lacking, isAnswer), isAnswer);
    if (next === null) {
      if (slot === undefined) {
        this.#registrations.settle(name);
        return;
      }
      this.queries.awaits(name);
      if (slot.waitingHold === null && slot.runningHold === null && this.#holds(name, memberships)) this.#hold(slot);
      return;
    }
    this.queries.replaced(name);
    if (!isNamed && !this.#isHeard(name)) return; // its queries know that they missed it
    if (slot === undefined) this.#slots.set(name, (slot = new Slot()));
    slot.waiting = next.update;
    slot.told = next.told;
    if (slot.waitingHold === null && this.#holds(name, memberships)) slot.waitingHold = this.#frontier.hold();
    this.queries.awaits(name);
    this.#offer(name);
  }

  /** Returns the subscribers that must be told this update, even if others know it. */
  #due(name: string, update: Update, slot: Slot | undefined, lacking: readonly Membership[], isAnswer: boolean): Set<number> {
    const due = this.#subscribers.ofAll(lacking.map(({ interest }) => interest));
    if (!isAnswer || update.version !== null || slot?.newest !== UNKNOWN) return due;
    // Others are being told, with a description, that there is no version.
    for (const one of this.#subscribers.of(name)) if (!slot.running?.subscribers.includes(one)) due.add(one);
    return due;
  }

  /**
   * Returns the update that must wait, and the subscribers that know it already; null if the present ones are enough.
   */
  #next(
    name: string,
    update: Update,
    slot: Slot | undefined,
    due: ReadonlySet<number>,
    isAnswer: boolean,
  ): { update: Update; told: Set<number> } | null {
    const untold = this.#floors.untold(name);
    const floor = this.#floors.get(name) ?? UNKNOWN;
    const one = floorOf(update);
    const than = compareFloors(one, highestFloor(floor, slot?.newest ?? UNKNOWN));
    const isFirst = update.version === null && slot === undefined && (due.size === 0 || isAnswer);
    if (than > 0 || isFirst) return { update, told: new Set() };
    const isForSome = due.size + untold.size > 0;
    const others = (): Set<number> => without(this.#audience(name), new Set([...due, ...this.#subscribers.ofAll(untold)]));
    if (slot?.waiting) {
      // It waits with the newest description.
      const isUnknown = slot.waiting.version === null && update.version !== null;
      if (isUnknown && than === 0 && isForSome) {
        const { told } = slot;
        return { update, told: new Set([...others()].filter((other) => told.has(other))) };
      }
      for (const subscriber of due) slot.told.delete(subscriber);
      return null;
    }
    if (update.version !== null && than === 0) {
      if (!isForSome) return null;
      if (slot?.running?.update.version == null) return { update, told: others() };
      // The same version came again while it was told, for a query that the object has entered since, or for its
      // description.
      return { update, told: without([...slot.told, ...slot.running.subscribers], due) };
    }
    if (due.size === 0) return null;
    // The object was never published, or was removed, or its versions have restarted: the others are told nothing.
    return { update: { ...update, version: null, payload: NOTHING, deleted: false, raw: false }, told: without(this.#audience(name), due) };
  }

  /** Notes that the query's callbacks know neither the version that others know, nor the one that waits for others. */
  #unknownTo(query: Interest, name: string): void {
    this.#floors.unknownTo(query, name);
    const slot = this.#slots.get(name);
    if (slot?.waiting) for (const subscriber of this.#subscribers.of(query)) slot.told.delete(subscriber);
  }

  /** Returns true if the cursor has to wait for the version, because the service will not send it again. */
  #holds(name: string, memberships: Iterable<{ readonly interest: Interest }>): boolean {
    if (this.#registrations.wanted.has(name) && !this.#registrations.isOwed(name)) return true;
    return [...memberships].some(({ interest }) => this.#subscribers.has(interest));
  }

  #hold(slot: Slot): void {
    if (slot.waiting !== null) slot.waitingHold = this.#frontier.hold();
    else slot.runningHold = this.#frontier.hold();
  }

  /**
   * Handles a notification of the client's queries that the object entered and left, or of its description.
   *
   * `description`: JSON; "": it has none; undefined: not in the frame.
   */
  changed(
    name: string,
    update: Update,
    entered: readonly bigint[],
    left: readonly bigint[],
    answer: boolean,
    description?: string,
  ): void {
    this.queries.enter(name, entered);
    const lacking = description === undefined ? [] : this.#described(name, description);
    const isTold = update.version !== null || lacking.length > 0;
    // A frame without a version does not report that there is none, unless it answers a registration by name.
    const mayAnswer = entered.length > 0 || (description !== undefined && left.length === 0);
    const isAnswer = mayAnswer && this.#registrations.stageOf(name) === "confirmed";
    if (isTold || isAnswer) this.arrived(name, update, lacking);
    if (isTold && !answer && this.#slots.has(name)) this.queries.awaitsAsEntered(name, entered);
    this.queries.leave(name, left);
  }

  /** Notes an object's description. Returns the queries whose callbacks must be told. */
  #described(name: string, description: string): Membership[] {
    const untold = this.#floors.untold(name);
    const telling = (membership: Membership): string | null => this.#telling(name, membership);
    const differing = new Set(this.queries.descriptions.say(name, description, telling));
    const asking = this.queries.concerning(name).filter((one) => one.descriptions !== null && this.queries.isHeard(one.interest));
    const lacks = (one: Membership): boolean => differing.has(one) || (untold.has(one.interest) && telling(one) !== description);
    const slot = this.#slots.get(name);
    if (slot?.waiting) {
      // Other subscribers that know the waiting version are not told it only because of an outdated description.
      const { waiting, running, told } = slot;
      for (const one of asking) {
        if (lacks(one) || (untold.has(one.interest) && telling(one) === null)) continue;
        const heard = telling(one) !== null && running ? floorOf(running.update) : (this.#floors.get(name) ?? UNKNOWN);
        if (waiting.version !== null && compareFloors(heard, floorOf(waiting)) !== 0) continue;
        for (const subscriber of this.#subscribers.of(one.interest)) told.add(subscriber);
      }
    }
    return asking.filter(lacks);
  }

  /** Returns the description of this object that the query's callbacks are being told; null: none now. */
  #telling(name: string, { interest }: Membership): string | null {
    const running = this.#slots.get(name)?.running;
    if (running?.description === undefined) return null;
    const { subscribers, description } = running;
    return [...this.#subscribers.of(interest)].every((one) => subscribers.includes(one)) ? description : null;
  }

  /** Notes a number that a frame carried, after everything that arrived before. Ignored without an epoch. */
  complete(complete: bigint): void {
    if (this.#epoch !== null) this.#move(() => this.#frontier.complete(complete));
  }

  /** Notes a frame's proof that everything acknowledged before that time has arrived. */
  prove(asOf: number): void {
    this.#frontier.prove(asOf);
  }

  /** Everything acknowledged before that time has been told, or is a pending registration; null: not known. */
  get asOf(): number | null {
    return this.#frontier.asOf;
  }

  /** Begins a new epoch: the old one's cursor does not count any more. Floors stay. */
  newEpoch(epoch: number): void {
    this.#epoch = epoch;
    this.#frontier.void();
    this.queries.newEpoch();
    this.#journal.changed();
  }

  // Calls of the application

  /** Adds an interest. A registration for an object by its name is told it, even if others were told it before. */
  wants(interest: Interest): void {
    const text = queryOf(interest);
    if (text !== null) this.queries.add(text);
    else if (this.queries.know(interest) || this.#floors.get(interest)) this.#floors.unknownTo(interest, interest);
  }

  /**
   * Adds a callback for this object, for the versions of this query's members, or for this channel's or share's
   * messages; updates that waited for one become ready.
   */
  subscribe(interest: Interest, subscriber: number): void {
    const channel = channelOf(interest);
    if (channel !== null) {
      this.channels.subscribe(channel.name, subscriber);
      return;
    }
    if (isShare(interest)) {
      this.shares.subscribe(interest, subscriber);
      return;
    }
    const isFirst = this.#subscribers.add(interest, subscriber);
    if (isName(interest)) this.#offer(interest);
    else if (isFirst) this.queries.heard(interest);
  }

  /** Removes a callback. A job that has begun with it does not call it again. */
  unsubscribe(interest: Interest, subscriber: number): void {
    const channel = channelOf(interest);
    if (channel !== null) {
      this.channels.unsubscribe(channel.name, subscriber);
      return;
    }
    if (isShare(interest)) {
      this.shares.unsubscribe(interest, subscriber);
      return;
    }
    if (!this.#subscribers.remove(interest, subscriber)) return;
    this.#floors.without(interest);
    if (isName(interest)) {
      this.#offer(interest);
      return;
    }
    // Running jobs only tell others now.
    for (const name of this.#slots.keys()) this.queries.missed(name);
    for (const name of this.#slots.keys()) this.#offer(name);
    this.queries.unheard(interest);
  }

  /** Adds a callback for objects that enter and leave this query. Ready updates may have to wait for it. */
  subscribeMembers(query: Interest, subscriber: number): void {
    this.queries.callbacks.subscribe(query, this.queries.get(query), subscriber);
    for (const name of [...this.#ready]) this.#offer(name);
  }

  /** Removes such a callback. A job that has begun with it does not call it again. */
  unsubscribeMembers(query: Interest, subscriber: number): void {
    this.queries.callbacks.unsubscribe(query, this.queries.get(query), subscriber);
    for (const name of this.#slots.keys()) this.#offer(name);
  }

  /** Removes an interest: drops its waiting updates, its holds and its floor. Subscribers stay. */
  forget(interest: Interest): void {
    if (!isName(interest)) this.failing.over(interest);
    if (channelOf(interest) !== null) {
      this.channels.forget(interest);
      return;
    }
    if (isShare(interest)) {
      this.shares.forget(interest);
      return;
    }
    const membership = this.queries.get(interest);
    if (membership !== undefined) {
      this.queries.forget(membership);
      return;
    }
    this.#unwanted(interest);
  }

  /** Ends all holds, because everything wanted has become a pending registration (reg-sync). */
  oweAll(): void {
    for (const [name, slot] of this.#slots) {
      this.#owe(name, slot);
      this.queries.awaits(name);
    }
    this.queries.beginSync();
  }

  // Calls of the shell that runs callbacks

  /** Puts changes into the document that it must contain before callbacks begin. Called before it is written. */
  prepare(): void {
    this.queries.callbacks.prepare();
  }

  /** Returns the callbacks of an object to run next, or null. `turns` asks. */
  nextJob(): CallbackJob | null {
    for (const name of this.#ready) {
      this.#ready.delete(name);
      const slot = this.#slots.get(name) as Slot;
      const update = slot.waiting as Update;
      const description = this.queries.descriptions.of(name);
      const audience = this.#audience(name, update.version === null && description !== undefined);
      const subscribers = [...audience].filter((one) => !slot.told.has(one));
      slot.take();
      if (subscribers.length === 0) {
        // The callbacks that failed were removed; the others know the version already.
        this.#applied(name, slot, update, NOBODY);
        continue;
      }
      subscribers.sort((a, b) => a - b);
      slot.running = { notification: this.#notification(name, update, description), subscribers, update, description };
      return slot.running;
    }
    return null;
  }

  /** Handles the end of a job's callbacks; `failed` contains the errors of those that threw, by subscriber. */
  done(job: CallbackJob, failed: ReadonlyMap<number, unknown>, now: number): void {
    const name = job.notification.objectId;
    const slot = this.#slots.get(name);
    if (slot === undefined || slot.running !== job) return; // unregistered meanwhile
    slot.running = null;
    this.failing.note(name, failed, now);
    for (const cause of failed.values()) this.#report(new CallbackFailed(name, job.update.version, cause));
    const { description } = job;
    if (description !== undefined) {
      // If only some callbacks were told again, the others had returned before.
      const heard = new Set([...job.subscribers, ...(failed.size === 0 && slot.waiting === null ? slot.told : NOBODY)]);
      const wereTold = ({ interest }: Membership): boolean => [...this.#subscribers.of(interest)].some((one) => heard.has(one));
      if (failed.size === 0) this.queries.descriptions.toldAs(name, description, wereTold);
      else this.queries.descriptions.failed(name, wereTold);
    }
    if (failed.size === 0) this.#applied(name, slot, job.update, new Set(job.subscribers));
    else this.#failed(name, slot, job, failed, now);
  }

  // Queries of other modules

  /** The newest version of each object that the application has been told. */
  get floors(): ReadonlyMap<string, Floor> {
    return this.#floors.told;
  }

  get epoch(): number | null {
    return this.#epoch;
  }

  /** The cursor: everything at or below it is applied, or is a pending registration. */
  get cursor(): bigint | null {
    return this.#frontier.cursor;
  }

  /** Objects, queries and channels whose callbacks failed too often, since the start and until they succeed. */
  get parked(): ReadonlySet<Interest> {
    return new Set([...this.#parked, ...this.queries.callbacks.parked, ...this.channels.parked]);
  }

  /** Number of objects with undelivered updates, including those that wait for a subscriber. */
  get waiting(): number {
    return this.#slots.size;
  }

  /** True if no version waits for a callback, or for another try. */
  get idle(): boolean {
    if (this.#ready.size > 0) return false;
    return this.#retries.length === 0 || ![...this.#slots.values()].some((slot) => slot.retryAt !== null);
  }

  /** Returns the time at which the next job can begin: -Infinity for now; Infinity if nothing waits for a time. */
  readyAt(): number {
    return this.#ready.size > 0 ? -Infinity : (this.#retries[0]?.at ?? Infinity);
  }

  // One slot

  /** Lets the waiting version, if there is one, run as soon as possible. */
  #offer(name: string): void {
    const slot = this.#slots.get(name);
    if (slot === undefined) return;
    if (!this.#isHeard(name)) {
      this.#ready.delete(name);
      this.#unheard(name, slot);
    } else if (slot.waiting !== null && slot.running === null && slot.retryAt === null) {
      if (this.queries.isBlocked(name)) this.#ready.delete(name);
      else this.#ready.add(name);
    }
  }

  /** Handles a slot without subscribers. Its object is requested again if it is wanted by name. */
  #unheard(name: string, slot: Slot): void {
    if (slot.waiting !== null) this.queries.missed(name);
    if (this.#registrations.wanted.has(name)) {
      this.#owe(name, slot);
    } else if (slot.running === null) {
      this.#gone(name);
    } else {
      slot.waiting = null;
      this.#move(() => this.#release(slot));
    }
  }

  #isHeard(name: string): boolean {
    return this.#subscribers.has(name) || this.#audience(name).size > 0;
  }

  /** Returns the subscribers for a version of this object; `isDescription`: for a description without a version. */
  #audience(name: string, isDescription = false): Set<number> {
    return this.#subscribers.audience(name, this.queries.concerning(name), isDescription);
  }

  #applied(name: string, slot: Slot, update: Update, told: ReadonlySet<number>): void {
    const knows = (interest: Interest): boolean =>
      [...this.#subscribers.of(interest)].every((one) => told.has(one) || slot.told.has(one));
    const floor = this.#floors.get(name);
    if (update.version !== null && (floor === undefined || compareFloors(floorOf(update), floor) > 0)) {
      // The object may enter again before the application hears that it has left.
      for (const { interest } of this.queries.leaving(name)) if (!knows(interest)) this.#floors.unknownTo(interest, name);
    }
    if (update.version !== null) {
      this.#floors.raise(name, floorOf(update), knows);
      this.newest.put(name, floorOf(update), update.payload, update.deleted, update.raw);
    } else {
      // Queries that ask for descriptions have been told the current state.
      const asks = (interest: Interest): boolean => this.queries.get(interest)?.descriptions != null;
      this.#floors.raise(name, null, (interest) => asks(interest) && knows(interest));
    }
    this.failing.over(name);
    this.#parked.delete(name);
    slot.failures = 0;
    this.#journal.changed();
    this.#move(() => {
      if (slot.runningHold !== null) this.#frontier.release(slot.runningHold);
      slot.runningHold = null;
    });
    if (slot.waiting === null) {
      this.#slots.delete(name);
      this.#registrations.settle(name);
      this.queries.told(name, null);
    } else {
      this.queries.told(name, floorOf(update));
      this.#offer(name);
    }
  }

  #failed(name: string, slot: Slot, job: CallbackJob, failed: ReadonlyMap<number, unknown>, now: number): void {
    for (const subscriber of failed.keys()) slot.told.delete(subscriber);
    if (slot.waiting === null) {
      slot.waiting = job.update;
      for (const subscriber of job.subscribers) if (!failed.has(subscriber)) slot.told.add(subscriber);
      slot.waitingHold = slot.runningHold;
      slot.runningHold = null;
    } else if (slot.runningHold !== null) {
      // A newer version has come: it takes the failed one's place, and its earlier hold.
      if (slot.waitingHold !== null) this.#frontier.release(slot.waitingHold);
      slot.waitingHold = slot.runningHold;
      slot.runningHold = null;
    }
    // A description alone replaces no version: it is told with the one that failed.
    if (slot.waiting.version === null) slot.waiting = job.update;
    slot.failures += 1;
    if (slot.failures >= this.#settings.triesMax) {
      this.#report(new ObjectParked(name, job.update.version, slot.failures));
      this.#parked.add(name);
      this.queries.lost(name);
      this.#owe(name, slot);
      if (slot.waiting === job.update) {
        this.#gone(name);
        return;
      }
      slot.failures = 0; // a newer version has come meanwhile: it gets its own tries
    }
    const { retryMinS, retryMaxS } = this.#settings;
    slot.retryAt = now + Math.min(retryMaxS, retryMinS * 2 ** Math.max(0, slot.failures - 1));
    this.#retries.push({ at: slot.retryAt, name });
    this.#retries.sort((a, b) => a.at - b.at);
    this.#offer(name);
  }

  /** Lets versions be told again whose pause is over. */
  wakeRetries(now: number): void {
    for (let retry = this.#retries[0]; retry !== undefined && retry.at <= now; retry = this.#retries[0]) {
      this.#retries.shift();
      const slot = this.#slots.get(retry.name);
      if (slot?.retryAt === retry.at) {
        slot.retryAt = null;
        this.#offer(retry.name);
      }
    }
  }

  /** Makes the object a pending registration, so that the cursor passes: its slot cannot be told for now. */
  #owe(name: string, slot: Slot): void {
    this.#registrations.owe(name);
    this.#move(() => this.#release(slot));
  }

  /** Drops the object's slot: nothing of it must be told any more. */
  #gone(name: string): void {
    const slot = this.#slots.get(name);
    this.#slots.delete(name);
    this.#ready.delete(name);
    if (slot !== undefined) this.#move(() => this.#release(slot));
    this.queries.told(name, null);
  }

  /**
   * Drops the waiting version and the holds of an object that nothing wants any more. Its floor stays as long as the
   * application considers it a member.
   */
  #unwanted(name: string): void {
    if (this.#registrations.wanted.has(name) || this.queries.concerning(name).length > 0) {
      this.#offer(name);
      return;
    }
    this.#gone(name);
    this.newest.forget(name);
    this.failing.over(name);
    this.#parked.delete(name);
    if (!this.queries.know(name)) this.#floors.forget(name);
  }

  /** Removes floors of objects that an unfinished answer contained, and the next answer did not. */
  #prune(): void {
    const isAnswering = [...this.queries.all].some(({ interest }) => this.#registrations.isOwed(interest));
    if (!isAnswering) this.#floors.prune((name) => this.#registrations.wanted.has(name) || this.queries.know(name));
  }

  #release(slot: Slot): void {
    for (const hold of [slot.runningHold, slot.waitingHold]) if (hold !== null) this.#frontier.release(hold);
    slot.runningHold = slot.waitingHold = null;
  }

  /** Runs a step that may move the cursor; if it does, the document has changed. */
  #move(step: () => void): void {
    const before = this.cursor;
    step();
    if (this.cursor !== before) this.#journal.changed();
  }

  #notification(objectId: string, update: Update, description: string | undefined): Notification {
    const { version, payload, deleted, raw = false } = update;
    if (raw) {
      // A view would keep the whole frame alive.
      const data = payload.slice();
      return { objectId, version, payload: saidBy(data), data, deleted, description: parsedDescription(description) };
    }
    let parsed: unknown = null;
    if (payload.length > 0) {
      try {
        parsed = JSON.parse(fromUtf8.decode(payload));
      } catch {
        this.#report(new PayloadUnreadable(objectId, version));
      }
    }
    return { objectId, version, payload: parsed, deleted, description: parsedDescription(description) };
  }
}
