/**
 * The shares that a client is a member of, the leases that it holds, and their callbacks.
 *
 * When Holds leave, and what they say, is in the docstring of `share_member` in `clients/python/coldnotify/_core/shares`.
 */

import { ChannelCallbackFailed, type ColdNotifyError, LeaseLost, MessagesMissed } from "../../errors.js";
import type { HandedMessage } from "../../handedMessage.js";
import type { Missed } from "../../message.js";
import { OBJECTS_PER_FRAME_MAX } from "../../schemas/protocol.js";
import { HELD_MAX, RETRY_S_MAX } from "../../schemas/shareNames.js";
import type { WireHeldMessage, WireHold, WireLeases, WireMessage, WireMissed } from "../../schemas/wire.js";
import { byShare, hashOf, type Interest, type ShareInterest, shareOf, sharesOf } from "../interests/interests.js";
import type { Registrations } from "../interests/registrations.js";
import { NOW, positionText, type Since } from "../interests/since.js";
import type { Journal } from "../journal.js";
import type { ClientSettings } from "../settings.js";
import { isMissed, reasonOf, timeOf } from "../streams/feed.js";
import { saidBy } from "../streams/payloads.js";
import { keyOf, Lease, type LeaseKey, LeaseState } from "./lease.js";
import { SaidHolds } from "./saidHolds.js";

export const LEASE_S = 30;
/** So many Holds may be unanswered, beside those that are due by time: a gateway passes on 64. */
export const UNANSWERED_MAX = 32;
/** Hand-outs that are over and are remembered, for the length of their leases at most. */
export const REMEMBERED_MAX = 10_000;
export const NEVER = Infinity;

/** The state of a share in the document. */
export interface KeptShare {
  /** The beginning, if this client is the share's first member. */
  readonly since: Since;
  readonly leaseS: number;
  readonly prefetch: number;
}

interface Share {
  readonly interest: Interest;
  readonly of: ShareInterest;
  readonly hash: bigint;
  kept: KeptShare;
  readonly subscribers: Set<number>;
  readonly missedSubscribers: Set<number>;
  readonly lostSubscribers: Set<number>;
}

/** Run the callbacks of these subscribers with this message or notice, then call `CallbackTurns.done`. */
export interface ShareJob {
  readonly lease: Lease;
  readonly subscribers: readonly number[];
  readonly handed: HandedMessage | Missed;
}

/** All shares of one client. Times are seconds on a clock that does not jump, and that counts sleep. */
export class ShareMember {
  readonly #journal: Journal;
  readonly #registrations: Registrations;
  readonly #settings: ClientSettings;
  readonly #report: (error: ColdNotifyError) => void;
  readonly #epoch: () => number | null;
  /** By channel and name. */
  readonly #shares = new Map<string, Share>();
  readonly #byHash = new Map<bigint, Share>();
  readonly #leases = new Map<LeaseKey, Lease>();
  #queue: Lease[] = [];
  /** Its callback begins as soon as a Hold has said so. */
  #next: Lease | null = null;
  #running: ShareJob | null = null;
  /** By message: the latest hand-out that is over, and when that may be forgotten. */
  readonly #remembered = new Map<LeaseKey, { handOut: number; until: number }>();
  readonly #lost: ShareJob[] = [];
  /** The leases that a Hold is to say something new of. */
  readonly #changed = new Set<LeaseKey>();
  /** Hashes of shares that the next Hold closes: nothing more of them is to be handed out. */
  readonly #closing = new Set<bigint>();
  /** No lease ends before. */
  #looksAt = NEVER;
  #holds = new SaidHolds();
  /** The next Hold says all that is held. */
  #all = false;
  /** When the last Hold left that named all. */
  #heldAt = -NEVER;
  /** The leases in Holds that are made, and next, in those that are being written; and what they say of each. */
  #unwritten: (readonly [Lease, LeaseState])[] = [];
  #leaving: (readonly [Lease, LeaseState])[] = [];
  #stopping = false;

