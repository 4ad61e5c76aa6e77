/** The application's callbacks, by number: the core knows numbers alone. */

import type { CallbackJob } from "./core/delivery/slot.js";
import type { MembersJob } from "./core/delivery/telling.js";
import type { Interest } from "./core/interests/interests.js";
import type { Lease } from "./core/shares/lease.js";
import type { ShareJob } from "./core/shares/shareMember.js";
import type { ChannelJob } from "./core/streams/feed.js";
import type { HandedMessage, LeaseControls } from "./handedMessage.js";
import { LeasedMessage } from "./leasedMessage.js";
import type { Message, Missed } from "./message.js";
import type { Callback, LeasedCallback, MembersCallback, MessageCallback, MissedCallback, Subscription } from "./registration.js";
import type { Tell } from "./run.js";
import type { Subscribing, Told } from "./tabs.js";

/** The kind of calls: objects' versions or channels' messages, members of a query, gaps of a channel, or lost leases. */
export type Of = "what comes" | "members" | "missed" | "lost";

interface Subscriber {
  readonly interest: Interest;
  readonly of: Of;
  readonly tell: Tell;
  /** True if the callback is another tab's. */
  readonly isRemote?: boolean;
}

/** All subscriptions of one `Notify`. */
export class Subscriptions {
  readonly #subscribers = new Map<number, Subscriber>();
  readonly #application: () => Subscribing | undefined;
  readonly #wake: () => void;
  readonly #settle: (lease: Lease, told: () => void) => void;
  #nextSubscriber = 1;

  /**
   * `application`: the client that runs, in this tab or another, if one does. `wake`: it looks again. `settle`: it settles
   * a message whose callback runs.
   */
  constructor(
    application: () => Subscribing | undefined,
    wake: () => void,
    settle: (lease: Lease, told: () => void) => void,
  ) {
    this.#settle = settle;
    this.#application = application;
    this.#wake = wake;
  }

  /** Returns the callback of this number, unless its subscription has ended. */
  tell(number: number): Tell | undefined {
    return this.#subscribers.get(number)?.tell;
  }

  /** Adds all callbacks to a client that begins. */
  join(application: Subscribing): void {
    for (const [number, subscriber] of this.#subscribers) join(application, number, subscriber);
  }

  /** Adds a callback of an object's versions, or of those of a query's members. */
  subscribe(interest: Interest, callback: Callback): Subscription {
    const tell = (job: unknown): unknown => callback((job as CallbackJob).notification);
    return this.#addSubscriber(callback, { interest, tell, of: "what comes" });
  }

  /** Adds callbacks of a channel's messages, and of its gaps. */
  subscribeChannel(interest: Interest, callback: MessageCallback, onMissed?: MissedCallback): Subscription {
    if (onMissed !== undefined && typeof onMissed !== "function") throw new RangeError("onMissed: cannot be called");
    const message = (job: unknown): Message | Missed => (job as ChannelJob).message;
    const told: Subscriber = { interest, tell: (job) => callback(message(job) as Message), of: "what comes" };
    const subscriptions = [this.#addSubscriber(callback, told)];
    if (onMissed !== undefined) {
      const missed: Subscriber = { interest, tell: (job) => onMissed(message(job) as Missed), of: "missed" };
      subscriptions.unshift(this.#addSubscriber(onMissed, missed));
    }
    return { dispose: () => subscriptions.forEach((one) => one.dispose()) };
  }

  /** Adds callbacks of a share's messages, of its gaps, and of lost leases. */
  subscribeShare(
    interest: Interest,
    callback: LeasedCallback,
    onMissed?: MissedCallback,
    onLost?: LeasedCallback,
  ): Subscription {
    for (const [name, one] of Object.entries({ onMissed, onLost })) {
      if (one !== undefined && typeof one !== "function") throw new RangeError(`${name}: cannot be called`);
    }
    const subscriptions: Subscription[] = [];
    const add = (of: Of, given: unknown, tell: Tell): void => {
      subscriptions.push(this.#addSubscriber(given, { interest, tell, of }));
    };
    if (onMissed !== undefined) add("missed", onMissed, (job) => onMissed((job as ShareJob).handed as Missed));
    if (onLost !== undefined) add("lost", onLost, (job) => this.#lost(job as ShareJob, onLost));
    add("what comes", callback, (job) => callback(this.#leased(job as ShareJob)));
    return { dispose: () => subscriptions.forEach((one) => one.dispose()) };
  }

  /** Nobody takes a notice of missing messages for a message. */
  #lost(job: ShareJob, onLost: LeasedCallback): unknown {
    return "data" in job.handed ? onLost(this.#leased(job)) : undefined;
  }

  #leased(job: ShareJob | Told): LeasedMessage {
    const { handed, controls } = job as { handed: HandedMessage; controls?: LeaseControls };
    return new LeasedMessage(handed, controls ?? this.#controls((job as ShareJob).lease));
  }

  #controls(lease: Lease): LeaseControls {
    return {
      isLost: () => lease.isLost,
      leaseS: lease.leaseS,
      retry: (afterS) => lease.wantRetry(afterS),
      reject: () => lease.wantReject(),
      settle: (told) => {
        this.#settle(lease, told);
        this.#wake();
      },
    };
  }

  /** Adds a callback of what enters and leaves a query. */
  subscribeMembers(interest: Interest, callback: MembersCallback): Subscription {
    const tell = (job: unknown): unknown => {
      const { added, removed } = (job as MembersJob).change;
      return callback(new Set(added), new Set(removed)); // it may keep them
    };
    return this.#addSubscriber(callback, { interest, tell, of: "members" });
  }

  /** Adds a callback of another tab. */
  addRemote(subscriber: Subscriber): Subscription {
    return this.#addSubscriber(subscriber.tell, subscriber);
  }

  /** Returns the callbacks of this tab, by number, with what they are for. */
  get local(): [number, Subscriber][] {
    return [...this.#subscribers].filter(([, { isRemote }]) => !isRemote);
  }

  #addSubscriber(callback: unknown, subscriber: Subscriber): Subscription {
    if (typeof callback !== "function") throw new RangeError("callback: cannot be called");
    const number = this.#nextSubscriber++;
    this.#subscribers.set(number, subscriber);
    const application = this.#application();
    if (application) join(application, number, subscriber);
    this.#wake();
    return { dispose: () => this.#unsubscribe(number) };
  }

  #unsubscribe(number: number): void {
    const subscriber = this.#subscribers.get(number);
    if (subscriber === undefined) return;
    this.#subscribers.delete(number);
    const { interest, of } = subscriber;
    const application = this.#application();
    if (of === "members") application?.unsubscribeMembers(interest, number);
    else if (of === "missed") application?.unsubscribeMissed(interest, number);
    else if (of === "lost") application?.unsubscribeLost(interest, number);
    else application?.unsubscribe(interest, number);
    this.#wake();
  }

  /** Ends this tab's subscriptions to these interests. */
  endAll(ends: (interest: Interest) => boolean): void {
    for (const [number, { interest }] of this.local) if (ends(interest)) this.#unsubscribe(number);
  }
}

/** The application's callback is called from now on. */
function join(application: Subscribing, number: number, { interest, of }: Subscriber): void {
  if (of === "members") application.subscribeMembers(interest, number);
  else if (of === "missed") application.subscribeMissed(interest, number);
  else if (of === "lost") application.subscribeLost(interest, number);
  else application.subscribe(interest, number);
}
