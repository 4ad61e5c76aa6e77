/**
 * What `Registration.current` says: the version that callbacks were told last of each object, with its payload.
 *
 * The document's floors say which version that is. What stands here may be dropped at any time: nothing rests on it.
 */

import type { Notification } from "../notification.js";
import type { Floor } from "./floors.js";

/** What an entry takes in the document beside its name and payload, about. */
const ENTRY_BYTES = 64;

/** What the document holds of the version that `applied` says. */
export interface KeptPayload {
  /** As it came; "": there was none. */
  readonly payload: string;
  readonly deleted: boolean;
}

interface Told extends KeptPayload {
  readonly floor: Floor;
}

const fromUtf8 = new TextDecoder();

/** By object, the one that was told last behind. All together have a bound; beyond it the first ones go. */
export class Newest {
  readonly #bytesMax: number;
  readonly #told = new Map<string, Told>();
  #bytes = 0;

  constructor(bytesMax: number, kept: ReadonlyMap<string, KeptPayload>, floors: ReadonlyMap<string, Floor>) {
    this.#bytesMax = bytesMax;
    for (const [name, { payload, deleted }] of kept) {
      const floor = floors.get(name);
      if (floor !== undefined) this.#put(name, { floor, payload, deleted });
    }
  }

  /** Callbacks have been told this version. */
  put(name: string, floor: Floor, payload: Uint8Array, deleted: boolean): void {
    this.#put(name, { floor, payload: fromUtf8.decode(payload), deleted });
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

  /** Nothing is to be said of it any more. */
  forget(name: string): void {
    const told = this.#told.get(name);
    if (told === undefined) return;
    this.#told.delete(name);
    this.#bytes -= bytesOf(name, told);
  }

  /** As its callbacks were told, parsed anew. null: they were told none, or it is not kept any more. */
  get(objectId: string): Omit<Notification, "description"> | null {
    const told = this.#told.get(objectId);
    if (told === undefined) return null;
    const { floor, payload, deleted } = told;
    return { objectId, version: floor.version, payload: parsed(payload), deleted };
  }

  /** For the document: of those that have this floor. */
  kept(floors: ReadonlyMap<string, Floor>): Map<string, KeptPayload> {
    const kept = new Map<string, KeptPayload>();
    for (const [name, { floor, payload, deleted }] of this.#told) {
      const stored = floors.get(name);
      if (stored?.version === floor.version && stored.incarnation === floor.incarnation) kept.set(name, { payload, deleted });
    }
    return kept;
  }
}

/** What is not JSON was reported when it was told. */
function parsed(payload: string): unknown {
  try {
    return payload === "" ? null : JSON.parse(payload);
  } catch {
    return null;
  }
}

/** `localStorage` counts 16 bits for each character. */
function bytesOf(name: string, { payload }: KeptPayload): number {
  return ENTRY_BYTES + 2 * (name.length + payload.length);
}