  /** `epoch`: of the log of channels, if it is known. */
  constructor(
    journal: Journal,
    registrations: Registrations,
    settings: ClientSettings,
    report: (error: ColdNotifyError) => void,
    kept: ReadonlyMap<Interest, KeptShare>,
    epoch: () => number | null,
  ) {
    this.#journal = journal;
    this.#registrations = registrations;
    this.#settings = settings;
    this.#report = report;
    this.#epoch = epoch;
    for (const interest of [...registrations.shares].sort()) this.#add(interest, kept.get(interest) ?? DEFAULT);
  }

  #add(interest: Interest, kept: KeptShare, before?: Share): Share {
    const share = {
      interest,
      of: shareOf(interest) as ShareInterest,
      hash: hashOf(interest),
      kept,
      subscribers: before?.subscribers ?? new Set<number>(),
      missedSubscribers: before?.missedSubscribers ?? new Set<number>(),
      lostSubscribers: before?.lostSubscribers ?? new Set<number>(),
    };
    this.#shares.set(placeOf(share.of), share);
    this.#byHash.set(share.hash, share);
    return share;
  }

  // What the application asks for

  /** It is wanted from now on, with these leases and this prefetch. Throws RangeError if a Hold has no room. */
  want(wanted: ShareInterest, kept: KeptShare): void {
    const interest = byShare(wanted);
    const old = this.#shares.get(placeOf(wanted));
    checkRoom(new Map([...this.kept, [old === undefined ? interest : old.interest, kept]]));
    if (old !== undefined && old.interest === interest && this.#registrations.wanted.has(interest)) {
      if (kept.leaseS !== old.kept.leaseS || kept.prefetch !== old.kept.prefetch) {
        old.kept = { ...kept, since: old.kept.since };
        this.#journal.changed();
        this.#heldAt = -NEVER;
      }
      return;
    }
    if (old !== undefined) {
      if (this.#registrations.unregister(old.interest)) this.forget(old.interest);
      this.#byHash.delete(old.hash);
    }
    this.#registrations.register(interest);
    this.#add(interest, kept, old);
  }

  /** Returns the share of this name that is wanted, or null. */
  of(channel: string, share: string): Interest | null {
    const found = this.#shares.get(placeOf({ channel, share }));
    return found === undefined || !this.#registrations.wanted.has(found.interest) ? null : found.interest;
  }

  /** It is not wanted any more: what waits is given back. Its subscribers stay. */
  forget(interest: Interest): void {
    this.#giveBackWaiting(hashOf(interest));
  }

  /** Adds a callback for messages: from now on this client may be handed some. */
  subscribe(interest: Interest, subscriber: number): void {
    this.#shareOf(interest).subscribers.add(subscriber);
    this.#heldAt = -NEVER;
  }

  /** One callback less. Without any, what waits is given back. */
  unsubscribe(interest: Interest, subscriber: number): void {
    const share = this.#shareOf(interest);
    share.subscribers.delete(subscriber);
    if (share.subscribers.size > 0) return;
    this.#closing.add(share.hash);
    this.#giveBackWaiting(share.hash);
  }

  /** Adds a callback for notices of missing messages. */
  subscribeMissed(interest: Interest, subscriber: number): void {
    this.#shareOf(interest).missedSubscribers.add(subscriber);
  }

  /** One callback less. */
  unsubscribeMissed(interest: Interest, subscriber: number): void {
    this.#shareOf(interest).missedSubscribers.delete(subscriber);
  }

  /** Adds a callback for leases that end while the message's callback runs, or before it is settled. */
  subscribeLost(interest: Interest, subscriber: number): void {
    this.#shareOf(interest).lostSubscribers.add(subscriber);
  }

  /** One callback less. */
  unsubscribeLost(interest: Interest, subscriber: number): void {
    this.#shareOf(interest).lostSubscribers.delete(subscriber);
  }

  /** Settles a message whose callback still runs. `told` is called once that is answered, or the lease is lost. */
  settle(lease: Lease, told: () => void): void {
    if (lease.isOver) return told();
    lease.told.push(told);
    if (lease.settle()) this.#changed.add(lease.key);
  }

  /** Returns the shares for the document. */
  get kept(): ReadonlyMap<Interest, KeptShare> {
    const wanted = this.#registrations.shares;
    const shares = [...this.#shares.values()].filter(({ interest }) => wanted.has(interest));
    return new Map(shares.map(({ interest, kept }) => [interest, kept]));
  }

  // What a session says

  /** Begins a new session: its Holds are numbered from 1. */
  beginSession(): void {
    this.#holds = new SaidHolds();
    this.#unwritten = [];
    this.#leaving = [];
    this.welcomed();
  }

  /** The service has welcomed the session, or has taken the whole set: all is to be said. */
  welcomed(): void {
    this.#all = true;
    this.#heldAt = -NEVER;
  }

  /** The service has these registrations. Nothing else comes of them by itself. */
  confirmed(interests: Iterable<Interest>): void {
    for (const one of sharesOf(interests)) {
      this.#registrations.arrived(one);
      this.#registrations.settle(one);
      this.#heldAt = -NEVER;
    }
  }

  /** Handles a hand-out. */
  handed(said: WireMessage | WireMissed, now: number): void {
    const key = keyOf(said);
    const [share, hold] = [this.#byHash.get(said.channel), this.#holds.of(said.hold)];
    if (share === undefined || hold === undefined) return;
    if (said.handOut <= (this.#remembered.get(key)?.handOut ?? 0)) return;
    const present = this.#leases.get(key);
    if (present !== undefined && said.handOut <= present.handOut) {
      if (said.handOut === present.handOut) present.extend(hold.at);
      return;
    }
    if (present !== undefined) this.#lose(present, now);
    // A copy, because a slice would keep all the bytes that came with it.
    const kept = isMissed(said) ? said : { ...said, payload: said.payload.slice() };
    const lease = new Lease(kept, hold.at, hold.leaseS.get(said.channel) ?? share.kept.leaseS);
    if (!lease.hasTime(now)) return;
    this.#leases.set(key, lease);
    this.#looksAt = Math.min(this.#looksAt, lease.endsAt);
    if (share.subscribers.size > 0 && !this.#stopping) this.#queue.push(lease);
    else this.#giveBack(lease);
  }

  /** Handles the answer to a Hold; number 0 asks for all that is held. */
  answered(leases: WireLeases, now: number): void {
    if (leases.number === 0) return this.welcomed();
    const hold = this.#holds.answered(leases.number);
    if (hold === undefined) return;
    const lost = new Set(leases.lost.flatMap(({ share, offsets }) => offsets.map((offset) => `${share}/${offset}`)));
    for (const [key, { handOut, state }] of hold.named) {
      const lease = this.#leases.get(key);
      if (lease === undefined || lease.handOut !== handOut) continue;
      if (lost.has(key)) {
        this.#lose(lease, now);
        continue;
      }
      lease.extend(hold.at);
      lease.answer(state);
      if (lease.isOver) this.#remove(lease, now);
    }
  }

  /** Returns what is to be said now, or null. It leaves at once; `written` follows. */
  nextHold(now: number): WireHold | null {
    this.#beginNext(now);
    const members = this.#members();
    if (members.length + this.#leases.size + this.#closing.size === 0) return null;
    const whole = this.#all || this.#holdAt <= now;
    const news = this.#changed.size + this.#closing.size > 0;
    if (!whole && (!news || this.#holds.unanswered >= UNANSWERED_MAX)) return null;
    const changed = [...this.#changed].flatMap((key) => this.#leases.get(key) ?? []);
    this.#changed.clear();
    if (!whole && changed.length === 0 && this.#closing.size === 0) return null;
    const said = whole ? [...this.#leases.values()] : changed;
    const hold = this.#holdOf(said.slice(0, HELD_MAX), members, now, this.#all);
    this.#all = false;
    if (whole) this.#heldAt = now;
    return hold;
  }

  /** Returns what is to be said before Bye, which gives back all but what a callback still works at. */
  lastHold(now: number): WireHold | null {
    for (const lease of this.#leases.values()) if (lease !== this.#running?.lease) lease.giveBack();
    this.#queue = [];
    this.#next = null;
    const ended = [...this.#leases.values()].filter(({ isHeld }) => !isHeld);
    return ended.length === 0 ? null : this.#holdOf(ended.slice(0, HELD_MAX), this.#members(), now, false);
  }

  #holdOf(leases: readonly Lease[], members: readonly Share[], now: number, all: boolean): WireHold {
    type Said = { share: bigint; messages: WireHeldMessage[]; leaseS: number; prefetch: number; closed: boolean };
    const said = new Map<bigint, Said>();
    const closed = (share: bigint): Said => ({ share, messages: [], leaseS: 0, prefetch: 0, closed: true });
    for (const { hash, kept } of members) {
      said.set(hash, { share: hash, messages: [], leaseS: kept.leaseS, prefetch: kept.prefetch, closed: false });
    }
    for (const hash of [...this.#closing].slice(0, OBJECTS_PER_FRAME_MAX - said.size)) {
      if (!said.has(hash)) said.set(hash, closed(hash));
      this.#closing.delete(hash);
    }
    const named = new Map<LeaseKey, { handOut: number; state: LeaseState }>();
    for (const lease of leases) {
      const { key, share, offset, handOut, state, afterS } = lease;
      if (state === LeaseState.BEGUN && lease.isLost) continue; // who has it now is for the owner to say
      if (!said.has(share) && said.size >= OBJECTS_PER_FRAME_MAX) continue;
      const held = said.get(share) ?? closed(share);
      said.set(share, held);
      held.messages.push({ offset, handOut, state, afterS });
      named.set(key, { handOut, state });
      this.#unwritten.push([lease, state]);
    }
    const lengths = new Map([...said].filter(([, { leaseS }]) => leaseS > 0).map(([hash, { leaseS }]) => [hash, leaseS]));
    const number = this.#holds.say({ at: now, leaseS: lengths, named });
    return { number, all, shares: [...said.values()] };
  }

  /** All Holds so far are being written. */
  leaving(): void {
    this.#leaving.push(...this.#unwritten.splice(0));
  }

  /** They are written. */
  written(): void {
    for (const [lease, said] of this.#leaving.splice(0)) lease.written(said);
  }

  // What the shell that runs callbacks says

  /** Returns the callbacks to run next, or null. */
  nextJob(now: number): ShareJob | null {
    const lease = this.#next;
    if (lease === null || !lease.mayRun || this.#running !== null) return null;
    this.#next = null;
    const share = this.#byHash.get(lease.share);
    if (share === undefined || !lease.hasTime(now)) {
      this.#remove(lease, now);
      return null;
    }
    const subscribers = isMissed(lease.said) ? share.missedSubscribers : share.subscribers;
    if (subscribers.size === 0) {
      this.#giveBack(lease);
      return null;
    }
    this.#running = { lease, subscribers: sorted(subscribers), handed: this.#messageOf(share, lease) };
    return this.#running;
  }

  /** Handles the end of a job's callbacks: returning settles, throwing gives back. */
  done({ lease }: ShareJob, failed: ReadonlyMap<number, unknown>, now: number): void {
    this.#running = null;
    const title = this.#byHash.get(lease.share)?.of.channel ?? "";
    for (const cause of failed.values()) this.#report(new ChannelCallbackFailed(title, lease.offset, cause));
    if (lease.isOver) return;
    let says: boolean;
    if (lease.rejectWanted) says = lease.reject();
    else if (lease.retryWantedS !== null) says = lease.giveBack(lease.retryWantedS);
    else if (failed.size > 0) says = lease.giveBack(this.#pauseS(lease));
    else says = lease.settle();
    if (says) this.#changed.add(lease.key);
    else if (lease.state === LeaseState.BEGUN) this.#remove(lease, now); // it is lost, and failed
  }

  #pauseS({ said }: Lease): number {
    const { retryMinS, retryMaxS } = this.#settings;
    return Math.min(RETRY_S_MAX, Math.ceil(Math.min(retryMaxS, retryMinS * 2 ** Math.min(said.attempts, 30))));
  }

  /** Returns the callbacks to run of who is to hear that a lease is lost, or null. */
  takeLost(): ShareJob | null {
    for (let job = this.#lost.shift(); job !== undefined; job = this.#lost.shift()) {
      if (job.subscribers.length > 0) return job;
      this.#report(new LeaseLost(this.#byHash.get(job.lease.share)?.of.channel ?? "", job.lease.offset));
    }
    return null;
  }

  /** True if a job is running. */
  get running(): boolean {
    return this.#running !== null;
  }

  /** Number of messages in hand that wait for a callback. */
  get waiting(): number {
    return [...this.#leases.values()].filter(({ state }) => state === LeaseState.WAITS).length;
  }

  /** Returns the time at which the next job can begin: -Infinity for now; Infinity if nothing waits for a time. */
  readyAt(): number {
    return this.#next !== null && this.#next.mayRun && this.#running === null ? -NEVER : NEVER;
  }

  // Time

  /** Begins no further callback, and gives back what waits for one. */
  stop(): void {
    for (const { hash } of this.#members()) this.#closing.add(hash);
    this.#stopping = true;
    for (const lease of this.#leases.values()) if (lease.state === LeaseState.WAITS) this.#giveBack(lease);
  }

  /** Ends the leases whose time is over. */
  tick(now: number): void {
    if (now < this.#looksAt) return;
    for (const lease of [...this.#leases.values()]) {
      if (!lease.isHeld || lease.endsAt > now) continue;
      lease.end();
      if (lease.isOver) this.#leases.delete(lease.key);
      else if (lease === this.#next) {
        this.#next = null; // its callback was not called
        this.#leases.delete(lease.key);
      } else this.#tellLost(lease);
    }
    this.#looksAt = Math.min(...[...this.#leases.values()].filter(({ isHeld }) => isHeld).map(({ endsAt }) => endsAt));
  }

  /** Returns when `tick` next has something to do. */
  deadline(): number {
    return this.#looksAt;
  }

  /** When the next Hold is due in a session, whatever happens before. */
  get holdAt(): number {
    return this.#members().length + this.#leases.size > 0 ? this.#holdAt : NEVER;
  }

  get #holdAt(): number {
    const lengths = [...this.#members().map(({ kept }) => kept.leaseS), ...[...this.#leases.values()].map(({ leaseS }) => leaseS)];
    return lengths.length === 0 ? NEVER : this.#heldAt + Math.min(...lengths) / 3;
  }

  // One lease

  /** The shares that this client takes messages of: it has callbacks, and the service has its registration. */
  #members(): Share[] {
    if (this.#stopping) return [];
    const { wanted } = this.#registrations;
    const isMember = ({ interest, subscribers }: Share): boolean =>
      subscribers.size > 0 && wanted.has(interest) && this.#registrations.stageOf(interest) === null;
    return [...this.#shares.values()].filter(isMember).slice(0, OBJECTS_PER_FRAME_MAX);
  }

  #shareOf(interest: Interest): Share {
    return this.#shares.get(placeOf(shareOf(interest) as ShareInterest)) ?? this.#add(interest, DEFAULT);
  }

  #beginNext(now: number): void {
    while (this.#next === null && this.#running === null && !this.#stopping) {
      const lease = this.#queue.shift();
      if (lease === undefined) return;
      const share = this.#byHash.get(lease.share);
      if (share === undefined || lease.state !== LeaseState.WAITS || !lease.hasTime(now)) continue;
      if (isMissed(lease.said) && share.missedSubscribers.size === 0) {
        this.#report(new MessagesMissed(missedOf(share, lease.said)));
        lease.settle();
      } else {
        lease.begin();
        this.#next = lease;
      }
      this.#changed.add(lease.key);
    }
  }

  #giveBack(lease: Lease): void {
    if (lease.giveBack()) this.#changed.add(lease.key);
  }

  #giveBackWaiting(share: bigint): void {
    for (const lease of this.#leases.values()) {
      if (lease.share === share && lease.state === LeaseState.WAITS) this.#giveBack(lease);
    }
  }

  /** Another member may have the message. */
  #lose(lease: Lease, now: number): void {
    const wasTold = lease.isLost;
    const isBegun = lease.state === LeaseState.BEGUN || lease.state === LeaseState.DONE;
    const unsaid = isBegun && lease !== this.#next;
    lease.lose();
    this.#remove(lease, now);
    if (unsaid && !wasTold) this.#tellLost(lease);
  }

  #tellLost(lease: Lease): void {
    const share = this.#byHash.get(lease.share);
    if (share === undefined) return;
    this.#lost.push({ lease, subscribers: sorted(share.lostSubscribers), handed: this.#messageOf(share, lease) });
    if (this.#lost.length > HELD_MAX) this.#lost.shift();
  }

  /** It is over: its number is remembered, so a copy is dropped. */
  #remove(lease: Lease, now: number): void {
    lease.close();
    if (this.#leases.get(lease.key) === lease) this.#leases.delete(lease.key);
    if (this.#next === lease) this.#next = null;
    this.#remembered.delete(lease.key);
    this.#remembered.set(lease.key, { handOut: lease.handOut, until: now + lease.leaseS });
    for (const [key, { until }] of this.#remembered) {
      if (this.#remembered.size <= REMEMBERED_MAX && until > now) break;
      this.#remembered.delete(key);
    }
  }

  #messageOf(share: Share, { said }: Lease): HandedMessage | Missed {
    if (isMissed(said)) return missedOf(share, said);
    return {
      channel: share.of.channel,
      payload: saidBy(said.payload),
      data: said.payload,
      offset: said.offset,
      previous: null,
      id: said.id || null,
      source: said.source || null,
      publishedAt: timeOf(said.publishedMs),
      position: positionText(this.#epoch() ?? 0, said.offset),
      share: share.of.share,
      attempts: said.attempts,
      key: said.key || null,
    };
  }
}

/** Throws RangeError, which names the option, if one Hold has no room for what a client holds of these shares. */
export function checkRoom(kept: ReadonlyMap<Interest, KeptShare>): void {
  if (kept.size > OBJECTS_PER_FRAME_MAX) {
    throw new RangeError(`share: the client would have ${kept.size} (at most ${OBJECTS_PER_FRAME_MAX})`);
  }
  const held = [...kept.values()].reduce((sum, { prefetch }) => sum + prefetch, 0);
  if (held > HELD_MAX) throw new RangeError(`prefetch: the client's shares would have ${held} together (at most ${HELD_MAX})`);
}

const DEFAULT: KeptShare = { since: NOW, leaseS: LEASE_S, prefetch: 1 };

function placeOf({ channel, share }: Pick<ShareInterest, "channel" | "share">): string {
  return `${share}/${channel}`;
}

function sorted(subscribers: ReadonlySet<number>): number[] {
  return [...subscribers].sort((one, other) => one - other);
}

function missedOf(share: Share, said: WireMissed): Missed {
  return { channel: share.of.channel, after: said.after ?? null, before: said.before, reason: reasonOf(said.reason) };
}
