/**
 * Proofs of freshness: when a question was sent whose answer tells how old is what the service has told.
 *
 * How it works is in the docstring of `proofs` in `clients/python/coldnotify/_core/session`.
 */

import type { Delivery } from "../delivery/delivery.js";
import type { Registrations } from "../interests/registrations.js";
import { AGE_UNKNOWN_S, AGE_UNSAID_S, FRESH_PROOF_S } from "../../schemas/protocol.js";
import type { CaughtUp, PageEnd, Pong } from "../../schemas/wire.js";
import { firstOf } from "../streams/stream.js";

/** The questions of one session, and what their answers prove. */
export class SessionProofs {
  readonly #delivery: Delivery;
  readonly #registrations: Registrations;
  readonly #helloAt: number;
  /** The times when the Pings without a Pong were sent. Silence ends the session before there are many. */
  readonly #pings: number[] = [];
  #pingedAt: number;
  #cameAsOf: number;

  constructor(delivery: Delivery, registrations: Registrations, now: number) {
    this.#delivery = delivery;
    this.#registrations = registrations;
    this.#helloAt = this.#pingedAt = this.#cameAsOf = now;
  }

  /** Everything acknowledged before that time has come, in all streams, or the session had not begun. */
  get cameAsOf(): number {
    return this.#cameAsOf;
  }

  /** Notes a Ping that is sent. */
  pinged(now: number): void {
    this.#pings.push(now);
    this.#pingedAt = now;
  }

  /** Handles a Pong. Returns the time when its Ping was sent. */
  pong(): number | undefined {
    return this.#pings.shift();
  }

  /** Handles CaughtUp, after everything that it covers. */
  caughtUp(said: CaughtUp): void {
    this.#prove(this.#helloAt, said);
  }

  /** Handles the last page of channels: it answers the Hello, too. */
  pageEnded({ last, ageS }: PageEnd): void {
    if (last && ageS !== AGE_UNKNOWN_S) this.#delivery.channels.prove(this.#helloAt - (ageS || AGE_UNSAID_S));
  }

  /** Handles the Pong to a Ping that was sent then, after everything that it covers. */
  answered(askedAt: number, said: Pong): void {
    this.#prove(askedAt, said);
  }

  /** Returns the time of the next Ping although the connection is busy: what is proved is getting old. */
  pingDue(keepaliveS: number): number {
    const asOf = asOfAll(this.#delivery, this.#registrations);
    const oldAt = asOf === null ? this.#helloAt : asOf + FRESH_PROOF_S;
    return Math.max(oldAt, this.#pingedAt) + keepaliveS;
  }

  #prove(askedAt: number, { ageS, streams }: Pong | CaughtUp): void {
    const { channels } = this.#delivery;
    const ages = [ageS, ...streams.map((stream) => stream.ageS)].map((age) => age || AGE_UNSAID_S);
    this.#cameAsOf = Math.max(this.#cameAsOf, askedAt - Math.max(...ages));
    if (ageS !== AGE_UNKNOWN_S) this.#delivery.prove(askedAt - (ageS || AGE_UNSAID_S));
    const log = firstOf(streams);
    if (!this.#registrations.hasChannels) channels.prove(askedAt); // before that, none was settled
    else if (log !== undefined && log.ageS !== AGE_UNKNOWN_S) channels.prove(askedAt - (log.ageS || AGE_UNSAID_S));
  }
}

/**
 * Returns by stream the time before which everything acknowledged has been told; null: not known. Channels have one if
 * any is registered.
 */
export function asOfEach(
  delivery: Delivery,
  registrations: Registrations,
): { readonly objects: number | null; readonly channels: number | null } {
  return { objects: delivery.asOf, channels: registrations.hasChannels ? delivery.channels.asOf : null };
}

/** Returns the time before which everything acknowledged has been told, in all streams; null: not known. */
export function asOfAll(delivery: Delivery, registrations: Registrations): number | null {
  const { asOf, channels } = delivery;
  if (!registrations.hasChannels || asOf === null) return asOf;
  return channels.asOf === null ? null : Math.min(asOf, channels.asOf);
}
