/**
 * One channel: its position, and the messages that have come and are not told yet. Nothing here waits for anything.
 *
 * All offsets are of one log. -1 is before its first one.
 */

import type { Message, Missed, MissedReason } from "../../message.js";
import { channelHash } from "../../schemas/digest.js";
import type { Channel, Interest } from "../interests/interests.js";
import { saidBy } from "./payloads.js";
import { byChannel } from "../interests/interests.js";
import { NOW, positionText, type Since, sinceNumber } from "../interests/since.js";
import { expressionOf, titleOf } from "../../schemas/names.js";
import { INTEREST_KIND, REASON, SINCE, type WireInterest, type WireMessage, type WireMissed } from "../../schemas/wire.js";

/** The position before the log's first offset. */
export const BEGINNING = -1n;
/** Approximate memory of an item beside its payload, in bytes. */
const ITEM_BYTES = 512;
/** The latest time that a Date can represent. */
const DATE_MS_MAX = 8_640_000_000_000_000n;


/** The state of a channel in the document. */
export interface KeptChannel {
  /** Its beginning, until the service has sent the position. */
  readonly since: Since | null;
  /**
   * The offset up to which everything is known; the cursor does not apply to this channel. Only for a pending
   * registration.
   */
  readonly position: bigint | null;
  /** The offset last told. It reveals repeats. */
  readonly told: bigint | null;
  /** True if the loss of its log must be reported before anything else. */
  readonly lost: boolean;
}

/** A message, or a report of missed ones, that is to be told. */
export class Item {
  /** True if it holds the cursor. */
  held = false;
  /** Subscribers whose callback has returned: a retry leaves them out. */
  readonly toldTo = new Set<number>();

  constructor(
    readonly said: WireMessage | WireMissed,
    /** The cursor may be at most this until it is told: everything up to there was known when it came. */
    readonly limit: bigint,
  ) {}

  /** The offset up to which the channel is told, once this item is. */
  get end(): bigint {
    return isMissed(this.said) ? this.said.before - 1n : this.said.offset;
  }

  /** Its size in memory, in bytes. */
  get bytes(): number {
    return ITEM_BYTES + (isMissed(this.said) ? 0 : this.said.payload.length);
  }

  /** True if it reports that the log is another one. */
  get isLost(): boolean {
    return isMissed(this.said) && this.said.reason === REASON.LOST;
  }
}

/** A job: run the callbacks of these subscribers with this message or report, then call `Delivery.done`. */
export interface ChannelJob {
  readonly feed: Feed;
  readonly item: Item;
  readonly subscribers: readonly number[];
  readonly message: Message | Missed;
}

export function isMissed(said: WireMessage | WireMissed): said is WireMissed {
  return "reason" in said;
}

/** The state of one channel. */
export class Feed {
  readonly interest: Interest;
  readonly hash: bigint;
  // In the document
  since: Since | null;
  position: bigint | null;
  told: bigint | null;
  lost: boolean;
  // Received messages
  /** The offset up to which everything is told or in `items`. */
  received: bigint;
  /** The value of `received` at the last request to the service, which sends what follows it. */
  askedFrom = BEGINNING;
  /** Items in order; the first one is being told if `running` is set. */
  items: Item[] = [];
  bytes = 0;
  /** True if the service sends it live: a number that a frame reports as complete applies to this channel, too. */
  live = false;
  /** True if its messages are not kept: they will be requested again. */
  deaf = false;
  running: ChannelJob | null = null;
  failures = 0;
  retryAt: number | null = null;
  /** True if its callbacks failed too often. */
  parked = false;

  constructor(
    readonly channel: Channel,
    kept: KeptChannel | null = null,
  ) {
    this.interest = byChannel(channel);
    this.hash = channelHash(channel.name, channel.attributes);
    this.since = kept === null ? NOW : kept.since;
    this.position = kept?.position ?? null;
    this.told = kept?.told ?? null;
    this.lost = kept?.lost ?? false;
    this.received = highest(BEGINNING, this.position, this.told);
  }

