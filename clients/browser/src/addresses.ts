/** The gateways' WebSocket addresses that the application gives, or its page's own; and the directory. */

import { WEIGHT_MAX } from "./core/session/addressBook.js";
import type { Gateways } from "./core/session/reconnect.js";

/** A gateway's URL, or a pair of it and its weight. */
export type GivenAddress = string | readonly [string, number];

/** The options that say where the gateways are. */
export interface Where {
  /**
   * ws:// or wss:// URLs of gateways, each of which may be a pair with its weight: any one will do, drawn by weight.
   * Default: `/v1/connect` at this page's origin, if neither `home` nor `directory` is given.
   */
  readonly address?: string | readonly GivenAddress[];
  /** The gateway to be at whenever it serves: it is tried first, and again beside a session elsewhere. */
  readonly home?: string;
  /** URL of the HTTP service, which names a gateway once none of the addresses serves; asked at most once a second. */
  readonly directory?: string;
}

/** Returns the gateways, with addresses as URLs. Throws RangeError. */
export function gatewaysFrom({ address, home, directory }: Where): Gateways {
  if (directory !== undefined) directoryUrl(directory);
  const weights = new Map<string, number>();
  for (const entry of entriesOf(address, home !== undefined || directory !== undefined)) {
    const [text, weight] = typeof entry === "string" ? [entry, 1] : entry;
    if (!Number.isInteger(weight) || weight < 1 || weight > WEIGHT_MAX) {
      throw new RangeError(`address: the weight ${weight} of ${text} is not a whole number from 1 to ${WEIGHT_MAX}`);
    }
    const url = addressOf(text);
    if (!weights.has(url)) weights.set(url, weight);
  }
  const ofHome = home === undefined ? null : addressOf(home, "home");
  return { addresses: [...weights], home: ofHome, directory: directory !== undefined };
}

function entriesOf(given: Where["address"], others: boolean): readonly GivenAddress[] {
  if (given === undefined) return others ? [] : [pageAddress()];
  const entries = typeof given === "string" ? [given] : given;
  if (entries.length === 0 && !others) throw new RangeError("address: is empty");
  return entries;
}

/** Returns the address as a URL. Throws RangeError, which begins with the setting's name. */
export function addressOf(entry: string, setting = "address"): string {
  let url: URL;
  try {
    url = new URL(entry);
  } catch {
    throw new RangeError(`${setting}: ${JSON.stringify(entry)} is not a URL`);
  }
  if (url.protocol !== "ws:" && url.protocol !== "wss:") {
    throw new RangeError(`${setting}: ${JSON.stringify(entry)} is no ws:// or wss:// URL`);
  }
  if (url.hash !== "") throw new RangeError(`${setting}: ${JSON.stringify(entry)} has a fragment (#)`);
  if (url.pathname === "/") url.pathname = "/v1/connect";
  return url.href;
}

/** Returns the directory's resource. Throws RangeError. */
export function directoryUrl(given: string): URL {
  let url: URL | null = null;
  try {
    url = new URL(given);
  } catch {
    // said below
  }
  if (url === null || (url.protocol !== "http:" && url.protocol !== "https:")) {
    throw new RangeError(`directory: ${JSON.stringify(given)} is no http:// or https:// URL`);
  }
  url.pathname = `${url.pathname.replace(/\/+$/, "")}/v1/gateway`;
  return url;
}

function pageAddress(): string {
  const page = (globalThis as { location?: Location }).location;
  if (page === undefined) throw new RangeError("address: is missing, and no page provides one");
  return `${page.protocol === "https:" ? "wss" : "ws"}://${page.host}/v1/connect`;
}
