/**
 * One connection, from Hello to its end: bytes in, bytes out. See `docs/protocol.md`, "A session".
 *
 * A session is in one of four phases (`phases.ts`).
 *
 * Frames are made when the shell asks for bytes (`dataToSend`), not before, so the waiting bytes are bounded and
 * contain the newest state.
 */

import { DescriptionsUnknown, QueriesUnknown, RegistrationRefused } from "../../errors.js";
import type { Delivery, Report } from "../delivery/delivery.js";
import type { ClientIdentity } from "../document/document.js";
import { FrameBuffer, FrameError } from "../../schemas/frames.js";
import {
  channelOf,
  hashesOf,
  type Interest,
  hashOf,
  isName,
  isQuery,
  queryOf,
  shareOf,
  Spare,
  textOf,
} from "../interests/interests.js";
import type { Journal } from "../journal.js";
import { CLOSE_S_MAX, GATEWAY_FRAME_BYTES_MAX, WELCOME_S } from "../../schemas/protocol.js";
import type { Queries } from "../delivery/queries.js";
import { SessionProofs } from "./proofs.js";
import { capabilitiesOf, helloOf, type SaidHello } from "./hello.js";
import { MembersTogether } from "./membersTogether.js";
import { NamesInUse } from "./namesInUse.js";
import { NEXT, Phase, PhaseSaid } from "./phases.js";
import { Publications } from "../publishing/publications.js";
import { type OperationKind, type Operations, type Registrations } from "../interests/registrations.js";
import { RegSync } from "./regSync.js";
import { SessionChannels } from "./sessionChannels.js";
import { SessionRequests } from "./sessionRequests.js";
import { SessionShares } from "./sessionShares.js";
import { OUT_BYTES_MAX, type ClientSettings, silenceS } from "../settings.js";
import { FIRST, firstOf, Stream, streamsOf } from "../streams/stream.js";
import type { UnsettledTold } from "../delivery/unsettled.js";
import {
  CAPABILITY_UNSETTLED,
  type CaughtUp,
  CLIENT_FRAME,
  type ClientFramePart,
  encodeFrame,
  GATEWAY_FRAME,
  type GatewayFrame,
  KINDS_DESCRIPTIONS,
  KINDS_QUERIES,
  type PageEnd,
  parseFrame,
  type Refusal,
  type Registered,
  type Welcome,
  type WireInterest,
  type WireNotification,
} from "../../schemas/wire.js";

const fromUtf8 = new TextDecoder();

/** The reason why a session is over: a close code, or null and an error text. */
export interface SessionEnded {
  readonly code: number | null;
  readonly reason: string;
  /** As in Close, at most CLOSE_S_MAX; missing: unsaid. */
  readonly retryAfterS?: number;
  readonly notHereS?: number;
  /** True if the gateway has not answered a Ping. */
  readonly silent?: boolean;
}

/** A check of the connection: the Pong for this Ping must come until `due`. */
interface Doubt {
  readonly ping: number;
  readonly due: number;
}

/** The objects that a session works on: they outlive it. */
export interface Parts {
  readonly identity: ClientIdentity;
  readonly journal: Journal;
  readonly registrations: Registrations;
  readonly delivery: Delivery;
  /** Its publishes; missing in a client that publishes nothing. */
  readonly publications?: Publications;
  /** Missing in a client that does not report unsettled interests. */
  readonly unsettled?: UnsettledTold | null;
  readonly settings: ClientSettings;
  readonly report: Report;
}

/** The client's side of one connection. It is over when `ended` is set. */
export class ClientSession {
  readonly #parts: Parts;
  readonly #frames = new FrameBuffer(GATEWAY_FRAME_BYTES_MAX);
  readonly #out: Uint8Array[] = [];
  #outBytes = 0;
  #phase: Phase = Phase.OPENING;
  #caughtUpAt: number | null = null;
  #ended: SessionEnded | null = null;
  #saidBye = false;

