/**
 * A client's publishes on its sessions: in order, at most 64 unanswered, sent again until they are answered.
 *
 * A publish refused because our clock is wrong gets a new version, at its place, and every resend carries that version.
 * See `docs/protocol.md`, "Publishing on the session".
 */

import { OutboxFull } from "../../errors.js";
import { afterAnother, type Outgoing, outdoes, publishOf, VERSION_MAX } from "./outgoing.js";
import { expiryHere } from "../../schemas/wrongClocks.js";
import { CLOCK_AHEAD_S_MAX, CLOCK_SET_S, PUBLISHES_UNANSWERED_MAX } from "../../schemas/protocol.js";
import type { WireAskOutcome, WireOutcome, WirePublish } from "../../schemas/wire.js";

/** Limit on publishes that wait for their answers: the same as in the Python library. */
export const WAITING_MAX = 10_000;
/**
 * Limit on their payloads and names, in bytes, because a page that is offline for long must not fill the browser's
 * memory.
 */
export const WAITING_BYTES_MAX = 16 * 1024 * 1024;
/** Limit on publishes without an answer that wait for the session to take them; beyond it the oldest are dropped. */
export const ONCE_MAX = 1000;
const ASK_MAX = 2 ** 32 - 1;
/** Number of objects whose last version is kept: the next one is above it, also within a millisecond. */
const LAST_MAX = 10_000;

/** The service's answer to a publish: its offset, the reason of a final refusal, or its new version and expiry. */
export type PublishAnswer =
  | { readonly offset: bigint }
  | { readonly reason: string }
  | { readonly renumbered: bigint; readonly expiresAt: bigint | null };

type Told = (answer: PublishAnswer) => void;

/** A request for the outcome of a version that is in Kafka. */
interface Question {
  readonly object: string;
  readonly offset: bigint;
  readonly told: (outcome: WireOutcome) => void;
  /** True if it was sent in this session. */
  sent: boolean;
}

/** The highest version that an object was given, or published with; `clocked`: this machine's clock gave it. */
interface Last {
  readonly version: bigint;
  readonly clocked: boolean;
  /** The highest version that the service has accepted. */
  readonly taken: bigint;
}

interface Said {
  outgoing: Outgoing;
  /** The time when it was accepted, by this machine's clock. */
  readonly acceptedMs: number;
  /** Callbacks for its answer: its own, and those of older publishes of its object that it replaced. */
  readonly told: Told[];
  /** Its request number in this session; 0: it has none yet. */
  request: number;
  /** True while its answer is awaited. */
  sent: boolean;
}

/** The publishes of a client. They outlive sessions. */
export class Publications {
  /** Publishes in order; those that are sent come first. */
  #said: Said[] = [];
  #once: Outgoing[] = [];
  #bytes = 0;
  readonly #last = new Map<string, Last>();
  readonly #nowMs: () => number;
  /** Requests for outcomes by number, which rises over all sessions. */
  readonly #questions = new Map<number, Question>();
  #lastQuestion = 0;
  #unanswered = 0;
  #lastRequest = 0;
  /** The time before which nothing is sent, because a publish was refused. */
  #againAt: number | null = null;

  /** `nowMs`: this machine's clock, Unix time. */
  constructor(nowMs: () => number = () => 0) {
    this.#nowMs = nowMs;
  }

  /** The number of publishes that wait for their answers. */
  get size(): number {
    return this.#said.length;
  }

  // Calls of the application

