/**
 * Reports to the service what the application has not accepted, although the cursor may be past it.
 *
 * What is reported when is in the docstring of `unsettled` in `clients/python/coldnotify/_core/delivery`.
 */

import type { Delivery } from "./delivery.js";
import { bytesOf, type Interest, hashOf, isChannel, isName, isQuery } from "../interests/interests.js";
import type { Journal } from "../journal.js";
import { OBJECTS_PER_FRAME_MAX, REQUESTS_UNANSWERED_MAX, UNSETTLED_ERROR_BYTES_MAX } from "../../schemas/protocol.js";
import type { Operations, Registrations } from "../interests/registrations.js";
import type { ClientSettings } from "../settings.js";
import type { WireUnsettled, WireUnsettledEntry } from "../../schemas/wire.js";

/** Limit on the interval of unanswered reports, which grows each time: a service of release 0.1.0 never answers. */
export const IN_VAIN_S_MAX = 600;
/** Minimum interval of reports while something is unsettled, because callbacks that are tried again throw again. */
export const SAID_AGAIN_S = 5;
/** Limit on the members of a query that an entry names, and on their bytes: 64 entries fit in a frame. */
const MEMBERS_MAX = 16;
const MEMBERS_BYTES_MAX = 250;

/** A failure of callbacks that have not returned since. */
export interface CallbackFailure {
  readonly times: number;
  /** The first line of their last error. */
  readonly error: string;
  /** The time of their first error. */
  readonly since: number;
}

/** The objects, queries and channels whose callbacks throw. */
export class Failing {
  /** Failures by interest, including objects that only queries want. */
  readonly byInterest = new Map<Interest, CallbackFailure>();
  changes = 0;
  readonly #sayErrors: boolean;

  constructor(sayErrors: boolean) {
    this.#sayErrors = sayErrors;
  }

  /** Notes that its callbacks have returned; `failed` contains the errors of those that threw, by subscriber. */
  note(interest: Interest, failed: ReadonlyMap<number, unknown>, now: number): void {
    if (failed.size === 0) {
      this.over(interest);
      return;
    }
    const { since, times } = this.byInterest.get(interest) ?? { since: now, times: 0 };
    const error = this.#sayErrors ? firstLine([...failed.values()][0]) : "";
    this.byInterest.set(interest, { times: times + 1, error, since });
    this.changes += 1;
  }

  /** Ends a failure: the callbacks have returned, or the application does not want the interest any more. */
  over(interest: Interest): void {
    if (this.byInterest.delete(interest)) this.changes += 1;
  }
}

/** The report of one interest. */
export interface UnsettledInterest {
  readonly parked: boolean;
  readonly failure: CallbackFailure | undefined;
  /** For a query: members that were not accepted. Empty: any of them may be. */
  readonly members: readonly string[];
  /** For a channel: the offset up to which everything is told. -1: none, or not a channel. */
  readonly position: bigint;
}

/** Returns the part of a report that is worth a frame when it changes: not a repeated error. */
function gistOf({ parked, failure, members, position }: UnsettledInterest): string {
  return [parked, failure !== undefined, failure?.error, position, ...members].join("\n");
}

const PENDING = gistOf({ parked: false, failure: undefined, members: [], position: -1n });

/** The unsettled interests, and the service's knowledge of them. One object per client; `begin` for each session. */
export class UnsettledTold {
  readonly #journal: Journal;
  readonly #registrations: Registrations;
  readonly #delivery: Delivery;
  readonly #settings: ClientSettings;
  #known: boolean;
  /** The gist of each report in the service, once the frames on their way have arrived; null: not known. */
  #said: Map<Interest, string> | null = null;
  #inHello = false;
  /** The value of `#changes` at the last report. */
  #seen = -1;
  #due = Infinity;
  /** True if the next report does not wait for the answer to the last one. */
  #hurried = false;
  /** Revision of the document that has to be durable before any report. */
  #revision = 0;
  #frames: WireUnsettled[] = [];
  /** Numbers of unanswered requests. */
  readonly #awaited = new Set<number>();
  #answerDue = Infinity;
  /** Number of times in a row that nothing was answered in this session. */
  #inVain = 0;
  /** True if a Hello that stated unsettled interests may still be on its way, perhaps one of an earlier page. */
  #lateHello: boolean;