  readonly #crcs: NamesInUse;
  readonly #members = new MembersTogether();
  /** The bits of its Hello that tell where the client is. */
  readonly #place: number;
  /** True if the Hello asked for the kinds that the service knows. */
  #asksForKinds = false;
  /** True if it asked for descriptions. */
  #asksDescriptions = false;
  /** True if it stated that nothing is unsettled except the interests it registered. */
  #saysAllUnsettled: boolean;
  readonly #requests: SessionRequests;
  #sync: RegSync | null = null;
  #helloOperations: Operations;
  readonly #channels: SessionChannels;
  readonly #shares: SessionShares;
  readonly #publications: Publications;

  /** The stream of its objects. */
  readonly objects: Stream;
  #ackDue: number | null = null;

  #sentAt: number;
  /**
   * The time when the gateway was last heard, or sent a Ping. Repeated requests do not count, because a gateway need
   * not answer them.
   */
  #heardAt: number;
  #pingUnansweredSince: number | null = null;
  /** The number of Pings sent. The n-th Pong answers the n-th Ping. */
  #pings = 0;
  #pongs = 0;
  readonly #freshness: SessionProofs;
  #doubt: Doubt | null = null;
  #waitUntil: number;
  #welcomeDue: number | null;

  /** `taken`: the Hello of a trial, from which it takes over; `takeOver` has to follow. */
  constructor(parts: Parts, now: number, token = "", place = 0, taken: SaidHello | null = null) {
    this.#parts = parts;
    this.#place = place;
    this.#crcs = taken?.crcs ?? new NamesInUse();
    this.objects = new Stream(taken === null ? parts.delivery.cursor : (taken.frame.cursor ?? null));
    this.#requests = new SessionRequests(parts.registrations, parts.settings);
    this.#sentAt = this.#heardAt = this.#waitUntil = now;
    const helloAt = taken?.at ?? now;
    this.#welcomeDue = helloAt + WELCOME_S;
    this.#freshness = new SessionProofs(parts.delivery, parts.registrations, helloAt);
    this.#channels = new SessionChannels(parts.delivery.channels, parts.registrations, parts.report);
    this.#shares = new SessionShares(parts.delivery.shares, parts.registrations, parts.report);
    this.#publications = parts.publications ?? new Publications();
    this.#publications.beginSession();
    parts.delivery.queries.beginSession();
    this.#helloOperations = parts.registrations.beginSession(taken === null);
    this.#saysAllUnsettled = parts.unsettled?.begin(this.#helloOperations, taken === null) ?? false;
    if (taken === null) this.#hello(token, now);
    else {
      this.#asksForKinds = taken.asksForKinds;
      this.#asksDescriptions = taken.asksDescriptions;
      this.#channels.saidByTrial(taken.frame.streams ?? []);
    }
  }

