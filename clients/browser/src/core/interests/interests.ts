/**
 * Interests: a registration's subject (an object by its name, objects by a query, a channel, or a share of one) as one
 * text.
 *
 * So data by interest is a Map, and a client without queries or channels has nothing but names in it.
 */

import { channelHash, objectDigest, queryHash, shareHash } from "../../schemas/digest.js";
import { expressionOf, titleOf } from "../../schemas/names.js";
import { CLIENT_FRAME_BYTES_MAX, HELLO_QUERY_BYTES_MAX, OBJECTS_PER_FRAME_MAX } from "../../schemas/protocol.js";

/** An interest: a name unchanged, or a query's, a channel's or a share's text after a mark. */
export type Interest = string;

/**
 * A channel or a pattern of channels, and the attributes of the subscription. A client has at most one subscription per
 * name.
 */
export interface Channel {
  /** A pattern's is that of `patternName`. */
  readonly name: string;
  /** The attributes, sorted. */
  readonly attributes: readonly string[];
}

/** A share of a channel, and the attributes of its messages. A client has at most one per channel and share. */
export interface ShareInterest {
  /** The channel's name. */
  readonly channel: string;
  readonly share: string;
  /** The attributes, sorted. */
  readonly attributes: readonly string[];
}

const encoder = new TextEncoder();

/** Bytes of a name or a query in a frame, beside its text and the name reached: tags, lengths and numbers. */
const ENTRY_BYTES = 32;
/** Bytes of a Hello beside its operations: names and a token. */
const HEAD_BYTES = 4096;
/** Marks a query. It is half a character, so no name contains it. */
const QUERY_MARK = "\udc71";
const CHANNEL_MARK = "\udc63";
const SHARE_MARK = "\udc73";
const BETWEEN = "\0";
/** Bytes of a channel in a frame, beside its text: its kind, and its beginning. */
const CHANNEL_BYTES = 24;

/** Returns the interest in the objects that match this query. */
export function byQuery(text: string): Interest {
  return QUERY_MARK + text;
}

/** Returns the query's text; null if the interest is not a query. */
export function queryOf(interest: Interest): string | null {
  return interest.startsWith(QUERY_MARK) ? interest.slice(QUERY_MARK.length) : null;
}

/** Returns the interest in every message of this channel. */
export function byChannel(channel: Channel): Interest {
  return CHANNEL_MARK + channelText(channel);
}

/** Returns the channel; null if the interest is not one. */
export function channelOf(interest: Interest): Channel | null {
  if (!isChannel(interest)) return null;
  const text = interest.slice(CHANNEL_MARK.length);
  const expression = expressionOf(text);
  const [name = "", ...attributes] = (expression ?? text).split(BETWEEN);
  return { name: expression === null ? name : BETWEEN + name, attributes };
}

/** Returns the text that registers the channel: the name, and each attribute after a zero byte. */
export function channelText({ name, attributes }: Channel): string {
  return [name, ...attributes].join(BETWEEN);
}

/** Returns the interest in what a share of a channel hands to this client. */
export function byShare(share: ShareInterest): Interest {
  return SHARE_MARK + shareText(share);
}

/** Returns the share; null if the interest is not one. */
export function shareOf(interest: Interest): ShareInterest | null {
  if (!isShare(interest)) return null;
  const [share = "", channel = "", ...attributes] = interest.slice(SHARE_MARK.length).split(BETWEEN);
  return { channel, share, attributes };
}

/** Returns the text that registers the share: its name, the channel's, and each attribute, with a zero byte between. */
export function shareText({ channel, share, attributes }: ShareInterest): string {
  return [share, channel, ...attributes].join(BETWEEN);
}

/** Returns its share in the digest of the wanted set. */
export function hashOf(interest: Interest): bigint {
  const [text, channel, share] = [queryOf(interest), channelOf(interest), shareOf(interest)];
  if (share !== null) return shareHash(shareText(share));
  if (channel !== null) return channelHash(channel.name, channel.attributes);
  return text === null ? objectDigest(interest) : queryHash(text);
}

