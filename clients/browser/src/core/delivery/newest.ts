/**
 * The versions for `Registration.current`: the last one of each object that callbacks were told, with its payload.
 *
 * The document's floors contain the version numbers. An entry may be dropped at any time: nothing depends on it.
 */

import type { Notification } from "../../notification.js";
import type { Floor } from "./floors.js";
import { base64Of, bytesOfBase64, saidBy } from "../streams/payloads.js";

/** Approximate size of an entry in the document beside its name and payload. */
const ENTRY_BYTES = 64;

/** The document's entry for the version in `applied`. */
export interface KeptPayload {
  /** The payload as received; "": there was none. */
  readonly payload: string;
  readonly deleted: boolean;
  /** True: `payload` is bytes in base64. */
  readonly raw?: boolean;
}

interface Told extends KeptPayload {
  readonly floor: Floor;
}

const fromUtf8 = new TextDecoder();

/**
 * Versions by object, the one told last at the end. Their total size is bounded; beyond it the first ones are dropped.
 */
export class NewestUpdates {
  readonly #bytesMax: number;
  readonly #told = new Map<string, Told>();
  #bytes = 0;

  constructor(bytesMax: number, kept: ReadonlyMap<string, KeptPayload>, floors: ReadonlyMap<string, Floor>) {
    this.#bytesMax = bytesMax;
    for (const [name, one] of kept) {
      const floor = floors.get(name);
      if (floor !== undefined) this.#put(name, { floor, ...one });
    }
  }

  /** Stores a version that callbacks have been told. */
  put(name: string, floor: Floor, payload: Uint8Array, deleted: boolean, raw = false): void {
    if (raw) this.#put(name, { floor, payload: base64Of(payload), deleted, raw });
    else this.#put(name, { floor, payload: fromUtf8.decode(payload), deleted });
  }

  #put(name: string, told: Told): void {
    this.forget(name);
    const bytes = bytesOf(name, told);
    if (bytes > this.#bytesMax) return;
    this.#told.set(name, told);
    this.#bytes += bytes;
    for (const first of this.#told.keys()) {
      if (this.#bytes <= this.#bytesMax) return;
      this.forget(first);
    }
  }

  /** Forgets an object. */
  forget(name: string): void {
    const told = this.#told.get(name);
    if (told === undefined) return;
    this.#told.delete(name);
    this.#bytes -= bytesOf(name, told);
  }

  /**
   * Returns the version that its callbacks were told, parsed again; null: they were told none, or it is not kept any
   * more.
   */
  get(objectId: string): Omit<Notification, "description"> | null {
    const told = this.#told.get(objectId);
    if (told === undefined) return null;
    const { floor, payload, deleted, raw = false } = told;
    if (raw) {
      const data = bytesOfBase64(payload);
      return { objectId, version: floor.version, payload: saidBy(data), data, deleted };
    }
    return { objectId, version: floor.version, payload: parsed(payload), deleted };
  }

  /** Returns the entries for the document: those that have this floor. */
  kept(floors: ReadonlyMap<string, Floor>): Map<string, KeptPayload> {
    const kept = new Map<string, KeptPayload>();
    for (const [name, { floor, ...one }] of this.#told) {
      const stored = floors.get(name);
      if (stored?.version === floor.version && stored.incarnation === floor.incarnation) kept.set(name, one);
    }
    return kept;
  }
}

/** Parses the payload. Invalid JSON was reported when it was told. */
function parsed(payload: string): unknown {
  try {
    return payload === "" ? null : JSON.parse(payload);
  } catch {
    return null;
  }
}

/** Returns the size: `localStorage` counts 16 bits for each character. */
function bytesOf(name: string, { payload }: KeptPayload): number {
  return ENTRY_BYTES + 2 * (name.length + payload.length);
}
