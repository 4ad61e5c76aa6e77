/**
 * Interests: what a client registers for, an object by its name or objects by a query, as one text.
 *
 * So whatever is kept by interest is a Map, and whoever has no queries has nothing but names in it.
 */

import { objectDigest, queryHash } from "./digest.js";
import { CLIENT_FRAME_BYTES_MAX, HELLO_QUERY_BYTES_MAX, OBJECTS_PER_FRAME_MAX } from "./protocol.js";

/** A name as it is, or a query's text behind `MARK`. */
export type Interest = string;

const encoder = new TextEncoder();

/** Of a name or a query in a frame, beside its text and the name reached: tags, lengths and numbers. */
const ENTRY_BYTES = 32;
/** Of a Hello beside its operations: names and a token. */
const HEAD_BYTES = 4096;
/** Half a character: no name has it. */
const MARK = "\udc71";

/** The interest in the objects that this query describes. */
export function byQuery(text: string): Interest {
  return MARK + text;
}

/** The query's text; null: it is a name. */
export function queryOf(interest: Interest): string | null {
  return interest.startsWith(MARK) ? interest.slice(MARK.length) : null;
}

/** What it adds to the digest of the wanted set. */
export function interestDigest(interest: Interest): bigint {
  const text = queryOf(interest);
  return text === null ? objectDigest(interest) : queryHash(text);
}

/** The query for all objects whose names begin with `prefix`. */
export function startsWith(prefix: string): string {
  return `NAME STARTS WITH "${prefix.replace(/["\\]/g, "\\$&")}"`;
}

export function isName(interest: Interest): boolean {
  return !interest.startsWith(MARK);
}

/** Those that are names. */
export function namesOf<T>(byInterest: ReadonlyMap<Interest, T>): ReadonlyMap<string, T> {
  return new Map([...byInterest].filter(([interest]) => isName(interest)));
}

/** By which the wire names those that are queries. */
export function hashesOf(interests: readonly Interest[]): bigint[] {
  return interests.map(queryOf).flatMap((text) => (text === null ? [] : queryHash(text)));
}

/** What a frame has room for still: so many interests in all, and so much text of queries. */
export class Room {
  #interests = OBJECTS_PER_FRAME_MAX;
  #queryBytes = HELLO_QUERY_BYTES_MAX;

  /** Put it into the frame. False: there is no room for it. */
  takes(interest: Interest): boolean {
    const bytes = isName(interest) ? 0 : bytesOf(interest);
    if (this.#interests === 0 || bytes > this.#queryBytes) return false;
    this.#interests -= 1;
    this.#queryBytes -= bytes;
    return true;
  }
}

/** What a frame with these has left for names that parts of answers have reached. */
export function spareBytes(interests: readonly Interest[]): number {
  const said = interests.reduce((sum, interest) => sum + bytesOf(interest) + ENTRY_BYTES, 0);
  return CLIENT_FRAME_BYTES_MAX - HEAD_BYTES - said;
}

/** Of the text. */
export function bytesOf(interest: Interest): number {
  return encoder.encode(queryOf(interest) ?? interest).length;
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