/** Returns the application's text for it: an object's or a channel's name, a query's or a pattern's text. */
export function textOf(interest: Interest): string {
  const [channel, share] = [channelOf(interest), shareOf(interest)];
  if (share !== null) return `share ${share.share} of ${share.channel}`;
  return queryOf(interest) ?? (channel === null ? interest : titleOf(channel.name));
}

/** Returns the query for all objects whose names begin with `prefix`. */
export function prefixOf(prefix: string): string {
  return `NAME STARTS WITH "${prefix.replace(/["\\]/g, "\\$&")}"`;
}

export function isName(interest: Interest): boolean {
  return !isQuery(interest) && !isChannel(interest) && !isShare(interest);
}

export function isQuery(interest: Interest): boolean {
  return interest.startsWith(QUERY_MARK);
}

export function isChannel(interest: Interest): boolean {
  return interest.startsWith(CHANNEL_MARK);
}

export function isShare(interest: Interest): boolean {
  return interest.startsWith(SHARE_MARK);
}

/** Returns those that are shares. */
export function sharesOf(interests: Iterable<Interest>): Interest[] {
  return [...interests].filter(isShare);
}

/** Returns the entries whose interests are names. */
export function namesOf<T>(byInterest: ReadonlyMap<Interest, T>): ReadonlyMap<string, T> {
  return new Map([...byInterest].filter(([interest]) => isName(interest)));
}

/** Returns the hashes of queries and channels, which represent them in frames once they are registered. */
export function hashesOf(interests: readonly Interest[]): bigint[] {
  return interests.filter((interest) => !isName(interest)).map(hashOf);
}

/** The room left in a frame: for a number of interests, and for bytes of queries' and channels' texts. */
export class FrameRoom {
  #interests = OBJECTS_PER_FRAME_MAX;
  #textBytes = HELLO_QUERY_BYTES_MAX;

  /** Puts the interest into the frame. Returns false if there is no room for it. */
  takes(interest: Interest): boolean {
    const channel = channelOf(interest) ?? shareOf(interest);
    const text = isName(interest) ? 0 : bytesOf(interest);
    const bytes = channel === null ? text : text + CHANNEL_BYTES + channel.attributes.length;
    if (this.#interests === 0 || bytes > this.#textBytes) return false;
    this.#interests -= 1;
    this.#textBytes -= bytes;
    return true;
  }
}

/** Room that a frame with these interests has left for names that parts of answers have reached. */
export class Spare {
  #bytes: number;

  constructor(interests: readonly Interest[]) {
    const said = interests.reduce((sum, interest) => sum + bytesOf(interest) + ENTRY_BYTES, 0);
    this.#bytes = CLIENT_FRAME_BYTES_MAX - HEAD_BYTES - said;
  }

  /** Puts the name into the frame. Returns false if there is no room for it, nor for others. */
  takes(name: string): boolean {
    this.#bytes -= bytesOf(name);
    return this.#bytes >= 0;
  }
}

/** Returns the size of the text in bytes. */
export function bytesOf(interest: Interest): number {
  return encoder.encode(isName(interest) ? interest : interest.slice(1)).length;
}

/** Returns true if all of them fit in one frame. */
export function fitInFrame(interests: Iterable<Interest>): boolean {
  const room = new FrameRoom();
  for (const interest of interests) if (!room.takes(interest)) return false;
  return true;
}

/** Splits interests into portions that fit in a frame each. Without any interest, returns one empty portion. */
export function framesOf(interests: Iterable<Interest>): Interest[][] {
  let frame: Interest[] = [];
  let room = new FrameRoom();
  const frames = [frame];
  for (const interest of interests) {
    if (!room.takes(interest)) {
      frames.push((frame = []));
      room = new FrameRoom();
      room.takes(interest);
    }
    frame.push(interest);
  }
  return frames;
}
