/** What a client does, step by step, is what `schemas/transcripts/` says: the runner for this one. */

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

import { Client, type Save } from "../src/core/client.js";
import type { KeptChannels } from "../src/core/streams/channels.js";
import type { AnyJob } from "../src/core/delivery/callbackTurns.js";
import type { CallbackJob } from "../src/core/delivery/slot.js";
import { decode, type Document } from "../src/core/document/document.js";
import { BEGINNING, type KeptChannel } from "../src/core/streams/feed.js";
import { FrameBuffer } from "../src/schemas/frames.js";
import { byChannel, type Channel, channelOf, type Interest, isName } from "../src/core/interests/interests.js";
import { Publications } from "../src/core/publishing/publications.js";
import type { OperationKind } from "../src/core/interests/registrations.js";
import type { Gateways } from "../src/core/session/reconnect.js";
import { DEFAULTS, type ClientSettings } from "../src/core/settings.js";
import { sinceFields, sinceFrom } from "../src/core/interests/since.js";
import { CLIENT_FRAME, encodeFrame, GATEWAY_FRAME, parseFrame } from "../src/schemas/wire.js";
import { StateError } from "../src/errors.js";
import { fromJson } from "./json.js";

const FOLDER = new URL("../../../../schemas/transcripts/", import.meta.url);
const FILES = (readdirSync(FOLDER, { recursive: true }) as string[]).filter((name) => name.endsWith(".jsonl"));
/** Times in transcripts are rounded: a deadline that is nearer than this has come. */
const ROUNDING_S = 1e-4;

/** As the file has it. */
type Json = any;

class Runner {
  readonly client: Client;
  reports: string[] = [];
  readonly #header: Json;
  readonly #settings: ClientSettings;
  readonly #namesGateways: boolean;
  readonly #links = new Map<number, { stage: "connecting" | "up" | "over"; giveUpAt: number }>();
  #save: Save | null = null;
  #job: AnyJob | null = null;
  #stopping: "no" | "orderly" | "abandoned" = "no";

