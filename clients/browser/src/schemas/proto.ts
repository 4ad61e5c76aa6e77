/**
 * Encodes and decodes the messages of `wire.ts`: just enough of protobuf. Pure: messages in, bytes out, and back.
 *
 * A message is a table of its fields, and its type follows from that table, so the two cannot differ. Written by hand:
 * the few field types that ColdNotify uses are less code than the run-time library that a generator's output needs.
 */

import { FrameError } from "./frames.js";

interface Scalars {
  bool: boolean;
  uint32: number;
  uint64: bigint;
  fixed32: number;
  fixed64: bigint;
  string: string;
  bytes: Uint8Array;
}

type Scalar = keyof Scalars;

export interface Field {
  readonly number: number;
  readonly type: Scalar | Table;
  readonly label?: "optional" | "repeated";
  /** Names of an enumeration's numbers in protobuf's JSON. */
  readonly names?: Readonly<Record<string, number>>;
}

/** A message's fields, in the order of their numbers. */
export interface Table {
  readonly [name: string]: Field;
}

type ValueOf<T> = T extends Scalar ? Scalars[T] : T extends Table ? MessageOf<T> : never;

/** A decoded message: each field is there, `optional` ones as undefined if absent. */
export type MessageOf<T extends Table> = {
  [Name in keyof T]: T[Name]["label"] extends "repeated"
    ? ValueOf<T[Name]["type"]>[]
    : T[Name]["label"] extends "optional"
      ? ValueOf<T[Name]["type"]> | undefined
      : ValueOf<T[Name]["type"]>;
};

type PartOf<T> = T extends Scalar ? Scalars[T] : T extends Table ? MessagePart<T> : never;

/** A message to encode: a missing field has its default. */
export type MessagePart<T extends Table> = {
  [Name in keyof T]?:
    | (T[Name]["label"] extends "repeated" ? readonly PartOf<T[Name]["type"]>[] : PartOf<T[Name]["type"]>)
    | undefined;
};

const VARINT = 0;
const SIXTY_FOUR = 1;
const BYTES = 2;
const THIRTY_TWO = 5;
const WIRE_TYPES: Record<Scalar, number> = {
  bool: VARINT,
  uint32: VARINT,
  uint64: VARINT,
  fixed32: THIRTY_TWO,
  fixed64: SIXTY_FOUR,
  string: BYTES,
  bytes: BYTES,
};
const VARINT_BYTES_MAX = 10;

const toUtf8 = new TextEncoder();
const fromUtf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Returns the message's bytes. */
export function encodeMessage<T extends Table>(table: T, message: MessagePart<T>): Uint8Array {
  const out = new Writer();
  writeMessage(out, table, message as Record<string, unknown>);
  return out.bytes();
}

/** Decodes a message; unknown fields are skipped. Throws FrameError. */
export function decodeMessage<T extends Table>(table: T, bytes: Uint8Array): MessageOf<T> {
  return readMessage(table, new Reader(bytes)) as MessageOf<T>;
}

function writeMessage(out: Writer, table: Table, message: Record<string, unknown>): void {
  for (const [name, field] of Object.entries(table)) {
    const value = message[name];
    if (value === undefined) continue;
    if (field.label === "repeated") writeRepeated(out, field, value as unknown[]);
    else if (field.label === "optional" || !isDefault(value)) writeField(out, field, value);
  }
}

function isDefault(value: unknown): boolean {
  if (value instanceof Uint8Array) return value.length === 0;
  return value === 0 || value === 0n || value === false || value === "";
}

/** Writes repeated values: numbers are packed in one field, as in protobuf. */
function writeRepeated(out: Writer, field: Field, values: readonly unknown[]): void {
  if (wireTypeOf(field) === BYTES) {
    for (const one of values) writeField(out, field, one);
  } else if (values.length > 0) {
    const packed = new Writer();
    for (const one of values) writeValue(packed, field, one);
    writeVarint(out, BigInt(field.number * 8 + BYTES));
    writeBytes(out, packed.bytes());
  }
}

function writeField(out: Writer, field: Field, value: unknown): void {
  writeVarint(out, BigInt(field.number * 8 + wireTypeOf(field)));
  writeValue(out, field, value);
}

function writeValue(out: Writer, { type }: Field, value: unknown): void {
  switch (type) {
    case "bool":
      out.push(value === true ? 1 : 0);
      break;
    case "uint32":
    case "uint64":
      writeVarint(out, BigInt(value as number | bigint));
      break;
    case "fixed32":
    case "fixed64": {
      let rest = BigInt(value as number | bigint);
      for (let i = 0; i < (type === "fixed32" ? 4 : 8); i++, rest >>= 8n) out.push(Number(rest & 0xffn));
      break;
    }
    case "string":
      writeBytes(out, toUtf8.encode(value as string));
      break;
    case "bytes":
      writeBytes(out, value as Uint8Array);
      break;
    default:
      writeBytes(out, encodeMessage(type, value as MessagePart<Table>));
  }
}

