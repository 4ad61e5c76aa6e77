/**
 * Matcher and gateway in one, without I/O, for one client: written from docs/protocol.md, and by nothing of the product.
 *
 * A query's text means nothing here: the test says who is a member, and how objects are described. As the real service
 * does, this one tells final states above the cursor, answers whole or not at all, and forgets changes.
 */

import { digest, objectCrc, queryHash, setsDigest } from "../src/schemas/digest.js";
import { FrameBuffer } from "../src/schemas/frames.js";
import { CLIENT_FRAME, type ClientFrame, encodeFrame, GATEWAY_FRAME, type GatewayFramePart, parseFrame } from "../src/schemas/wire.js";

const PAGE_FRAMES = 2;

export interface Newest {
  readonly incarnation: bigint;
  readonly version: bigint;
  readonly offset: bigint;
  readonly deleted: boolean;
}

/** Who is a member of a query, and when that was different. */
export class QuerySet {
  readonly hash: bigint;
  readonly members = new Set<string>();
  /** Offset of the latest change of each name. */
  readonly changedAt = new Map<string, bigint>();
  /** Changes at or below it are not known any more. */
  forgottenTo = 0n;

  constructor(readonly text: string) {
    this.hash = queryHash(text);
  }

  get digest(): bigint {
    return digest(this.members);
  }
}

interface Said {
  readonly held: bigint | undefined;
  reached: string;
  at: bigint;
}

export class Service {
  readonly names = new Set<string>();
  /** Those that are registered, by hash. */
  readonly queries = new Map<bigint, QuerySet>();
  readonly sets = new Map<string, QuerySet>();
  readonly refused = new Set<string>();
  objects = new Map<string, Newest>();
  /** As JSON. */
  readonly descriptions = new Map<string, { readonly text: string; readonly offset: bigint }>();
  end = 0n;
  epoch = 1;
  /** Of the client: as it has acknowledged. */
  cursor: bigint | null = null;
  /** For the ledger: names that the client's application has not taken, be they below the cursor; null: it has not said. */
  unsettled: Set<string> | null = null;
  /** So many answers to registrations get lost on their way. */
  losesAnswers = 0;
  knowsQueries = true;
  tellsDescriptions = true;
  session: ServiceSession | null = null;
  readonly counted = { whole: 0, unchanged: 0, resumed: 0, digests: 0, unknown: 0, described: 0 };

  constructor(texts: readonly string[] = []) {
    for (const text of texts) this.sets.set(text, new QuerySet(text));
  }

  get digest(): bigint {
    return BigInt.asUintN(64, digest(this.names) + (this.knowsQueries ? [...this.queries.keys()].reduce((a, b) => a + b, 0n) : 0n));
  }

  /** One record: of a version (`deleted`: it is gone), or of a description, by which the object changes sets. */
  record(name: string, what: { version?: boolean; newIncarnation?: boolean; deleted?: boolean; toggles?: readonly string[]; described?: string }): void {
    this.end += 1n;
    if (what.described !== undefined) this.descriptions.set(name, { text: what.described, offset: this.end });
    if (what.deleted) this.descriptions.delete(name);
    const old = this.objects.get(name);
    if (what.version || what.deleted) {
      const incarnation = (old?.incarnation ?? 0n) + (what.newIncarnation ? 1n : 0n);
      const version = what.newIncarnation ? 0n : (old?.version ?? 0n) + 1n;
      this.objects.set(name, { incarnation, version, offset: this.end, deleted: what.deleted ?? false });
    }
    const [entered, left]: [bigint[], bigint[]] = [[], []];
    for (const set of this.sets.values()) {
      const goes = set.members.has(name) && (what.deleted || what.toggles?.includes(set.text));
      const comes = !set.members.has(name) && !what.deleted && what.toggles?.includes(set.text);
      if (!goes && !comes) continue;
      if (goes) set.members.delete(name);
      else set.members.add(name);
      set.changedAt.set(name, this.end);
      if (this.queries.has(set.hash)) (goes ? left : entered).push(set.hash);
    }
    const { session } = this;
    if (!session?.live) return;
    const knows = this.knowsQueries;
    const isMember = knows && [...this.queries.values()].some(({ members }) => members.has(name));
    const isTold = this.names.has(name) || isMember || (knows && left.length > 0);
    const isDescribed = what.described !== undefined && isMember && session.tellsDescriptions;
    const isValue = what.version || what.deleted || entered.length > 0 || isDescribed;
    if (isTold && (isValue || (knows && left.length > 0))) session.tell(name, isValue ?? false, this.end, knows ? entered : [], knows ? left : [], false, 0n, isDescribed || (knows && entered.length > 0));
  }

