/**
 * From a received notification to callbacks that returned: floors, slots, retries, parking, and the cursor they hold.
 *
 * Each wanted object has at most one slot: one version that its callbacks are being told, and one newer that waits. A
 * still newer one replaces the waiting one, so what waits is bounded by the number of objects, however much is
 * published.
 */

import { CallbackFailed, type ColdNotifyError, ObjectParked, PayloadUnreadable } from "../errors.js";
import type { Notification } from "../notification.js";
import { Frontier, type Hold } from "./frontier.js";
import type { Journal } from "./journal.js";
import type { Registrations } from "./registrations.js";
import type { Settings } from "./settings.js";

/** The order of an object's versions. */
export interface Floor {
  readonly incarnation: bigint;
  readonly version: bigint;
}

export type Report = (error: ColdNotifyError) => void;

/** What a Notification frame says of its object. */
export interface Update {
  readonly incarnation: bigint;
  readonly version: bigint | null;
  readonly payload: Uint8Array;
  readonly deleted: boolean;
}

/** Run the callbacks of these subscribers with this notification, then say `Delivery.done`. */
export interface Job {
  readonly notification: Notification;
  readonly subscribers: readonly number[];
  readonly update: Update;
}

/** Below every version. */
const UNKNOWN: Floor = { incarnation: -1n, version: -1n };

function floorOf(update: Update): Floor {
  return update.version === null ? UNKNOWN : { incarnation: update.incarnation, version: update.version };
}

/** Whether the first is the second or an older one. */
function isAtOrBelow(one: Floor, other: Floor): boolean {
  if (one.incarnation !== other.incarnation) return one.incarnation < other.incarnation;
  return one.version <= other.version;
}

class Slot {
  waiting: Update | null = null;
  waitingHold: Hold | null = null;
  /** Subscribers whose callback has returned for `waiting`: a retry leaves them out. */
  told = new Set<number>();
  running: Job | null = null;
  runningHold: Hold | null = null;
  failures = 0;
  retryAt: number | null = null;

  /** Of the version that waits or else runs; a slot has one of them. */
  get newest(): Floor {
    const update = this.waiting ?? this.running?.update;
    if (update === undefined) throw new Error("an empty slot is removed");
    return floorOf(update);
  }
}

export interface Applied {
  readonly floors: Iterable<[string, Floor]>;
  readonly epoch: number | null;
  readonly cursor: bigint | null;
}

const fromUtf8 = new TextDecoder("utf-8", { fatal: true });

/** What is received and not applied yet, the floors and the cursor. */
export class Delivery {
  readonly #journal: Journal;
  readonly #registrations: Registrations;
  readonly #settings: Settings;
  readonly #report: Report;
  readonly #frontier: Frontier;
  readonly #floors: Map<string, Floor>;
  readonly #slots = new Map<string, Slot>();
  readonly #subscribers = new Map<string, Set<number>>();
  readonly #ready = new Set<string>();
  /** By time. */
  readonly #retries: { at: number; name: string }[] = [];
  readonly #jobs = new Set<Job>();
  readonly #parked = new Set<string>();
  #epoch: number | null;

  constructor(journal: Journal, registrations: Registrations, settings: Settings, report: Report, applied: Applied) {
    this.#journal = journal;
    this.#registrations = registrations;
    this.#settings = settings;
    this.#report = report;
    this.#floors = new Map(applied.floors);
    this.#epoch = applied.epoch;
    this.#frontier = new Frontier(applied.cursor);
  }

  // What a session says

