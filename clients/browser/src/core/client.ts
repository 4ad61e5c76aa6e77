/**
 * The whole client except its I/O: bytes, times and calls go in; bytes, jobs, documents and reports come out.
 *
 * A shell repeats: call `tick`, then those of `connectDue`, `dataToSend`, `saveDue`, `nextJob` that return something,
 * then sleep until `deadline` or until something happens. Times are seconds on any clock that does not jump. What the
 * document promises, and in which order things happen, is in the docstring of `clients/python/coldnotify/_core`.
 */

import { type ColdNotifyError, ServiceFresh, ServiceRefused, ServiceStale, type StateError } from "../errors.js";
import { closeCodeName, mayComeBack } from "../schemas/closeCodes.js";
import { Application } from "./application.js";
import type { AnyJob } from "./delivery/callbackTurns.js";
import { Delivery } from "./delivery/delivery.js";
import { type Document, encode } from "./document/document.js";
import type { Floor } from "./delivery/floors.js";
import { isQuery, textOf } from "./interests/interests.js";
import { Journal } from "./journal.js";
import { CloseCode } from "../schemas/protocol.js";
import type { ShareJob } from "./shares/shareMember.js";
import { Publications } from "./publishing/publications.js";
import { AddressBook } from "./session/addressBook.js";
import { helloBeside } from "./session/hello.js";
import { Moves } from "./session/moves.js";
import { type Address, Backoff, type Gateways, gatewaysOf, type Random } from "./session/reconnect.js";
import { Registrations } from "./interests/registrations.js";
import { type SessionEnded, type Parts, ClientSession } from "./session/session.js";
import { Phase } from "./session/phases.js";
import { asOfAll, asOfEach } from "./session/proofs.js";
import { type Reason, Trial } from "./session/trial.js";
import { CAPABILITY_AT_HOME, CAPABILITY_MOVES } from "../schemas/wire.js";
import {
  OWN_HELLO_S,
  REPORTS_MAX,
  SAVE_RETRY_MAX_S,
  SAVE_RETRY_MIN_S,
  type ClientSettings,
  staleAfterS,
  TRIES_APART_S,
} from "./settings.js";
import { UnsettledTold } from "./delivery/unsettled.js";

/** A client's status, for inspection. */
export interface Status {
  /** locked: another page of this browser runs this client, and does not share its session; waiting: for the next try; refused: by the service. */
  readonly phase: "stopped" | "locked" | "waiting" | "connecting" | Phase | "refused" | "stopping";
  /** Address of the gateway that it is connected to, connects to or was last connected to. */
  readonly address: string | null;
  /**
   * True if everything published before the session began is applied, and all callbacks have returned. After a
   * standstill of the page (its machine slept, say), true only once the gateway has answered a Ping, or a new session
   * has come as far.
   */
  readonly caughtUp: boolean;
  /** Size of the wanted set. */
  readonly registrations: number;
  /** Number of operations that are not settled. */
  readonly pending: number;
  /** Number of objects and channels with undelivered updates, including those that wait for a subscriber. */
  readonly waiting: number;
  /** Objects, queries and channels whose callbacks failed too often. */
  readonly parked: readonly string[];
  readonly epoch: number | null;
  readonly cursor: bigint | null;
  /** Epoch of the log of the domain's channels; null: not known. */
  readonly channelsEpoch: number | null;
  readonly channelsCursor: bigint | null;
  /**
   * Time by this page's clock, in ms as Date.now() tells it, and in whole seconds: everything acknowledged to its publisher before has been
   * told, of what was registered by then; null: not known since the start.
   */
  readonly freshAsOf: number | null;
  /** The same of objects, and of channels (null, too, where none is registered); freshAsOf is the lowest. */
  readonly streams: { readonly objects: number | null; readonly channels: number | null };
  /** The reason why the last connection ended or failed; null once caught up. */
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
  /** What the application asks for and has been told. */
  readonly application: Application;
  readonly #parts: Parts;
  readonly #book: AddressBook;
  readonly #backoff: Backoff;
  readonly #moves: Moves;
  /** The connection beside the session. */
  #trial: Trial | null = null;
  /** The time when a trial failed that had sent Hello: this may displace the session yet. */
  #ownHelloAt = -Infinity;
  /** True while the directory is asked. */
  #asking = false;
  #mainLink = 0;
  #reports: ColdNotifyError[] = [];
  /** True if the application was told of a ServiceStale last. */
  #stale = false;

