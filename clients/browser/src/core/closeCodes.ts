/** Why a gateway ends a session, and whether the client may come back. */

import { CloseCode, STAY_AWAY_FROM_CODE } from "./protocol.js";

/** Whether a client may connect again by itself, also after a code it does not know. */
export function mayComeBack(code: number): boolean {
  return code < STAY_AWAY_FROM_CODE;
}

/** For people. */
export function closeCodeName(code: number): string {
  return Object.entries(CloseCode).find(([, value]) => value === code)?.[0] ?? `close code ${code}`;
}
