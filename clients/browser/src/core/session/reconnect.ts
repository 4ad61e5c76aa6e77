/** Chooses time and address of the next connection. See `docs/protocol.md`, "The end". */

import { CloseCode, UNKNOWN_SESSION_DELAY_S } from "../../schemas/protocol.js";
import { DISPLACED_JITTER, type ClientSettings } from "../settings.js";

/** Returns a number from 0 up to, but not including, 1. */
export type Random = () => number;

/** A gateway's WebSocket address. */
export type Address = string;

/** The gateways that the application names. */
export interface Gateways {
  /** Each with its weight. */
  readonly addresses: readonly (readonly [Address, number])[];
  readonly home?: Address | null;
  /** True if there is a directory to ask. */
  readonly directory?: boolean;
}

/** Returns the gateways of a list of addresses without weights. */
export function gatewaysOf(given: readonly Address[] | Gateways): Gateways {
  return "addresses" in given ? given : { addresses: given.map((address) => [address, 1]) };
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
