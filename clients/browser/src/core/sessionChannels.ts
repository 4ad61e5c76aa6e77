/**
 * What one session says and hears of channels as a whole: which log it is, whether the service knows them, pages.
 *
 * What frames say of a single channel is for `channels.ts`; what an Ack says, for `stream.ts`. What is wrong comes back
 * as words; "": nothing.
 */

import { ChannelsUnknown, type ColdNotifyError } from "../errors.js";
import type { Channels } from "./channels.js";
import { type Interest, isChannel } from "./interests.js";
import type { Operations, Registrations } from "./registrations.js";
import { firstOf, Stream } from "./stream.js";
import { type CaughtUp, KINDS_CHANNELS, type PageEnd, type Position, type Registered, type Welcome, type WireStream } from "./wire.js";

/** The part of a session that channels need. */
export class SessionChannels {
  /** The log of the domain's channels. */
  readonly stream: Stream;
  readonly #channels: Channels;
  readonly #registrations: Registrations;
  readonly #report: (error: ColdNotifyError) => void;
  /** Its Hello has channels: so Welcome says which kinds the service knows. */
  #asks = false;
  #saidCursor = false;
  /** The service has said whether it knows channels, or has spoken of them, or was asked. */
  #said = false;

  constructor(channels: Channels, registrations: Registrations, report: (error: ColdNotifyError) => void) {
    this.#channels = channels;
    this.#registrations = registrations;
    this.#report = report;
    channels.beginSession();
    this.stream = new Stream(channels.cursor);
  }

  /** Whether messages of channels come as they are sent, or there is no channel. */
  get areLive(): boolean {
    return this.stream.live || this.#registrations.channels.size === 0;
  }

  /** Returns the streams of the Hello, which registers these. */
  hello(registered: readonly Interest[]): WireStream[] {
    const { epoch, cursor } = this.#channels.forHello;
    this.#saidCursor = cursor !== undefined;
    this.#asks = registered.some(isChannel);
    return cursor === undefined ? [] : [{ epoch, complete: cursor }];
  }

  // What the service says

  /** Which log it is. */
  welcomed({ streams }: Welcome): string {
    this.stream.live = false;
    const epoch = firstOf(streams)?.epoch;
    if (epoch === undefined) return "";
    const isVoid = this.#saidCursor;
    this.#saidCursor = false;
    return this.#beginEpoch(epoch, isVoid);
  }

  /** Whether the service knows channels. `asked`: the Hello asked which kinds it knows. */
  learn(welcome: Welcome, asked: boolean): void {
    if (asked || this.#asks || welcome.kinds !== 0 || positionsOf(welcome).length > 0) this.#know(welcome);
    // A later Welcome of this session answers an Open of the gateway's own, and says no kinds.
    this.#asks = false;
  }

  /** The answer to these operations. */
  registered(registered: Registered, operations: Operations): string {
    const epoch = firstOf(registered.streams)?.epoch;
    const problem = epoch === undefined ? "" : this.#beginEpoch(epoch, false);
    if ([...operations.keys()].some(isChannel)) {
      if (!this.stream.live) this.#know(registered);
      this.#channels.resolved(positionsOf(registered), operations);
    }
    return problem;
  }

  /** Objects are caught up, and channels, too, if it says so. What was confirmed, and should have come by now. */
  caughtUp({ streams }: CaughtUp): Operations {
    const complete = firstOf(streams)?.complete;
    if (complete !== undefined) {
      this.stream.live = this.#said = true;
      this.#channels.caughtUp(complete);
    }
    // Pages of channels may come later; but who has said nothing of channels may know none, and is asked.
    const lost = this.#registrations.unanswered();
    const isSaid = this.#said;
    this.#said = true;
    return isSaid ? new Map([...lost].filter(([interest]) => !isChannel(interest))) : lost;
  }

  /** A page of what channels lacked has come. */
  pageEnded({ page, last, complete }: PageEnd): void {
    this.#said = true;
    this.stream.pageEnd = page;
    if (last) {
      this.stream.live = true;
      this.#channels.caughtUp(complete ?? null);
    } else if (complete !== undefined) {
      this.#channels.complete(complete);
    }
  }

  #beginEpoch(epoch: number, isVoid: boolean): string {
    if (!this.#channels.beginEpoch(epoch, isVoid)) return "the log of its channels is another one";
    this.stream.beginEpoch();
    return "";
  }

  #know(answer: Welcome | Registered): void {
    // Who says where channels begin knows them, too.
    const knows = (answer.kinds & KINDS_CHANNELS) !== 0 || positionsOf(answer).length > 0;
    this.#said = true;
    this.#registrations.knowChannels(knows);
    if (knows || !this.#registrations.hasChannels || this.#channels.toldUnknown) return;
    this.#channels.toldUnknown = true;
    this.#report(new ChannelsUnknown());
  }
}

/** Returns where the channels begin that it answers. */
export function positionsOf({ streams }: Welcome | Registered): readonly Position[] {
  return firstOf(streams)?.positions ?? [];
}
