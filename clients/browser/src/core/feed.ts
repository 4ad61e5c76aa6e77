/**
 * One channel: where it stands, and what has come of it and is not told yet. Nothing here waits for anything.
 *
 * All offsets are of one log. -1 is in front of its first one.
 */

import type { Message, Missed, MissedReason } from "../message.js";
import { channelHash } from "./digest.js";
import type { Channel, Interest } from "./interests.js";
import { byChannel } from "./interests.js";
import { NOW, positionText, type Since, sinceNumber } from "./since.js";
import { INTEREST_KIND, REASON, SINCE, type WireInterest, type WireMessage, type WireMissed } from "./wire.js";

/** Nothing of the log is known. */
export const BEGINNING = -1n;
/** What an item takes in memory beside its payload, about. */
const ITEM_BYTES = 512;
/** The latest time that a Date can say. */
const DATE_MS_MAX = 8_640_000_000_000_000n;

const fromUtf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** What the document holds of a channel. */
export interface KeptChannel {
  /** Where it begins, until the service has said the position. */
  readonly since: Since | null;
  /** All up to there is known; the cursor says nothing of this channel. Only of a pending registration. */
  readonly position: bigint | null;
  /** Told last. It hides repeats. */
  readonly told: bigint | null;
  /** That its log is another one is to be told before anything else. */
  readonly lost: boolean;
}

/** A message, or what is missed, that is to be told. */
export class Item {
  /** It holds the cursor. */
  held = false;
  /** Subscribers whose callback has returned: a retry leaves them out. */
  readonly toldTo = new Set<number>();

  constructor(
    readonly said: WireMessage | WireMissed,
    /** The cursor may be at most this until it is told: all up to there was known when it came. */
    readonly limit: bigint,
  ) {}

  /** Told up to here, once it is told. */
  get end(): bigint {
    return isMissed(this.said) ? this.said.before - 1n : this.said.offset;
  }

  /** In memory. */
  get bytes(): number {
    return ITEM_BYTES + (isMissed(this.said) ? 0 : this.said.payload.length);
  }

  /** Whether it says that the log is another one. */
  get isLost(): boolean {
    return isMissed(this.said) && this.said.reason === REASON.LOST;
  }
}

/** Run the callbacks of these subscribers with this message, or with what is missed, then say `Delivery.done`. */
export interface ChannelJob {
  readonly feed: Feed;
  readonly item: Item;
  readonly subscribers: readonly number[];
  readonly message: Message | Missed;
}

export function isMissed(said: WireMessage | WireMissed): said is WireMissed {
  return "reason" in said;
}

/** What is held of one channel. */
export class Feed {
  readonly interest: Interest;
  readonly hash: bigint;
  // As in the document
  since: Since | null;
  position: bigint | null;
  told: bigint | null;
  lost: boolean;
  // What has come
  /** All up to there is told or in `items`. */
  received: bigint;
  /** `received` as it was when the service was asked last: it tells what lies behind. */
  askedFrom = BEGINNING;
  /** In order; the first one is being told if `running` is there. */
  items: Item[] = [];
  bytes = 0;
  /** The service tells whatever comes: what a frame says to be complete concerns this channel, too. */
  live = false;
  /** What comes is not kept: it will be asked for again. */
  deaf = false;
  running: ChannelJob | null = null;
  failures = 0;
  retryAt: number | null = null;
  /** Its callbacks failed too often. */
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

  /** For the document. */
  get kept(): KeptChannel {
    return { since: this.since, position: this.position, told: this.told, lost: this.lost };
  }

  /** Returns the registration for a frame: the service is to tell all that comes behind what was received. */
  get registered(): WireInterest {
    const { name: text, attributes } = this.channel;
    const channel = { kind: INTEREST_KIND.INTEREST_CHANNEL, text, attributes };
    if (this.since !== null) return { ...channel, since: sinceNumber(this.since), at: this.since.at };
    if (this.received === BEGINNING) return { ...channel, since: SINCE.SINCE_BEGINNING };
    return { ...channel, since: SINCE.SINCE_POSITION, at: this.received };
  }

  /** All up to there is told. `cursor`: if it is no pending registration. */
  applied(cursor: bigint | null): bigint {
    return highest(BEGINNING, this.told, this.position, this.position === null ? cursor : null);
  }

  /** Whether what is to be told says that the log is another one, if that is to be told. */
  get tellsLoss(): boolean {
    return !this.lost || this.items.some(({ isLost }) => isLost);
  }

  // What comes

  /** It is to be told. */
  put(item: Item): void {
    this.items.push(item);
    this.bytes += item.bytes;
    this.received = highest(this.received, item.end);
  }

  /** Keep about so much of what waits, and at least what is being told. The rest, to be asked for again. */
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

  /** Nothing waits any more: all of it is to be asked for again. */
  drop(): Item[] {
    const dropped = this.items;
    this.items = [];
    this.bytes = 0;
    this.running = null;
    this.received = dropped[0]?.limit ?? this.received;
    return dropped;
  }

  /** The first one is told. */
  pop(): Item {
    const item = this.items.shift();
    if (item === undefined) throw new Error("what is told waits");
    this.bytes -= item.bytes;
    this.running = null;
    if (item.end > BEGINNING) this.told = highest(item.end, this.told);
    this.lost &&= !item.isLost;
    return item;
  }

  // What is told

  /** As callbacks are told. */
  message({ said }: Item, epoch: number): Message | Missed {
    const channel = this.channel.name;
    if (isMissed(said)) return { channel, after: said.after ?? this.told, before: said.before, reason: reasonOf(said.reason) };
    const { offset, payload: data, publishedMs } = said;
    return {
      channel,
      payload: payloadOf(data),
      data,
      offset,
      previous: this.told,
      id: said.id || null,
      source: said.source || null,
      publishedAt: publishedMs > 0n && publishedMs <= DATE_MS_MAX ? new Date(Number(publishedMs)) : null,
      position: positionText(epoch, offset),
    };
  }
}

function reasonOf(number: number): MissedReason {
  const found = Object.entries(REASON).find(([, one]) => one === number)?.[0];
  return found === undefined || found === "REASON_UNSAID" ? "UNSAID" : (found as MissedReason);
}

function payloadOf(data: Uint8Array): unknown {
  try {
    return JSON.parse(fromUtf8.decode(data));
  } catch {
    return data;
  }
}

/** Of those that are known. */
export function highest(first: bigint, ...others: (bigint | null)[]): bigint {
  return others.reduce<bigint>((most, one) => (one !== null && one > most ? one : most), first);
}