  /**
   * Completes a version that has no number: it gets the time in ms, or a number above the object's last one and
   * `floor`. Throws RangeError if there is none.
   */
  complete(outgoing: Outgoing, floor: bigint): Outgoing {
    const nowMs = BigInt(this.#nowMs());
    const expires = outgoing.expiresAt === null ? null : nowMs;
    if (outgoing.isMessage || outgoing.onlyDescribe || outgoing.version !== null) return { ...outgoing, clockMs: expires };
    const last = this.#last.get(outgoing.name) ?? { version: -1n, clocked: false, taken: -1n };
    const version = [nowMs, floor + 1n, last.version + 1n].reduce((most, one) => (one > most ? one : most));
    if (version > VERSION_MAX) throw new RangeError("version: the object's last version is the highest there is, so no version can follow it");
    const clocked = version === nowMs || (last.clocked && version === last.version + 1n);
    return { ...outgoing, version, clockMs: clocked ? version : expires };
  }

  /**
   * Adds a complete publish after all others; `told` is called with the answer.
   *
   * It replaces an older one of its object that waits and was not sent in this session; that one gets the same answer.
   * It takes over the patch of one that it replaces, in front of its own. Throws OutboxFull.
   */
  say(said: Outgoing, told: Told): void {
    const { outdone, outgoing } = this.#outdone(said);
    const bytes = outdone.reduce((sum, one) => sum - bytesOf(one.outgoing), this.#bytes + bytesOf(outgoing));
    if (this.#said.length - outdone.length >= WAITING_MAX) throw new OutboxFull(`${WAITING_MAX} publishes wait`);
    if (bytes > WAITING_BYTES_MAX) throw new OutboxFull(`publishes of ${WAITING_BYTES_MAX} bytes wait`);
    this.#bytes = bytes;
    if (outdone.length > 0) this.#said = this.#said.filter((one) => !outdone.includes(one));
    const toldOf = [...outdone.flatMap((one) => one.told), told];
    this.#said.push({ outgoing, acceptedMs: this.#nowMs(), told: toldOf, request: 0, sent: false });
    this.#remember(outgoing);
  }

  /** Returns the publishes that a new one replaces, and the new one with their patches. */
  #outdone(said: Outgoing): { readonly outdone: readonly Said[]; readonly outgoing: Outgoing } {
    const outdone: Said[] = [];
    let [outgoing, absorbs] = [said, true];
    const others = said.isMessage ? [] : this.#said.filter(({ outgoing: { isMessage, name } }) => !isMessage && name === said.name);
    for (const one of others.reverse()) {
      const replaced = one.request === 0 && replaces(said, one.outgoing);
      if (one.outgoing.describe === "") {
        if (replaced) outdone.unshift(one);
        continue;
      }
      // Where one stays, those before it must stay, too, or they would come behind it.
      const both = replaced && absorbs ? afterAnother(one.outgoing, outgoing) : null;
      absorbs = both !== null;
      if (both === null) continue;
      outgoing = both;
      outdone.unshift(one);
    }
    return { outdone, outgoing };
  }

  /** Publishes this at most once: it gets no answer, and is lost if this session ends before. */
  sayOnce(outgoing: Outgoing): void {
    this.#once.push(outgoing);
    if (this.#once.length > ONCE_MAX) this.#once.shift();
    this.#remember(outgoing);
  }

  /** Requests the outcome of this version; `told` is called with it. Returns the request's number. */
  ask(object: string, offset: bigint, told: (outcome: WireOutcome) => void): number {
    this.#lastQuestion = (this.#lastQuestion % ASK_MAX) + 1;
    this.#questions.set(this.#lastQuestion, { object, offset, told, sent: false });
    return this.#lastQuestion;
  }

  /** Drops a request for an outcome. */
  forget(question: number): void {
    this.#questions.delete(question);
  }

  /**
   * Drops all waiting publishes. Those already sent may still be published. Returns the callbacks that get no answer.
   */
  withdraw(): Told[] {
    const untold = this.#said.flatMap((one) => one.told);
    this.#said = [];
    this.#bytes = 0;
    this.beginSession();
    return untold;
  }

  // The session

  /** Begins a session, in which nothing is sent yet. */
  beginSession(): void {
    for (const one of this.#said) [one.request, one.sent] = [0, false];
    for (const question of this.#questions.values()) question.sent = false;
    this.#once = [];
    this.#unanswered = this.#lastRequest = 0;
    this.#againAt = null;
  }

  /** Returns the next publish to send, or null. */
  next(now: number): WirePublish | null {
    const next = this.nextSaid(now);
    return next === null ? null : publishOf(next.outgoing, next.request);
  }

  /** Returns the next publish to send and its request number, or null. 0: it gets no answer. */
  nextSaid(now: number): { readonly outgoing: Outgoing; readonly request: number } | null {
    if (this.#againAt !== null) {
      if (this.#unanswered > 0 || now < this.#againAt) return null;
      this.#againAt = null;
    }
    if (this.#unanswered < PUBLISHES_UNANSWERED_MAX) {
      const one = this.#said.find(({ sent }) => !sent);
      if (one !== undefined) {
        if (one.request === 0) one.request = this.#lastRequest += 1;
        one.sent = true;
        this.#unanswered += 1;
        return { outgoing: one.outgoing, request: one.request };
      }
    }
    const once = this.#once.shift();
    return once === undefined ? null : { outgoing: once, request: 0 };
  }

  /** Returns the next request for an outcome, or null. */
  nextQuestion(): WireAskOutcome | null {
    const sent = [...this.#questions.values()].filter((one) => one.sent).length;
    const next = [...this.#questions].find(([, one]) => !one.sent);
    if (next === undefined || sent >= PUBLISHES_UNANSWERED_MAX) return null;
    const [ask, question] = next;
    question.sent = true;
    return { ask, object: question.object, offset: question.offset };
  }

  /** Handles the answer to such a request. */
  became(outcome: WireOutcome): void {
    const question = this.#questions.get(outcome.ask);
    this.#questions.delete(outcome.ask);
    question?.told(outcome);
  }

  /** Handles the acknowledgement of a publish. */
  published(request: number, offset: bigint): void {
    this.#answered(request, { offset });
  }

  /** Handles the refusal of a publish. `clockMs`: the service's clock, if ours is the reason. */
  notPublished(request: number, reason: string, retryAfterMs: number, now: number, clockMs: bigint | null = null): void {
    if (clockMs !== null) {
      this.#renumber(request, clockMs);
      return;
    }
    if (retryAfterMs === 0) {
      this.#answered(request, { reason });
      return;
    }
    const one = this.#of(request);
    if (one === undefined) return;
    one.sent = false;
    this.#unanswered -= 1;
    this.#againAt ??= now + retryAfterMs / 1000;
  }

  /** Returns the time of the next publish to send, if nothing happens before. */
  deadline(): number {
    return this.#againAt === null || this.#unanswered > 0 ? Infinity : this.#againAt;
  }

  #answered(request: number, answer: PublishAnswer): void {
    const one = this.#of(request);
    if (one === undefined) return;
    this.#said.splice(this.#said.indexOf(one), 1);
    const { isMessage, name, version } = one.outgoing;
    const last = this.#last.get(name);
    if (last && !isMessage && version !== null && version > last.taken && "offset" in answer) {
      this.#last.set(name, { ...last, taken: version });
    }
    this.#bytes -= bytesOf(one.outgoing);
    this.#unanswered -= 1;
    for (const told of one.told) told(answer);
  }

  /**
   * Gives a publish a new version. Its age is measured by our clock, so even a constantly wrong clock yields the
   * version that a right one would have given.
   */
  #renumber(request: number, clockMs: bigint): void {
    const one = this.#of(request);
    if (one === undefined) return;
    const { name, version, expiresAt } = one.outgoing;
    const ageMs = BigInt(Math.max(0, this.#nowMs() - one.acceptedMs));
    // A time before our clock can have been set means that the clock was set in between.
    const atMs = clockMs - ageMs < BigInt(CLOCK_SET_S * 1000) ? clockMs : clockMs - ageMs;
    const boundMs = clockMs + BigInt(CLOCK_AHEAD_S_MAX * 1000);
    const last = this.#last.get(name);
    const taken = last?.taken ?? -1n;
    if (last?.clocked && last.version > boundMs) this.#last.set(name, { version: taken, clocked: true, taken });
    const before = this.#said.slice(0, this.#said.indexOf(one)).map((other) => other.outgoing);
    const versions = before.map((other) => (other.name === name && !other.isMessage ? (other.version ?? -1n) : -1n));
    const above = [...versions, this.#last.get(name)?.version ?? -1n].filter((other) => other <= boundMs);
    const anew = above.reduce((most, other) => (other >= most ? other + 1n : most), atMs);
    const expiry = expiresAt === null ? null : expiryHere(expiresAt, BigInt(one.acceptedMs), atMs);
    one.outgoing = { ...one.outgoing, version: version === null ? null : anew, clockMs: anew, expiresAt: expiry };
    [one.request, one.sent] = [0, false];
    this.#unanswered -= 1;
    this.#remember(one.outgoing);
    one.told.at(-1)?.({ renumbered: anew, expiresAt: expiry });
  }

  /** Handles the new version that a tab with the session has given a publish. It is still sent. */
  renumbered(request: number, version: bigint, expiresAt: bigint | null): void {
    const one = this.#of(request);
    if (one === undefined) return;
    one.outgoing = { ...one.outgoing, version: one.outgoing.isMessage ? null : version, clockMs: version, expiresAt };
    this.#remember(one.outgoing);
    one.told.at(-1)?.({ renumbered: version, expiresAt });
  }

  #of(request: number): Said | undefined {
    return this.#said.find((one) => one.sent && one.request === request);
  }

  #remember({ name, version, clockMs }: Outgoing): void {
    if (version === null) return;
    const last = this.#last.get(name);
    this.#last.delete(name);
    const taken = last?.taken ?? -1n;
    this.#last.set(name, last && last.version >= version ? last : { version, clocked: version === clockMs, taken });
    if (this.#last.size > LAST_MAX) this.#last.delete(this.#last.keys().next().value as string);
  }
}

/** Returns true if nothing but the patch of `waiting`, an earlier one of the same object, is still needed. */
function replaces(outgoing: Outgoing, waiting: Outgoing): boolean {
  return waiting.onlyDescribe || (!outgoing.onlyDescribe && outdoes(outgoing, waiting));
}

function bytesOf({ name, payload, describe }: Outgoing): number {
  return payload.length + 2 * describe.length + 2 * name.length;
}