  /** Takes all that came in answer to the trial's Hello. The trial has acknowledged the pages. */
  takeOver(kept: readonly Uint8Array[], now: number): void {
    for (const data of kept) this.receive(data, now);
    for (const stream of this.#streams) stream.pageEnded(0);
  }

  get phase(): Phase {
    return this.#phase;
  }

  get ended(): SessionEnded | null {
    return this.#ended;
  }

  /** The time when it first caught up. */
  get caughtUpAt(): number | null {
    return this.#caughtUpAt;
  }

  // Bytes in

  /** Handles bytes of the gateway. Bytes that are not a frame end the session. */
  receive(data: Uint8Array, now: number): void {
    this.#pingUnansweredSince = null;
    this.#heardAt = now;
    try {
      for (const body of this.#frames.feed(data)) {
        if (this.#ended !== null) return;
        this.#take(parseFrame(GATEWAY_FRAME, body), now);
      }
    } catch (error) {
      if (!(error instanceof FrameError)) throw error;
      this.#end(null, `the gateway sent bytes that are no frame: ${error.message}`);
    }
  }

  #take(frame: GatewayFrame, now: number): void {
    let askedAt: number | undefined;
    if (frame.pong) {
      askedAt = this.#freshness.pong();
      this.#pongs += 1;
      if (this.#doubt !== null && this.#pongs >= this.#doubt.ping) this.#doubt = null;
    }
    if (frame.close) {
      const { code, reason, retryAfterS, notHereS } = frame.close;
      this.#ended ??= {
        code,
        reason,
        retryAfterS: Math.min(retryAfterS, CLOSE_S_MAX),
        notHereS: Math.min(notHereS, CLOSE_S_MAX),
      };
    } else if (frame.wait) {
      this.#waitUntil = now + frame.wait.seconds;
      if (this.#welcomeDue !== null) this.#welcomeDue = Math.max(this.#welcomeDue, this.#waitUntil + WELCOME_S);
    } else if (frame.welcome) {
      this.#onWelcome(frame.welcome, now);
    } else if (this.#phase === Phase.OPENING) {
      // Before its Welcome a session has no epoch, so its numbers cannot be interpreted.
    } else if (frame.notification) {
      this.#onNotification(frame.notification);
    } else if (frame.caughtUp) {
      this.#onCaughtUp(frame.caughtUp, now);
    } else if (frame.pageEnd) {
      this.#onPageEnd(frame.pageEnd);
    } else if (frame.pong) {
      const { complete, streams } = frame.pong;
      if (complete !== undefined) {
        this.#releaseMembers(complete);
        this.#parts.delivery.complete(complete);
      }
      const log = firstOf(streams)?.complete;
      if (log !== undefined) this.#parts.delivery.channels.complete(log);
      if (askedAt !== undefined) this.#freshness.answered(askedAt, frame.pong);
    } else if (frame.message) {
      if (frame.message.handOut > 0) this.#parts.delivery.shares.handed(frame.message, now);
      else this.#endIf(this.#parts.delivery.channels.message(frame.message));
    } else if (frame.missed) {
      if (frame.missed.handOut > 0) this.#parts.delivery.shares.handed(frame.missed, now);
      else this.#endIf(this.#parts.delivery.channels.missed(frame.missed));
    } else if (frame.leases) {
      this.#parts.delivery.shares.answered(frame.leases, now);
    } else if (frame.registered) {
      this.#onRegistered(frame.registered, now);
    } else if (frame.unregistered) {
      this.#onAnswer(frame.unregistered.request, [], now);
    } else if (frame.published) {
      this.#publications.published(frame.published.request, frame.published.offset);
    } else if (frame.outcome) {
      this.#publications.became(frame.outcome);
    } else if (frame.notPublished) {
      const { request, reason, retryAfterMs, clockMs } = frame.notPublished;
      this.#publications.notPublished(request, reason, retryAfterMs, now, clockMs === 0n ? null : clockMs);
    }
  }

  #onWelcome(welcome: Welcome, now: number): void {
    const { inSync, epoch, refused, kinds } = welcome;
    this.#welcomeDue = null;
    this.objects.welcomed();
    if (epoch !== undefined) {
      this.#parts.delivery.newEpoch(epoch);
      this.objects.beginEpoch();
      this.#ackDue = null;
    }
    this.#endIf(this.#channels.welcomed(welcome));
    const sync = this.#sync;
    const operations = sync?.operations ?? this.#helloOperations;
    if (this.#asksForKinds && this.#parts.registrations.hasQueries) this.#know(kinds);
    if (this.#asksDescriptions) this.#describe((kinds & KINDS_DESCRIPTIONS) !== 0);
    this.#channels.learn(welcome, this.#asksForKinds);
    this.#shares.welcomed(welcome, this.#asksForKinds);
    this.#refuse(refused, operations);
    this.#parts.delivery.channels.resolved(firstOf(welcome.streams)?.positions ?? [], operations);
    this.#sync = null;
    this.#helloOperations = new Map();
    if (inSync) {
      if (sync !== null && !sync.allSent) {
        // The answer to something earlier: to a set that is being sent again, or to an Open of the gateway's own. It
        // accepts no more chunks. Requests send what they would have contained; if the sets still differ, the next Ping
        // reveals it.
        this.#parts.registrations.resend(operations, "sent");
      }
      this.#confirm(operations);
      this.#parts.unsettled?.welcomed(now);
      this.#advance(PhaseSaid.IN_SYNC);
    } else {
      this.#advance(PhaseSaid.NOT_IN_SYNC);
      this.#beginSync();
    }
  }

  #onNotification(notification: WireNotification): void {
    for (const one of this.#members.take(notification)) this.#notified(one);
  }

  /** Handles members of a set that waited for others, once everything up to `complete` was sent. */
  #releaseMembers(complete: bigint): void {
    for (const one of this.#members.release(complete)) this.#notified(one);
  }

  #notified(notification: WireNotification): void {
    const { version = null, incarnation, payload, raw, deleted, offset, behind, entered, left, answer } = notification;
    const description = notification.description && fromUtf8.decode(notification.description);
    const name = notification.name || this.#crcs.nameOf(notification.crc);
    if (name !== undefined) {
      const update = { version, incarnation, payload, deleted, ...(raw && { raw }) };
      const says = entered.length + left.length > 0 || description !== undefined;
      if (says) this.#parts.delivery.changed(name, update, entered, left, answer, description);
      else this.#parts.delivery.arrived(name, update);
    }
    if (!answer && offset >= behind) this.#parts.delivery.complete(offset - behind);
  }

  #onPageEnd(pageEnd: PageEnd): void {
    if (pageEnd.stream === FIRST) {
      this.#channels.pageEnded(pageEnd);
      this.#freshness.pageEnded(pageEnd);
    }
    if (pageEnd.stream !== 0) return;
    this.objects.pageEnded(pageEnd.page);
    if (pageEnd.setsUnknown) this.#queries.doubtAll();
    this.#queries.pageEnd(pageEnd);
  }

  #onCaughtUp(caughtUp: CaughtUp, now: number): void {
    const { complete, setsDigest } = caughtUp;
    if (NEXT[this.#phase][PhaseSaid.CAUGHT_UP] === undefined) return;
    this.#advance(PhaseSaid.CAUGHT_UP);
    if (complete !== undefined) this.#releaseMembers(complete);
    this.objects.caughtUp();
    this.#parts.unsettled?.caughtUp(now);
    if (setsDigest !== undefined) this.#queries.compare(setsDigest);
    this.#queries.caughtUp();
    if (complete !== undefined) this.#parts.delivery.complete(complete);
    // Answers that were confirmed before, and have not come, were lost on their way.
    this.#parts.registrations.resend(this.#channels.caughtUp(caughtUp), "confirmed");
    this.#requests.caughtUp();
    this.#freshness.caughtUp(caughtUp);
    this.#caughtUpAt ??= now;
  }

  #onRegistered(registered: Registered, now: number): void {
    const { request, refused, kinds, begun, answered, unchanged } = registered;
    this.#parts.unsettled?.answered(request);
    const operations = this.#requests.of(request);
    if (operations === undefined) for (const refusal of refused) this.#refuseLater(refusal);
    else if ([...operations.keys()].some(isQuery)) this.#know(kinds);
    this.#endIf(this.#channels.registered(registered, operations ?? new Map()));
    this.#shares.registered(kinds, operations ?? new Map());
    this.#onAnswer(request, refused, now);
    this.#queries.begun(begun);
    this.#queries.answered(answered);
    this.#queries.unchanged(unchanged);
  }

  #onAnswer(number: number, refused: readonly Refusal[], now: number): void {
    const operations = this.#requests.take(number);
    if (operations === undefined) return;
    this.#refuse(refused, operations);
    this.#confirm(operations);
    if (this.objects.live) this.#requests.awaitVersions(operations, now); // otherwise CaughtUp is the limit
  }

