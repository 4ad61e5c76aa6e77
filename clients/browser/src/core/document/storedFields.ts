/** Fields of the document: how they are checked when they are read. */

import { StateDamaged } from "../../errors.js";
import { checkObject } from "../../schemas/names.js";
import type { OperationKind } from "../interests/registrations.js";

export type Fields = Record<string, unknown>;

const U64_MAX = 2n ** 64n - 1n;

/** Returns the entries as an object without a prototype, because "__proto__" is a name like any other. */
export function pairs(entries: Iterable<readonly [string, unknown]>): Fields {
  const fields = Object.create(null) as Fields;
  for (const [name, value] of entries) fields[name] = value;
  return fields;
}

/** Parses pending operations. Throws StateDamaged if one contradicts `wanted`, which the field `of` has. */
export function operationsOf(
  field: string,
  entries: readonly [string, unknown][],
  wanted: { has(name: string): boolean },
  of: string,
): Map<string, OperationKind> {
  const pending = new Map<string, OperationKind>();
  for (const [name, kind] of entries) {
    if (kind !== "register" && kind !== "unregister") throw new StateDamaged(`${field}: has an entry that is not an operation`);
    if ((kind === "register") !== wanted.has(name)) throw new StateDamaged(`${field}: ${JSON.stringify(name)} contradicts ${of}`);
    pending.set(name, kind);
  }
  return pending;
}

/** Parses a number of 64 bits. Throws StateDamaged. */
export function numberOf(field: string, value: unknown): bigint {
  if (isNumber(value)) return BigInt(value);
  throw new StateDamaged(`${field}: has a value that is not a number of 64 bits`);
}

/** Parses an object's entries. Throws StateDamaged. */
export function table(fields: Fields, name: string): [string, unknown][] {
  const value = fields[name];
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new StateDamaged(`${name}: is not an object`);
  }
  return Object.entries(value);
}

/** Parses a name. Throws StateDamaged. */
export function checkedObject(field: string, name: unknown): string {
  try {
    return checkObject(name);
  } catch (error) {
    throw new StateDamaged(`${field}: ${(error as Error).message}`);
  }
}

/** Returns true for a number of 64 bits: JSON's own numbers are rounded above 2^53, so it is a text. */
export function isNumber(value: unknown): value is string {
  return typeof value === "string" && /^\d{1,20}$/.test(value) && BigInt(value) <= U64_MAX;
}
