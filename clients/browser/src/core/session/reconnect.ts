/** Chooses time and address of the next connection. See `docs/protocol.md`, "The end". */

import { CloseCode, UNKNOWN_SESSION_DELAY_S } from "../../schemas/protocol.js";
import { DISPLACED_JITTER, type ClientSettings } from "../settings.js";

/** Returns a number from 0 up to, but not including, 1. */
export type Random = () => number;

/** A gateway's WebSocket address. */
export type Address = string;

/** The known gateways. One that failed rests for a while; if all rest, the one that rested longest is next. */
export class GatewayAddresses {
  readonly #addresses: Address[];
  readonly #restedAt = new Map<string, number>();
  readonly #restS: number;

  constructor(addresses: readonly Address[], restS: number, random: Random) {
    // Shuffled, so that clients that know the same addresses spread over them.
    this.#addresses = [...addresses];
    for (let i = this.#addresses.length - 1; i > 0; i--) {
      const j = Math.floor(random() * (i + 1));
      const [a, b] = [this.#addresses[i] as string, this.#addresses[j] as string];
      [this.#addresses[i], this.#addresses[j]] = [b, a];
    }
    this.#restS = restS;
  }

  /** Returns the address to connect to now: the same one as long as it does not fail. */
  next(now: number): Address {
    const restedAt = (address: string): number => this.#restedAt.get(address) ?? -Infinity;
    const awake = this.#addresses.find((address) => restedAt(address) <= now);
    return awake ?? this.#addresses.reduce((a, b) => (restedAt(b) < restedAt(a) ? b : a));
  }

  /** Notes that the gateway did not answer, or sent us away. */
  failed(address: string, now: number): void {
    this.#restedAt.set(address, now + this.#restS);
    // To the end: after its rest it is tried after those that have not failed since.
    this.#addresses.splice(this.#addresses.indexOf(address), 1);
    this.#addresses.push(address);
  }
}

/** The delay before the next connection: truncated exponential back-off with full jitter. */
export class Backoff {
  readonly #settings: ClientSettings;
  readonly #random: Random;
  #failures = 0;
  #displaced = 0;

  constructor(settings: ClientSettings, random: Random) {
    this.#settings = settings;
    this.#random = random;
  }

  /**
   * Resets the delay: a session succeeded, or the cause of the last failures may be gone, with the network that they
   * had.
   */
  beginAnew(): void {
    this.#failures = 0;
  }

  /** Notes that a session lasted so long that no other client can be using our name. */
  undisturbed(): void {
    this.#displaced = 0;
  }

  /** Returns the seconds until the next try, after a connection that ended with this close code (null: without one). */
  delayS(code: number | null): number {
    const { backoffMinS, backoffMaxS, displacedMinS, displacedMaxS } = this.#settings;
    if (code === CloseCode.DISPLACED) {
      const delay = displacedMinS * 2 ** this.#displaced;
      if (delay < displacedMaxS) this.#displaced += 1;
      return Math.min(delay, displacedMaxS) * (1 + DISPLACED_JITTER * this.#random());
    }
    let delay = backoffMinS * 2 ** this.#failures;
    if (code === CloseCode.UNKNOWN_SESSION && this.#failures === 0) delay = UNKNOWN_SESSION_DELAY_S;
    if (delay < backoffMaxS) this.#failures += 1;
    return this.#random() * Math.min(delay, backoffMaxS);
  }
}