  forgetChanges(): void {
    for (const set of this.sets.values()) set.forgottenTo = this.end;
  }

  newEpoch(): void {
    this.session?.close(6);
    this.epoch += 1;
    this.end = 0n;
    this.cursor = null;
    for (const [name, newest] of [...this.objects].reverse()) {
      this.end += 1n;
      this.objects.set(name, { ...newest, offset: this.end });
    }
    for (const [name, { text }] of this.descriptions) this.descriptions.set(name, { text, offset: this.end });
    for (const set of this.sets.values()) {
      set.changedAt.clear();
      this.end += 1n;
      for (const name of set.members) set.changedAt.set(name, this.end);
      set.forgottenTo = this.end;
    }
  }
}

/** One connection, seen from the service. */
export class ServiceSession {
  readonly #service: Service;
  readonly #frames = new FrameBuffer(32 * 1024);
  out: Uint8Array[] = [];
  live = false;
  closed = false;
  acknowledged: bigint | null = null;
  #names = false;
  readonly #crcs = new Map<number, string>();
  #saysKinds = false;
  tellsDescriptions = false;
  #inSync = false;
  #sync: ClientFrame["sync"][] = [];
  #cursor: bigint | null = null;
  readonly #owedNames = new Set<string>();
  readonly #answers = new Map<bigint, Said & { begun: boolean; names: string[] | null }>();
  /** Where the answers of this catch-up began. */
  readonly #answeredAt = new Map<bigint, bigint>();
  /** What the client was told to be complete to. */
  #complete: bigint | null = null;
  #page = 0;
  #awaitsAck = false;
  #saysSets = false;
  #saidUnknown = false;

  constructor(service: Service) {
    this.#service = service;
    service.session?.close(5);
    service.session = this;
  }

