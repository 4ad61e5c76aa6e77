/**
 * The numbers that control the client's core; the application may set those of `ClientSettings`. Numbers that clients in all
 * languages and the service must agree on are in `protocol.ts`.
 */

import {
  ACK_DELAY_S,
  ANSWER_S,
  BACKOFF_MAX_S,
  BACKOFF_MIN_S,
  DISPLACED_MAX_S,
  DISPLACED_MIN_S,
  FRESH_EXTRA_S,
  FRESH_FACTOR,
  FRESH_PROOF_S,
  KEEPALIVE_S_MAX,
  SILENCE_EXTRA_S,
  SILENCE_FACTOR,
  WEB_PROFILE_KEEPALIVE_S,
  WEBSOCKET_KEEPALIVE_S,
} from "../schemas/protocol.js";

/** The pause after DISPLACED is longer by up to this fraction, so that two pages do not alternate in step. */
export const DISPLACED_JITTER = 0.1;
/**
 * While this many bytes wait to be sent, no further chunks and requests are made, because the wanted set may be
 * megabytes.
 */
export const OUT_BYTES_MAX = 64 * 1024;
/** The first delay before the state is written again after a failure; it doubles... */
export const SAVE_RETRY_MIN_S = 1;
/** ...up to this. */
export const SAVE_RETRY_MAX_S = 60;
/** So long after a trial has failed that had sent Hello, a DISPLACED may be its doing, and not another client's. */
export const OWN_HELLO_S = 120;
/**
 * Minimum time between tries when the application asks for a connection while the next try is awaited, because it may
 * ask all the time.
 */
export const TRIES_APART_S = 1;
/**
 * Limit on all messages that wait for their callbacks. Above it, the newest messages of the longest channel are
 * requested again later: a slow callback must not fill the memory of a small machine.
 */
export const CHANNELS_BACKLOG_BYTES_MAX = 4 * 1024 * 1024;
/** Limit on reports that wait to be told; beyond it the oldest are dropped. */
export const REPORTS_MAX = 1000;

/**
 * Default limit on versions kept for `current`: a browser gives a page 5 MB or 10 MB, and the document is written as a
 * whole.
 */
export const NEWEST_BYTES_MAX = 256 * 1024;

/** The client's settings. All times are in seconds. */
export interface ClientSettings {
  /** A Ping is sent after this long without anything else: a whole number from 1 to 86,400. */
  readonly keepaliveS: number;
  /**
   * A gateway that is silent for 1.5 keepalives and this after a Ping is given up; after a standstill of the page, for
   * this alone. Default: a keepalive, and at most 10.
   */
  readonly silenceGraceS: number;
  /**
   * The client counts as caught up if an answer of the service proves that it was, at most so long ago; 0: 2.5
   * keepalives and 20 s. Must be more than a keepalive and 12 s.
   */
  readonly freshS: number;
  /** A registration that is not answered is requested again after this long. */
  readonly requestTimeoutS: number;
  /** Limit on the WebSocket's handshake. */
  readonly connectTimeoutS: number;
  /** Acknowledgements are delayed by this, and merged. */
  readonly ackDelayS: number;
  /** Minimum interval of writes of the versions that callbacks were told. */
  readonly saveIntervalS: number;
  /** Number of tries of a callback that throws; then its object is parked. */
  readonly triesMax: number;
  /** The first delay before it is tried again; it doubles... */
  readonly retryMinS: number;
  /** ...up to this. */
  readonly retryMaxS: number;
  /** The first pause before connecting again is random, up to this; the next ones double... */
  readonly backoffMinS: number;
  /** ...up to this. */
  readonly backoffMaxS: number;
  /** An address that failed is not tried for this long while there is another. */
  readonly addressRestS: number;
  /** The first pause after another client of the same name took over; it doubles... */
  readonly displacedMinS: number;
  /** ...up to this. */
  readonly displacedMaxS: number;
  /** Bytes of the last versions that callbacks were told, kept for `current` in memory and in the state; 0: none. */
  readonly newestBytesMax: number;
  /** True if the service is told the first line of errors that callbacks throw. */
  readonly sayErrors: boolean;
}

export const DEFAULTS: ClientSettings = {
  keepaliveS: WEBSOCKET_KEEPALIVE_S,
  silenceGraceS: SILENCE_EXTRA_S,
  freshS: 0,
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

/** A kind of line between the page and its gateway. */
export type Profile = "web" | "radio";

/** Returns the defaults with the given values. Throws RangeError, whose message begins with the setting's name. */
export function settingsOf(given: Partial<ClientSettings>, profile: Profile = "radio"): ClientSettings {
  if (profile !== "web" && profile !== "radio") {
    throw new RangeError(`profile: ${JSON.stringify(profile)} is unknown, expected one of web, radio`);
  }
  const settings: Record<string, number | boolean> = { ...DEFAULTS };
  if (profile === "web") settings["keepaliveS"] = WEB_PROFILE_KEEPALIVE_S;
  for (const name of Object.keys(DEFAULTS) as (keyof ClientSettings)[]) {
    const value = given[name];
    if (value === undefined) continue;
    if (typeof DEFAULTS[name] === "boolean") {
      if (typeof value !== "boolean") throw new RangeError(`${name}: ${String(value)} is not true or false`);
    } else if (typeof value !== "number" || !(value >= 0 && value < Infinity)) {
      throw new RangeError(`${name}: ${String(value)} is not a number from 0 on`);
    }
    settings[name] = value;
  }
  if (given.silenceGraceS === undefined) {
    settings["silenceGraceS"] = Math.min(SILENCE_EXTRA_S, settings["keepaliveS"] as number);
  }
  const checked = settings as unknown as ClientSettings;
  if (!Number.isInteger(checked.keepaliveS) || checked.keepaliveS < 1 || checked.keepaliveS > KEEPALIVE_S_MAX) {
    throw new RangeError(`keepaliveS: ${checked.keepaliveS} is not a whole number from 1 to ${KEEPALIVE_S_MAX}`);
  }
  if (!Number.isInteger(checked.triesMax) || checked.triesMax < 1) {
    throw new RangeError(`triesMax: ${checked.triesMax} is not a whole number from 1 on`);
  }
  if (checked.freshS !== 0 && checked.freshS <= checked.keepaliveS + FRESH_PROOF_S) {
    throw new RangeError(`freshS: ${checked.freshS} is not more than keepaliveS and ${FRESH_PROOF_S}`);
  }
  for (const name of ["connectTimeoutS", "requestTimeoutS"] as const) {
    if (checked[name] === 0) throw new RangeError(`${name}: must be more than 0`);
  }
  return checked;
}

/** Returns how old what is proved may be, for the client to count as caught up. */
export function staleAfterS({ keepaliveS, freshS }: ClientSettings): number {
  return freshS || FRESH_FACTOR * keepaliveS + FRESH_EXTRA_S;
}

/** Returns the time for which a gateway may be silent after a Ping: the same that it grants us. */
export function silenceS(settings: ClientSettings): number {
  return SILENCE_FACTOR * settings.keepaliveS + settings.silenceGraceS;
}
