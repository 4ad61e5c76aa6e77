/** The directory: `GET /v1/gateway` of the HTTP service names a gateway to a client that knows no better. */

import { addressOf, directoryUrl } from "./addresses.js";
import type { ClientIdentity } from "./core/document/document.js";

/** A home that is not ready is left alone for so long, unless the directory says for how long. */
const HOME_OUT_S = 60;

/** The directory's answer. */
export interface NamedGateway {
  readonly address: string;
  /** For so long the client's home takes nobody; 0: it does, or there is none. */
  readonly homeOutS: number;
}

/** The directory names none, or does not answer. */
export class NoGateway extends Error {
  readonly retryAfterS: number;

  constructor(reason: string, retryAfterS = 0) {
    super(`directory: ${reason}`);
    this.retryAfterS = retryAfterS;
  }
}

interface Answer {
  readonly address?: unknown;
  readonly home_ready?: unknown;
  readonly until?: unknown;
}

/** Asks once, for at most `timeoutS`. Rejects with NoGateway. */
export async function askDirectory(
  directory: string,
  { domain, group, client }: ClientIdentity,
  home: string | null,
  token: string,
  timeoutS: number,
): Promise<NamedGateway> {
  const url = directoryUrl(directory);
  const query = { domain, group, client, listener: "web", ...(home === null ? {} : { home }) };
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  let answer: Answer;
  try {
    const headers: Record<string, string> = token === "" ? {} : { Authorization: `Bearer ${token}` };
    const response = await fetch(url, { headers, cache: "no-store", signal: AbortSignal.timeout(1000 * timeoutS) });
    if (!response.ok) {
      const seconds = Number(response.headers.get("Retry-After") ?? 0);
      throw new NoGateway(`HTTP status ${response.status}`, seconds > 0 && seconds < Infinity ? seconds : 0);
    }
    answer = (await response.json()) as Answer;
    const address = webAddress(String(answer.address), url);
    return { address, homeOutS: home === null || answer.home_ready !== false ? 0 : outS(answer.until) };
  } catch (error) {
    throw error instanceof NoGateway ? error : new NoGateway(String(error));
  }
}

/** host:port is the web port of a gateway that is reached as the directory is. */
function webAddress(said: string, { protocol }: URL): string {
  return addressOf(said.includes("://") ? said : `${protocol === "https:" ? "wss" : "ws"}://${said}`, "address");
}

function outS(until: unknown): number {
  return typeof until === "number" ? Math.max(0, (until - Date.now()) / 1000) : HOME_OUT_S;
}
