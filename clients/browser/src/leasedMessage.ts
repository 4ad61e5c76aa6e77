/** A message of a share, under a lease. */

import { LeaseLost } from "./errors.js";
import type { HandedMessage, LeaseControls } from "./handedMessage.js";
import { checkWhole, RETRY_S_MAX } from "./schemas/shareNames.js";

/** A message of a share. A callback that returns (a promise: is fulfilled) settles it; one that throws gives it back. */
export class LeasedMessage implements HandedMessage {
  readonly channel: string;
  readonly payload: unknown;
  readonly data: Uint8Array;
  readonly offset: bigint;
  readonly previous: null = null;
  readonly id: string | null;
  readonly source: string | null;
  readonly publishedAt: Date | null;
  readonly position: string;
  readonly share: string;
  readonly attempts: number;
  readonly key: string | null;
  readonly #controls: LeaseControls;

  constructor(said: HandedMessage, controls: LeaseControls) {
    this.channel = said.channel;
    this.payload = said.payload;
    this.data = said.data;
    this.offset = said.offset;
    this.id = said.id;
    this.source = said.source;
    this.publishedAt = said.publishedAt;
    this.position = said.position;
    this.share = said.share;
    this.attempts = said.attempts;
    this.key = said.key;
    this.#controls = controls;
  }

  /** True once another member may have the message: what its callback still does may be done twice. */
  get isLost(): boolean {
    return this.#controls.isLost();
  }

  /**
   * Gives it back once its callback has ended: a member is handed it again, not before `afterS` seconds, at most 24 h.
   * Throws RangeError.
   */
  retry(afterS = 0): void {
    this.#controls.retry(checkWhole("afterS", Math.ceil(afterS), 0, RETRY_S_MAX));
  }

  /** Has it become a dead letter once its callback has ended, whatever its attempts. */
  reject(): void {
    this.#controls.reject();
  }

  /**
   * Settles it, and resolves once that is certain: it is handed to nobody any more, whatever fails from here on. The end
   * of the callback has no effect after it. Rejects with LeaseLost if another member may have it, and with an Error
   * without an answer for `timeoutS`, which is the length of the lease unless said; it is said until there is one.
   */
  done(timeoutS = this.#controls.leaseS): Promise<void> {
    return new Promise((resolve, reject) => {
      const late = (): void => {
        reject(new Error(`channel ${JSON.stringify(this.channel)}, offset ${this.offset}: the settlement is not answered yet`));
      };
      const timer = setTimeout(late, 1000 * timeoutS);
      this.#controls.settle(() => {
        clearTimeout(timer);
        if (this.isLost) reject(new LeaseLost(this.channel, this.offset));
        else resolve();
      });
    });
  }
}