  #confirm(operations: Operations): void {
    const confirmed = this.#parts.registrations.confirm(operations);
    this.#parts.unsettled?.confirmed(confirmed);
    this.#queries.confirmed(confirmed);
    this.#parts.delivery.channels.confirmed(confirmed);
    this.#parts.delivery.shares.confirmed(confirmed);
  }

  #refuse(refused: readonly Refusal[], operations: Operations): void {
    for (const { object, interest: hash, reason } of refused) {
      const named = [...operations.keys()].find((interest) => !isName(interest) && hashOf(interest) === hash);
      const interest = hash === undefined ? object : named;
      if (interest !== undefined && this.#parts.registrations.refuse(interest, operations)) this.#refused(interest, reason);
    }
  }

  /** Handles a refusal that comes after the service had accepted the registration. */
  #refuseLater({ interest: hash, reason }: Refusal): void {
    const query = hash === undefined ? undefined : this.#queries.ofHash(hash);
    if (query !== undefined && this.#parts.registrations.refuseLater(query.interest)) this.#refused(query.interest, reason);
  }

  #refused(interest: Interest, reason: string): void {
    this.#parts.delivery.forget(interest);
    const share = shareOf(interest);
    const channel = channelOf(interest) === null ? (share?.channel ?? null) : textOf(interest);
    const name = isName(interest) ? interest : "";
    this.#parts.report(new RegistrationRefused(name, reason, queryOf(interest), channel, share?.share ?? null));
  }

  /** Notes the kinds of interests that the service knows. */
  #know(kinds: number): void {
    const { registrations, report } = this.#parts;
    registrations.knowQueries((kinds & KINDS_QUERIES) !== 0);
    if (registrations.knowsQueries) return;
    // Its cursor passes changes that the service does not send.
    this.#queries.oweAll();
    if (!this.#queries.toldUnknown) report(new QueriesUnknown());
    this.#queries.toldUnknown = true;
  }

  /** Notes if the service sends this session descriptions. */
  #describe(isTold: boolean): void {
    const { descriptions } = this.#queries;
    descriptions.welcomed(isTold);
    if (isTold || descriptions.toldUnknown) return;
    descriptions.toldUnknown = true;
    this.#parts.report(new DescriptionsUnknown());
  }

  get #queries(): Queries {
    return this.#parts.delivery.queries;
  }

  #advance(said: PhaseSaid): void {
    this.#phase = NEXT[this.#phase][said] ?? this.#phase;
  }

  #endIf(problem: string): void {
    if (problem !== "") this.#end(null, problem);
  }

  #end(code: number | null, reason: string): void {
    this.#ended ??= { code, reason };
  }

  // Bytes out

  /** Returns the next bytes for the gateway, at most a little over OUT_BYTES_MAX. Call again when these are written. */
  dataToSend(now: number): Uint8Array {
    if (this.#ended === null && !this.#saidBye) {
      if (this.#streams.some(({ pageEnd }) => pageEnd !== 0)) this.#sendAck(now);
      this.#sendChunks(now);
      this.#sendHolds(now);
      this.#sendRequests(now);
      this.#sendUnsettled(now);
      this.#sendPublications(now);
    }
    const data = new Uint8Array(this.#outBytes);
    let at = 0;
    for (const frame of this.#out.splice(0)) {
      data.set(frame, at);
      at += frame.length;
    }
    this.#outBytes = 0;
    this.#parts.delivery.shares.leaving();
    return data;
  }

  /** Ends the session at the application's request, after acknowledging everything durably applied. */
  bye(now: number): void {
    if (this.#saidBye || this.#ended !== null) return;
    if (this.#moves) this.#sendAck(now);
    this.#parts.unsettled?.hurry(now);
    this.#sendUnsettled(now);
    const hold = this.#takesRequests ? this.#parts.delivery.shares.lastHold(now) : null;
    if (hold !== null) this.#send({ hold }, now);
    this.#send({ bye: {} }, now);
    this.#saidBye = true;
  }

  /**
   * Acknowledges this cursor of the stream after a delay, because the document with it is durable. The acknowledgements
   * of all streams are sent together.
   */
  acknowledge(stream: Stream, cursor: bigint | null, now: number): void {
    stream.durable(cursor);
    if (stream.acknowledgement !== null) this.#ackDue ??= now + this.#parts.settings.ackDelayS;
  }

  /** Returns the stream of its domain's channels. */
  get channels(): Stream {
    return this.#channels.stream;
  }

  get #streams(): readonly Stream[] {
    return [this.objects, this.channels];
  }

  /** Returns true if versions, and messages of channels, come as they are published. */
  get isLive(): boolean {
    return this.objects.live && this.#channels.areLive;
  }

  #hello(token: string, now: number): void {
    const { registrations } = this.#parts;
    const isTooMuch = this.#helloOperations.size === 0 && registrations.pending.size > 0;
    const hasChannels = registrations.hasChannels || registrations.hasShares;
    this.#asksForKinds = registrations.hasQueries || (isTooMuch && hasChannels);
    this.#asksDescriptions = this.#queries.descriptions.asked;
    this.#crcs.areSaid = this.#asksForKinds || !this.#crcs.use([...new Set([...registrations.wanted, ...registrations.pending.keys()])]);
    const ofKind = (kind: OperationKind): Interest[] =>
      [...this.#helloOperations].filter(([, operation]) => operation.kind === kind).map(([interest]) => interest);
    const [register, unregister] = [ofKind("register"), ofKind("unregister")];
    this.#shares.saidIn(register);
    this.#send(
      {
        hello: {
          ...helloOf(this.#parts, token, this.#capabilities),
          register: register.filter(isName),
          unregister: unregister.filter(isName),
          interests: this.#said(register),
          unregisterInterests: hashesOf(unregister),
          streams: this.#channels.hello(register),
        },
      },
      now,
    );
  }

  /** Returns the queries, the channels and the shares among `interests`, for a frame that has them all. */
  #said(interests: readonly Interest[]): WireInterest[] {
    const spare = new Spare(interests);
    const { queries, channels } = this.#parts.delivery;
    const said = (one: Interest): WireInterest | null =>
      queries.said(one, spare) ?? channels.said(one) ?? this.#shares.said(one);
    return interests.flatMap((interest) => said(interest) ?? []);
  }

  get #capabilities(): number {
    const bits = capabilitiesOf(this.#crcs, this.#place, this.#asksForKinds, this.#asksDescriptions);
    return bits | (this.#saysAllUnsettled ? CAPABILITY_UNSETTLED : 0);
  }

  #beginSync(): void {
    const { journal, registrations, delivery } = this.#parts;
    this.#requests.beginSync();
    delivery.channels.beginSync();
    this.#parts.unsettled?.beginSync();
    const operations = registrations.beginSync();
    delivery.oweAll();
    this.#sync = new RegSync(journal, registrations, operations);
  }

  #sendChunks(now: number): void {
    const sync = this.#sync;
    if (sync === null || !sync.isReady) return;
    while (!sync.allSent && this.#outBytes < OUT_BYTES_MAX) {
      const { index, interests, last } = sync.nextChunk();
      this.#useOrAsk(interests, now);
      const objects = interests.filter(isName);
      this.#send({ sync: { index, last, objects, interests: this.#said(interests) } }, now);
    }
    if (sync.allSent) sync.awaitAnswer(now + this.#parts.settings.requestTimeoutS);
  }

  /** True if the service has this client's set, and accepts changes of it. */
  get #takesRequests(): boolean {
    return this.#phase === Phase.CATCHING || this.#phase === Phase.LIVE;
  }

  /** The unsettled interests; null if nothing is reported about them now. */
  get #unsettled(): UnsettledTold | null {
    return (this.#takesRequests && this.#parts.unsettled) || null;
  }

  #sendRequests(now: number): void {
    if (!this.#takesRequests) return;
    while (!this.#requests.isFull && this.#outBytes < OUT_BYTES_MAX) {
      const next = this.#parts.registrations.nextRequest();
      if (next === null) return;
      const { kind, operations } = next;
      const asked = [...operations.keys()];
      const objects = asked.filter(isName);
      const request = this.#requests.numbered();
      this.#useOrAsk(asked, now);
      const interests = kind === "register" ? this.#said(asked) : hashesOf(asked);
      this.#send({ [kind]: { request, objects, interests } }, now);
      this.#requests.sent(request, operations, now);
    }
  }

  #sendUnsettled(now: number): void {
    for (;;) {
      const unsettled = this.#unsettled?.next(now, this.#requests.nextNumber) ?? null;
      if (unsettled === null) return;
      this.#requests.numbered();
      this.#send({ unsettled }, now);
    }
  }

  #sendHolds(now: number): void {
    if (!this.#takesRequests) return;
    const { shares } = this.#parts.delivery;
    for (let hold = shares.nextHold(now); hold !== null; hold = shares.nextHold(now)) this.#send({ hold }, now);
  }

  #sendPublications(now: number): void {
    if (!this.#takesRequests) return;
    while (this.#outBytes < OUT_BYTES_MAX) {
      const publish = this.#publications.next(now);
      if (publish === null) break;
      this.#send({ publish }, now);
    }
    while (this.#outBytes < OUT_BYTES_MAX) {
      const askOutcome = this.#publications.nextQuestion();
      if (askOutcome === null) return;
      this.#send({ askOutcome }, now);
    }
  }

  #useOrAsk(interests: readonly Interest[], now: number): void {
    if (this.#crcs.areSaid || (!interests.some(isQuery) && this.#crcs.use(interests))) return;
    this.#send({ useNames: {} }, now);
    this.#crcs.areSaid = true;
  }

  /** Returns true if there is a cursor to acknowledge. */
  get #moves(): boolean {
    return this.#streams.some(({ acknowledgement }) => acknowledgement !== null);
  }

  /** Sends both cursors, and the pages that have come. */
  #sendAck(now: number): void {
    this.#ackDue = null;
    const moves = this.#moves;
    if (moves) {
      // Interests that the cursor has passed and the application has not accepted are reported before.
      this.#parts.unsettled?.hurry(now);
      this.#sendUnsettled(now);
    }
    const isHeld = moves && (this.#unsettled?.isLate ?? false);
    if (isHeld) this.#ackDue = now; // as soon as nothing holds that any more
    const [objects, channels] = [this.objects.acknowledge(isHeld), this.channels.acknowledge(isHeld)];
    if (objects !== null || channels !== null) this.#send({ ack: { ...objects, streams: streamsOf(channels) } }, now);
  }

  #send(frame: ClientFramePart, now: number): void {
    const bytes = encodeFrame(CLIENT_FRAME, frame);
    this.#out.push(bytes);
    this.#outBytes += bytes.length;
    this.#sentAt = now;
  }

  // Time

  /**
   * Doubts the connection: sends a Ping, and allows a short time for the answer.
   *
   * If an unanswered Ping is under way, only the time counts in which the page did not stand still: so a page that is
   * awake only for moments gives up a dead connection, too.
   */
  doubt(now: number, stoodStillS: number): void {
    if (this.#ended !== null || this.#saidBye) return;
    const due = this.#doubt === null ? now + this.#parts.settings.silenceGraceS : this.#doubt.due + stoodStillS;
    if (this.#pingUnansweredSince !== null) this.#pingUnansweredSince += stoodStillS;
    this.#ping(now);
    this.#doubt = { ping: this.#pings, due };
  }

  /** True if a session may take over from this one: no set is under way that the service would get twice. */
  get mayMove(): boolean {
    return this.#ended === null && this.#sync === null && !this.#saidBye;
  }

  /**
   * Everything acknowledged before that time has come, whether it is told yet or not; or it is the begin of the session.
   */
  get freshAsOf(): number {
    return this.#freshness.cameAsOf;
  }

  /** True if the connection may be dead. */
  get inDoubt(): boolean {
    return this.#doubt !== null;
  }

  /** Does what is due: acknowledges, pings, sends requests again, gives up. */
  tick(now: number): void {
    if (this.#ended !== null || this.#saidBye) return;
    const { settings } = this.#parts;
    if (this.#queries.descriptions.asked && !this.#asksDescriptions) {
      this.#end(null, "the next session asks for descriptions");
      return;
    }
    if (this.#ackAt <= now) this.#sendAck(now);
    if (this.#parts.delivery.shares.holdAt <= now) this.#sendHolds(now);
    const unsettled = this.#unsettled;
    unsettled?.tick(now, this.#overdue(unsettled.answerDue));
    this.#requests.tick(now, (due) => this.#overdue(due));
    if (this.#sync?.due != null && this.#overdue(this.#sync.due) <= now) this.#beginSync();
    if (this.#pingAt <= now) this.#ping(now);
    if (this.#welcomeDue !== null && this.#welcomeDue <= now) this.#end(null, `no Welcome within ${WELCOME_S} s`);
    if (this.#doubt !== null && this.#doubt.due <= now) {
      this.#end(null, "no answer to a Ping after the client stood still, or its network has changed");
    }
    const patienceS = silenceS(settings);
    if (this.#pingUnansweredSince !== null && this.#pingUnansweredSince + patienceS <= now) {
      this.#ended ??= { code: null, reason: `nothing heard for ${patienceS} s after a Ping`, silent: true };
    }
  }

  /** Returns the time when `tick` has to be called next. */
  deadline(): number {
    const due = [this.#pingAt, this.#ackAt, this.#welcomeDue, this.#publications.deadline()];
    if (this.#takesRequests) due.push(this.#parts.delivery.shares.holdAt);
    const unsettled = this.#unsettled;
    if (unsettled !== null) due.push(unsettled.due, this.#overdue(unsettled.answerDue));
    due.push(...this.#requests.due.map((one) => this.#overdue(one)));
    if (this.#sync?.due != null) due.push(this.#overdue(this.#sync.due));
    if (this.#pingUnansweredSince !== null) due.push(this.#pingUnansweredSince + silenceS(this.#parts.settings));
    if (this.#doubt !== null) due.push(this.#doubt.due);
    return Math.min(...due.filter((at) => at !== null));
  }

  get #ackAt(): number {
    return this.#unsettled?.isHeld ? Infinity : (this.#ackDue ?? Infinity);
  }

  get #pingAt(): number {
    const { keepaliveS } = this.#parts.settings;
    const due = Math.min(this.#sentAt, this.#heardAt) + keepaliveS;
    return this.isLive ? Math.min(due, this.#freshness.pingDue(keepaliveS)) : due;
  }

  #ping(now: number): void {
    const { registrations } = this.#parts;
    const digest = this.#takesRequests && registrations.allConfirmed ? registrations.digest : undefined;
    this.#send({ ping: { digest } }, now);
    this.#pings += 1;
    this.#freshness.pinged(now);
    this.#heardAt = now;
    this.#pingUnansweredSince ??= now;
  }

  /** Returns the time when a request must be sent again: not while the gateway sends Wait. */
  #overdue(due: number): number {
    return Math.max(due, this.#waitUntil);
  }
}