  /** The state for the document. */
  get kept(): KeptChannel {
    return { since: this.since, position: this.position, told: this.told, lost: this.lost };
  }

  /** Returns the registration for a frame: the service must send what follows the last received offset. */
  get registered(): WireInterest {
    const { name, attributes } = this.channel;
    const expression = expressionOf(name);
    const kind = expression === null ? INTEREST_KIND.INTEREST_CHANNEL : INTEREST_KIND.INTEREST_PATTERN;
    const channel = { kind, text: expression ?? name, attributes };
    if (this.since !== null) return { ...channel, since: sinceNumber(this.since), at: this.since.at };
    if (this.received === BEGINNING) return { ...channel, since: SINCE.SINCE_BEGINNING };
    return { ...channel, since: SINCE.SINCE_POSITION, at: this.received };
  }

  /** Returns the offset up to which everything is told. `cursor`: applies if it has no pending registration. */
  applied(cursor: bigint | null): bigint {
    return highest(BEGINNING, this.told, this.position, this.position === null ? cursor : null);
  }

  /** True if a waiting item reports that the log is another one, or if that need not be reported. */
  get tellsLoss(): boolean {
    return !this.lost || this.items.some(({ isLost }) => isLost);
  }

  // Incoming messages

  /** Appends an item. */
  put(item: Item): void {
    this.items.push(item);
    this.bytes += item.bytes;
    this.received = highest(this.received, item.end);
  }

  /**
   * Keeps about `bytesMax` bytes of the waiting items, and at least the one being told. Returns the rest, which must be
   * requested again.
   */
  cut(bytesMax: number): Item[] {
    let [count, bytes] = [0, 0];
    for (const item of this.items) {
      if (count > 0 && bytes + item.bytes > bytesMax) break;
      count += 1;
      bytes += item.bytes;
    }
    const dropped = this.items.slice(count);
    const [first] = dropped;
    if (first !== undefined) {
      this.items = this.items.slice(0, count);
      this.bytes = bytes;
      this.received = first.limit;
    }
    return dropped;
  }

  /** Removes all waiting items, and returns them: they must be requested again. */
  drop(): Item[] {
    const dropped = this.items;
    this.items = [];
    this.bytes = 0;
    this.running = null;
    this.received = dropped[0]?.limit ?? this.received;
    return dropped;
  }

  /** Removes the first item, which is told. */
  pop(): Item {
    const item = this.items.shift();
    if (item === undefined) throw new Error("what is told waits");
    this.bytes -= item.bytes;
    this.running = null;
    if (item.end > BEGINNING) this.told = highest(item.end, this.told);
    this.lost &&= !item.isLost;
    return item;
  }

  // Outgoing messages

  /** Returns the item in the form for callbacks. */
  message({ said }: Item, epoch: number): Message | Missed {
    if (isMissed(said)) {
      const channel = titleOf(this.channel.name);
      return { channel, after: said.after ?? this.told, before: said.before, reason: reasonOf(said.reason) };
    }
    const { offset, payload: data, publishedMs } = said;
    const channel = expressionOf(this.channel.name) === null ? this.channel.name : said.name;
    return {
      channel,
      payload: saidBy(data),
      data,
      offset,
      previous: this.told,
      id: said.id || null,
      source: said.source || null,
      publishedAt: timeOf(publishedMs),
      position: positionText(epoch, offset),
    };
  }
}

/** Returns the time of a message for callbacks; null: it is not known. */
export function timeOf(unixMs: bigint): Date | null {
  return unixMs > 0n && unixMs <= DATE_MS_MAX ? new Date(Number(unixMs)) : null;
}

/** Returns the reason for which messages may be missing. */
export function reasonOf(number: number): MissedReason {
  const found = Object.entries(REASON).find(([, one]) => one === number)?.[0];
  return found === undefined || found === "REASON_UNSAID" ? "UNSAID" : (found as MissedReason);
}

/** Returns the highest of the known numbers. */
export function highest(first: bigint, ...others: (bigint | null)[]): bigint {
  return others.reduce<bigint>((most, one) => (one !== null && one > most ? one : most), first);
}
