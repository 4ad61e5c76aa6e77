/** Times of a clock that was wrong when they were written. */

/**
 * Converts an expiry set at `clockMs` of another clock, which was `nowMs` on the one here. An expiry nearer to the
 * other clock's time was computed with that clock, and is converted; any other stays.
 */
export function expiryHere(expiresAt: bigint, clockMs: bigint, nowMs: bigint): bigint {
  const distance = (other: bigint): bigint => (expiresAt < other ? other - expiresAt : expiresAt - other);
  if (distance(clockMs) >= distance(nowMs)) return expiresAt;
  const here = expiresAt - clockMs + nowMs;
  return here < 1n ? 1n : here;
}