  /** A notification of an object that this client uses. Duplicates, and objects not wanted any more, end here. */
  arrived(name: string, update: Update): void {
    if (!this.#registrations.wanted.has(name)) return;
    this.#registrations.arrived(name);
    let slot = this.#slots.get(name);
    const floor = this.#floors.get(name);
    if (update.version !== null && floor !== undefined && isAtOrBelow(floorOf(update), floor)) {
      if (slot === undefined) this.#registrations.settle(name);
      return;
    }
    if (slot === undefined) this.#slots.set(name, (slot = new Slot()));
    else if (isAtOrBelow(floorOf(update), slot.newest)) return;
    slot.waiting = update;
    slot.told = new Set();
    if (slot.waitingHold === null && !this.#registrations.isOwed(name)) slot.waitingHold = this.#frontier.hold();
    this.#offer(name, slot);
  }

  /** A frame carried this number, after all that arrived before. Without an epoch it means nothing. */
  complete(complete: bigint): void {
    if (this.#epoch !== null) this.#move(() => this.#frontier.complete(complete));
  }

  /** The old epoch's cursor means nothing any more. Floors stay. */
  newEpoch(epoch: number): void {
    this.#epoch = epoch;
    this.#frontier.void();
    this.#journal.changed();
  }

  // What the application says

  /** Another callback for this object; what waited for one is ready now. */
  subscribe(name: string, subscriber: number): void {
    const subscribers = this.#subscribers.get(name);
    if (subscribers === undefined) this.#subscribers.set(name, new Set([subscriber]));
    else subscribers.add(subscriber);
    const slot = this.#slots.get(name);
    if (slot !== undefined) this.#offer(name, slot);
  }

  /** One callback less. A job that has begun with it is not called back. */
  unsubscribe(name: string, subscriber: number): void {
    const subscribers = this.#subscribers.get(name);
    subscribers?.delete(subscriber);
    if (subscribers !== undefined && subscribers.size > 0) return;
    this.#subscribers.delete(name);
    this.#ready.delete(name);
    const slot = this.#slots.get(name);
    if (slot !== undefined) this.#owe(name, slot);
  }

  /** The object is not wanted any more: nothing of it waits, nothing is held, its floor goes. Subscribers stay. */
  forget(name: string): void {
    this.#drop(name);
    this.#parked.delete(name);
    if (this.#floors.delete(name)) this.#journal.changed();
  }

  /** All wanted objects have become pending registrations (reg-sync): they hold nothing any more. */
  oweAll(): void {
    for (const [name, slot] of this.#slots) this.#owe(name, slot);
  }

  // What runs the callbacks says

  /** The callbacks to run next, or null. */
  nextJob(now: number): Job | null {
    this.#wakeRetries(now);
    for (const name of this.#ready) {
      this.#ready.delete(name);
      const slot = this.#slots.get(name) as Slot;
      const update = slot.waiting as Update;
      const subscribers = [...(this.#subscribers.get(name) ?? [])].filter((one) => !slot.told.has(one));
      this.#take(slot);
      if (subscribers.length === 0) {
        // Those whose callback failed have gone; the others know already.
        this.#applied(name, slot, update);
        continue;
      }
      subscribers.sort((a, b) => a - b);
      slot.running = { notification: this.#notification(name, update), subscribers, update };
      this.#jobs.add(slot.running);
      return slot.running;
    }
    return null;
  }

  /** The job's callbacks have returned, or threw what `failed` says by subscriber. */
  done(job: Job, failed: ReadonlyMap<number, unknown>, now: number): void {
    this.#jobs.delete(job);
    const name = job.notification.objectId;
    const slot = this.#slots.get(name);
    if (slot === undefined || slot.running !== job) return; // unregistered meanwhile
    slot.running = null;
    for (const cause of failed.values()) this.#report(new CallbackFailed(name, job.update.version, cause));
    if (failed.size === 0) this.#applied(name, slot, job.update);
    else this.#failed(name, slot, job, failed, now);
  }

  // What others ask

  /** The newest version of each object that the application has been told. */
  get floors(): ReadonlyMap<string, Floor> {
    return this.#floors;
  }

  get epoch(): number | null {
    return this.#epoch;
  }

  /** All at or below it is applied, or is a pending registration. */
  get cursor(): bigint | null {
    return this.#frontier.cursor;
  }

  /** Objects whose callbacks failed too often, since the start and until they succeed. */
  get parked(): ReadonlySet<string> {
    return this.#parked;
  }

  /** Objects of which something waits to be told, be it for a subscriber. */
  get waiting(): number {
    return this.#slots.size;
  }

  /** Whether all callbacks have returned: what still waits has no subscriber. */
  get idle(): boolean {
    if (this.#ready.size > 0 || this.running) return false;
    return this.#retries.length === 0 || ![...this.#slots.values()].some((slot) => slot.retryAt !== null);
  }

  /** Whether a job is out. */
  get running(): boolean {
    return this.#jobs.size > 0;
  }

  /** When the next job can begin: -Infinity is now; Infinity: nothing waits for a time. */
  readyAt(): number {
    return this.#ready.size > 0 ? -Infinity : (this.#retries[0]?.at ?? Infinity);
  }

  // One slot

  /** Let the waiting version run as soon as it may. */
  #offer(name: string, slot: Slot): void {
    if (!this.#subscribers.has(name)) this.#owe(name, slot);
    else if (slot.waiting !== null && slot.running === null && slot.retryAt === null) this.#ready.add(name);
  }

  #take(slot: Slot): void {
    slot.waiting = null;
    slot.runningHold = slot.waitingHold;
    slot.waitingHold = null;
  }

  #applied(name: string, slot: Slot, update: Update): void {
    if (update.version !== null) this.#floors.set(name, floorOf(update));
    this.#parked.delete(name);
    slot.failures = 0;
    slot.told = new Set();
    this.#journal.changed();
    this.#move(() => {
      if (slot.runningHold !== null) this.#frontier.release(slot.runningHold);
      slot.runningHold = null;
    });
    if (slot.waiting === null) {
      this.#slots.delete(name);
      this.#registrations.settle(name);
    } else {
      this.#offer(name, slot);
    }
  }

  #failed(name: string, slot: Slot, job: Job, failed: ReadonlyMap<number, unknown>, now: number): void {
    if (slot.waiting === null) {
      slot.waiting = job.update;
      for (const subscriber of job.subscribers) if (!failed.has(subscriber)) slot.told.add(subscriber);
      slot.waitingHold = slot.runningHold;
      slot.runningHold = null;
    } else if (slot.runningHold !== null) {
      // A newer one has come: it stands in for the failed one, from the earlier place on.
      if (slot.waitingHold !== null) this.#frontier.release(slot.waitingHold);
      slot.waitingHold = slot.runningHold;
      slot.runningHold = null;
    }
    slot.failures += 1;
    if (slot.failures >= this.#settings.triesMax) {
      this.#report(new ObjectParked(name, job.update.version, slot.failures));
      this.#parked.add(name);
      this.#owe(name, slot);
      if (slot.waiting === job.update) {
        this.#drop(name);
        return;
      }
      slot.failures = 0; // a newer version has come meanwhile: it gets its own tries
    }
    const { retryMinS, retryMaxS } = this.#settings;
    slot.retryAt = now + Math.min(retryMaxS, retryMinS * 2 ** Math.max(0, slot.failures - 1));
    this.#retries.push({ at: slot.retryAt, name });
    this.#retries.sort((a, b) => a.at - b.at);
    this.#offer(name, slot);
  }

  #wakeRetries(now: number): void {
    for (let retry = this.#retries[0]; retry !== undefined && retry.at <= now; retry = this.#retries[0]) {
      this.#retries.shift();
      const slot = this.#slots.get(retry.name);
      if (slot?.retryAt === retry.at) {
        slot.retryAt = null;
        this.#offer(retry.name, slot);
      }
    }
  }

  /** What is in this slot cannot be told for now: let the object be answered again, and the cursor pass. */
  #owe(name: string, slot: Slot): void {
    this.#registrations.owe(name);
    this.#move(() => this.#release(slot));
  }

  #drop(name: string): void {
    const slot = this.#slots.get(name);
    this.#slots.delete(name);
    this.#ready.delete(name);
    if (slot !== undefined) this.#move(() => this.#release(slot));
  }

  #release(slot: Slot): void {
    for (const hold of [slot.runningHold, slot.waitingHold]) if (hold !== null) this.#frontier.release(hold);
    slot.runningHold = slot.waitingHold = null;
  }

  /** Do what may move the cursor; the document has changed if it did. */
  #move(step: () => void): void {
    const before = this.cursor;
    step();
    if (this.cursor !== before) this.#journal.changed();
  }

  #notification(objectId: string, { version, payload, deleted }: Update): Notification {
    let parsed: unknown = null;
    if (payload.length > 0) {
      try {
        parsed = JSON.parse(fromUtf8.decode(payload));
      } catch {
        this.#report(new PayloadUnreadable(objectId, version));
      }
    }
    return { objectId, version, payload: parsed, deleted };
  }
}
