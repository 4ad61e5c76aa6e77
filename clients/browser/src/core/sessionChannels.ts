/**
 * What one session says and hears of channels as a whole: which log it is, whether the service knows them, pages, Acks.
 *
 * What frames say of a single channel is for `channels.ts`. What is wrong comes back as words; "": nothing.
 */

import { ChannelsUnknown, type ColdNotifyError } from "../errors.js";
import type { Channels } from "./channels.js";
import { channelHashesOf, type Interest, isChannel } from "./interests.js";
import type { Operations, Registrations } from "./registrations.js";
import { type CaughtUp, type ChannelsEnd, KINDS_CHANNELS, type Registered, type WireChannel, type Welcome } from "./wire.js";

/** The fields of a Hello that are about channels. */
export interface HelloChannels {
  readonly channelsCursor: bigint | undefined;
  readonly channelsEpoch: number | undefined;
  readonly channels: WireChannel[];
  readonly unregisterChannels: bigint[];
}

/** The part of a session that channels need. */
export class SessionChannels {
  /** The cursor in the durable document. */
  acknowledgeable: bigint | null = null;
  /** The page to acknowledge with the next bytes that leave; 0: none. */
  pageEnd = 0;
  readonly #channels: Channels;
  readonly #registrations: Registrations;
  readonly #report: (error: ColdNotifyError) => void;
  /** Messages of channels come as they are sent. */
  #live = false;
  /** Its Hello has channels: so Welcome says which kinds the service knows. */
  #asks = false;
  #saidCursor = false;
  /** The service has said whether it knows channels, or has spoken of them, or was asked. */
  #said = false;
  #acknowledged: bigint | null;

  constructor(channels: Channels, registrations: Registrations, report: (error: ColdNotifyError) => void) {
    this.#channels = channels;
    this.#registrations = registrations;
    this.#report = report;
    channels.beginSession();
    this.#acknowledged = channels.cursor;
  }

  /** Whether messages of channels come as they are sent, or there is no channel. */
  get areLive(): boolean {
    return this.#live || this.#registrations.channels.size === 0;
  }

  // What the client says

  /** What the Hello says of channels. */
  hello(registered: readonly Interest[], unregistered: readonly Interest[]): HelloChannels {
    const { epoch: channelsEpoch, cursor: channelsCursor } = this.#channels.forHello;
    this.#saidCursor = channelsCursor !== undefined;
    const channels = this.#channels.said(registered);
    this.#asks = channels.length > 0;
    return { channelsCursor, channelsEpoch, channels, unregisterChannels: channelHashesOf(unregistered) };
  }

  /** The cursor to acknowledge; null: the service knows it. */
  get acknowledgement(): bigint | null {
    return this.acknowledgeable === this.#acknowledged ? null : this.acknowledgeable;
  }

  /** What this Ack says: the cursor, and the page that has come. */
  acknowledge(): { channelsComplete: bigint | undefined; channelsPage: number } {
    const complete = this.acknowledgement;
    if (complete !== null) this.#acknowledged = complete;
    return { channelsComplete: complete ?? undefined, channelsPage: this.acknowledgePage() };
  }

  /** The page that has come. */
  acknowledgePage(): number {
    const page = this.pageEnd;
    this.pageEnd = 0;
    return page;
  }

  // What the service says

  /** Which log it is. */
  welcomed({ channelsEpoch }: Welcome): string {
    this.#live = false;
    if (channelsEpoch === undefined) return "";
    const isVoid = this.#saidCursor;
    this.#saidCursor = false;
    return this.#beginEpoch(channelsEpoch, isVoid);
  }

  /** Whether the service knows channels. `asked`: the Hello asked which kinds it knows. */
  learn(welcome: Welcome, asked: boolean): void {
    if (asked || this.#asks || welcome.kinds !== 0 || welcome.positions.length > 0) this.#know(welcome);
    // A later Welcome of this session answers an Open of the gateway's own, and says no kinds.
    this.#asks = false;
  }

  /** The answer to these operations. */
  registered(registered: Registered, operations: Operations): string {
    const { channelsEpoch, positions } = registered;
    const problem = channelsEpoch === undefined ? "" : this.#beginEpoch(channelsEpoch, false);
    if ([...operations.keys()].some(isChannel)) {
      if (!this.#live) this.#know(registered);
      this.#channels.resolved(positions, operations);
    }
    return problem;
  }

  /** Objects are caught up, and channels, too, if it says so. What was confirmed, and should have come by now. */
  caughtUp({ channelsComplete }: CaughtUp): Operations {
    if (channelsComplete !== undefined) {
      this.#live = this.#said = true;
      this.#channels.caughtUp(channelsComplete);
    }
    // Pages of channels may come later; but who has said nothing of channels may know none, and is asked.
    const lost = this.#registrations.unanswered();
    const isSaid = this.#said;
    this.#said = true;
    return isSaid ? new Map([...lost].filter(([interest]) => !isChannel(interest))) : lost;
  }

  /** A page of what channels lacked has come. */
  pageEnded({ page, last, complete }: ChannelsEnd): void {
    this.#said = true;
    this.pageEnd = page;
    if (last) {
      this.#live = true;
      this.#channels.caughtUp(complete ?? null);
    } else if (complete !== undefined) {
      this.#channels.complete(complete);
    }
  }

  #beginEpoch(epoch: number, isVoid: boolean): string {
    if (!this.#channels.beginEpoch(epoch, isVoid)) return "the log of its channels is another one";
    this.#acknowledged = this.acknowledgeable = null;
    return "";
  }

  #know({ kinds, positions }: Welcome | Registered): void {
    // Who says where channels begin knows them, too.
    const knows = (kinds & KINDS_CHANNELS) !== 0 || positions.length > 0;
    this.#said = true;
    this.#registrations.knowChannels(knows);
    if (knows || !this.#registrations.hasChannels || this.#channels.toldUnknown) return;
    this.#channels.toldUnknown = true;
    this.#report(new ChannelsUnknown());
  }
}
