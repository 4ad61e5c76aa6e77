/** One WebSocket: hosts that ask for a client certificate. */

import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { Link } from "../src/link.js";

const REAL = { WebSocket: globalThis.WebSocket, fetch: globalThis.fetch };
afterEach(() => void Object.assign(globalThis, REAL));

/** What became of a link where the first `failures` WebSockets fail, and an ordinary request is answered, or not. */
async function outcome(address: string, failures: number, answered: boolean): Promise<{ said: string; asked: string[] }> {
  const asked: string[] = [];
  class Socket {
    readyState = 0;
    bufferedAmount = 0;
    onopen: () => void = () => undefined;
    onclose: (event: { code: number; reason: string; wasClean: boolean }) => void = () => undefined;
    constructor(url: string) {
      asked.push(url);
      const opens = asked.filter((one) => one === url).length > failures;
      setTimeout(() => (opens ? this.onopen() : this.onclose({ code: 1006, reason: "", wasClean: false })));
    }
    close(): void {
      this.readyState = 3;
    }
  }
  const fetched = async (url: string): Promise<void> => {
    asked.push(url);
    if (!answered) throw new TypeError("nobody there");
  };
  Object.assign(globalThis, { WebSocket: Socket, fetch: fetched });
  const said = await new Promise<string>((resolve) => {
    const link: Link = new Link(address, 60, () => "token", {
      up: (token) => {
        resolve(`up ${token}`);
        link.close();
      },
      received: () => undefined,
      down: resolve,
      changed: () => undefined,
    });
  });
  return { said, asked };
}

const WSS = "wss://gateway:55003/v1/connect";

test("a host that wants a certificate chosen first is asked by an ordinary request, once", async () => {
  assert.deepEqual(await outcome(WSS, 0, true), { said: "up token", asked: [WSS] });
  const https = "https://gateway:55003/v1/connect";
  assert.deepEqual(await outcome(WSS, 1, true), { said: "up token", asked: [WSS, https, WSS] });
  const never = await outcome(WSS, 9, true);
  assert.match(never.said, /cannot be reached, or went away/);
  assert.deepEqual(never.asked, [WSS, https, WSS]);
  const silent = await outcome(WSS, 9, false);
  assert.match(silent.said, /cannot be reached: TypeError: nobody there/);
  assert.deepEqual(silent.asked, [WSS, https]);
});

test("without TLS there is no certificate to choose", async () => {
  const plain = "ws://gateway:55003/v1/connect";
  assert.deepEqual((await outcome(plain, 9, true)).asked, [plain]);
});
