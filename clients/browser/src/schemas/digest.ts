/**
 * The digest of a registration set, and the short form of an object's name.
 *
 * SHA-256 is here because the browser's own is asynchronous, and missing in pages loaded without TLS.
 */

const encoder = new TextEncoder();

/** Adds two digests: sums are mod 2^64. */
export function add(digest: bigint, other: bigint): bigint {
  return BigInt.asUintN(64, digest + other);
}

/** Returns the first 8 bytes of the SHA-256 of the object's name, little-endian. */
export function objectDigest(object: string): bigint {
  return shortened(encoder.encode(object));
}

/** Returns the hash of a query on the wire, and in a digest: hashed after 0xFF, with which no name begins, and "q". */
export function queryHash(text: string): bigint {
  return shortened(Uint8Array.of(0xff, 0x71, ...encoder.encode(text)));
}

/** Returns the hash of a registration of a channel: its name and the subscription's attributes, sorted, each once. */
export function channelHash(name: string, attributes: readonly string[] = []): bigint {
  return shortened(Uint8Array.of(0xff, 0x63, ...encoder.encode([name, ...attributes].join("\0"))));
}

/** Returns the hash of a registration of a share: its name, the channel's and the attributes, each after a zero byte. */
export function shareHash(text: string): bigint {
  return shortened(Uint8Array.of(0xff, 0x73, ...encoder.encode(text)));
}

/** Returns the digest of several sets of objects, from each query's hash and the digest of its members. */
export function setsDigest(sets: Iterable<readonly [hash: bigint, members: bigint]>): bigint {
  let sum = 0n;
  for (const [hash, members] of sets) {
    const both = new DataView(new ArrayBuffer(16));
    both.setBigUint64(0, hash, true);
    both.setBigUint64(8, members, true);
    sum = add(sum, shortened(new Uint8Array(both.buffer)));
  }
  return sum;
}

function shortened(message: Uint8Array): bigint {
  return new DataView(sha256(message).buffer).getBigUint64(0, true);
}

/** Returns the digest of a set of objects: the sum of its members' digests, mod 2^64. The empty set's is 0. */
export function digest(objects: Iterable<string>): bigint {
  let sum = 0n;
  for (const object of objects) sum = add(sum, objectDigest(object));
  return sum;
}

/** Returns the CRC-32 (zlib's) that represents the object's name in notifications. */
export function objectCrc(object: string): number {
  return crc32(encoder.encode(object));
}

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, index) => {
  let crc = index;
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  return crc;
});

/** Returns zlib's CRC-32. */
export function crc32(bytes: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of bytes) crc = (crc >>> 8) ^ (CRC_TABLE[(crc ^ byte) & 0xff] as number);
  return (crc ^ 0xffffffff) >>> 0;
}

/**
 * Returns the first 32 bits of the fractional part of `root(p)` for the first primes p: FIPS 180-4, 4.2.2 and 5.3.3.
 */
function fractions(count: number, root: (prime: number) => number): Uint32Array {
  const found: number[] = [];
  for (let n = 2; found.length < count; n++) {
    let prime = true;
    for (let d = 2; d * d <= n; d++) prime &&= n % d !== 0;
    if (prime) found.push((root(n) % 1) * 2 ** 32);
  }
  return Uint32Array.from(found, Math.floor);
}

const INITIAL = fractions(8, Math.sqrt);
const ROUNDS = fractions(64, Math.cbrt);

/** Returns the SHA-256, FIPS 180-4. */
export function sha256(message: Uint8Array): Uint8Array {
  const padded = new Uint8Array(Math.ceil((message.length + 9) / 64) * 64);
  padded.set(message);
  padded[message.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setBigUint64(padded.length - 8, BigInt(message.length) * 8n);
  const state = INITIAL.slice();
  const w = new Uint32Array(64);
  const at = (words: Uint32Array, index: number): number => words[index] as number;
  for (let block = 0; block < padded.length; block += 64) {
    for (let t = 0; t < 64; t++) {
      if (t < 16) {
        w[t] = view.getUint32(block + 4 * t);
        continue;
      }
      const [x, y] = [at(w, t - 15), at(w, t - 2)];
      const s0 = turn(x, 7) ^ turn(x, 18) ^ (x >>> 3);
      const s1 = turn(y, 17) ^ turn(y, 19) ^ (y >>> 10);
      w[t] = at(w, t - 16) + s0 + at(w, t - 7) + s1;
    }
    let [a, b, c, d, e, f, g, h] = state as unknown as [number, number, number, number, number, number, number, number];
    for (let t = 0; t < 64; t++) {
      const s1 = turn(e, 6) ^ turn(e, 11) ^ turn(e, 25);
      const first = (h + s1 + ((e & f) ^ (~e & g)) + at(ROUNDS, t) + at(w, t)) | 0;
      const s0 = turn(a, 2) ^ turn(a, 13) ^ turn(a, 22);
      const second = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((word, index) => (state[index] = at(state, index) + word));
  }
  const result = new Uint8Array(32);
  state.forEach((word, index) => new DataView(result.buffer).setUint32(4 * index, word));
  return result;
}

function turn(word: number, bits: number): number {
  return (word >>> bits) | (word << (32 - bits));
}
