/**
 * The numbers that steer the client's core; the application may set those of `Settings`. What clients in all languages
 * and the service must agree on is in `protocol.ts`.
 */

import {
  ACK_DELAY_S,
  ANSWER_S,
  BACKOFF_MAX_S,
  BACKOFF_MIN_S,
  DISPLACED_MAX_S,
  DISPLACED_MIN_S,
  KEEPALIVE_S_MAX,
  SILENCE_EXTRA_S,
  SILENCE_FACTOR,
  WEBSOCKET_KEEPALIVE_S,
} from "./protocol.js";

/** The pause after DISPLACED is up to this much longer, so that two pages do not walk in step. */
export const DISPLACED_JITTER = 0.1;
/** While as much waits to be sent, no further chunks and requests are made: the wanted set may be megabytes. */
export const OUT_BYTES_MAX = 64 * 1024;
/** The state is written again after this long when that failed, doubling... */
export const SAVE_RETRY_MIN_S = 1;
/** ...up to this. */
export const SAVE_RETRY_MAX_S = 60;
/** Who asks for a connection while the next try is awaited gets one now, but not so soon after the last one: an application
 * may ask all the time. */
export const TRIES_APART_S = 1;
/** Of all messages that wait for their callbacks. Above it, what came last of the longest channel is asked for again
 * later: a callback that takes its time must not fill the memory of a small machine. */
export const CHANNELS_BACKLOG_BYTES_MAX = 4 * 1024 * 1024;
/** Reports that wait to be told; beyond, the oldest are dropped. */
export const REPORTS_MAX = 1000;

/** Of what is kept for `current`: a browser gives a page 5 MB or 10 MB, and the document is written as a whole. */
export const NEWEST_BYTES_MAX = 256 * 1024;

/** All times in seconds. */
export interface Settings {
  /** A Ping is sent after this long without anything else: a whole number from 1 to 86,400. */
  readonly keepaliveS: number;
  /** A gateway that is silent for 1.5 keepalives and this after a Ping is given up; for this alone, after the page stood
   * still. */
  readonly silenceGraceS: number;
  /** A registration that is not answered is asked for again after this long. */
  readonly requestTimeoutS: number;
  /** For the WebSocket's handshake. */
  readonly connectTimeoutS: number;
  /** Acknowledgements are delayed so long, and merged. */
  readonly ackDelayS: number;
  /** What callbacks were told is stored at most this often. */
  readonly saveIntervalS: number;
  /** A callback that throws is tried so many times; then its object is parked. */
  readonly triesMax: number;
  /** It is tried again after this long, doubling... */
  readonly retryMinS: number;
  /** ...up to this. */
  readonly retryMaxS: number;
  /** The first pause before connecting again is random, up to this long; the next ones double... */
  readonly backoffMinS: number;
  /** ...up to this. */
  readonly backoffMaxS: number;
  /** An address that failed is not tried for this long while there is another. */
  readonly addressRestS: number;
  /** The pause after another client of the same name took over; it doubles... */
  readonly displacedMinS: number;
  /** ...up to this. */
  readonly displacedMaxS: number;
  /** So much is kept of what callbacks were told last, for `current`, in memory and in the state; 0: nothing. */
  readonly newestBytesMax: number;
  /** The service is told the first line of what callbacks throw. */
  readonly sayErrors: boolean;
}

export const DEFAULTS: Settings = {
  keepaliveS: WEBSOCKET_KEEPALIVE_S,
  silenceGraceS: SILENCE_EXTRA_S,
  requestTimeoutS: ANSWER_S,
  connectTimeoutS: 10,
  ackDelayS: ACK_DELAY_S,
  saveIntervalS: 0.5,
  triesMax: 5,
  retryMinS: 1,
  retryMaxS: 60,
  backoffMinS: BACKOFF_MIN_S,
  backoffMaxS: BACKOFF_MAX_S,
  addressRestS: 60,
  displacedMinS: DISPLACED_MIN_S,
  displacedMaxS: DISPLACED_MAX_S,
  newestBytesMax: NEWEST_BYTES_MAX,
  sayErrors: true,
};

/** The defaults but for what is given. Raises RangeError, whose message begins with the setting's name. */
export function settingsOf(given: Partial<Settings>): Settings {
  const settings: Record<string, number | boolean> = { ...DEFAULTS };
  for (const name of Object.keys(DEFAULTS) as (keyof Settings)[]) {
    const value = given[name];
    if (value === undefined) continue;
    if (typeof DEFAULTS[name] === "boolean") {
      if (typeof value !== "boolean") throw new RangeError(`${name}: ${String(value)} is not true or false`);
    } else if (typeof value !== "number" || !(value >= 0 && value < Infinity)) {
      throw new RangeError(`${name}: ${String(value)} is not a number from 0 on`);
    }
    settings[name] = value;
  }
  const checked = settings as unknown as Settings;
  if (!Number.isInteger(checked.keepaliveS) || checked.keepaliveS < 1 || checked.keepaliveS > KEEPALIVE_S_MAX) {
    throw new RangeError(`keepaliveS: ${checked.keepaliveS} is not a whole number from 1 to ${KEEPALIVE_S_MAX}`);
  }
  if (!Number.isInteger(checked.triesMax) || checked.triesMax < 1) {
    throw new RangeError(`triesMax: ${checked.triesMax} is not a whole number from 1 on`);
  }
  for (const name of ["connectTimeoutS", "requestTimeoutS"] as const) {
    if (checked[name] === 0) throw new RangeError(`${name}: must be more than 0`);
  }
  return checked;
}

/** How long after a Ping a gateway may be silent: the same as what it grants us. */
export function silenceS(settings: Settings): number {
  return SILENCE_FACTOR * settings.keepaliveS + settings.silenceGraceS;
}
