/** Matcher and gateway in one, without I/O, for tests: `coldnotify.testing.Service` in short, for one client. */

import { digest, objectCrc } from "../src/schemas/digest.js";
import { FrameBuffer } from "../src/schemas/frames.js";
import { CLIENT_FRAME, type ClientFrame, encodeFrame, GATEWAY_FRAME, type GatewayFramePart, parseFrame } from "../src/schemas/wire.js";

const PAGE_OBJECTS = 2;

export interface Newest {
  readonly incarnation: bigint;
  readonly version: bigint;
  readonly offset: bigint;
}

export class Service {
  readonly registered = new Set<string>();
  objects = new Map<string, Newest>();
  end = 0n;
  epoch = 1;
  /** Of the client: as it has acknowledged. */
  cursor: bigint | null = null;
  /** For the ledger: names that the client's application has not taken, be they below the cursor; null: it has not said. */
  unsettled: Set<string> | null = null;
  session: ServiceSession | null = null;
  /** So many answers to registrations get lost on their way. */
  losesAnswers = 0;

  publish(name: string, newIncarnation = false): void {
    const old = this.objects.get(name) ?? { incarnation: 0n, version: -1n };
    this.end += 1n;
    const newest = newIncarnation
      ? { incarnation: old.incarnation + 1n, version: 0n, offset: this.end }
      : { incarnation: old.incarnation, version: old.version + 1n, offset: this.end };
    this.objects.set(name, newest);
    if (this.session?.live && this.registered.has(name)) this.session.notify(name, false);
  }

  /** The topic was made anew: offsets start over, all newest versions are published again. */
  newEpoch(): void {
    this.session?.close(6);
    this.epoch += 1;
    this.end = 0n;
    this.cursor = null;
    for (const [name, newest] of [...this.objects].reverse()) {
      this.end += 1n;
      this.objects.set(name, { ...newest, offset: this.end });
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
  #agreed: bigint | null = null;
  #sync: string[] = [];
  #cursor: bigint | null = null;
  #owed: string[] = [];
  #page = 0;

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

  notify(name: string, answer: boolean): void {
    const newest = this.#service.objects.get(name);
    const by = this.#names ? { name } : { crc: objectCrc(name) };
    this.#send({ notification: { ...by, ...newest, answer } });
  }

  #send(frame: GatewayFramePart): void {
    if (!this.closed) this.out.push(encodeFrame(GATEWAY_FRAME, frame));
  }

  #take({ hello, register, unregister, sync, ack, ping, useNames, bye, unsettled }: ClientFrame): void {
    const { registered, end } = this.#service;
    if (useNames) this.#names = true;
    if (hello) {
      this.#names = (hello.capabilities & 1) !== 0;
      this.#use([...hello.register, ...hello.unregister]);
      for (const name of hello.unregister) registered.delete(name);
      for (const name of hello.register) registered.add(name);
      const sameEpoch = hello.epoch === this.#service.epoch;
      const valid = sameEpoch && hello.cursor !== undefined && hello.cursor <= end;
      this.#cursor = this.#service.cursor = valid ? (hello.cursor as bigint) : null;
      if ((hello.capabilities & 16) !== 0) this.#service.unsettled = new Set(hello.register);
      else if (hello.register.length > 0) this.#service.unsettled = null;
      this.#welcome(digest(registered) === hello.digest, !sameEpoch);
      if (this.#agreed !== null) this.#catchUp(hello.register);
    }
    if (register) {
      this.#use(register.objects);
      for (const name of register.objects) registered.add(name), this.#service.unsettled?.add(name);
      this.#agreed = digest(registered);
      this.#send({ registered: { request: register.request } });
      for (const name of register.objects) {
        if (this.#service.losesAnswers > 0) this.#service.losesAnswers -= 1;
        else this.notify(name, true);
      }
    }
    if (unregister) {
      this.#use(unregister.objects);
      for (const name of unregister.objects) registered.delete(name);
      this.#agreed = digest(registered);
      this.#send({ unregistered: { request: unregister.request } });
    }
    if (sync) {
      this.#use(sync.objects);
      this.#sync = sync.index === 0 ? [...sync.objects] : [...this.#sync, ...sync.objects];
      if (sync.last) {
        for (const name of this.#sync) if (!registered.has(name)) this.#service.unsettled?.add(name);
        registered.clear();
        for (const name of this.#sync) registered.add(name);
        this.#welcome(true, false);
        this.#catchUp(this.#sync);
      }
    }
    if (ack) {
      if (ack.complete !== undefined) this.acknowledged = this.#service.cursor = ack.complete;
      if (ack.page !== 0 && ack.page === this.#page) this.#nextPage();
    }
    if (unsettled) {
      const entries = unsettled.entries.map(({ name }) => name);
      const before = unsettled.all ? [] : [...(this.#service.unsettled ?? [])].filter((name) => !unsettled.settled.includes(name));
      if (entries.length + unsettled.settled.length > 64) throw new Error("more than 64 in a frame");
      this.#service.unsettled = new Set([...before, ...entries]);
      this.#send({ registered: { request: unsettled.request } });
    }
    if (ping) {
      this.#send({ pong: this.live ? { complete: end } : {} });
      if (this.#agreed !== null && ping.digest !== undefined && ping.digest !== digest(registered)) this.#welcome(false, false);
    }
    if (bye) this.drop();
  }

  /** What the protocol forbids fails the test. */
  #use(names: readonly string[]): void {
    if (names.length > 64) throw new Error("more than 64 objects in a frame");
    if (this.#names) return;
    for (const name of names) {
      const crc = objectCrc(name);
      if ((this.#crcs.get(crc) ?? name) !== name) throw new Error("two names under one CRC");
      this.#crcs.set(crc, name);
    }
  }

  #welcome(inSync: boolean, newEpoch: boolean): void {
    this.#agreed = inSync ? digest(this.#service.registered) : null;
    this.live &&= inSync;
    this.#send({ welcome: { inSync, epoch: newEpoch ? this.#service.epoch : undefined } });
  }

  #catchUp(owed: readonly string[]): void {
    this.live = false;
    this.#owed = [...owed];
    this.#page = 0;
    this.#nextPage();
  }

  #nextPage(): void {
    for (let sent = 0; sent < PAGE_OBJECTS; sent++) {
      const owed = this.#owed.shift();
      const lacking = [...this.#service.objects]
        .filter(([name, { offset }]) => this.#service.registered.has(name) && offset > (this.#cursor ?? 0n))
        .sort(([, a], [, b]) => (a.offset < b.offset ? -1 : 1))[0];
      if (owed !== undefined) {
        this.notify(owed, true);
      } else if (lacking !== undefined) {
        this.notify(lacking[0], false);
        this.#cursor = lacking[1].offset;
      } else {
        this.live = true;
        this.#send({ caughtUp: this.#service.end > 0n ? { complete: this.#service.end } : {} });
        return;
      }
    }
    this.#page += 1;
    this.#send({ pageEnd: { page: this.#page } });
  }
}