  /** `known`: the service knows that nothing is unsettled, according to the document. */
  constructor(journal: Journal, registrations: Registrations, delivery: Delivery, settings: ClientSettings, known: boolean) {
    this.#journal = journal;
    this.#registrations = registrations;
    this.#delivery = delivery;
    this.#settings = settings;
    this.#known = known;
    this.#lateHello = registrations.owes;
  }

  /** The state for the document: true if the service knows that nothing is unsettled. */
  get isKnown(): boolean {
    return this.#known && !this.#registrations.owes;
  }

  // Events of a session

  /**
   * Begins a session, whose Hello has these operations. Returns true if the Hello states that nothing else is
   * unsettled; it cannot if not `inHello`.
   */
  begin(operations: Operations, inHello = true): boolean {
    if (this.#inHello && this.#said !== null && this.#said.size > 0) this.#lateHello = true; // the last one, as no Welcome came
    this.#forget();
    this.#inVain = 0;
    const pending = this.#registrations.owes;
    if (this.#known && !pending) {
      this.#said = new Map();
      this.#seen = this.#changes;
      return inHello && this.#lateHello;
    }
    this.#doubt();
    this.#inHello = inHello && (operations.size > 0 || !pending) && this.#journal.isDurable(this.#revision);
    if (!this.#inHello) return false;
    const registered = [...operations].filter(([, { kind }]) => kind === "register");
    this.#said = new Map(registered.map(([interest]) => [interest, PENDING]));
    return true;
  }

  /** Notes that the registrations are in sync: the operations of the Hello are stored. */
  welcomed(now: number): void {
    if (this.#inHello) {
      this.#inHello = false;
      this.#learn();
    } else if (this.#said === null) {
      this.#due = now + SAID_AGAIN_S;
    }
  }

  /** After many requests, reports to the service now which of them are unsettled. */
  caughtUp(now: number): void {
    if (this.#said === null) this.#due = Math.min(this.#due, now + this.#settings.ackDelayS);
  }

  /** Begins a reg-sync: the whole set is sent again. Unsettled interests are reported once it is in sync. */
  beginSync(): void {
    this.#forget();
  }

  /** Notes that the service has these registrations, and considers them unsettled. */
  confirmed(registered: readonly Interest[]): void {
    if (registered.length > 0) this.#known = false;
    for (const one of registered) if (this.#said?.has(one) === false) this.#said.set(one, PENDING);
  }

  /** Handles changes, and reports that were not answered until `answerDue`. */
  tick(now: number, answerDue: number): void {
    const { ackDelayS, requestTimeoutS } = this.#settings;
    if (this.#awaited.size > 0 && answerDue <= now) {
      this.#forget();
      this.#due = now + Math.min(IN_VAIN_S_MAX, requestTimeoutS * (2 ** this.#inVain - 1));
      this.#inVain += 1;
    }
    if (this.#changes === this.#seen || this.#inVain > 0) return;
    const isSettled = !this.#registrations.owes && this.#delivery.failing.byInterest.size === 0;
    this.#due = Math.min(this.#due, now + (isSettled ? ackDelayS : Math.max(ackDelayS, SAID_AGAIN_S)));
  }

  /** Reports changes at once, because a cursor is about to be acknowledged, or the session is about to end. */
  hurry(now: number): void {
    if (this.#changes === this.#seen || this.#inVain > 0) return;
    this.#due = now;
    this.#hurried = true;
  }

  /** True if a cursor acknowledged now would state more than the service has been told here. */
  get isLate(): boolean {
    return this.#inVain === 0 && (this.#frames.length > 0 || this.#changes !== this.#seen);
  }

  /** True if the next report waits until the document is durable, or until the last report is answered. */
  get isHeld(): boolean {
    if (!this.#journal.isDurable(this.#revision)) return true;
    return this.#frames.length > 0 && this.#awaited.size >= REQUESTS_UNANSWERED_MAX;
  }

  /** Time of the next report; Infinity: there is none, or not yet. */
  get due(): number {
    return this.isHeld || (this.#awaited.size > 0 && !this.#hurried) ? Infinity : this.#due;
  }

  /** Time by which the last report must be answered; Infinity: none is awaited. */
  get answerDue(): number {
    return this.#awaited.size > 0 ? this.#answerDue : Infinity;
  }

  /** Returns the next report, as the request of this number; null: there is none, or not yet. */
  next(now: number, request: number): WireUnsettled | null {
    if (this.#frames.length === 0 && this.due <= now) this.#fill(now);
    const frame = this.isHeld ? undefined : this.#frames.shift();
    if (frame === undefined) return null;
    this.#awaited.add(request);
    this.#answerDue = now + this.#settings.requestTimeoutS;
    return { ...frame, request };
  }

  /** Notes that the service has the report in this request. */
  answered(request: number): void {
    if (!this.#awaited.delete(request) || this.#awaited.size + this.#frames.length > 0) return;
    this.#inVain = 0;
    this.#learn();
  }

  #fill(now: number): void {
    // An operation that is still to be requested is unsettled from that request on.
    const stage = (one: Interest): string => this.#registrations.stageOf(one) ?? "";
    const isAsked = (one: Interest): boolean => !["unsent", "withheld"].includes(stage(one));
    const everything = [...this.#entries()];
    const entries = new Map(everything.filter(([one]) => isAsked(one)));
    if (entries.size > 0) this.#doubt();
    if (this.isHeld) return;
    this.#due = Infinity;
    this.#seen = this.#changes;
    this.#hurried = false;
    const before = this.#said;
    const held = (one: Interest): string | undefined => before?.get(one) ?? (stage(one) === "sent" ? PENDING : undefined);
    const gists = new Map(Array.from(entries, ([one, entry]) => [one, gistOf(entry)]));
    const changed = [...entries].filter(([one]) => gists.get(one) !== held(one));
    const settled = [...(before?.keys() ?? [])].filter((one) => !entries.has(one) && isAsked(one));
    // What is to be asked for again may be unsettled since it was asked for before, and stays so.
    const mayBeKnown = (one: Interest): boolean => this.#registrations.pending.get(one)?.mayBeKnown === true;
    const unsettled = everything.filter(([one]) => entries.has(one) || mayBeKnown(one));
    // The shorter form.
    const whole = before === null || (settled.length > 0 && unsettled.length <= changed.length + settled.length);
    this.#said = gists;
    this.#frames = whole ? framesOf(unsettled, [], now, true) : framesOf(changed, settled, now, false);
  }

  /** Notes that the service is about to believe that something is unsettled: that has to be durable before. */
  #doubt(): void {
    if (!this.#known) return;
    this.#known = false;
    this.#revision = this.#registrations.owes ? this.#journal.revision : this.#journal.changed(true);
  }

  /** Notes that the service has all reports. */
  #learn(): void {
    if (this.#said?.size || this.#known || this.#entries().size > 0) return;
    this.#known = true;
    this.#journal.changed();
  }

  /** Forgets the service's state, because it is not known any more. */
  #forget(): void {
    this.#said = null;
    this.#inHello = this.#hurried = false;
    this.#seen = -1;
    this.#due = Infinity;
    this.#frames = [];
    this.#awaited.clear();
  }

  // Unsettled interests

  #entries(): Map<Interest, UnsettledInterest> {
    const { parked, queries, channels } = this.#delivery;
    const failing = this.#delivery.failing.byInterest;
    const entries = new Map<Interest, UnsettledInterest>();
    const put = (one: Interest, isParked: boolean, failure: CallbackFailure | undefined): void => {
      const members = isQuery(one) ? this.#lacking(one) : [];
      entries.set(one, { parked: isParked, failure, members, position: isChannel(one) ? channels.told(one) : -1n });
    };
    for (const [one, { kind }] of this.#registrations.pending) {
      // A channel may be pending only because its log has no message for the cursor to be at.
      const isSettled = kind !== "register" || (isChannel(one) && !channels.lacks(one));
      if (!isSettled) put(one, parked.has(one), failing.get(one));
    }
    for (const [one, failure] of failing) {
      if (!entries.has(one) && this.#registrations.wanted.has(one)) put(one, parked.has(one), failure);
      for (const { interest } of isName(one) ? queries.concerning(one) : []) {
        const before = entries.get(interest);
        put(interest, parked.has(one) || before?.parked === true, before?.failure ?? failure);
      }
    }
    return entries;
  }

  /** Returns the members of a query that were not accepted, if these are known and few. */
  #lacking(query: Interest): string[] {
    const membership = this.#delivery.queries.get(query);
    const isAnswered = ["arrived", null].includes(this.#registrations.stageOf(query));
    if (!membership || membership.telling !== null || membership.dropped || membership.isInDoubt || !isAnswered) return [];
    const failing = [...this.#delivery.failing.byInterest.keys()].filter((one) => isName(one) && membership.concerns(one));
    const names = [...new Set([...failing, ...membership.untold])];
    const bytes = names.reduce((sum, name) => sum + bytesOf(name), 0);
    return names.length <= MEMBERS_MAX && bytes <= MEMBERS_BYTES_MAX ? names.sort() : [];
  }

  get #changes(): number {
    return this.#registrations.changes + this.#delivery.failing.changes + this.#delivery.channels.progress;
  }
}

/** Splits reports into frames. `whole`: nothing else is unsettled. */
function framesOf(entries: [Interest, UnsettledInterest][], settled: Interest[], now: number, whole: boolean): WireUnsettled[] {
  const frames: WireUnsettled[] = [];
  const said = [...entries.map(([one, entry]) => entryOf(one, entry, now)), ...settled];
  for (let at = 0; at < said.length || (at === 0 && whole); at += OBJECTS_PER_FRAME_MAX) {
    const some = said.slice(at, at + OBJECTS_PER_FRAME_MAX);
    const gone = some.filter((one) => typeof one === "string");
    frames.push({
      entries: some.filter((one) => typeof one !== "string"),
      settled: gone.filter(isName),
      settledHashes: gone.filter((one) => !isName(one)).map(hashOf),
      all: whole && at === 0,
    });
  }
  return frames;
}

function entryOf(interest: Interest, { parked, failure, members, position }: UnsettledInterest, now: number): WireUnsettledEntry {
  const raised = failure && { sinceS: Math.max(1, Math.floor(now - failure.since)), failures: failure.times, error: failure.error };
  return {
    ...(isName(interest) ? { name: interest } : { hash: hashOf(interest) }),
    parked,
    members,
    ...(position >= 0n && { position }),
    ...raised,
  };
}

/** Returns the error's name and the first line of its text, without characters that control a terminal. */
function firstLine(cause: unknown): string {
  let text: string;
  try {
    text = String(cause);
  } catch {
    text = typeof cause;
  }
  const line = (/^.*/.exec(text)?.[0] ?? "").slice(0, UNSETTLED_ERROR_BYTES_MAX).replace(/[\p{C}\p{Z}]/gu, " ");
  // As much of it as there is room for, without half a character.
  return line.slice(0, new TextEncoder().encodeInto(line, new Uint8Array(UNSETTLED_ERROR_BYTES_MAX)).read);
}
