/**
 * One session's state of channels as a whole: the log's epoch, the service's knowledge of channels, pages.
 *
 * `channels.ts` handles the frames of a single channel; `stream.ts`, acknowledgements. Errors are returned as texts;
 * "": none.
 */

import { ChannelsUnknown, type ColdNotifyError } from "../../errors.js";
import type { Channels } from "../streams/channels.js";
import { type Interest, isChannel } from "../interests/interests.js";
import type { Operations, Registrations } from "../interests/registrations.js";
import { firstOf, Stream, streamsOf } from "../streams/stream.js";
import { type CaughtUp, KINDS_CHANNELS, type PageEnd, type Position, type Registered, type Welcome, type WireStream } from "../../schemas/wire.js";

/** The part of a session that channels need. */
export class SessionChannels {
  /** The log of the domain's channels. */
  stream: Stream;
  readonly #channels: Channels;
  readonly #registrations: Registrations;
  readonly #report: (error: ColdNotifyError) => void;
  /** True if its Hello has channels, so that Welcome states the kinds that the service knows. */
  #asks = false;
  #saidCursor = false;
  /** True if the service has stated if it knows channels, has sent a frame about them, or was asked. */
  #said = false;

  constructor(channels: Channels, registrations: Registrations, report: (error: ColdNotifyError) => void) {
    this.#channels = channels;
    this.#registrations = registrations;
    this.#report = report;
    channels.beginSession();
    this.stream = new Stream(channels.cursor);
  }

  /** True if messages of channels are sent live, or there is no channel. */
  get areLive(): boolean {
    return this.stream.live || this.#registrations.channels.size === 0;
  }

  /** Returns the streams of the Hello, which registers these. */
  hello(registered: readonly Interest[]): WireStream[] {
    const { epoch, cursor } = this.#channels.forHello;
    this.#saidCursor = cursor !== undefined;
    this.#asks = registered.some(isChannel);
    return streamsOf(cursor === undefined ? null : { epoch, complete: cursor });
  }

  /** Notes the streams in the Hello of a trial, which had no interests. */
  saidByTrial(streams: readonly WireStream[]): void {
    const cursor = firstOf(streams)?.complete;
    this.#saidCursor = cursor !== undefined;
    this.stream = new Stream(cursor ?? null);
  }

  // Events of the service

  /** Handles the log's epoch in a Welcome. Returns an error or "". */
  welcomed({ streams }: Welcome): string {
    this.stream.welcomed();
    const epoch = firstOf(streams)?.epoch;
    if (epoch === undefined) return "";
    const isVoid = this.#saidCursor;
    this.#saidCursor = false;
    return this.#beginEpoch(epoch, isVoid);
  }

  /** Notes if the service knows channels. `asked`: the Hello asked for the kinds that it knows. */
  learn(welcome: Welcome, asked: boolean): void {
    if (asked || this.#asks || welcome.kinds !== 0 || positionsOf(welcome).length > 0) this.#know(welcome);
    // A later Welcome of this session answers an Open of the gateway's own, and contains no kinds.
    this.#asks = false;
  }

  /** Handles the answer to these operations. Returns an error or "". */
  registered(registered: Registered, operations: Operations): string {
    const epoch = firstOf(registered.streams)?.epoch;
    const problem = epoch === undefined ? "" : this.#beginEpoch(epoch, false);
    if ([...operations.keys()].some(isChannel)) {
      if (!this.stream.live) this.#know(registered);
      this.#channels.resolved(positionsOf(registered), operations);
    }
    return problem;
  }

  /**
   * Handles CaughtUp: objects are caught up, and channels, too, if it says so. Returns confirmed operations whose
   * answers should have come by now.
   */
  caughtUp({ streams }: CaughtUp): Operations {
    const complete = firstOf(streams)?.complete;
    if (complete !== undefined) {
      this.stream.caughtUp();
      this.#said = true;
      this.#channels.caughtUp(complete);
    }
    // Pages of channels may come later; but a service that has never mentioned channels may not know them, and is
    // asked.
    const lost = this.#registrations.unanswered();
    const isSaid = this.#said;
    this.#said = true;
    return isSaid ? new Map([...lost].filter(([interest]) => !isChannel(interest))) : lost;
  }

  /** Handles the end of a page of missing messages. */
  pageEnded({ page, last, complete }: PageEnd): void {
    this.#said = true;
    this.stream.pageEnded(page);
    if (last) {
      this.stream.caughtUp();
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
    // A service that sends the beginnings of channels knows them, too.
    const knows = (answer.kinds & KINDS_CHANNELS) !== 0 || positionsOf(answer).length > 0;
    this.#said = true;
    this.#registrations.knowChannels(knows);
    if (knows || !this.#registrations.hasChannels || this.#channels.toldUnknown) return;
    this.#channels.toldUnknown = true;
    this.#report(new ChannelsUnknown());
  }
}

/** Returns the beginnings of the channels that it answers. */
function positionsOf({ streams }: Welcome | Registered): readonly Position[] {
  return firstOf(streams)?.positions ?? [];
}