  receive(data: Uint8Array): void {
    for (const body of this.#frames.feed(data)) if (!this.closed) this.#take(parseFrame(CLIENT_FRAME, body));
  }

  close(code: number): void {
    this.#send({ close: { code } });
    this.drop();
  }

  drop(): void {
    this.closed = true;
    if (this.#service.session === this) this.#service.session = null;
  }

  /** What the object is now, and what it entered and left. */
  tell(name: string, isValue: boolean, offset: bigint, entered: bigint[], left: bigint[], answer: boolean, behind = 0n, describes = false): void {
    const newest = this.#service.objects.get(name);
    const value = isValue && newest !== undefined ? { version: newest.version, incarnation: newest.incarnation, deleted: newest.deleted } : {};
    const says = describes && this.tellsDescriptions;
    const description = says ? new TextEncoder().encode(this.#service.descriptions.get(name)?.text ?? "") : undefined;
    if (says) this.#service.counted.described += 1;
    const by = this.#names ? { name } : { crc: objectCrc(name) };
    // An answer's offset means nothing. A client that believes it is found out.
    this.#send({ notification: { ...by, ...value, offset: answer ? (newest?.offset ?? 0n) : offset, behind, entered, left, answer, description } });
  }

  #send(frame: GatewayFramePart): void {
    if (!this.closed) this.out.push(encodeFrame(GATEWAY_FRAME, frame));
  }

  #take({ hello, register, unregister, sync, ack, ping, useNames, bye, unsettled }: ClientFrame): void {
    const service = this.#service;
    const { names, queries, knowsQueries } = service;
    if (useNames) this.#names = true;
    if (hello) {
      this.#names = (hello.capabilities & 1) !== 0;
      this.#saysKinds = (hello.capabilities & 2) !== 0;
      this.tellsDescriptions = (hello.capabilities & 4) !== 0 && knowsQueries && service.tellsDescriptions;
      if ((hello.capabilities & 4) !== 0 && !this.#saysKinds) throw new Error("descriptions without queries");
      if (this.#saysKinds && !this.#names) throw new Error("queries without names");
      if (hello.interests.length + hello.unregisterInterests.length > 0 && !this.#saysKinds) throw new Error("queries without capability");
      this.#limit([...hello.register, ...hello.unregister], hello.interests, hello.unregisterInterests.length);
      for (const name of hello.unregister) names.delete(name);
      for (const hash of knowsQueries ? hello.unregisterInterests : []) queries.delete(hash);
      for (const name of hello.register) names.add(name), this.#owedNames.add(name);
      const refused = this.#register(hello.interests);
      const sameEpoch = hello.epoch === service.epoch;
      this.#cursor = sameEpoch && hello.cursor !== undefined && hello.cursor <= service.end ? hello.cursor : null;
      service.cursor = this.#cursor;
      if ((hello.capabilities & 16) !== 0) service.unsettled = new Set(hello.register);
      else if (hello.register.length > 0) service.unsettled = null;
      const isVoid = !sameEpoch || (hello.cursor !== undefined && this.#cursor === null);
      const refusedDigest = refused.reduce((sum, { interest }) => sum + interest, 0n);
      this.#inSync = service.digest === BigInt.asUintN(64, hello.digest - refusedDigest);
      this.#welcome(isVoid, refused);
      if (this.#inSync) this.#catchUp();
    }
    if (register) {
      this.#limit(register.objects, register.interests, 0);
      if (register.interests.length > 0 && !this.#names) throw new Error("queries without names");
      for (const name of register.objects) names.add(name), service.unsettled?.add(name);
      const refused = this.#register(register.interests);
      const kinds = register.interests.length > 0 && knowsQueries ? 3 : 0;
      this.#send({ registered: { request: register.request, kinds, refused } });
      for (const name of register.objects) {
        if (service.losesAnswers > 0) service.losesAnswers -= 1;
        else this.tell(name, true, 0n, [], [], true);
      }
      if (kinds && this.live) this.#catchUp();
    }
    if (unregister) {
      this.#limit(unregister.objects, [], unregister.interests.length);
      for (const name of unregister.objects) names.delete(name);
      for (const hash of knowsQueries ? unregister.interests : []) queries.delete(hash), this.#answers.delete(hash);
      this.#send({ unregistered: { request: unregister.request } });
    }
    if (sync) {
      this.#limit(sync.objects, sync.interests, 0);
      this.#sync = sync.index === 0 ? [sync] : [...this.#sync, sync];
      if (sync.last) {
        for (const name of this.#sync.flatMap((chunk) => chunk?.objects ?? [])) if (!names.has(name)) service.unsettled?.add(name);
        names.clear();
        if (knowsQueries) queries.clear();
        this.#answers.clear();
        this.#owedNames.clear();
        const refused = this.#sync.flatMap((chunk) => this.#register(chunk?.interests ?? []));
        for (const name of this.#sync.flatMap((chunk) => chunk?.objects ?? [])) names.add(name), this.#owedNames.add(name);
        this.#inSync = true;
        this.#welcome(false, refused);
        this.#catchUp();
      }
    }
    if (ack) {
      if (ack.complete !== undefined) this.acknowledged = service.cursor = ack.complete;
      if (ack.page !== 0 && ack.page === this.#page && this.#awaitsAck) this.#nextPage();
    }
    if (unsettled) {
      const entries = unsettled.entries.map(({ name }) => name);
      const before = unsettled.all ? [] : [...(service.unsettled ?? [])].filter((name) => !unsettled.settled.includes(name));
      if (entries.length + unsettled.settled.length > 64) throw new Error("more than 64 in a frame");
      service.unsettled = new Set([...before, ...entries]);
      this.#send({ registered: { request: unsettled.request } });
    }
    if (ping) {
      this.#send({ pong: this.live ? { complete: service.end } : {} });
      if (this.#inSync && ping.digest !== undefined && ping.digest !== service.digest) {
        this.#inSync = this.live = this.#awaitsAck = false;
        this.#welcome(false, []);
      }
    }
    if (bye) this.drop();
  }

  /** What the protocol forbids fails the test. */
  #limit(names: readonly string[], queries: readonly { text: string }[], others: number): void {
    if (names.length + queries.length + others > 64) throw new Error("more than 64 in a frame");
    for (const name of this.#names ? [] : names) {
      const crc = objectCrc(name);
      if ((this.#crcs.get(crc) ?? name) !== name) throw new Error("two names under one CRC");
      this.#crcs.set(crc, name);
    }
    if (queries.reduce((sum, { text }) => sum + text.length, 0) > 16 * 1024) throw new Error("too much text in a frame");
  }

  #register(said: readonly { text: string; held: bigint | undefined; reached: string; reachedAt: bigint }[]): { interest: bigint; reason: string }[] {
    const refused: { interest: bigint; reason: string }[] = [];
    for (const { text, held, reached, reachedAt } of this.#service.knowsQueries ? said : []) {
      const set = this.#service.sets.get(text);
      const hash = queryHash(text);
      if (set === undefined || this.#service.refused.has(text)) {
        this.#service.queries.delete(hash);
        refused.push({ interest: hash, reason: "no" });
        continue;
      }
      this.#service.queries.set(hash, set);
      this.#answers.set(hash, { held, reached, at: reachedAt, begun: false, names: null });
    }
    return refused;
  }

  #welcome(isVoid: boolean, refused: { interest: bigint; reason: string }[]): void {
    const kinds = (this.#saysKinds && this.#service.knowsQueries ? 3 : 0) + (this.tellsDescriptions ? 8 : 0);
    this.#send({ welcome: { inSync: this.#inSync, epoch: isVoid ? this.#service.epoch : undefined, kinds, refused } });
  }

  #catchUp(): void {
    if (this.#cursor === null && this.#service.knowsQueries) {
      for (const hash of this.#service.queries.keys()) {
        if (!this.#answers.has(hash)) this.#answers.set(hash, { held: undefined, reached: "", at: 0n, begun: false, names: null });
      }
    }
    this.live = this.#saysSets = this.#saidUnknown = false;
    this.#complete = this.#cursor;
    this.#answeredAt.clear();
    for (const answer of this.#answers.values()) if (answer.begun) Object.assign(answer, { begun: false, names: null, reached: "" });
    this.#page = 0;
    this.#nextPage();
  }

  /** Again: what entered and left while that was on its way is not known any more, as after a takeover. */
  sayDigest(): void {
    if (!this.live || !this.#service.knowsQueries) return;
    this.#send({ caughtUp: { complete: this.#service.end, setsDigest: this.#setsDigest } });
  }

  get #setsDigest(): bigint {
    this.#service.counted.digests += 1;
    return setsDigest([...this.#service.queries].map(([hash, set]) => [hash, set.digest]));
  }

  #nextPage(): void {
    const service = this.#service;
    const queries = service.knowsQueries ? service.queries : new Map<bigint, QuerySet>();
    let room = PAGE_FRAMES;
    this.#page += 1;
    this.#awaitsAck = true;
    const end = (said: GatewayFramePart["pageEnd"] = {}): void => this.#send({ pageEnd: { ...said, page: this.#page } });
    for (const name of this.#owedNames) {
      if (room-- === 0) return end();
      this.#owedNames.delete(name);
      this.tell(name, true, 0n, [], [], true);
    }
    for (const [hash, answer] of service.knowsQueries ? this.#answers : []) {
      const set = queries.get(hash);
      if (set === undefined) {
        this.#answers.delete(hash);
        continue;
      }
      if (answer.held !== undefined && !answer.begun && answer.held === set.digest) {
        this.#send({ registered: { unchanged: [hash] } });
        service.counted.unchanged += 1;
        this.#answeredAt.set(hash, service.end);
        this.#answers.delete(hash);
        continue;
      }
      if (!answer.begun) {
        answer.begun = true;
        if (answer.reached !== "" && answer.at >= set.forgottenTo) service.counted.resumed += 1;
        else {
          Object.assign(answer, { reached: "", at: service.end });
          this.#send({ registered: { begun: [hash] } });
        }
        answer.names = [...set.members].filter((name) => name > answer.reached).sort();
      }
      for (const name of [...(answer.names ?? [])]) {
        if (room-- === 0) return end({ query: hash, reached: answer.reached, reachedAt: answer.at });
        if (set.members.has(name)) this.tell(name, true, 0n, [hash], [], true, 0n, true);
        answer.reached = name;
        answer.names?.shift();
      }
      this.#send({ registered: { answered: [hash] } });
      service.counted.whole += 1;
      this.#answeredAt.set(hash, answer.at);
      this.#answers.delete(hash);
    }
    let offset = this.#cursor ?? -1n;
    const all = this.#lacking(queries);
    for (const [index, lacking] of all.entries()) {
      if (this.#saysSets && !this.#saidUnknown && room > 0 && this.#lacking(queries).length > room) {
        this.#saidUnknown = true;
        service.counted.unknown += 1;
        return end({ setsUnknown: true });
      }
      // What lies at one offset is told as one: the cursor says that all up to it was told.
      if (room-- <= 0 && lacking.at !== offset) return end();
      const { name, at, entered, left } = lacking;
      offset = at;
      // Not all differences are known, and that is not said yet: the client's cursor stays.
      const unsaid = this.#saysSets && !this.#saidUnknown ? at - (this.#complete ?? -1n) : 0n;
      const behind = unsaid > 0n ? unsaid : all[index + 1]?.at === at ? 1n : 0n;
      const isMember = [...queries.values()].some(({ members }) => members.has(name));
      this.tell(name, lacking.isValue, at, entered, left, false, behind, isMember && lacking.isValue);
      if (behind === 0n) this.#complete = at;
      if (this.#cursor === null || at > this.#cursor) this.#cursor = at;
      for (const hash of [...entered, ...left]) this.#told.add(`${hash} ${name} ${at}`);
    }
    const setsToSay = this.#saysSets;
    this.#cursor = service.end;
    this.#told.clear();
    this.#answeredAt.clear();
    this.#awaitsAck = false;
    this.live = true;
    this.#send({ caughtUp: { complete: service.end, setsDigest: setsToSay ? this.#setsDigest : undefined } });
  }

  /** Changes that were told since an answer began, though the cursor may be above them. */
  readonly #told = new Set<string>();

  /** What the client lacks: newest versions above its cursor, and what its sets have become since. */
  #lacking(queries: ReadonlyMap<bigint, QuerySet>): Lacked[] {
    const service = this.#service;
    const cursor = this.#cursor ?? 0n;
    // By name and offset: the cursor may come to lie between two changes of an object.
    const changed = new Map<string, Lacked>();
    const unknown: [bigint, QuerySet][] = [];
    for (const [hash, set] of queries) {
      const since = this.#answeredAt.get(hash) ?? cursor;
      if (since < set.forgottenTo) {
        this.#saysSets = true;
        unknown.push([hash, set]);
        continue;
      }
      for (const [name, at] of set.changedAt) {
        if (at <= since || this.#told.has(`${hash} ${name} ${at}`)) continue;
        const isMember = set.members.has(name);
        const one = changed.get(`${name} ${at}`) ?? { name, at, isValue: false, entered: [], left: [] };
        changed.set(`${name} ${at}`, one);
        (isMember ? one.entered : one.left).push(hash);
        one.isValue ||= isMember || (service.objects.get(name)?.deleted ?? false);
      }
    }
    const values: Lacked[] = [];
    for (const [name, { offset }] of service.objects) {
      const having = [...queries].filter(([, { members }]) => members.has(name));
      if (offset <= cursor || !(service.names.has(name) || having.length > 0)) continue;
      if ([...changed.values()].some((one) => one.name === name && one.entered.length > 0 && one.at <= offset)) continue;
      const entered = unknown.filter(([, { members }]) => members.has(name)).map(([hash]) => hash);
      values.push({ name, at: offset, isValue: true, entered, left: [] });
    }
    const describes = (name: string, at: bigint): boolean => at > cursor && [...queries.values()].some(({ members }) => members.has(name));
    for (const [name, { offset: at }] of this.tellsDescriptions ? service.descriptions : []) {
      if (describes(name, at) && !changed.has(`${name} ${at}`)) values.push({ name, at, isValue: true, entered: [], left: [] });
    }
    return [...values, ...changed.values()].sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0));
  }
}

interface Lacked {
  readonly name: string;
  readonly at: bigint;
  isValue: boolean;
  readonly entered: bigint[];
  readonly left: bigint[];
}
