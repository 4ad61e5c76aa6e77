/**
 * What the application has not taken although the cursor may be past it, and what the service is told of that.
 *
 * Unsettled is each pending registration, and each object whose callbacks have thrown and are tried again. The service
 * marks a registration when it is asked for. So a session says only what differs from that: what is settled, and what
 * callbacks threw; and all of it again, where that is not answered. While the service may believe that something is
 * unsettled, the document says so (`isKnown` is false), and the next Hello says all of it. So a wake in which nothing is
 * unsettled, behind one that left nothing, says nothing.
 */

import type { Delivery } from "./delivery.js";
import { bytesOf, type Interest, interestDigest, isChannel, isName, isQuery } from "./interests.js";
import type { Journal } from "./journal.js";
import { OBJECTS_PER_FRAME_MAX, REQUESTS_UNANSWERED_MAX, UNSETTLED_ERROR_BYTES_MAX } from "./protocol.js";
import type { Operations, Registrations } from "./registrations.js";
import type { Settings } from "./settings.js";
import type { WireUnsettled, WireUnsettledEntry } from "./wire.js";

/** What is left unanswered is said again ever more rarely, up to this: a service of release 0.1.0 never answers. */
export const IN_VAIN_S_MAX = 600;
/** While something is unsettled, what changes is said this often at most: callbacks that are tried again throw again. */
export const SAID_AGAIN_S = 5;
/** An entry names at most so many members of a query, of so many bytes: 64 entries fit in a frame. */
const MEMBERS_MAX = 16;
const MEMBERS_BYTES_MAX = 250;

/** That callbacks throw, and have not returned since. */
export interface Failure {
  readonly times: number;
  /** The first line of what they threw last. */
  readonly error: string;
  /** When they threw first. */
  readonly since: number;
}

/** The objects, queries and channels whose callbacks throw. */
export class Failing {
  /** An object may be here that is wanted for the sake of queries only. */
  readonly byInterest = new Map<Interest, Failure>();
  changes = 0;
  readonly #sayErrors: boolean;

  constructor(sayErrors: boolean) {
    this.#sayErrors = sayErrors;
  }

  /** Its callbacks have returned, or threw what `failed` says by subscriber. */
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

  /** They have returned, or the application does not want it any more. */
  over(interest: Interest): void {
    if (this.byInterest.delete(interest)) this.changes += 1;
  }
}

/** What is said of one interest. */
interface Entry {
  readonly parked: boolean;
  readonly failure: Failure | undefined;
  /** Of a query: these were not taken. Empty: any may not have been. */
  readonly members: readonly string[];
  /** Of a channel: all up to this offset is told. -1: nothing is, or it is no channel. */
  readonly position: bigint;
}

/** What is worth a frame: not that callbacks have thrown once more. */
function gistOf({ parked, failure, members, position }: Entry): string {
  return [parked, failure !== undefined, failure?.error, position, ...members].join("\n");
}

const PENDING = gistOf({ parked: false, failure: undefined, members: [], position: -1n });

/** What is unsettled, and what the service knows of it. One for a client; `begin` for each session. */
export class Unsettled {
  readonly #journal: Journal;
  readonly #registrations: Registrations;
  readonly #delivery: Delivery;
  readonly #settings: Settings;
  #known: boolean;
  /** The gist of each as the service holds it, once what is on its way has come; null: that is not known. */
  #said: Map<Interest, string> | null = null;
  #inHello = false;
  /** `#changes` as of what was said last. */
  #seen = -1;
  #due = Infinity;
  /** It does not wait for what was said before to be answered. */
  #hurried = false;
  /** Of the document that has to be durable before anything is said. */
  #revision = 0;
  #frames: WireUnsettled[] = [];
  /** Numbers of requests that are unanswered. */
  readonly #awaited = new Set<number>();
  #answerDue = Infinity;
  /** So many times in a row nothing was answered in this session. */
  #inVain = 0;

  /** `known`: the service knows that nothing is unsettled, as the document says. */
  constructor(journal: Journal, registrations: Registrations, delivery: Delivery, settings: Settings, known: boolean) {
    this.#journal = journal;
    this.#registrations = registrations;
    this.#delivery = delivery;
    this.#settings = settings;
    this.#known = known;
  }

  /** For the document: the service knows that nothing is unsettled. */
  get isKnown(): boolean {
    return this.#known && !this.#registrations.owes;
  }

  // What a session says

