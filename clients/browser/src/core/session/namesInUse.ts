/** The names that a session has used: notifications carry a name's CRC-32, until two names would share one. */

import { objectCrc } from "../../schemas/digest.js";
import { isName } from "../interests/interests.js";

/** The names of CRCs in this session. */
export class NamesInUse {
  /** True once the gateway was asked for names: no CRC comes any more. */
  areSaid = false;
  readonly #names = new Map<number, string>();

  /**
   * Notes that these names are going to be used. Returns false if two of the session's names would share a CRC: request
   * names first.
   */
  use(names: readonly string[]): boolean {
    if (this.areSaid) return true;
    const fresh = new Map<number, string>();
    for (const name of names.filter(isName)) {
      const crc = objectCrc(name);
      if ((this.#names.get(crc) ?? name) !== name || (fresh.get(crc) ?? name) !== name) return false;
      fresh.set(crc, name);
    }
    for (const [crc, name] of fresh) this.#names.set(crc, name);
    return true;
  }

  /** Returns the name of a CRC; undefined: this session has used no such name. */
  nameOf(crc: number): string | undefined {
    return this.#names.get(crc);
  }
}
