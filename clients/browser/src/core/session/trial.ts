/**
 * A connection to another gateway, beside the session: make before break. How it works is in the docstring of `trial` in
 * `clients/python/coldnotify/_core/session`.
 */

import { FrameBuffer, FrameError } from "../../schemas/frames.js";
import { AGE_UNSAID_S, CLOSE_S_MAX, GATEWAY_FRAME_BYTES_MAX, WELCOME_S } from "../../schemas/protocol.js";
import {
  CLIENT_FRAME,
  type ClientFramePart,
  encodeFrame,
  GATEWAY_FRAME,
  type GatewayFrame,
  type PageEnd,
  parseFrame,
} from "../../schemas/wire.js";
import { FIRST } from "../streams/stream.js";
import type { SaidHello } from "./hello.js";
import type { Address } from "./reconnect.js";

/** A trial is over after this: nobody waits for it. */
const TRIAL_S = 60;
/** Who sends as much of what the client lacks is not cut off: the session moves without waiting for the end of it. */
const TRIAL_BYTES_MAX = 1024 * 1024;

/** The reason for a trial. */
export type Reason = "home" | "stale";

/** The result of a trial. */
export type TrialEnd = "move" | "stay";

/** What the other gateway says of coming back, in seconds; 0: nothing. */
export interface Refusal {
  readonly retryAfterS: number;
  readonly notHereS: number;
}

/** One connection beside the session, from the decision to make it to its verdict. */
export class Trial {
  readonly address: Address;
  readonly reason: Reason;
  /** All bytes since the Hello. */
  readonly kept: Uint8Array[] = [];
  readonly #freshS: number;
  readonly #giveUpAt: number;
  readonly #frames = new FrameBuffer(GATEWAY_FRAME_BYTES_MAX);
  #keptBytes = 0;
  #refusal: Refusal = { retryAfterS: 0, notHereS: 0 };
  #greeting = false;
  #token = "";
  #hello: SaidHello | null = null;
  #verdict: TrialEnd | null = null;
  #welcomeDue = Infinity;
  #out: Uint8Array[] = [];

  /** `freshS`: what the other gateway tells must be less old than this. */
  constructor(address: Address, reason: Reason, freshS: number, now: number) {
    this.address = address;
    this.reason = reason;
    this.#freshS = freshS;
    this.#giveUpAt = now + TRIAL_S;
  }

  get refusal(): Refusal {
    return this.#refusal;
  }

  get verdict(): TrialEnd | null {
    return this.#verdict;
  }

  get token(): string {
    return this.#token;
  }

  get hello(): SaidHello | null {
    return this.#hello;
  }

  /** True if the connection stands, and Hello may leave as soon as all that it says is durable. */
  get greeting(): boolean {
    return this.#greeting;
  }

  /** Handles a new connection. */
  linkUp(token: string): void {
    this.#greeting = true;
    this.#token = token;
  }

  /** Sends Hello. */
  greet(hello: SaidHello): void {
    this.#greeting = false;
    this.#hello = hello;
    this.#welcomeDue = hello.at + WELCOME_S;
    this.#send({ hello: hello.frame });
  }

  /** Keeps bytes, and looks for what decides. */
  receive(data: Uint8Array, now: number): void {
    this.kept.push(data);
    this.#keptBytes += data.length;
    try {
      for (const body of this.#frames.feed(data)) {
        if (this.#verdict === null) this.#look(parseFrame(GATEWAY_FRAME, body), now);
      }
    } catch (error) {
      if (!(error instanceof FrameError)) throw error;
      this.decide("stay");
    }
    if (this.#keptBytes > TRIAL_BYTES_MAX) this.decide("move");
  }

  #look({ close, wait, welcome, pageEnd, caughtUp }: GatewayFrame, now: number): void {
    if (close) {
      const [retryAfterS, notHereS] = [Math.min(close.retryAfterS, CLOSE_S_MAX), Math.min(close.notHereS, CLOSE_S_MAX)];
      this.#refusal = { retryAfterS, notHereS };
      this.decide("stay");
    } else if (wait) {
      this.#welcomeDue = Math.max(this.#welcomeDue, now + wait.seconds + WELCOME_S);
    } else if (welcome) {
      this.#welcomeDue = Infinity;
      if (!welcome.inSync) this.decide("move"); // the service asks for the whole set, and has the present one no more
    } else if (pageEnd) {
      this.#acknowledge(pageEnd);
    } else if (caughtUp) {
      const ages = [caughtUp.ageS, ...caughtUp.streams.map(({ ageS }) => ageS)];
      this.decide(Math.max(...ages.map((age) => age || AGE_UNSAID_S)) < this.#freshS ? "move" : "stay");
    }
  }

  #acknowledge({ stream, page }: PageEnd): void {
    if (stream === FIRST) this.#send({ ack: { streams: [{ page }] } });
    else if (stream === 0) this.#send({ ack: { page } });
  }

  #send(frame: ClientFramePart): void {
    this.#out.push(encodeFrame(CLIENT_FRAME, frame));
  }

  /** Decides it; the first verdict counts. */
  decide(verdict: TrialEnd): void {
    this.#verdict ??= verdict;
  }

  /** Returns bytes for the other gateway. */
  dataToSend(): Uint8Array {
    return this.#out.shift() ?? new Uint8Array();
  }

  /** Ends it when its time is over. */
  tick(now: number): void {
    if (this.deadline() <= now) this.decide("stay");
  }

  /** Returns the time when its time is over. */
  deadline(): number {
    return Math.min(this.#giveUpAt, this.#welcomeDue);
  }
}