function writeBytes(out: Writer, bytes: Uint8Array): void {
  writeVarint(out, BigInt(bytes.length));
  out.pushAll(bytes);
}

function writeVarint(out: Writer, value: bigint): void {
  let rest = value;
  for (; rest >= 0x80n; rest >>= 7n) out.push(Number(rest & 0x7fn) | 0x80);
  out.push(Number(rest));
}

/** A growing buffer. Payloads are copied as a whole: byte by byte, one of 64 KiB took 9 ms. */
class Writer {
  #buffer = new Uint8Array(64);
  #length = 0;

  push(byte: number): void {
    this.#grow(1);
    this.#buffer[this.#length++] = byte;
  }

  pushAll(bytes: Uint8Array): void {
    this.#grow(bytes.length);
    this.#buffer.set(bytes, this.#length);
    this.#length += bytes.length;
  }

  bytes(): Uint8Array {
    return this.#buffer.slice(0, this.#length);
  }

  #grow(more: number): void {
    const needed = this.#length + more;
    if (needed <= this.#buffer.length) return;
    const buffer = new Uint8Array(Math.max(needed, 2 * this.#buffer.length));
    buffer.set(this.#buffer.subarray(0, this.#length));
    this.#buffer = buffer;
  }
}

class Reader {
  readonly #view: DataView;
  #at = 0;

  constructor(readonly bytes: Uint8Array) {
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  get done(): boolean {
    return this.#at === this.bytes.length;
  }

  take(length: number): number {
    const start = this.#at;
    if (start + length > this.bytes.length) throw new FrameError("a message ends in the middle of a field");
    this.#at += length;
    return start;
  }

  varint(): bigint {
    let value = 0n;
    for (let i = 0; i < VARINT_BYTES_MAX; i++) {
      const byte = this.bytes[this.take(1)] as number;
      value |= BigInt(byte & 0x7f) << BigInt(7 * i);
      if (byte < 0x80) return BigInt.asUintN(64, value);
    }
    throw new FrameError("a varint has more than 10 bytes");
  }

  fixed32(): number {
    return this.#view.getUint32(this.take(4), true);
  }

  fixed64(): bigint {
    return this.#view.getBigUint64(this.take(8), true);
  }

  block(): Uint8Array {
    const length = this.varint();
    if (length > BigInt(this.bytes.length)) throw new FrameError("a field is longer than its message");
    const start = this.take(Number(length));
    return this.bytes.subarray(start, start + Number(length));
  }

  skip(wireType: number): void {
    if (wireType === VARINT) this.varint();
    else if (wireType === SIXTY_FOUR) this.take(8);
    else if (wireType === BYTES) this.block();
    else if (wireType === THIRTY_TWO) this.take(4);
    else throw new FrameError(`a field has the unknown wire type ${wireType}`);
  }
}

function readMessage(table: Table, reader: Reader): Record<string, unknown> {
  const message: Record<string, unknown> = {};
  for (const [name, field] of Object.entries(table)) message[name] = defaultOf(field);
  while (!reader.done) {
    const tag = reader.varint();
    const number = Number(tag >> 3n);
    const wireType = Number(tag & 7n);
    if (number === 0) throw new FrameError("a field has the number 0");
    const entry = Object.entries(table).find(([, field]) => field.number === number);
    if (entry !== undefined && wireType === BYTES && entry[1].label === "repeated" && wireTypeOf(entry[1]) !== BYTES) {
      for (const packed = new Reader(reader.block()); !packed.done; ) (message[entry[0]] as unknown[]).push(readValue(entry[1], packed));
      continue;
    }
    if (entry === undefined || wireType !== wireTypeOf(entry[1])) {
      reader.skip(wireType);
      continue;
    }
    const [name, field] = entry;
    const value = readValue(field, reader);
    if (field.label === "repeated") (message[name] as unknown[]).push(value);
    else message[name] = value;
  }
  return message;
}

function wireTypeOf(field: Field): number {
  return typeof field.type === "string" ? WIRE_TYPES[field.type] : BYTES;
}

function defaultOf({ type, label }: Field): unknown {
  if (label === "repeated") return [];
  if (label === "optional") return undefined;
  switch (type) {
    case "bool":
      return false;
    case "uint32":
    case "fixed32":
      return 0;
    case "uint64":
    case "fixed64":
      return 0n;
    case "string":
      return "";
    default:
      return new Uint8Array();
  }
}

function readValue({ type }: Field, reader: Reader): unknown {
  switch (type) {
    case "bool":
      return reader.varint() !== 0n;
    case "uint32":
      return Number(BigInt.asUintN(32, reader.varint()));
    case "uint64":
      return reader.varint();
    case "fixed32":
      return reader.fixed32();
    case "fixed64":
      return reader.fixed64();
    case "string":
      return text(reader.block());
    case "bytes":
      return reader.block().slice();
    default:
      return decodeMessage(type, reader.block());
  }
}

function text(bytes: Uint8Array): string {
  try {
    return fromUtf8.decode(bytes);
  } catch {
    throw new FrameError("a text is not valid UTF-8");
  }
}
