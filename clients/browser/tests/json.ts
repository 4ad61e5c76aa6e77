/** Messages as protobuf's JSON has them, in the files of `schemas/` that every client is tested by. */

import assert from "node:assert/strict";

import type { Field, Table } from "../src/schemas/proto.js";

export type Fields = Record<string, unknown>;

/** A message as this client has it: protobuf's JSON has other names, and texts for bytes and bigints. */
export function fromJson(table: Table, message: Fields): Fields {
  return Object.fromEntries(
    Object.entries(message).map(([snake, value]) => {
      const name = snake.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
      const field = table[name] as Field | undefined;
      assert(field, `${snake} is no field`);
      const one = (v: unknown): unknown => {
        if (typeof field.type !== "string") return fromJson(field.type, v as Fields);
        if (field.names !== undefined) return field.names[v as string];
        if (field.type === "uint64" || field.type === "fixed64") return BigInt(v as string);
        return field.type === "bytes" ? new Uint8Array(Buffer.from(v as string, "base64")) : v;
      };
      return [name, field.label === "repeated" ? (value as unknown[]).map(one) : one(value)];
    }),
  );
}
