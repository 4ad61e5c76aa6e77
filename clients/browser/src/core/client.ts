/**
 * The whole client but its I/O: bytes, times and calls go in; bytes, jobs, documents and reports come out.
 *
 * What must survive is one *document*: the wanted set, the pending operations, the floors, the epoch and the cursor. It
 * is stored as a whole, so whatever is true inside it is true after a crash. The promise rests on one sentence about
 * it:
 *
 *     Of every wanted object, the newest version at or below the cursor has been told to the application,
 *     or the object is a pending registration.
 *
 * The order that matters: callbacks return; the floor rises, its hold ends, the cursor moves (one revision); that
 * revision is stored; the Ack says the cursor. A crash between any two of these repeats work, and loses nothing.
 *
 * A shell does this for ever: `tick`, then whatever of `connectDue`, `dataToSend`, `saveDue`, `nextJob` has something
 * for it, then sleeps until `deadline` or until something happens. Times are seconds on any clock that does not jump.
 * The modules and their order are those of `clients/python/coldnotify/_core`, whose docstring says more.
 */

import { type ColdNotifyError, ServiceRefused, type StateError } from "../errors.js";
import type { Description, Notification } from "../notification.js";
import { closeCodeName, mayComeBack } from "./closeCodes.js";
import { Delivery, type Job } from "./delivery.js";
import { type Document, encodeDocument } from "./document.js";
import type { Floor } from "./floors.js";
import { parsedDescription } from "./memberDescriptions.js";
import { type Channel, type Interest, isName, isQuery, textOf } from "./interests.js";
import { Journal } from "./journal.js";
import { CloseCode } from "./protocol.js";
import { Publications } from "./publications.js";
import { Addresses, Backoff, type Random } from "./reconnect.js";
import { Registrations } from "./registrations.js";
import { type Ended, type Parts, type Phase, Session } from "./session.js";
import type { Since } from "./since.js";
import { REPORTS_MAX, SAVE_RETRY_MAX_S, SAVE_RETRY_MIN_S, type Settings, TRIES_APART_S } from "./settings.js";
import { Unsettled } from "./unsettled.js";

/** What a client is doing, for looking in. */
export interface Status {
  /** locked: another page of this browser is this client; waiting: for the next try; refused: by the service. */
  readonly phase: "stopped" | "locked" | "waiting" | "connecting" | Phase | "refused" | "stopping";
  /** Of the gateway it is connected to, connects to or was last connected to. */
  readonly address: string | null;
  /** All that was published when the session began is applied, and all callbacks have returned. After a standstill of the
   * page (its machine slept, say) not before the gateway has answered a Ping, or a new session is as far. */
  readonly caughtUp: boolean;
  /** Size of the wanted set. */
  readonly registrations: number;
  /** Operations that are not settled. */
  readonly pending: number;
  /** Objects and channels of which something waits to be told, or waits for a subscriber. */
  readonly waiting: number;
  /** Objects, queries and channels whose callbacks failed too often. */
  readonly parked: readonly string[];
  readonly epoch: number | null;
  readonly cursor: bigint | null;
  /** Of the log of the domain's channels. null: not known. */
  readonly channelsEpoch: number | null;
  readonly channelsCursor: bigint | null;
  /** Why the last connection ended or failed; null once caught up. */
  readonly lastProblem: string | null;
  /** Seconds until the next try, if it waits for one. */
  readonly nextConnectS: number | null;
}

/** A document to be made durable. */
export interface Save {
  readonly revision: number;
  readonly document: string;
  readonly epoch: number | null;
  readonly cursor: bigint | null;
  readonly channelsEpoch: number | null;
  readonly channelsCursor: bigint | null;
}

/** One client, from its document to its end. */
export class Client {
  readonly #parts: Parts;
  readonly #addresses: Addresses;
  readonly #backoff: Backoff;
  #reports: ColdNotifyError[] = [];

  #address: string | null = null;
  #link = false;
  #connecting = false;
  #greeting = false;
  /** The connection that is made or greeted: it may be from before a standstill. */
  #doubted = false;
  #session: Session | null = null;
  #token = "";
  #lastProblem: string | null = null;
  #connectAt: number | null;
  /** The next try may be brought forward to here. */
  #hurryFrom: number;
  #refused = false;

