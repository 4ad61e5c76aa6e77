/** Cuts a byte stream into frames: a varint length, then a message of that length. */

import { FRAME_LENGTH_BYTES_MAX } from "./protocol.js";

/** The bytes are not a frame: the rest of the stream cannot be read. */
export class FrameError extends Error {
  override readonly name = "FrameError";
}

/** Returns `length` as a base-128 varint, least significant group first. */
export function encodeLength(length: number): Uint8Array {
  const groups: number[] = [];
  let rest = length;
  for (; rest >= 0x80; rest >>>= 7) groups.push((rest & 0x7f) | 0x80);
  groups.push(rest);
  return Uint8Array.from(groups);
}

/** Splits bytes into frames. Holds at most one frame's bytes besides the ones it was just fed. */
export class FrameBuffer {
  readonly #bytesMax: number;
  #buffer = new Uint8Array();

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /**
   * Yields the bodies of the frames that `data` completes, in order; an empty body is a frame, too. Throws FrameError.
   */
  *feed(data: Uint8Array): Generator<Uint8Array> {
    const buffer = new Uint8Array(this.#buffer.length + data.length);
    buffer.set(this.#buffer);
    buffer.set(data, this.#buffer.length);
    let start = 0;
    try {
      for (;;) {
        const header = this.#lengthAt(buffer, start);
        if (header === null || start + header.width + header.length > buffer.length) return;
        const body = start + header.width;
        start = body + header.length;
        yield buffer.subarray(body, start);
      }
    } finally {
      this.#buffer = buffer.slice(start);
    }
  }

  #lengthAt(buffer: Uint8Array, start: number): { length: number; width: number } | null {
    let length = 0;
    for (let i = 0; i < FRAME_LENGTH_BYTES_MAX; i++) {
      const byte = buffer[start + i];
      if (byte === undefined) return null;
      length += (byte & 0x7f) * 2 ** (7 * i);
      if (byte < 0x80) {
        if (length > this.#bytesMax) {
          throw new FrameError(`frame of ${length} bytes, at most ${this.#bytesMax} are taken`);
        }
        return { length, width: i + 1 };
      }
    }
    throw new FrameError(`frame length is no varint of at most ${FRAME_LENGTH_BYTES_MAX} bytes`);
  }
}
