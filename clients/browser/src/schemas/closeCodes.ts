/** The reasons for which a gateway ends a session, and if the client may return. */

import { CloseCode, STAY_AWAY_FROM_CODE } from "./protocol.js";

/** Returns true if a client may connect again by itself, also after a code it does not know. */
export function mayComeBack(code: number): boolean {
  return code < STAY_AWAY_FROM_CODE;
}

/** Returns the code's name, for people. */
export function closeCodeName(code: number): string {
  return Object.entries(CloseCode).find(([, value]) => value === code)?.[0] ?? `close code ${code}`;
}
