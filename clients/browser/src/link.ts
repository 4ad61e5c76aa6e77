/** One WebSocket, from its handshake to its end. */

import { nowS } from "./clock.js";
import { OUT_BYTES_MAX } from "./core/settings.js";

/** A WebSocket does not say when it has written; so it is looked at again after this long. */
const LOOK_AGAIN_S = 0.05;

/** Timers have 32 bits: what is longer would be over at once. */
export const TIMER_MS_MAX = 2 ** 31 - 1;

export interface LinkEvents {
  /** The connection stands. */
  up(token: string): void;
  /** Bytes came. */
  received(data: Uint8Array): void;
  /** It could not be made, or is gone; said once. */
  down(reason: string): void;
  /** After each of the above. */
  changed(): void;
}

/** Binary messages carry the byte stream of frames; where they begin and end means nothing. */
export class Link {
  readonly #events: LinkEvents;
  readonly #ended = new AbortController();
  #socket: WebSocket | null = null;
  #knocked = false;
  #timer: ReturnType<typeof setTimeout>;
  #isUp = false;
  #over = false;
  #closing = false;
  #lookAgain = false;

  /** Gets the token first, then connects. */
  constructor(address: string, timeoutS: number, token: () => string | Promise<string>, events: LinkEvents) {
    this.#events = events;
    this.#timer = setTimeout(() => this.#down(`no connection within ${timeoutS} s`), Math.min(1000 * timeoutS, TIMER_MS_MAX));
    void this.#open(address, token);
  }

  async #open(address: string, getToken: () => string | Promise<string>): Promise<void> {
    let token: string;
    try {
      // In a promise's step of its own: nothing is said before the constructor has returned, whatever throws.
      token = await Promise.resolve().then(getToken);
      if (typeof token !== "string") throw new TypeError("it is not a text");
    } catch (error) {
      this.#down(`no token: ${String(error)}`);
      return;
    }
    this.#connect(address, token);
  }

  #connect(address: string, token: string): void {
    if (this.#over) return;
    let socket: WebSocket;
    try {
      socket = new WebSocket(address);
    } catch (error) {
      // ws:// from a page that came by https://, for one.
      this.#down(`${address}: ${String(error)}`);
      return;
    }
    this.#socket = socket;
    socket.binaryType = "arraybuffer";
    socket.onopen = (): void => {
      if (this.#over) return;
      clearTimeout(this.#timer);
      this.#isUp = true;
      this.#events.up(token);
      this.#events.changed();
    };
    socket.onmessage = ({ data }): void => {
      if (this.#over || this.#closing) return;
      if (data instanceof ArrayBuffer) {
        this.#events.received(new Uint8Array(data));
        this.#events.changed();
      } else {
        this.#down("the gateway sent text");
      }
    };
    socket.onclose = ({ code, reason, wasClean }): void => {
      if (this.#over) return;
      if (!this.#isUp && !this.#knocked && address.toLowerCase().startsWith("wss:")) {
        void this.#knock(address, token);
        return;
      }
      this.#down(
        wasClean ? `the gateway closed the connection: ${code} ${reason}` : `${address} cannot be reached, or went away`,
      );
    };
  }

  /**
   * Ask the same host by an ordinary request, once; then try again.
   *
   * Chromium gives up a WebSocket whose host asks for a client certificate, unless it knows the answer for this host: a
   * request gets it, from the user or, where there is no certificate to choose, by itself. What is answered is no matter.
   */
  async #knock(address: string, token: string): Promise<void> {
    this.#knocked = true;
    try {
      const options = { mode: "no-cors", credentials: "include", cache: "no-store", signal: this.#ended.signal } as const;
      await fetch(`https${address.slice("wss".length)}`, options);
    } catch (error) {
      this.#down(`${address} cannot be reached: ${String(error)}`);
      return;
    }
    this.#connect(address, token);
  }

  /** When to `drive` again although nothing happens. */
  get lookAgainAt(): number {
    return this.#lookAgain ? nowS() + LOOK_AGAIN_S : Infinity;
  }

  /**
   * Write what there is to write. Close it when it is not `wanted` any more; `stopping`: after what has been written,
   * `lingerS` later at the latest.
   */
  drive(dataToSend: () => Uint8Array, wanted: boolean, stopping: boolean, lingerS: number): void {
    const socket = this.#socket;
    this.#lookAgain = false;
    if (this.#over || this.#closing) return;
    if (!this.#isUp || socket === null) {
      if (stopping) this.#down("stopped");
      return;
    }
    while (socket.readyState === WebSocket.OPEN && socket.bufferedAmount < OUT_BYTES_MAX) {
      const data = dataToSend();
      if (data.length === 0) break;
      // Uint8Array's type does not say that its buffer is not a shared one.
      socket.send(data as Uint8Array<ArrayBuffer>);
    }
    this.#lookAgain = socket.bufferedAmount >= OUT_BYTES_MAX;
    if (wanted) return;
    if (!stopping) {
      this.#down("closed");
      return;
    }
    this.#closing = true;
    socket.close(1000);
    this.#timer = setTimeout(() => this.#down("closed"), 1000 * lingerS);
  }

  /** End it now: the session is elsewhere, or stays where it is. */
  end(): void {
    this.#down("ended");
  }

  /** End it now, without a word to anybody. */
  close(): void {
    if (this.#over) return;
    this.#over = true;
    clearTimeout(this.#timer);
    this.#ended.abort();
    this.#socket?.close();
  }

  #down(reason: string): void {
    if (this.#over) return;
    this.close();
    this.#events.down(reason);
    this.#events.changed();
  }
}
