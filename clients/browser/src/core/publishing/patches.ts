/** Patches of objects' descriptions, as applications say them: JSON merge patches, in which null removes a key. Pure. */

/** Limit on a patch as JSON, in bytes. */
export const PATCH_BYTES_MAX = 16_384;
/** Limit on the keys that a description has. */
export const KEYS_MAX = 64;
/** Limit on a value that is text, in bytes. */
export const TEXT_BYTES_MAX = 256;
const KEY = /^[A-Za-z_][A-Za-z0-9_/.-]{0,127}$/;
const LONE_SURROGATE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;

const encoder = new TextEncoder();

/** Keys with their new values; null removes a key. */
export type Patch = Readonly<Record<string, string | number | boolean | null>>;

/** Returns it as JSON. Throws RangeError, whose message begins with "description: ". */
export function encodePatch(patch: Patch): string {
  if (typeof patch !== "object" || patch === null || Array.isArray(patch)) {
    throw new RangeError(`description: ${String(patch).slice(0, 80)} is not an object of keys and values`);
  }
  const said = Object.entries(patch);
  for (const [key, value] of said) {
    if (!KEY.test(key)) {
      throw new RangeError(`description: ${JSON.stringify(key.slice(0, 80))} is not a key (up to 128 of A-Z a-z 0-9 _ / . -)`);
    }
    checkValue(key, value);
  }
  if (said.filter(([, value]) => value !== null).length > KEYS_MAX) {
    throw new RangeError(`description: has more than ${KEYS_MAX} keys`);
  }
  const text = JSON.stringify(Object.fromEntries(said));
  const size = encoder.encode(text).length;
  if (size > PATCH_BYTES_MAX) throw new RangeError(`description: has ${size} bytes of JSON (at most ${PATCH_BYTES_MAX})`);
  return text;
}

/** Returns the patch that does what two do, one after the other; null: it would be too long. "" changes nothing. */
export function composed(earlier: string, later: string): string | null {
  if (earlier === "" || later === "") return earlier || later;
  const text = JSON.stringify({ ...(JSON.parse(earlier) as object), ...(JSON.parse(later) as object) });
  return encoder.encode(text).length <= PATCH_BYTES_MAX ? text : null;
}

function checkValue(key: string, value: unknown): void {
  if (value === null || typeof value === "boolean") return;
  if (typeof value === "string") {
    if (LONE_SURROGATE.test(value)) throw new RangeError(`description: the value of ${JSON.stringify(key)} is not valid UTF-16`);
    const size = encoder.encode(value).length;
    if (size > TEXT_BYTES_MAX) {
      throw new RangeError(`description: the value of ${JSON.stringify(key)} has ${size} bytes (at most ${TEXT_BYTES_MAX})`);
    }
  } else if (typeof value !== "number" || !Number.isFinite(value)) {
    throw new RangeError(`description: the value of ${JSON.stringify(key)} is neither a text, a finite number, true nor false`);
  }
}