  #saving: Save | null = null;
  #savedAt = -Infinity;
  #saveFailures = 0;
  #saveBlockedUntil = -Infinity;

  #stopping = false;
  #abandoned = false;
  #saidBye = false;
  #giveUpSaving = false;

  /** `publications`: what it publishes; they outlive it. `saysUnsettled`: transcripts are also of clients that do not. */
  constructor(
    document: Document,
    addresses: readonly string[],
    settings: Settings,
    random: Random,
    now: number,
    publications = new Publications(),
    saysUnsettled = true,
  ) {
    const journal = new Journal();
    const registrations = new Registrations(journal, document.wanted, document.pending);
    const report = (error: ColdNotifyError): void => {
      this.#reports.push(error);
      if (this.#reports.length > REPORTS_MAX) this.#reports.shift();
    };
    const delivery = new Delivery(journal, registrations, settings, report, {
      floors: floorsOf(document),
      newest: document.newest,
      queries: document.queries,
      epoch: document.epoch,
      cursor: document.cursor,
      channels: document.channels,
    });
    const { identity, settled } = document;
    const unsettled = saysUnsettled ? new Unsettled(journal, registrations, delivery, settings, settled) : null;
    this.#parts = { identity, journal, registrations, delivery, publications, unsettled, settings, report };
    this.#addresses = new Addresses(addresses, settings.addressRestS, random);
    this.#backoff = new Backoff(settings, random);
    this.#connectAt = this.#hurryFrom = now;
  }

  // The application

  /** Want this. No change if it is wanted already. */
  register(interest: Interest): void {
    if (this.#parts.registrations.register(interest)) this.#parts.delivery.wants(interest);
  }

  /** Want this no more. Its subscribers stay, until the shell says otherwise. */
  unregister(interest: Interest): void {
    if (this.#parts.registrations.unregister(interest)) this.#parts.delivery.forget(interest);
  }

  /** Want every message of this channel. `since` counts if none of this name is wanted. */
  registerChannel(channel: Channel, since: Since): void {
    this.#parts.delivery.channels.want(channel, since);
  }

  /** Want it no more. Its subscribers stay. */
  unregisterChannel(name: string): void {
    const interest = this.#parts.delivery.channels.of(name);
    if (interest !== null) this.unregister(interest);
  }

  /** Want exactly these objects; queries and channels stay as they are. */
  registerOnly(names: ReadonlySet<string>): void {
    const others = [...this.#parts.registrations.wanted].filter((interest) => isName(interest) && !names.has(interest));
    for (const name of others.sort()) this.unregister(name);
    for (const name of [...names].sort()) this.register(name);
  }

  /** Callback number `subscriber` is for this object, for the members of this query, or for this channel's messages. */
  subscribe(interest: Interest, subscriber: number): void {
    this.#parts.delivery.subscribe(interest, subscriber);
  }

  /** Callback number `subscriber` is no more. */
  unsubscribe(interest: Interest, subscriber: number): void {
    this.#parts.delivery.unsubscribe(interest, subscriber);
  }

  /** Callback number `subscriber` is told which objects enter and leave this query. */
  subscribeMembers(query: Interest, subscriber: number): void {
    this.#parts.delivery.subscribeMembers(query, subscriber);
  }

  /** Members callback number `subscriber` is no more. */
  unsubscribeMembers(query: Interest, subscriber: number): void {
    this.#parts.delivery.unsubscribeMembers(query, subscriber);
  }

  /** Callback number `subscriber` is told what is missed of the channel of this name. */
  subscribeMissed(name: string, subscriber: number): void {
    this.#parts.delivery.channels.subscribeMissed(name, subscriber);
  }

  /** Callback number `subscriber` is no more. */
  unsubscribeMissed(name: string, subscriber: number): void {
    this.#parts.delivery.channels.unsubscribeMissed(name, subscriber);
  }

  /** What callbacks were told of this object last; null: nothing, or it is not kept. */
  current(name: string): Notification | null {
    const { newest, queries } = this.#parts.delivery;
    const found = newest.get(name);
    return found === null ? null : { ...found, description: parsedDescription(queries.descriptions.of(name)) };
  }

  /** The newest version of this object that is known here; -1: none. */
  floor(name: string): bigint {
    return this.#parts.delivery.floors.get(name)?.version ?? -1n;
  }

  /** Of a query: as the members callbacks are told, or as the service said if there are none. */
  members(query: Interest): ReadonlySet<string> {
    return this.#parts.delivery.queries.members(query);
  }

  /** Whether these are all there are, as of what was told last: nothing of the query is to be answered or told. */
  knowsMembers(query: Interest): boolean {
    const { registrations } = this.#parts;
    return registrations.wanted.has(query) && !registrations.isOwed(query);
  }

  /** Be told how the members of this query are described, or not. */
  askDescriptions(query: Interest, wanted: boolean): void {
    this.#parts.delivery.queries.descriptions.ask(query, wanted);
  }

  /** Of the members of a query that asks for them, as the service said last; null: the object has none. */
  descriptions(query: Interest): ReadonlyMap<string, Description | null> {
    return this.#parts.delivery.queries.descriptions.get(query);
  }

  /**
   * Begin no job any more; when the one that runs is done: save, acknowledge, say Bye. Then `finished`.
   *
   * `abandon`: do not wait for the job that runs. What it tells is owed still, and told again.
   */
  stop(abandon = false): void {
    this.#stopping = true;
    this.#greeting = false;
    this.#abandoned ||= abandon;
    this.#connectAt = null;
  }

  // The callbacks

  /** Callbacks to run, or null. */
  nextJob(now: number): Job | null {
    return this.#stopping ? null : this.#parts.delivery.nextJob(now);
  }

  /** When `nextJob` may have one: -Infinity is now, Infinity is when something comes. */
  nextJobAt(): number {
    return this.#stopping ? Infinity : this.#parts.delivery.readyAt();
  }

  /** The job's callbacks returned, or threw what `failed` says by subscriber. */
  jobDone(job: Job, failed: ReadonlyMap<number, unknown>, now: number): void {
    this.#parts.delivery.done(job, failed, now);
  }

  // The connection

  /** Where to connect now, or null; the shell tells then `linkUp` or `linkDown`. */
  connectDue(now: number): string | null {
    if (this.#link || this.#connecting || this.#connectAt === null || this.#connectAt > now) return null;
    this.#connectAt = null;
    this.#connecting = true;
    this.#doubted = false;
    this.#address = this.#addresses.next(now);
    return this.#address;
  }

  /** The connection stands. `token` proves who this is. */
  linkUp(now: number, token = ""): void {
    this.#token = token;
    this.#connecting = false;
    this.#link = true;
    this.#greeting = !this.#stopping;
    this.#greet(now);
  }

  /** Say Hello, as soon as the operations that it carries are durable: it makes the service's set equal to ours. */
  #greet(now: number): void {
    const { journal } = this.#parts;
    if (!this.#greeting || !journal.isDurable(journal.urgent)) return;
    this.#greeting = false;
    this.#session = new Session(this.#parts, now, this.#token);
    if (this.#doubted) this.#session.doubt(now, 0);
  }

  /**
   * The application asks for a connection while the next try is awaited: it comes now, but not within TRIES_APART_S of the
   * last one. Who was displaced waits all the same: two with one name would take turns.
   */
  connectNow(now: number): void {
    if (this.#connectAt !== null) this.#connectAt = Math.min(this.#connectAt, Math.max(now, this.#hurryFrom));
  }

  /**
   * The page stood still for so long (its machine slept, say), or the network has changed (0). What was known of the
   * connection may be over, and what kept the last tries from connecting, too. Nothing is said to be caught up until the
   * gateway has answered a Ping.
   */
  doubt(now: number, stoodStillS: number): void {
    this.#backoff.beginAnew();
    this.connectNow(now);
    this.#doubted = this.#connecting || this.#greeting;
    this.#session?.doubt(now, stoodStillS);
  }

  /** Bytes came from the gateway. */
  receive(data: Uint8Array, now: number): void {
    if (this.#session === null) return;
    this.#session.receive(data, now);
    if (this.#session.phase === "live") {
      this.#backoff.beginAnew();
      this.#lastProblem = null;
    }
    if (this.#session.ended !== null) this.#sessionOver(this.#session, this.#session.ended, now);
  }

  /** Bytes for the gateway. Ask again when these are written. */
  dataToSend(now: number): Uint8Array {
    return this.#session === null ? new Uint8Array() : this.#session.dataToSend(now);
  }

  /** Whether the shell keeps the connection, or is to close it once all it was given is written. */
  get linkWanted(): boolean {
    return (this.#greeting || this.#session !== null) && !this.#saidBye;
  }

  /** The connection could not be made, broke, or was closed as `linkWanted` said. */
  linkDown(reason: string, now: number): void {
    if (this.#session !== null && !this.#saidBye) this.#sessionOver(this.#session, { code: null, reason }, now);
    else if (this.#connecting || this.#greeting) this.#comeBack(null, reason, now, false);
    this.#session = null;
    this.#link = this.#connecting = this.#greeting = false;
  }

  #sessionOver(session: Session, { code, reason }: Ended, now: number): void {
    this.#session = null;
    const { caughtUpAt } = session;
    if (caughtUpAt !== null && now - caughtUpAt >= this.#parts.settings.displacedMaxS) this.#backoff.undisturbed();
    if (code !== null && !mayComeBack(code)) {
      this.#parts.report(new ServiceRefused(code, closeCodeName(code), reason));
      this.#refused = true;
      this.#lastProblem = `${closeCodeName(code)}: ${reason}`;
      return;
    }
    this.#comeBack(code, code === null ? reason : `${closeCodeName(code)}: ${reason}`, now, caughtUpAt !== null);
  }

  #comeBack(code: number | null, reason: string, now: number, caughtUp: boolean): void {
    this.#lastProblem = reason;
    // An address rests if it did not serve us, or said that it will not.
    const refusing = code === CloseCode.GOING_AWAY || code === CloseCode.OVERLOADED;
    if (this.#address !== null && (!caughtUp || refusing)) this.#addresses.failed(this.#address, now);
    if (this.#stopping) return;
    this.#connectAt = now + this.#backoff.delayS(code);
    this.#hurryFrom = code === CloseCode.DISPLACED ? this.#connectAt : now + TRIES_APART_S;
  }

  // The state

  /** A document to write now, one at a time; the shell tells then `saved` or `saveFailed`. */
  saveDue(now: number): Save | null {
    this.#parts.delivery.prepare();
    return this.#saveAt > now ? null : this.saveNow();
  }

  /** The same before it is due: the page may be gone at once. null: what is stored is what there is. */
  saveNow(): Save | null {
    const { journal, delivery } = this.#parts;
    delivery.prepare();
    if (this.#saving !== null || journal.isDurable(journal.revision)) return null;
    const { epoch, cursor } = delivery;
    const { epoch: channelsEpoch, cursor: channelsCursor } = delivery.channels;
    const document = encodeDocument(this.#document());
    this.#saving = { revision: journal.revision, document, epoch, cursor, channelsEpoch, channelsCursor };
    return this.#saving;
  }

  /** This document survives from now on. */
  saved(save: Save, now: number): void {
    this.#saving = null;
    this.#saveFailures = 0;
    this.#parts.journal.failing = false;
    this.#parts.journal.durable = save.revision;
    this.#savedAt = now;
    this.#greet(now);
    const { delivery } = this.#parts;
    const session = this.#session;
    if (save.epoch === delivery.epoch) session?.acknowledge(session.objects, save.cursor, now);
    if (save.channelsEpoch === delivery.channels.epoch) session?.acknowledge(session.channels, save.channelsCursor, now);
  }

  /** It could not be written; it will be tried again. Nothing that rests on it leaves until then. */
  saveFailed(error: StateError, now: number): void {
    this.#saving = null;
    this.#saveBlockedUntil = now + Math.min(SAVE_RETRY_MAX_S, SAVE_RETRY_MIN_S * 2 ** this.#saveFailures);
    this.#saveFailures += 1;
    this.#parts.journal.failing = true;
    this.#parts.report(error);
    if (this.#stopping) this.#giveUpSaving = true;
  }

  #document(): Document {
    const { identity, registrations, delivery, unsettled } = this.#parts;
    return {
      identity,
      wanted: registrations.wanted,
      pending: new Map([...registrations.pending].map(([name, { kind }]) => [name, kind])),
      applied: delivery.floors,
      newest: delivery.newest.kept(delivery.floors),
      queries: delivery.queries.kept,
      channels: delivery.channels.kept,
      epoch: delivery.epoch,
      cursor: delivery.cursor,
      settled: unsettled?.isKnown ?? false,
    };
  }

  /** When the document is to be written; Infinity: it is stored, or is being stored. */
  get #saveAt(): number {
    const { journal, settings } = this.#parts;
    if (this.#saving !== null || journal.isDurable(journal.revision) || this.#giveUpSaving) return Infinity;
    if (this.#stopping) return this.#jobsAwaited ? Infinity : -Infinity;
    const urgent = !journal.isDurable(journal.urgent);
    return Math.max(this.#saveBlockedUntil, urgent ? -Infinity : this.#savedAt + settings.saveIntervalS);
  }

  // Time, and looking in

  /** Do what is due. */
  tick(now: number): void {
    this.#parts.delivery.prepare();
    if (this.#session !== null && !this.#saidBye) {
      this.#session.tick(now);
      if (this.#session.ended !== null) this.#sessionOver(this.#session, this.#session.ended, now);
    }
    if (this.#stopping && !this.#saidBye && this.#atRest) {
      this.#session?.bye(now);
      this.#saidBye = true;
    }
  }

  /** When there is something to do next but jobs, if nothing happens before. */
  deadline(): number {
    const connectAt = this.#connectAt === null || this.#link ? Infinity : this.#connectAt;
    const sessionAt = this.#session === null || this.#saidBye ? Infinity : this.#session.deadline();
    return Math.min(this.#saveAt, connectAt, sessionAt);
  }

  get #jobsAwaited(): boolean {
    return this.#parts.delivery.running && !this.#abandoned;
  }

  /** Whether no job is out and the document is stored (or cannot be written). */
  get #atRest(): boolean {
    if (this.#jobsAwaited || this.#saving !== null) return false;
    return this.#giveUpSaving || this.#parts.journal.isDurable(this.#parts.journal.revision);
  }

  /** Whether it has been stopped, and everything is done and closed. */
  get finished(): boolean {
    return this.#saidBye && !this.#link && !this.#connecting;
  }

  /** Whether the service said that this client must not come back. */
  get refused(): boolean {
    return this.#refused;
  }

  /** Whether a session is open: the gateway has said Welcome. */
  get connected(): boolean {
    return this.#session !== null && this.#session.phase !== "opening";
  }

  /** Whether everything owed has been told: caught up, all registrations answered, all callbacks returned. */
  get caughtUp(): boolean {
    const { registrations, delivery } = this.#parts;
    const session = this.#session;
    return session !== null && session.isLive && !session.inDoubt && registrations.allArrived && delivery.idle;
  }

  /** What the application should hear of since the last call. */
  takeReports(): ColdNotifyError[] {
    return this.#reports.splice(0);
  }

  /** What it is doing. */
  status(now: number): Status {
    const { registrations, delivery } = this.#parts;
    return {
      phase: this.#phase(),
      address: this.#address,
      caughtUp: this.caughtUp,
      registrations: registrations.wanted.size,
      pending: registrations.pending.size,
      waiting: delivery.waiting,
      parked: Array.from(delivery.parked, textOf).sort(),
      epoch: delivery.epoch,
      cursor: delivery.cursor,
      channelsEpoch: delivery.channels.epoch,
      channelsCursor: delivery.channels.cursor,
      lastProblem: this.#lastProblem,
      nextConnectS: this.#connectAt === null ? null : Math.max(0, this.#connectAt - now),
    };
  }

  #phase(): Status["phase"] {
    if (this.#stopping) return "stopping";
    if (this.#refused) return "refused";
    if (this.#session !== null) return this.#session.phase;
    if (this.#greeting) return "opening";
    return this.#connecting ? "connecting" : "waiting";
  }
}

/** Those of what is wanted. What was told of an answer that broke off counts still. */
function floorsOf({ wanted, pending, applied, queries }: Document): [string, Floor][] {
  if ([...pending].some(([interest, kind]) => kind === "register" && isQuery(interest))) return [...applied];
  const isWanted = (name: string): boolean =>
    wanted.has(name) || [...queries.values()].some(({ members, answer }) => members.has(name) || answer?.has(name));
  return [...applied].filter(([name]) => isWanted(name));
}
