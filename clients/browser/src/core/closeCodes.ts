/** Why a gateway ends a session, and whether the client may come back. */

export const CloseCode = {
  GOING_AWAY: 1,
  SILENT: 2,
  TOO_SLOW: 3,
  OVERLOADED: 4,
  DISPLACED: 5,
  UNKNOWN_SESSION: 6,
  HANDSHAKE_TIMEOUT: 7,
  EXPIRED: 8,
  PROTOCOL_ERROR: 64,
  FRAME_TOO_LARGE: 65,
  BAD_NAME: 66,
  UNSUPPORTED_PROTOCOL: 67,
  NOT_AUTHENTICATED: 68,
  NOT_ALLOWED: 69,
} as const;

/** Whether a client may connect again by itself, also after a code it does not know. */
export function mayComeBack(code: number): boolean {
  return code < 64;
}

/** For people. */
export function closeCodeName(code: number): string {
  return Object.entries(CloseCode).find(([, value]) => value === code)?.[0] ?? `close code ${code}`;
}
