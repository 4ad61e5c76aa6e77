/** A client core with a store that is never late, and a gateway that says what a test says. */

import assert from "node:assert/strict";

import { Client, type Save } from "../src/core/client.js";
import { decode, type Document, emptyDocument } from "../src/core/document/document.js";
import { FrameBuffer } from "../src/schemas/frames.js";
import { DEFAULTS } from "../src/core/settings.js";
import { CLIENT_FRAME, type ClientFrame, encodeFrame, GATEWAY_FRAME, type GatewayFramePart, parseFrame } from "../src/schemas/wire.js";

export const ME = { domain: "d", group: "g", client: "c" };

/** Time goes on with each connection, or when a test says so in `now`. */
export class ClientBench {
  readonly client: Client;
  now = 1000;
  stored: Document;

  constructor(document: Document = emptyDocument(ME)) {
    this.stored = document;
    this.client = new Client(document, ["ws://gateway"], { ...DEFAULTS, retryMinS: 1 }, () => 0.5, this.now);
  }

  /** What has changed is durable. */
  save(): void {
    this.client.tick(this.now);
    for (let save: Save | null = this.client.saveNow(); save !== null; save = this.client.saveNow()) {
      this.stored = decode(save.document, ME);
      this.client.saved(save, this.now);
    }
  }

  /** The connection stands; what the client says first. */
  connect(): NonNullable<ClientFrame["hello"]> {
    this.save();
    this.now += 400;
    assert(this.client.connectDue(this.now) !== null);
    this.client.linkUp(this.now);
    const [frame] = this.out();
    assert(frame?.hello);
    return frame.hello;
  }

  /** What the client has to say now. */
  out(): ClientFrame[] {
    this.save();
    return this.sent();
  }

  /** The same, and nothing becomes durable before. */
  sent(): ClientFrame[] {
    const frames: ClientFrame[] = [];
    for (let data = this.client.dataToSend(this.now); data.length > 0; data = this.client.dataToSend(this.now)) {
      for (const body of new FrameBuffer(32 * 1024).feed(data)) frames.push(parseFrame(CLIENT_FRAME, body));
    }
    return frames;
  }

  say(frame: GatewayFramePart): void {
    this.client.receive(encodeFrame(GATEWAY_FRAME, frame), this.now);
  }
}
