/** Which callbacks run next: those of objects, of queries' members, of channels and of shares. They take turns. */

import type { Channels } from "../streams/channels.js";
import type { ChannelJob } from "../streams/feed.js";
import type { ShareJob, ShareMember } from "../shares/shareMember.js";
import type { Queries } from "./queries.js";
import type { CallbackJob } from "./slot.js";
import type { MembersJob } from "./telling.js";
import type { Failing } from "./unsettled.js";

/** Callbacks to run: those of an object, of a query's members, of a channel, or of a share. */
export type AnyJob = CallbackJob | MembersJob | ChannelJob | ShareJob;

/** The interface of those who deliver objects' versions, for callbacks. */
export interface ObjectCallbacks {
  /** Number of objects with undelivered updates. */
  readonly waiting: number;
  /** True if no version waits for a callback, or for another try. */
  readonly idle: boolean;
  /** Lets versions be told again whose pause is over. */
  wakeRetries(now: number): void;
  /** Returns the callbacks of an object to run next, or null. */
  nextJob(): CallbackJob | null;
  /** Handles the end of a job's callbacks. */
  done(job: CallbackJob, failed: ReadonlyMap<number, unknown>, now: number): void;
  /** Returns the time at which the next job can begin: -Infinity for now; Infinity if nothing waits for a time. */
  readyAt(): number;
}

/** All callbacks of a client, one job after another. */
export class CallbackTurns {
  readonly #objects: ObjectCallbacks;
  readonly #queries: Queries;
  readonly #channels: Channels;
  readonly #shares: ShareMember;
  readonly #failing: Failing;
  readonly #jobs = new Set<AnyJob>();
  /** The place of those who go first the next time: objects, channels, shares. */
  #turn = 0;

  constructor(objects: ObjectCallbacks, queries: Queries, channels: Channels, shares: ShareMember, failing: Failing) {
    this.#objects = objects;
    this.#queries = queries;
    this.#channels = channels;
    this.#shares = shares;
    this.#failing = failing;
  }

  /** Returns the callbacks to run next, or null. */
  nextJob(now: number): AnyJob | null {
    const turns = [
      (): AnyJob | null => this.#nextOfObjects(now),
      (): AnyJob | null => this.#channels.nextJob(now),
      (): AnyJob | null => this.#shares.nextJob(now),
    ];
    const first = this.#turn;
    this.#turn = (first + 1) % turns.length;
    for (const turn of [...turns.slice(first), ...turns.slice(0, first)]) {
      const job = turn();
      if (job !== null) return job;
    }
    return null;
  }

  #nextOfObjects(now: number): AnyJob | null {
    this.#objects.wakeRetries(now);
    const job = this.#queries.callbacks.nextJob(now) ?? this.#objects.nextJob();
    if (job !== null) this.#jobs.add(job);
    return job;
  }

  /** Handles the end of a job's callbacks; `failed` contains the errors of those that threw, by subscriber. */
  done(job: AnyJob, failed: ReadonlyMap<number, unknown>, now: number): void {
    if ("feed" in job) {
      if (job.feed.running === job) this.#failing.note(job.feed.interest, failed, now);
      this.#channels.done(job, failed, now);
      return;
    }
    if ("lease" in job) {
      this.#shares.done(job, failed, now);
      return;
    }
    this.#jobs.delete(job);
    if (!("membership" in job)) {
      this.#objects.done(job, failed, now);
      return;
    }
    const { interest } = job.membership;
    const isWanted = this.#queries.get(interest) === job.membership;
    if (isWanted) this.#failing.note(interest, failed, now);
    this.#queries.callbacks.done(job, isWanted, failed, now);
  }

  /** Number of objects and channels with undelivered updates, and of messages of shares that wait. */
  get waiting(): number {
    return this.#objects.waiting + this.#channels.waiting + this.#shares.waiting;
  }

  /** True if all callbacks have returned: versions that still wait have no subscriber. */
  get idle(): boolean {
    return !this.running && this.#queries.callbacks.idle && this.#channels.idle && this.#objects.idle;
  }

  /** True if a job is running. */
  get running(): boolean {
    return this.#jobs.size > 0 || this.#channels.running || this.#shares.running;
  }

  /** Returns the time at which the next job can begin: -Infinity for now; Infinity if nothing waits for a time. */
  readyAt(): number {
    const others = [this.#queries.callbacks, this.#channels, this.#shares].map((one) => one.readyAt());
    return Math.min(this.#objects.readyAt(), ...others);
  }
}