  /** A session begins; its Hello has these operations. Whether the Hello says that nothing else is unsettled. */
  begin(operations: Operations): boolean {
    this.#forget();
    this.#inVain = 0;
    const pending = this.#registrations.owes;
    if (this.#known && !pending) {
      this.#said = new Map();
      this.#seen = this.#changes;
      return false;
    }
    this.#doubt();
    this.#inHello = (operations.size > 0 || !pending) && this.#journal.isDurable(this.#revision);
    if (!this.#inHello) return false;
    const registered = [...operations].filter(([, { kind }]) => kind === "register");
    this.#said = new Map(registered.map(([interest]) => [interest, PENDING]));
    return true;
  }

  /** The registrations are in sync: what the Hello said is stored. */
  welcomed(now: number): void {
    if (this.#inHello) {
      this.#inHello = false;
      this.#learn();
    } else if (this.#said === null) {
      this.#due = now + SAID_AGAIN_S;
    }
  }

  /** Where much was asked for, the service learns now what of it is unsettled. */
  caughtUp(now: number): void {
    if (this.#said === null) this.#due = Math.min(this.#due, now + this.#settings.ackDelayS);
  }

  /** The whole set is said anew. What is unsettled then is said once it is in sync. */
  beginSync(): void {
    this.#forget();
  }

  /** The service has these registrations, and holds them for unsettled. */
  confirmed(registered: readonly Interest[]): void {
    if (registered.length > 0) this.#known = false;
    for (const one of registered) if (this.#said?.has(one) === false) this.#said.set(one, PENDING);
  }

  /** See to what has changed, and to what was not answered until `answerDue`. */
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

  /** A cursor is about to be acknowledged, or the session to end: what has changed is said before. */
  hurry(now: number): void {
    if (this.#changes === this.#seen || this.#inVain > 0) return;
    this.#due = now;
    this.#hurried = true;
  }

  /** Whether a cursor that is acknowledged now would say more than the service has been told here. */
  get isLate(): boolean {
    return this.#inVain === 0 && (this.#frames.length > 0 || this.#changes !== this.#seen);
  }

  /** Whether what is to be said waits until the document is durable, or until what was said is answered. */
  get isHeld(): boolean {
    if (!this.#journal.isDurable(this.#revision)) return true;
    return this.#frames.length > 0 && this.#awaited.size >= REQUESTS_UNANSWERED_MAX;
  }

  /** When something is to be said; Infinity: nothing is, or not yet. */
  get due(): number {
    return this.isHeld || (this.#awaited.size > 0 && !this.#hurried) ? Infinity : this.#due;
  }

  /** When what was said is to be answered; Infinity: nothing is to be. */
  get answerDue(): number {
    return this.#awaited.size > 0 ? this.#answerDue : Infinity;
  }

  /** What is to be said next, as the request of this number; null: nothing, or not yet. */
  next(now: number, request: number): WireUnsettled | null {
    if (this.#frames.length === 0 && this.due <= now) this.#fill(now);
    const frame = this.isHeld ? undefined : this.#frames.shift();
    if (frame === undefined) return null;
    this.#awaited.add(request);
    this.#answerDue = now + this.#settings.requestTimeoutS;
    return { ...frame, request };
  }

  /** The service has what this request said. */
  answered(request: number): void {
    if (!this.#awaited.delete(request) || this.#awaited.size + this.#frames.length > 0) return;
    this.#inVain = 0;
    this.#learn();
  }

  #fill(now: number): void {
    // What is still to be asked for is unsettled from that request on.
    const stage = (one: Interest): string => this.#registrations.stageOf(one) ?? "";
    const isAsked = (one: Interest): boolean => !["unsent", "withheld"].includes(stage(one));
    const entries = new Map([...this.#entries()].filter(([one]) => isAsked(one)));
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
    // Whatever is shorter.
    const whole = before === null || (settled.length > 0 && entries.size <= changed.length + settled.length);
    this.#said = gists;
    this.#frames = whole ? framesOf([...entries], [], now, true) : framesOf(changed, settled, now, false);
  }

  /** The service is about to believe that something is unsettled: that has to be durable before. */
  #doubt(): void {
    if (!this.#known) return;
    this.#known = false;
    this.#revision = this.#registrations.owes ? this.#journal.revision : this.#journal.changed(true);
  }

  /** The service has all that was said. */
  #learn(): void {
    if (this.#said?.size || this.#known || this.#entries().size > 0) return;
    this.#known = true;
    this.#journal.changed();
  }

  /** What the service holds is not known. */
  #forget(): void {
    this.#said = null;
    this.#inHello = this.#hurried = false;
    this.#seen = -1;
    this.#due = Infinity;
    this.#frames = [];
    this.#awaited.clear();
  }

  // What is unsettled

  #entries(): Map<Interest, Entry> {
    const { parked, queries, channels } = this.#delivery;
    const failing = this.#delivery.failing.byInterest;
    const entries = new Map<Interest, Entry>();
    const put = (one: Interest, isParked: boolean, failure: Failure | undefined): void => {
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

  /** The members of a query that were not taken, if these are known and few. */
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

/** `whole`: nothing else is unsettled. */
function framesOf(entries: [Interest, Entry][], settled: Interest[], now: number, whole: boolean): WireUnsettled[] {
  const frames: WireUnsettled[] = [];
  const said = [...entries.map(([one, entry]) => entryOf(one, entry, now)), ...settled];
  for (let at = 0; at < said.length || (at === 0 && whole); at += OBJECTS_PER_FRAME_MAX) {
    const some = said.slice(at, at + OBJECTS_PER_FRAME_MAX);
    const gone = some.filter((one) => typeof one === "string");
    frames.push({
      entries: some.filter((one) => typeof one !== "string"),
      settled: gone.filter(isName),
      settledHashes: gone.filter((one) => !isName(one)).map(interestDigest),
      all: whole && at === 0,
    });
  }
  return frames;
}

function entryOf(interest: Interest, { parked, failure, members, position }: Entry, now: number): WireUnsettledEntry {
  const raised = failure && { sinceS: Math.max(1, Math.floor(now - failure.since)), failures: failure.times, error: failure.error };
  return {
    ...(isName(interest) ? { name: interest } : { hash: interestDigest(interest) }),
    parked,
    members,
    ...(position >= 0n && { position }),
    ...raised,
  };
}

/** The error's name and the first line of its text, without what would steer a terminal. */
function firstLine(cause: unknown): string {
  let text: string;
  try {
    text = String(cause);
  } catch {
    text = typeof cause;
  }
  const line = (/^.*/.exec(text)?.[0] ?? "").slice(0, UNSETTLED_ERROR_BYTES_MAX).replace(/[\p{C}\p{Z}]/gu, " ");
  // No more of it than there is room for, and no half a character.
  return line.slice(0, new TextEncoder().encodeInto(line, new Uint8Array(UNSETTLED_ERROR_BYTES_MAX)).read);
}
