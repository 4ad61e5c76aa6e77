/** Gateways in memory, behind a WebSocket of our own. */

import { queryHash } from "../src/schemas/digest.js";
import { FrameBuffer } from "../src/schemas/frames.js";
import { CLIENT_FRAME, type ClientFrame, encodeFrame, GATEWAY_FRAME, type GatewayFramePart, parseFrame } from "../src/schemas/wire.js";

/** What the browser would be, as far as no gateway matters. */
export abstract class WireSocket {
  static readonly CONNECTING = 0;
  static readonly OPEN = 1;
  /** Of a network that is gone: nothing is heard, and nothing said. */
  mute = false;
  readonly frames = new FrameBuffer(32 * 1024);
  readonly said: Partial<ClientFrame>[] = [];
  readyState = 0;
  bufferedAmount = 0;
  binaryType = "";
  onopen: () => void = () => undefined;
  onmessage: (event: { data: unknown }) => void = () => undefined;
  onclose: (event: { code: number; reason: string; wasClean: boolean }) => void = () => undefined;

  constructor(readonly url: string) {
    setTimeout(() => {
      if (this.isRefused) return this.end(false);
      this.readyState = 1;
      this.onopen();
    });
  }

  get isRefused(): boolean {
    return false;
  }

  /** What the gateway says to a frame. */
  abstract answer(frame: Partial<ClientFrame>): void;

  send(data: Uint8Array): void {
    for (const body of this.frames.feed(data)) {
      const frame = Object.fromEntries(Object.entries(parseFrame(CLIENT_FRAME, body)).filter(([, kind]) => kind));
      this.said.push(frame);
      setTimeout(() => this.answer(frame));
    }
  }

  say(frame: GatewayFramePart): void {
    if (this.readyState !== 1 || this.mute) return;
    this.onmessage({ data: Uint8Array.from(encodeFrame(GATEWAY_FRAME, frame)).buffer });
  }

  close(): void {
    if (this.readyState < 2) setTimeout(() => this.end(true));
    this.readyState = 2;
  }

  end(wasClean: boolean): void {
    this.readyState = 3;
    this.onclose({ code: wasClean ? 1000 : 1006, reason: "", wasClean });
  }
}

/** A gateway that knows all objects: the connection that came last is the one that counts. */
export class Socket extends WireSocket {
  static all: Socket[] = [];
  static refused = new Set<string>();
  static knowsQueries = true;
  static publishes: boolean | "no" = true;
  static tellsOutcomes = true;
  static tellsDescriptions = false;

  constructor(url: string) {
    super(url);
    Socket.all.push(this);
  }

  override get isRefused(): boolean {
    return Socket.refused.has(this.url);
  }

  /** What a query's members are; "no" is none. They are described if the service tells that. */
  members(text: string): void {
    const hash = queryHash(text);
    if (text === "no") return this.say({ registered: { refused: [{ interest: hash, reason: "line 1: no" }] } });
    this.say({ registered: { begun: [hash] } });
    const description = Socket.tellsDescriptions ? new TextEncoder().encode('{"Room":410}') : undefined;
    for (const name of ["a", "b"]) this.say({ notification: { name, version: 1n, answer: true, entered: [hash], description } });
    this.say({ registered: { answered: [hash] } });
  }

  /** A gateway that knows version 1 of everything. */
  override answer({ hello, register, unregister, ping, publish, askOutcome }: Partial<ClientFrame>): void {
    if (askOutcome && Socket.tellsOutcomes) this.say({ outcome: { ask: askOutcome.ask, kind: 4, version: 5n } });
    if (publish?.request && Socket.publishes === "no") {
      this.say({ notPublished: { request: publish.request, reason: "domain: no right to publish" } });
    } else if (publish?.request && Socket.publishes) this.say({ published: { request: publish.request, offset: 77n } });
    const kinds = Socket.knowsQueries ? (Socket.tellsDescriptions ? 11 : 3) : 0;
    if (hello) {
      this.say({ welcome: { inSync: true, epoch: hello.epoch === undefined ? 1 : undefined, kinds } });
      if (kinds) for (const { text } of hello.interests) this.members(text);
      for (const name of hello.register) this.say({ notification: { name, version: 1n, answer: true } });
      this.say({ caughtUp: { complete: 5n } });
    }
    if (register) {
      this.say({ registered: { request: register.request, kinds } });
      if (kinds) for (const { text } of register.interests) this.members(text);
      for (const name of register.objects) this.say({ notification: { name, version: 1n, answer: true } });
    }
    if (unregister) this.say({ unregistered: { request: unregister.request } });
    if (ping) this.say({ pong: {} });
  }
}
