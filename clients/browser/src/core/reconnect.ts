/** When to connect again, and where. See `docs/protocol.md`, "The end". */

import { CloseCode, UNKNOWN_SESSION_DELAY_S } from "./protocol.js";
import { DISPLACED_JITTER, type Settings } from "./settings.js";

/** A number from 0 up to, but not including, 1. */
export type Random = () => number;

/** The gateways that are known. One that failed rests for a while; if all rest, the one that rested longest is next. */
export class Addresses {
  readonly #addresses: string[];
  readonly #restedAt = new Map<string, number>();
  readonly #restS: number;

  constructor(addresses: readonly string[], restS: number, random: Random) {
    // Shuffled: clients that know the same addresses spread over them.
    this.#addresses = [...addresses];
    for (let i = this.#addresses.length - 1; i > 0; i--) {
      const j = Math.floor(random() * (i + 1));
      const [a, b] = [this.#addresses[i] as string, this.#addresses[j] as string];
      [this.#addresses[i], this.#addresses[j]] = [b, a];
    }
    this.#restS = restS;
  }

  /** Where to connect now. The same one again as long as it does not fail. */
  next(now: number): string {
    const restedAt = (address: string): number => this.#restedAt.get(address) ?? -Infinity;
    const awake = this.#addresses.find((address) => restedAt(address) <= now);
    return awake ?? this.#addresses.reduce((a, b) => (restedAt(b) < restedAt(a) ? b : a));
  }

  /** It did not answer, or sent us away. */
  failed(address: string, now: number): void {
    this.#restedAt.set(address, now + this.#restS);
    // To the end: after its rest it is tried after those that have not failed since.
    this.#addresses.splice(this.#addresses.indexOf(address), 1);
    this.#addresses.push(address);
  }
}

/** How long to wait before the next connection: truncated exponential back-off with full jitter. */
export class Backoff {
  readonly #settings: Settings;
  readonly #random: Random;
  #failures = 0;
  #displaced = 0;

  constructor(settings: Settings, random: Random) {
    this.#settings = settings;
    this.#random = random;
  }

  /** A session did what it is for; or why the last ones failed may be over, with the network that they had. */
  beginAnew(): void {
    this.#failures = 0;
  }

  /** A session lasted so long that nobody else can be using our name. */
  undisturbed(): void {
    this.#displaced = 0;
  }

  /** Seconds until the next try, after a connection that ended with this close code (null: without one). */
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
