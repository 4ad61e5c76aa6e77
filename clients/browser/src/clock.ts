/**
 * The client's clock: seconds that count what the machine sleeps, too, and never go back.
 *
 * In some browsers `performance.now()` stands still while the machine sleeps. By it a connection that died meanwhile
 * looks as if it had been heard of a moment ago.
 */

let wallMs = Date.now();
let monotonicMs = performance.now();
let now = monotonicMs / 1000;

/**
 * From one call to the next, the greater of what the monotonic and the wall clock say has passed. A wall clock that is set
 * forward looks like a sleep, and costs a Ping.
 */
export function nowS(): number {
  const [wall, monotonic] = [Date.now(), performance.now()];
  now += Math.max(wall - wallMs, monotonic - monotonicMs) / 1000;
  [wallMs, monotonicMs] = [wall, monotonic];
  return now;
}