  constructor(header: Json) {
    const { epoch, cursor, wanted, pending, applied } = header.document;
    const floors = Object.entries(applied as Record<string, [string, string]>);
    const channels = keptOf(header.document);
    const operations = (header.document.pending_channels ?? []).map((one: Json) => [interestOf(one), one.kind]);
    const document: Document = {
      identity: header.client,
      epoch,
      cursor: cursor === null ? null : BigInt(cursor),
      wanted: new Set([...wanted, ...channels.channels.keys()]),
      pending: new Map([...(Object.entries(pending) as [string, OperationKind][]), ...operations]),
      channels,
      shares: new Map(),
      queries: new Map(),
      newest: new Map(),
      settled: header.document.settled ?? false,
      applied: new Map(floors.map(([name, [i, v]]) => [name, { incarnation: BigInt(i), version: BigInt(v) }])),
    };
    const { say_unsettled: saysUnsettled = false, ...settings } = header.settings;
    const given = Object.entries(settings).map(([name, value]) => [camel(name), value]);
    this.#header = header;
    this.#settings = { ...DEFAULTS, sayErrors: false, ...Object.fromEntries(given) };
    this.#namesGateways = header.gateways !== undefined;
    const gateways: Gateways = header.gateways ?? { addresses: [["ws://gateway", 1]] };
    this.client = new Client(document, gateways, this.#settings, () => 0.5, 0, new Publications(), saysUnsettled);
  }

  deadline(): number {
    const giveUpAts = Array.from(this.#links.values(), ({ giveUpAt }) => giveUpAt);
    return Math.min(this.client.deadline(), this.#job === null ? this.client.nextJobAt() : Infinity, ...giveUpAts);
  }

  do(event: Json, now: number): void {
    const { client } = this;
    const number: number = event.number ?? 0;
    if (event.register) client.application.register(event.register[0]);
    else if (event.unregister) client.application.unregister(event.unregister[0]);
    else if (event.register_only) client.application.registerOnly(new Set(event.register_only));
    else if (event.subscribe) client.application.subscribe(event.subscribe, event.subscriber);
    else if (event.unsubscribe) client.application.unsubscribe(event.unsubscribe, event.subscriber);
    else if (event.register_channel) client.application.registerChannel(event.register_channel, sinceFrom(event.register_channel));
    else if (event.unregister_channel) client.application.unregisterChannel(event.unregister_channel);
    else if (event.subscribe_channel) client.application.subscribe(ofName(event.subscribe_channel), event.subscriber);
    else if (event.unsubscribe_channel) client.application.unsubscribe(ofName(event.unsubscribe_channel), event.subscriber);
    else if (event.subscribe_missed) client.application.subscribeMissed(byChannel({ name: event.subscribe_missed, attributes: [] }), event.subscriber);
    else if (event.stop) {
      this.#stopping = event.abandon ? "abandoned" : "orderly";
      client.stop(event.abandon);
    } else if (event.connect_now) client.connectNow(now);
    else if (event.doubt !== undefined) client.doubt(now, event.doubt);
    else if (event.link === "up") {
      this.#links.set(number, { stage: "up", giveUpAt: Infinity });
      client.linkUp(now, event.token, number);
    } else if (event.link === "down") {
      this.#links.delete(number);
      client.linkDown("it is over", now, number);
    } else if (event.named) client.named(event.named, now, event.home_out_s);
    else if (event.unnamed) client.unnamed("nobody", now, event.retry_after_s);
    else if (event.frames) {
      const frames = event.frames.map((frame: Json) => encodeFrame(GATEWAY_FRAME, fromJson(GATEWAY_FRAME, frame)));
      client.receive(Buffer.concat(frames), now, number);
    } else if ("saved" in event) {
      const save = this.#save as Save;
      this.#save = null;
      if (event.saved) client.saved(save, now);
      else client.saveFailed(new StateError("no"), now);
    } else if (event.called) {
      const job = this.#job as AnyJob;
      this.#job = null;
      client.jobDone(job, new Map(event.failed.map((subscriber: number) => [subscriber, new Error("no")])), now);
    } else assert.fail(`no event: ${JSON.stringify(event)}`);
  }

  /** What the client does, until there is nothing to do; in the order of Python's driver. */
  act(now: number): Json[] {
    const { client } = this;
    const done: Json[] = [];
    client.tick(now);
    this.#save ??= this.#saved(client.saveDue(now), done);
    client.tick(now);
    for (const [number, link] of this.#links) this.#drive(number, link, done, now);
    const main = client.mainLink;
    if (!this.#links.has(main)) this.#connect(main, client.connectDue(now), done, now);
    if (client.questionDue(now)) done.push({ ask_directory: true });
    if (!this.#links.has(1 - main)) this.#connect(1 - main, client.besideDue(now), done, now);
    if (client.finished && this.#links.size === 0) done.push({ end: true });
    // Python's driver tells what comes up from here on with what is done next.
    this.reports = client.takeReports().map(({ name }) => name);
    const job = this.#job === null ? client.nextJob(now) : null;
    if (job !== null) {
      this.#job = job;
      done.push({ call: { ...toldBy(job), subscribers: [...job.subscribers] } });
    }
    return done;
  }

  #connect(number: number, address: string | null, done: Json[], now: number): void {
    if (address === null) return;
    done.push({ connect: this.#namesGateways ? address : true, ...numberOf(number) });
    this.#links.set(number, { stage: "connecting", giveUpAt: now + this.#settings.connectTimeoutS });
  }

  #drive(number: number, link: { stage: string }, done: Json[], now: number): void {
    const { client } = this;
    const isMain = number === client.mainLink;
    if (link.stage === "over") return;
    const close = (action: Json): void => {
      done.push({ ...action, ...numberOf(number) });
      this.#links.set(number, { stage: "over", giveUpAt: Infinity });
    };
    if (!isMain && !client.trialWanted) return close({ close: true });
    if (link.stage !== "up") return;
    const frames: Json[] = [];
    for (let data = client.dataToSend(now, number); data.length > 0; data = client.dataToSend(now, number)) {
      for (const body of new FrameBuffer(32 * 1024).feed(data)) frames.push(parseFrame(CLIENT_FRAME, body));
    }
    if (frames.length > 0) done.push({ frames, ...numberOf(number) });
    if (isMain && !client.linkWanted) close(this.#stopping === "orderly" ? { end_sending: true } : { close: true });
  }

  #saved(save: Save | null, done: Json[]): Save | null {
    if (save !== null) done.push({ save: stored(decode(save.document, this.#header.client)) });
    return save;
  }
}

function numberOf(link: number): Json {
  return link === 0 ? {} : { number: link };
}

function text(number: bigint | null): string | null {
  return number === null ? null : String(number);
}

function toldBy(job: AnyJob): Json {
  if (!("feed" in job)) {
    const { objectId: object, version, payload, deleted } = (job as CallbackJob).notification;
    return { object, version: text(version), payload, deleted };
  }
  const { message } = job;
  const { channel } = message;
  if ("reason" in message) return { channel, after: text(message.after), before: text(message.before), reason: message.reason };
  const { offset, previous, position, payload } = message;
  return { channel, offset: text(offset), previous: text(previous), position, payload };
}

function ofName(name: string): Interest {
  return byChannel({ name, attributes: [] });
}

function interestOf({ name, attributes }: Json): Interest {
  return byChannel({ name, attributes });
}

function keptOf({ channels = [], channels_epoch: epoch = null, channels_cursor: cursor = null }: Json): KeptChannels {
  const number = (value: string | null | undefined): bigint | null => (value == null ? null : BigInt(value));
  const kept = (one: Json): KeptChannel => ({
    since: "since" in one ? sinceFrom(one) : null,
    position: "position" in one ? (number(one.position) ?? BEGINNING) : null,
    told: number(one.told),
    lost: one.lost ?? false,
  });
  const entries = channels.map((one: Json) => [interestOf(one), kept(one)]);
  return { channels: new Map(entries), epoch, cursor: number(cursor) };
}

/** As the file has them, which names no field that has its usual value. */
function storedChannels({ channels: { channels, epoch, cursor }, pending }: Document): Json {
  const operations = [...pending].filter(([interest]) => channelOf(interest) !== null).sort();
  if (channels.size + operations.length === 0) return {};
  return {
    channels_epoch: epoch,
    channels_cursor: text(cursor),
    channels: [...channels].sort().map(([interest, { since, position, told, lost }]) => ({
      ...(channelOf(interest) as Channel),
      ...(since && sinceFields(since)),
      ...(since === null && position !== null && { position: position === BEGINNING ? null : text(position) }),
      ...(told !== null && { told: text(told) }),
      ...(lost && { lost }),
    })),
    pending_channels: operations.map(([interest, kind]) => ({ ...(channelOf(interest) as Channel), kind })),
  };
}

function stored(document: Document): Json {
  const { epoch, cursor, wanted, pending, applied, settled } = document;
  const floors = [...applied].map(([name, { incarnation, version }]) => [name, [String(incarnation), String(version)]]);
  return {
    epoch,
    cursor: cursor === null ? null : String(cursor),
    wanted: [...wanted].filter(isName).sort(),
    pending: Object.fromEntries([...pending].filter(([interest]) => isName(interest))),
    applied: Object.fromEntries(floors),
    ...(settled && { settled }),
    ...storedChannels(document),
  };
}

function camel(snake: string): string {
  return snake.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
}

/** The frames of the file as this client reads them; the order of names within a frame means nothing. */
function comparable(done: Json[], ofFile: boolean): Json[] {
  return done.map((action) => {
    if (!action.frames) return action;
    return {
      ...action,
      frames: action.frames.map((frame: Json) => {
        const read = ofFile ? reread(frame) : frame;
        for (const message of Object.values(read) as Json[]) {
          for (const field of ["register", "unregister", "objects", "settled", "settledHashes"]) message?.[field]?.sort();
          message?.entries?.sort((one: Json, other: Json) => (placeOf(one) < placeOf(other) ? -1 : 1));
        }
        return read;
      }),
    };
  });
}

function placeOf({ name, hash }: Json): string {
  return name || String(hash);
}

function reread(frame: Json): Json {
  const [body] = new FrameBuffer(32 * 1024).feed(encodeFrame(CLIENT_FRAME, fromJson(CLIENT_FRAME, frame)));
  return parseFrame(CLIENT_FRAME, body as Uint8Array);
}

for (const file of FILES) {
  test(`the transcript ${file}`, () => {
    const text = readFileSync(new URL(file, FOLDER), "utf-8");
    const [header, ...lines] = text.trimEnd().split("\n").map((line) => JSON.parse(line));
    const runner = new Runner(header);
    let closing = false;
    lines.forEach((line, index) => {
      const where = `${file}:${index + 2}`;
      const deadline = runner.deadline();
      const now = deadline > line.at && deadline <= line.at + ROUNDING_S ? deadline : line.at;
      for (const event of line.do) runner.do(event, now);
      assert.deepEqual(comparable(runner.act(now), false), comparable(line.then, true), where);
      assert.deepEqual(runner.reports, line.reports, where);
      const { phase, caughtUp } = runner.client.status(now);
      assert.deepEqual([phase, caughtUp], [line.phase, line.caught_up], where);
      // Those of a link that is being closed are the link's own.
      closing &&= !line.do.some((event: Json) => event.link);
      closing ||= line.then.some((action: Json) => action.end_sending);
      if (!closing) {
        const until = Math.max(runner.deadline(), now);
        assert((until === Infinity && line.deadline === null) || Math.abs(until - line.deadline) < ROUNDING_S, where);
      }
    });
  });
}

test("there are transcripts", () => {
  assert(FILES.filter((file) => !file.includes("/")).length >= 20);
  assert(FILES.filter((file) => file.startsWith("channels/")).length >= 9);
  assert(FILES.filter((file) => file.startsWith("unsettled/")).length >= 14);
});
