/**
 * Interests: what a client registers for, an object by its name, objects by a query, or a channel, as one text.
 *
 * So whatever is kept by interest is a Map, and whoever has no queries or channels has nothing but names in it.
 */

import { channelHash, objectDigest, queryHash } from "./digest.js";
import { CLIENT_FRAME_BYTES_MAX, HELLO_QUERY_BYTES_MAX, OBJECTS_PER_FRAME_MAX } from "./protocol.js";

/** A name as it is, or a query's or a channel's text behind a mark. */
export type Interest = string;

/** A channel, and the attributes of the subscription. A client wants at most one of a name. */
export interface Channel {
  readonly name: string;
  /** Sorted. */
  readonly attributes: readonly string[];
}

const encoder = new TextEncoder();

/** Of a name or a query in a frame, beside its text and the name reached: tags, lengths and numbers. */
const ENTRY_BYTES = 32;
/** Of a Hello beside its operations: names and a token. */
const HEAD_BYTES = 4096;
/** Half a character: no name has it. */
const QUERY_MARK = "\udc71";
const CHANNEL_MARK = "\udc63";
const BETWEEN = "\0";
/** Of a channel in a frame, beside its text: its kind, and where it begins. */
const CHANNEL_BYTES = 24;

/** The interest in the objects that this query describes. */
export function byQuery(text: string): Interest {
  return QUERY_MARK + text;
}

/** The query's text; null: it is none. */
export function queryOf(interest: Interest): string | null {
  return interest.startsWith(QUERY_MARK) ? interest.slice(QUERY_MARK.length) : null;
}

/** The interest in every message of this channel. */
export function byChannel(channel: Channel): Interest {
  return CHANNEL_MARK + channelText(channel);
}

/** The channel; null: it is none. */
export function channelOf(interest: Interest): Channel | null {
  if (!isChannel(interest)) return null;
  const [name = "", ...attributes] = interest.slice(CHANNEL_MARK.length).split(BETWEEN);
  return { name, attributes };
}

/** As it is registered: the name, and each attribute behind a zero byte. */
export function channelText({ name, attributes }: Channel): string {
  return [name, ...attributes].join(BETWEEN);
}

/** What it adds to the digest of the wanted set. */
export function interestDigest(interest: Interest): bigint {
  const [text, channel] = [queryOf(interest), channelOf(interest)];
  if (channel !== null) return channelHash(channel.name, channel.attributes);
  return text === null ? objectDigest(interest) : queryHash(text);
}

/** As the application calls it: an object's or a channel's name, or a query's text. */
export function textOf(interest: Interest): string {
  return queryOf(interest) ?? channelOf(interest)?.name ?? interest;
}

/** The query for all objects whose names begin with `prefix`. */
export function startsWith(prefix: string): string {
  return `NAME STARTS WITH "${prefix.replace(/["\\]/g, "\\$&")}"`;
}

export function isName(interest: Interest): boolean {
  return !isQuery(interest) && !isChannel(interest);
}

export function isQuery(interest: Interest): boolean {
  return interest.startsWith(QUERY_MARK);
}

export function isChannel(interest: Interest): boolean {
  return interest.startsWith(CHANNEL_MARK);
}

/** Those that are names. */
export function namesOf<T>(byInterest: ReadonlyMap<Interest, T>): ReadonlyMap<string, T> {
  return new Map([...byInterest].filter(([interest]) => isName(interest)));
}

/** Returns the hashes of queries and channels: what frames call them by once they are registered. */
export function hashesOf(interests: readonly Interest[]): bigint[] {
  return interests.filter((interest) => !isName(interest)).map(interestDigest);
}

/** What a frame has room for still: so many interests in all, and so much text of queries and channels. */
export class Room {
  #interests = OBJECTS_PER_FRAME_MAX;
  #textBytes = HELLO_QUERY_BYTES_MAX;

  /** Put it into the frame. False: there is no room for it. */
  takes(interest: Interest): boolean {
    const channel = channelOf(interest);
    const text = isName(interest) ? 0 : bytesOf(interest);
    const bytes = channel === null ? text : text + CHANNEL_BYTES + channel.attributes.length;
    if (this.#interests === 0 || bytes > this.#textBytes) return false;
    this.#interests -= 1;
    this.#textBytes -= bytes;
    return true;
  }
}

/** Room that a frame with these has left for names that parts of answers have reached. */
export class Spare {
  #bytes: number;

  constructor(interests: readonly Interest[]) {
    const said = interests.reduce((sum, interest) => sum + bytesOf(interest) + ENTRY_BYTES, 0);
    this.#bytes = CLIENT_FRAME_BYTES_MAX - HEAD_BYTES - said;
  }

  /** Puts the name into the frame. False: there is no room for it, nor for others. */
  takes(name: string): boolean {
    this.#bytes -= bytesOf(name);
    return this.#bytes >= 0;
  }
}

/** Of the text. */
export function bytesOf(interest: Interest): number {
  return encoder.encode(isName(interest) ? interest : interest.slice(1)).length;
}

/** Whether all of them fit in one frame. */
export function fitInFrame(interests: Iterable<Interest>): boolean {
  const room = new Room();
  for (const interest of interests) if (!room.takes(interest)) return false;
  return true;
}

/** Cut into what fits in a frame each. Without any interest it is one empty frame. */
export function framesOf(interests: Iterable<Interest>): Interest[][] {
  let frame: Interest[] = [];
  let room = new Room();
  const frames = [frame];
  for (const interest of interests) {
    if (!room.takes(interest)) {
      frames.push((frame = []));
      room = new Room();
      room.takes(interest);
    }
    frame.push(interest);
  }
  return frames;
}