  #address: string | null = null;
  #link = false;
  #connecting = false;
  #greeting = false;
  /** True if the connection being made or greeted may be from before a standstill. */
  #doubted = false;
  #session: ClientSession | null = null;
  #token = "";
  #lastProblem: string | null = null;
  #connectAt: number | null;
  /** The earliest time to which the next try may be brought forward. */
  #hurryFrom: number;
  #refused = false;

  #saving: Save | null = null;
  #saved: Save | null = null;
  #savedAt = -Infinity;
  #saveFailures = 0;
  #saveBlockedUntil = -Infinity;

  #stopping = false;
  #abandoned = false;
  #saidBye = false;
  #giveUpSaving = false;

  /**
   * `publications`: they outlive the client. `saysUnsettled`: false for transcripts of clients that do not report
   * unsettled interests.
   */
  constructor(
    document: Document,
    given: readonly Address[] | Gateways,
    settings: ClientSettings,
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
      shares: document.shares,
    });
    const { identity, settled } = document;
    const unsettled = saysUnsettled ? new UnsettledTold(journal, registrations, delivery, settings, settled) : null;
    this.#parts = { identity, journal, registrations, delivery, publications, unsettled, settings, report };
    this.application = new Application(registrations, delivery);
    const { addresses, home, directory } = gatewaysOf(given);
    this.#book = new AddressBook(addresses, settings.addressRestS, random, home, directory);
    this.#backoff = new Backoff(settings, random);
    this.#moves = new Moves(random);
    this.#connectAt = this.#hurryFrom = now;
  }

  // Stopping

  /**
   * Begins no further job; once the running one ends, saves, acknowledges and sends Bye. Then `finished` is true.
   *
   * `abandon`: does not wait for the running job, whose notifications are still owed, and told again.
   */
  stop(abandon = false): void {
    this.#stopping = true;
    this.#parts.delivery.shares.stop();
    this.#greeting = false;
    this.#trial = null;
    this.#abandoned ||= abandon;
    this.#connectAt = null;
  }

  // Callbacks

  /** Returns callbacks to run, or null. */
  nextJob(now: number): AnyJob | null {
    return this.#stopping ? null : this.#parts.delivery.turns.nextJob(now);
  }

  /** Returns the time at which `nextJob` may return one: -Infinity for now, Infinity for when something arrives. */
  nextJobAt(): number {
    return this.#stopping ? Infinity : this.#parts.delivery.turns.readyAt();
  }

  /** Handles the end of a job's callbacks; `failed` contains the errors of those that threw, by subscriber. */
  jobDone(job: AnyJob, failed: ReadonlyMap<number, unknown>, now: number): void {
    this.#parts.delivery.turns.done(job, failed, now);
  }

  // The connection

  /** The number of the connection that has the session, or is to have it: 0 or 1; the other is a trial's. */
  get mainLink(): number {
    return this.#mainLink;
  }

  /** Returns the address to connect to now, or null; the shell then calls `linkUp` or `linkDown` with `mainLink`. */
  connectDue(now: number): Address | null {
    if (!this.#isDue(now)) return null;
    const address = this.#book.next(now);
    if (address === null) {
      this.#connectAt = Math.max(now, this.#book.askAt);
      return null;
    }
    this.#connectAt = null;
    this.#connecting = true;
    this.#doubted = false;
    this.#address = address;
    return address;
  }

  #isDue(now: number): boolean {
    if (this.#link || this.#connecting || this.#asking) return false;
    return this.#connectAt !== null && this.#connectAt <= now;
  }

  /** Handles a new connection. `token` proves the client's identity. */
  linkUp(now: number, token = "", link = this.#mainLink): void {
    if (link !== this.#mainLink) {
      this.#trial?.linkUp(token);
      this.#greet(now);
      return;
    }
    this.#token = token;
    this.#connecting = false;
    this.#link = true;
    this.#greeting = !this.#stopping;
    this.#greet(now);
  }

  /** Sends Hello once its operations are durable, because it makes the service's set equal to ours. */
  #greet(now: number): void {
    const { journal } = this.#parts;
    if (!journal.isDurable(journal.urgent)) return;
    if (this.#greeting) {
      this.#greeting = false;
      this.#session = new ClientSession(this.#parts, now, this.#token, this.#place(this.#address, now));
      if (this.#doubted) this.#session.doubt(now, 0);
    }
    const trial = this.#trial;
    if (trial?.greeting) trial.greet(helloBeside(this.#parts, trial.token, this.#place(trial.address, now), now));
  }

  /** Returns the bits of a Hello that tell where the client is. */
  #place(address: Address | null, now: number): number {
    const atHome = address !== null && address === this.#book.home;
    return (atHome ? CAPABILITY_AT_HOME : 0) | (this.#book.goesElsewhere(address, now) ? CAPABILITY_MOVES : 0);
  }

  // The directory

  /** Returns true if the directory is to be asked now; the shell then calls `named` or `unnamed`. */
  questionDue(now: number): boolean {
    if (this.#asking || this.#stopping || !this.#book.asks(now)) return false;
    const forSession = this.#isDue(now) && this.#book.next(now) === null;
    if (!forSession && !this.#trialLacksAddress(now)) return false;
    this.#asking = true;
    this.#book.asked(now);
    return true;
  }

  /** Handles the directory's answer. `homeOutS`: it says that the client's home takes nobody for so long. */
  named(address: Address, now: number, homeOutS = 0): void {
    this.#asking = false;
    this.#book.named(address, now, homeOutS);
    if (this.#trialLacksAddress(now)) this.#moves.staleFailed(now, 0); // it names the present one
  }

  /** Notes that the directory names none, or does not answer. */
  unnamed(reason: string, now: number, retryAfterS = 0): void {
    this.#asking = false;
    this.#book.unnamed(now, retryAfterS);
    if (this.#trialLacksAddress(now)) this.#moves.staleFailed(now, retryAfterS);
    if (!this.#isDue(now)) return;
    this.#lastProblem = reason;
    if (this.#book.next(now) !== null) return;
    this.#connectAt = Math.max(now + this.#backoff.delayS(null), this.#book.askAt);
    this.#hurryFrom = this.#book.askAt;
  }

  // Make before break

  /**
   * Returns the address of a gateway to connect to beside the session, or null; the shell then calls `linkUp` or
   * `linkDown` with the other link.
   */
  besideDue(now: number): Address | null {
    const [session, present] = [this.#session, this.#address];
    if (this.#trial !== null || this.#stopping || !session?.mayMove || present === null) return null;
    if (this.#homeTrialAt <= now) return this.#try(this.#book.home as Address, "home", now);
    if (this.#moves.staleAt > now) return null;
    const address = this.#book.nextBeside(now, present);
    if (address !== null) return this.#try(address, "stale", now);
    if (this.#book.askAt === Infinity) this.#moves.staleFailed(now, 0);
    else this.#moves.staleNotBefore(this.#book.askAt);
    return null;
  }

  #try(address: Address, reason: Reason, now: number): Address {
    this.#trial = new Trial(address, reason, staleAfterS(this.#parts.settings), now);
    return address;
  }

  #trialLacksAddress(now: number): boolean {
    const [session, present] = [this.#session, this.#address];
    if (this.#trial !== null || !session?.mayMove || present === null) return false;
    return this.#moves.staleAt <= now && this.#book.nextBeside(now, present) === null;
  }

  /** The time to try the home. A session that is not live has other things to do. */
  get #homeTrialAt(): number {
    return this.#session?.isLive ? Math.max(this.#moves.homeAt, this.#book.homeFreeAt) : Infinity;
  }

  /** Notes what makes a try necessary, or needless. */
  #lookElsewhere(now: number): void {
    const session = this.#session;
    if (session === null || !this.#book.knowsOther(this.#address)) {
      this.#moves.sessionEnded();
      return;
    }
    const { home } = this.#book;
    if (session.isLive) this.#moves.lookHome(now, home !== null && this.#address !== home);
    const staleAt = this.#goesStaleAt;
    this.#moves.lookStale(staleAt <= now ? staleAt : null, staleAfterS(this.#parts.settings));
  }

  /** The time from which nothing has come for too long that proves its gateway to be current, whatever callbacks do. */
  get #goesStaleAt(): number {
    return this.#session === null ? Infinity : this.#session.freshAsOf + staleAfterS(this.#parts.settings);
  }

  /** The time when a trial begins or ends, or may become necessary. */
  get #movesAt(): number {
    if (this.#trial !== null) return this.#trial.deadline();
    if (!this.#session?.mayMove || this.#asking || !this.#book.knowsOther(this.#address)) return Infinity;
    const { staleAt } = this.#moves;
    return Math.min(this.#homeTrialAt, staleAt === Infinity ? this.#goesStaleAt : staleAt);
  }

  #judge(trial: Trial, now: number): void {
    if (trial.verdict === "move") this.#takeOver(trial, now);
    else if (trial.verdict === "stay") this.#trialFailed(trial, now);
  }

  #trialFailed(trial: Trial, now: number): void {
    this.#trial = null;
    if (trial.hello !== null) this.#ownHelloAt = now;
    const { retryAfterS, notHereS } = trial.refusal;
    this.#book.failed(trial.address, now, Math.max(retryAfterS, notHereS));
    if (trial.reason === "home") this.#moves.homeFailed(now);
    else this.#moves.staleFailed(now, retryAfterS);
  }

  /** Makes the trial's connection the one that has the session; the other one is closed. */
  #takeOver(trial: Trial, now: number): void {
    this.#trial = null;
    this.#mainLink = 1 - this.#mainLink;
    this.#address = trial.address;
    this.#token = trial.token;
    this.#link = true;
    this.#moves.sessionEnded();
    const session = new ClientSession(this.#parts, now, this.#token, this.#place(this.#address, now), trial.hello);
    this.#session = session;
    session.takeOver(trial.kept, now);
    if (this.#saved !== null) this.#acknowledge(session, this.#saved, now);
    this.#received(session, now);
  }

  /**
   * Connects now at the application's request, but not within TRIES_APART_S of the last try. A displaced client waits
   * all the same, because two with one name would take turns.
   */
  connectNow(now: number): void {
    if (this.#connectAt !== null) this.#connectAt = Math.min(this.#connectAt, Math.max(now, this.#hurryFrom));
  }

  /**
   * Doubts the connection after the page stood still for so long (its machine slept, say), or the network has changed
   * (0). The connection may be gone, and so may the cause of the last failed tries. The client does not report that it
   * is caught up until the gateway has answered a Ping.
   */
  doubt(now: number, stoodStillS: number): void {
    this.#backoff.beginAnew();
    this.connectNow(now);
    this.#doubted = this.#connecting || this.#greeting;
    this.#session?.doubt(now, stoodStillS);
  }

  /** Handles bytes of the gateway. */
  receive(data: Uint8Array, now: number, link = this.#mainLink): void {
    if (link !== this.#mainLink) {
      this.#trial?.receive(data, now);
      if (this.#trial !== null) this.#judge(this.#trial, now);
    } else if (this.#session !== null) {
      this.#session.receive(data, now);
      this.#received(this.#session, now);
    }
  }

  #received(session: ClientSession, now: number): void {
    if (session.phase === Phase.LIVE) {
      this.#backoff.beginAnew();
      this.#lastProblem = null;
    }
    if (session.ended !== null) this.#sessionOver(session, session.ended, now);
  }

  /** The bytes that `dataToSend` returned are written. */
  sent(link: number): void {
    if (link === this.#mainLink) this.#parts.delivery.shares.written();
  }

  /**
   * Returns the callbacks to run of those who are to hear that a lease is lost, or null. They need not be waited for.
   */
  nextLost(): ShareJob | null {
    return this.#parts.delivery.shares.takeLost();
  }

  /** Returns bytes for the gateway. Call again when these are written. */
  dataToSend(now: number, link = this.#mainLink): Uint8Array {
    const data = link === this.#mainLink ? this.#session?.dataToSend(now) : this.#trial?.dataToSend();
    return data ?? new Uint8Array();
  }

  /** False if the shell must close the connection beside the session. */
  get trialWanted(): boolean {
    return this.#trial !== null;
  }

  /** False if the shell must close the connection once all bytes it was given are written. */
  get linkWanted(): boolean {
    return (this.#greeting || this.#session !== null) && !this.#saidBye;
  }

  /** Handles a connection that could not be made, broke, or was closed because of `linkWanted` or `trialWanted`. */
  linkDown(reason: string, now: number, link = this.#mainLink): void {
    if (link !== this.#mainLink) {
      if (this.#trial !== null) this.#trialFailed(this.#trial, now);
      return;
    }
    if (this.#session !== null && !this.#saidBye) {
      this.#sessionOver(this.#session, { code: null, reason }, now);
      if (this.#mainLink !== link) return; // its trial has taken over
    } else if (this.#connecting || this.#greeting) this.#comeBack({ code: null, reason }, reason, now, false);
    this.#session = null;
    this.#link = this.#connecting = this.#greeting = false;
  }

  #sessionOver(session: ClientSession, ended: SessionEnded, now: number): void {
    this.#session = null;
    const { caughtUpAt } = session;
    const { code, reason } = ended;
    if (caughtUpAt !== null && now - caughtUpAt >= this.#parts.settings.displacedMaxS) this.#backoff.undisturbed();
    const trial = this.#trial;
    this.#trial = null;
    if (code !== null && !mayComeBack(code)) {
      this.#parts.report(new ServiceRefused(code, closeCodeName(code), reason));
      this.#refused = true;
      this.#lastProblem = `${closeCodeName(code)}: ${reason}`;
      return;
    }
    if (this.#address !== null && session.phase !== Phase.OPENING && code !== CloseCode.DISPLACED) {
      this.#book.ended(this.#address, now);
    }
    if (trial !== null && trial.hello !== null) {
      this.#noteEnd(ended, now, caughtUpAt !== null);
      this.#takeOver(trial, now);
      return;
    }
    this.#comeBack(ended, code === null ? reason : `${closeCodeName(code)}: ${reason}`, now, caughtUpAt !== null);
  }

  /** Lets the address rest if it did not serve us, or reported that it will not. */
  #noteEnd({ code, retryAfterS, notHereS = 0, silent = false }: SessionEnded, now: number, caughtUp: boolean): void {
    if (this.#address === null) return;
    const refusing = code === CloseCode.GOING_AWAY || code === CloseCode.OVERLOADED;
    if (notHereS > 0) this.#book.failed(this.#address, now, notHereS);
    else if (!caughtUp || silent || refusing) this.#book.failed(this.#address, now, retryAfterS);
  }

  #comeBack(ended: SessionEnded, reason: string, now: number, caughtUp: boolean): void {
    const { retryAfterS = 0, notHereS = 0 } = ended;
    this.#lastProblem = reason;
    this.#noteEnd(ended, now, caughtUp);
    const ownDoing = ended.code === CloseCode.DISPLACED && now - this.#ownHelloAt <= OWN_HELLO_S;
    const code = ownDoing ? null : ended.code;
    this.#ownHelloAt = -Infinity;
    if (retryAfterS > 0 || notHereS > 0) this.#backoff.beginAnew();
    if (this.#stopping) return;
    this.#connectAt = now + this.#backoff.delayS(code) + (this.#isElsewhere(now) ? 0 : retryAfterS);
    this.#hurryFrom = code === CloseCode.DISPLACED ? this.#connectAt : now + TRIES_APART_S;
  }

  /** Returns true if there is another gateway than the one that sent the client away. */
  #isElsewhere(now: number): boolean {
    const present = this.#address;
    return present === null || this.#book.asks(now) || this.#book.nextBeside(now, present) !== null;
  }

  // The state

  /** Returns a document to write now, one at a time; the shell then calls `saved` or `saveFailed`. */
  saveDue(now: number): Save | null {
    this.#parts.delivery.prepare();
    return this.#saveAt > now ? null : this.saveNow();
  }

  /** Returns the document before it is due, because the page may be gone at once; null if the stored one is current. */
  saveNow(): Save | null {
    const { journal, delivery } = this.#parts;
    delivery.prepare();
    if (this.#saving !== null || journal.isDurable(journal.revision)) return null;
    const { epoch, cursor } = delivery;
    const { epoch: channelsEpoch, cursor: channelsCursor } = delivery.channels;
    const document = encode(this.#document());
    this.#saving = { revision: journal.revision, document, epoch, cursor, channelsEpoch, channelsCursor };
    return this.#saving;
  }

  /** The present document. */
  get document(): string {
    this.#parts.delivery.prepare();
    return encode(this.#document());
  }

  /** Notes that this document is durable. */
  saved(save: Save, now: number): void {
    this.#saving = null;
    this.#saveFailures = 0;
    this.#parts.journal.failing = false;
    this.#parts.journal.durable = save.revision;
    this.#savedAt = now;
    this.#greet(now);
    this.#saved = save;
    if (this.#session !== null) this.#acknowledge(this.#session, save, now);
  }

  #acknowledge(session: ClientSession, save: Save, now: number): void {
    const { delivery } = this.#parts;
    if (save.epoch === delivery.epoch) session.acknowledge(session.objects, save.cursor, now);
    if (save.channelsEpoch === delivery.channels.epoch) session.acknowledge(session.channels, save.channelsCursor, now);
  }

  /** Notes that the document could not be written; it is tried again. Nothing that depends on it is sent until then. */
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
      shares: delivery.shares.kept,
      epoch: delivery.epoch,
      cursor: delivery.cursor,
      settled: unsettled?.isKnown ?? false,
    };
  }

  /** Time at which the document must be written; Infinity if it is stored, or is being stored. */
  get #saveAt(): number {
    const { journal, settings } = this.#parts;
    if (this.#saving !== null || journal.isDurable(journal.revision) || this.#giveUpSaving) return Infinity;
    if (this.#stopping) return this.#jobsAwaited ? Infinity : -Infinity;
    const urgent = !journal.isDurable(journal.urgent);
    return Math.max(this.#saveBlockedUntil, urgent ? -Infinity : this.#savedAt + settings.saveIntervalS);
  }

  // Time and inspection

  /** Does what is due. */
  tick(now: number): void {
    this.#parts.delivery.prepare();
    this.#tellFreshness(now);
    this.#parts.delivery.shares.tick(now);
    if (this.#session !== null && !this.#saidBye) {
      this.#session.tick(now);
      if (this.#session.ended !== null) this.#sessionOver(this.#session, this.#session.ended, now);
    }
    this.#trial?.tick(now);
    if (this.#trial !== null) this.#judge(this.#trial, now);
    this.#lookElsewhere(now);
    if (this.#stopping && !this.#saidBye && this.#atRest) {
      this.#session?.bye(now);
      this.#saidBye = true;
    }
  }

  /** Returns the time of the next action other than jobs, if nothing happens before. */
  deadline(): number {
    const connectAt = this.#connectAt === null || this.#link || this.#asking ? Infinity : this.#connectAt;
    const own = Math.min(this.#saveAt, connectAt, this.#parts.delivery.shares.deadline());
    if (this.#session === null || this.#saidBye) return own;
    return Math.min(own, this.#session.deadline(), this.#staleAt, this.#movesAt);
  }

  get #jobsAwaited(): boolean {
    return this.#parts.delivery.turns.running && !this.#abandoned;
  }

  /** True if no job is running and the document is stored (or cannot be written). */
  get #atRest(): boolean {
    if (this.#jobsAwaited || this.#saving !== null) return false;
    return this.#giveUpSaving || this.#parts.journal.isDurable(this.#parts.journal.revision);
  }

  /** True if it has been stopped, and everything is done and closed: also what was asked for behind Bye. */
  get finished(): boolean {
    return this.#saidBye && this.#atRest && !this.#link && !this.#connecting;
  }

  /** True if the service has refused this client for good. */
  get refused(): boolean {
    return this.#refused;
  }

  /** True if a session is open: the gateway has sent Welcome. */
  get connected(): boolean {
    return this.#session !== null && this.#session.phase !== "opening";
  }

  /**
   * Returns true if everything owed has been told: caught up, all registrations answered, all callbacks returned, and a
   * fresh answer proves that.
   */
  caughtUp(now: number): boolean {
    const { registrations, delivery } = this.#parts;
    const session = this.#session;
    if (session === null || !session.isLive || session.inDoubt || !this.#isFresh(now)) return false;
    return registrations.allArrived && delivery.turns.idle;
  }

  get #freshAsOf(): number | null {
    return asOfAll(this.#parts.delivery, this.#parts.registrations);
  }

  #isFresh(now: number): boolean {
    const asOf = this.#freshAsOf;
    return asOf !== null && now < asOf + staleAfterS(this.#parts.settings);
  }

  /**
   * Time at which the session that is live becomes stale; Infinity: it is, or there is none. Without a session the
   * application knows that it may be told nothing.
   */
  get #staleAt(): number {
    const asOf = this.#freshAsOf;
    if (asOf === null || this.#stale || this.#stopping || !this.#session?.isLive) return Infinity;
    return asOf + staleAfterS(this.#parts.settings);
  }

  /** Tells the application when what it knows becomes stale, and when it is fresh again. */
  #tellFreshness(now: number): void {
    const asOf = this.#freshAsOf;
    if (asOf === null || !(this.#stale ? this.#isFresh(now) : this.#staleAt <= now)) return;
    this.#stale = !this.#stale;
    const ageS = Math.round(now - asOf);
    this.#parts.report(this.#stale ? new ServiceStale(ageS) : new ServiceFresh(ageS));
  }

  /** Returns the reports for the application since the last call. */
  takeReports(): ColdNotifyError[] {
    return this.#reports.splice(0);
  }

  /** Returns the status. `unixMs`: the same time by this page's clock. */
  status(now: number, unixMs = 0): Status {
    const { registrations, delivery } = this.#parts;
    const asOf = this.#freshAsOf;
    const each = asOfEach(delivery, registrations);
    const unixMsOf = (at: number | null): number | null =>
      at === null ? null : 1000 * Math.floor(unixMs / 1000 - (now - at));
    return {
      phase: this.#phase(),
      address: this.#address,
      caughtUp: this.caughtUp(now),
      registrations: registrations.wanted.size,
      pending: registrations.pending.size,
      waiting: delivery.turns.waiting,
      parked: Array.from(delivery.parked, textOf).sort(),
      epoch: delivery.epoch,
      cursor: delivery.cursor,
      channelsEpoch: delivery.channels.epoch,
      channelsCursor: delivery.channels.cursor,
      freshAsOf: unixMsOf(asOf),
      streams: { objects: unixMsOf(each.objects), channels: unixMsOf(each.channels) },
      lastProblem: this.#lastProblem,
      nextConnectS: this.#connectAt === null ? null : Math.max(0, this.#connectAt - now),
    };
  }

  #phase(): Status["phase"] {
    if (this.#stopping) return "stopping";
    if (this.#refused) return "refused";
    if (this.#session !== null) return this.#session.phase;
    if (this.#greeting) return "opening";
    return this.#connecting || this.#asking ? "connecting" : "waiting";
  }
}

/** Returns the floors of wanted objects. Versions told from an unfinished answer still count. */
function floorsOf({ wanted, pending, applied, queries }: Document): [string, Floor][] {
  if ([...pending].some(([interest, kind]) => kind === "register" && isQuery(interest))) return [...applied];
  const isWanted = (name: string): boolean =>
    wanted.has(name) || [...queries.values()].some(({ members, answer }) => members.has(name) || answer?.has(name));
  return [...applied].filter(([name]) => isWanted(name));
}
