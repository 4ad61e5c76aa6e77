/** The whole core against a model of the service, with time, network, store, callbacks and crashes drawn by a seed. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Client, type Save } from "../src/core/client.js";
import type { CallbackJob } from "../src/core/delivery/slot.js";
import { decode, emptyDocument } from "../src/core/document/document.js";
import { FrameBuffer } from "../src/schemas/frames.js";
import type { Random } from "../src/core/session/reconnect.js";
import { CLIENT_FRAME, encodeFrame, GATEWAY_FRAME, parseFrame } from "../src/schemas/wire.js";
import { DEFAULTS } from "../src/core/settings.js";
import { StateError } from "../src/errors.js";
import { Service, ServiceSession } from "./service.js";

const ME = { domain: "animal.observer", group: "region-1", client: "page-1" };
// The last two share a CRC-32.
const NAMES = ["a", "b", "c", "d/e", "config-7f217f6b6dc8", "config-d7e77869948b"];
const MANY = Array.from({ length: 150 }, (_, i) => `many/${i}`);
const SEEDS = 100;
const STEPS = 250;
const SETTINGS = { ...DEFAULTS, triesMax: 2 };

interface Told {
  readonly incarnation: bigint;
  readonly version: bigint;
}

/** Below 0: older than the other. */
function compare(a: Told, b: Told): number {
  if (a.incarnation !== b.incarnation) return a.incarnation < b.incarnation ? -1 : 1;
  return a.version < b.version ? -1 : a.version > b.version ? 1 : 0;
}

/** mulberry32 */
function seeded(seed: number): Random {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A client, its store, its application, the network and the service. */
class World {
  readonly service = new Service();
  readonly random: Random;
  readonly wanted = new Set<string>();
  /** What the application knows: all of it, and since the present process began. */
  readonly told = new Map<string, Told>();
  toldHere = new Map<string, Told>();
  now = 1000;
  stored: string | null = null;
  client!: Client;
  link: ServiceSession | null = null;
  save: Save | null = null;
  job: CallbackJob | null = null;
  /** Its object was unregistered meanwhile. */
  jobIsStale = false;
  /** By the service, which says `complete` all the same; the next Hello or Ping finds it, and all is told again. */
  readonly forgotten = new Set<string>();
  crashes = 0;
  tellings = 0;
  /** So often something was found applied that is. */
  looks = 0;

  constructor(seed: number) {
    this.random = seeded(seed);
    this.boot();
  }

  below(limit: number): number {
    return Math.floor(this.random() * limit);
  }

  name(): string {
    return NAMES[this.below(NAMES.length)] as string;
  }

  boot(): void {
    const document = this.stored === null ? emptyDocument(ME) : decode(this.stored, ME);
    this.client = new Client(document, ["one", "two"], SETTINGS, this.random, this.now);
    this.link = this.save = this.job = null;
    this.toldHere = new Map();
    for (const name of [...NAMES, ...MANY]) this.client.application.subscribe(name, 1);
    this.client.application.registerOnly(this.wanted);
  }

  crash(): void {
    this.crashes += 1;
    this.link?.drop();
    this.boot();
  }

  register(name: string): void {
    this.wanted.add(name);
    this.client.application.register(name);
  }

  unregister(name: string): void {
    this.wanted.delete(name);
    this.client.application.unregister(name);
    // Who registers again is told again.
    this.toldHere.delete(name);
    this.jobIsStale ||= this.job?.notification.objectId === name;
  }

  beginSave(): void {
    this.save ??= this.client.saveDue(this.now);
    if (this.save !== null) this.check(this.save.document);
  }

  endSave(fails = false): void {
    const { save } = this;
    this.save = null;
    if (save === null) return;
    if (fails) return this.client.saveFailed(new StateError("full"), this.now);
    this.stored = save.document;
    this.client.saved(save, this.now);
  }

  /** Of every wanted object, the newest version at or below the cursor has been told, or it is a pending registration. */
  check(text: string): void {
    const { wanted, pending, cursor, epoch } = decode(text, ME);
    if (cursor === null || epoch !== this.service.epoch) return;
    for (const name of wanted) {
      const newest = this.service.objects.get(name);
      if (this.forgotten.has(name)) continue;
      if (newest === undefined || newest.offset > cursor || pending.get(name) === "register") continue;
      const told = this.told.get(name);
      assert(told !== undefined && compare(told, newest) >= 0, `${name} would be lost: ${text}`);
    }
  }

  /** Whom the service would take for one that has applied a version has been told it. */
  checkLedger(): void {
    const { names, objects, cursor, unsettled } = this.service;
    if (unsettled === null || cursor === null) return;
    for (const [name, newest] of objects) {
      if (!names.has(name) || unsettled.has(name) || newest.offset > cursor) continue;
      if (!this.wanted.has(name) || this.forgotten.has(name)) continue;
      const told = this.told.get(name);
      assert(told !== undefined && compare(told, newest) >= 0, `the ledger says that ${name} is applied`);
      this.looks += 1;
    }
  }

  beginJob(): void {
    if (this.job !== null) return;
    this.job = this.client.nextJob(this.now) as CallbackJob | null;
    this.jobIsStale = false;
  }

  endJob(fails = false): void {
    const { job } = this;
    this.job = null;
    if (job === null) return;
    const { notification, update } = job;
    const name = notification.objectId;
    this.tellings += 1;
    if (update.version !== null && !this.jobIsStale) {
      assert(this.wanted.has(name), "nothing is told that is not wanted");
      const version = { incarnation: update.incarnation, version: update.version };
      const known = this.told.get(name);
      assert(known === undefined || compare(version, known) >= 0, "never backwards, not across crashes either");
      const here = this.toldHere.get(name);
      assert(here === undefined || compare(version, here) > 0, "nothing twice in the life of a process");
      const newest = this.service.objects.get(name);
      assert(newest !== undefined && compare(version, newest) <= 0, "nothing is told that was not published");
      if (!fails) {
        this.told.set(name, version);
        this.toldHere.set(name, version);
      }
    }
    this.client.jobDone(job, new Map(fails ? [[1, "no"]] : []), this.now);
  }

  serviceForgets(name: string): void {
    if (this.service.names.delete(name)) this.forgotten.add(name);
  }

  /** Bytes in both directions, perhaps not all of them. */
  network(whole = false): void {
    if (this.link === null) {
      if (this.client.connectDue(this.now) === null) return;
      if (!whole && this.random() < 0.2) return this.client.linkDown("no route", this.now);
      this.link = new ServiceSession(this.service);
      this.client.linkUp(this.now);
    }
    const { link } = this;
    const data = this.client.dataToSend(this.now);
    if (!link.closed) link.receive(data);
    for (const frame of link.out.splice(0, whole ? link.out.length : this.below(8))) {
      const at = this.below(frame.length);
      this.client.receive(frame.subarray(0, at), this.now);
      this.client.receive(frame.subarray(at), this.now);
    }
    if (link.closed && link.out.length === 0) this.cut();
    else if (!this.client.linkWanted) this.cut();
  }

  cut(): void {
    if (this.link === null) return;
    this.link.drop();
    this.link = null;
    this.client.linkDown("cut", this.now);
  }

  tick(seconds: number): void {
    this.now += seconds;
    this.client.tick(this.now);
  }

  step(): void {
    const draw = this.below(100);
    if (draw < 10) this.service.record(this.name(), { version: true, newIncarnation: this.random() < 0.05 });
    else if (draw < 16) this.register(this.name());
    else if (draw < 18) this.unregister(this.name());
    else if (draw < 19) for (const name of this.random() < 0.2 ? MANY : []) this.register(name);
    else if (draw < 40) this.network();
    else if (draw < 45) this.network(true);
    else if (draw < 57) this.beginSave();
    else if (draw < 67) this.endSave(this.random() < 0.1);
    else if (draw < 77) this.beginJob();
    else if (draw < 87) this.endJob(this.random() < 0.1);
    else if (draw < 93) this.tick(this.random() * 3);
    else if (draw < 94) this.tick(40);
    else if (draw < 96) this.cut();
    else if (draw < 97) this.crash();
    else if (draw < 98) this.serviceForgets(this.name());
    else if (draw < 99) this.service.losesAnswers = this.below(3);
    else if (this.random() < 0.3) this.service.newEpoch();
    else this.service.session?.close([1, 3, 6][this.below(3)] as number);
  }

  /** No more faults: all is told, in the end. */
  settle(): void {
    this.service.losesAnswers = 0;
    for (let i = 0, quiet = 0; i < 1000 && quiet < 5; i++) {
      quiet = this.client.caughtUp(this.now) && this.service.names.size === this.wanted.size ? quiet + 1 : 0;
      this.tick(2);
      this.beginSave();
      this.endSave();
      this.network(true);
      for (let j = 0; j < 20; j++) this.beginJob(), this.endJob();
    }
    assert(this.client.caughtUp(this.now), JSON.stringify(this.client.status(this.now), (_, v: unknown) => (typeof v === "bigint" ? String(v) : v)));
    for (const name of this.wanted) {
      const newest = this.service.objects.get(name);
      if (newest !== undefined) assert.equal(compare(this.told.get(name) as Told, newest), 0, `${name} is not the newest`);
    }
    const status = this.client.status(this.now);
    assert.deepEqual([status.pending, status.waiting, status.registrations], [0, 0, this.wanted.size]);
    assert.deepEqual([...this.service.names].sort(), [...this.wanted].sort());
    assert.deepEqual([...(this.service.unsettled ?? [])], [], "the ledger holds nothing for unsettled that is told");
    if (status.cursor !== null) assert.equal(this.service.session?.acknowledged ?? status.cursor, status.cursor);
  }
}

test(`${SEEDS} schedules with faults: nothing is lost, nothing goes backwards, all is told in the end`, () => {
  let [crashes, tellings, looks] = [0, 0, 0];
  for (let seed = 1; seed <= SEEDS; seed++) {
    try {
      const world = new World(seed);
      for (let i = 0; i < STEPS; i++) world.step(), world.checkLedger();
      world.settle();
      crashes += world.crashes;
      tellings += world.tellings;
      looks += world.looks;
    } catch (error) {
      throw new Error(`seed ${seed}: ${String(error)}`, { cause: error });
    }
  }
  const counted = `${crashes} crashes, ${tellings} tellings, ${looks} looks`;
  assert(crashes > SEEDS && tellings > 20 * SEEDS && looks > 10 * SEEDS, `${counted}: they test nothing`);
});

test("a Hello leaves only once the operations that it carries are stored", () => {
  const world = new World(1);
  world.register("a");
  world.client.connectDue(world.now);
  world.client.linkUp(world.now);
  assert.equal(world.client.dataToSend(world.now).length, 0);
  world.beginSave();
  assert.equal(world.client.dataToSend(world.now).length, 0);
  world.endSave();
  assert(world.client.dataToSend(world.now).length > 0);
});

test("what changed while the document was being stored is not durable with it", () => {
  const world = new World(1);
  world.settle();
  world.register("a");
  world.beginSave();
  world.register("b");
  world.endSave();
  const sent = Buffer.from(world.client.dataToSend(world.now)).toString("latin1");
  assert.match(sent, /\x12\x01a$/, "only a is asked for");
});

test("a cursor of the old epoch is not acknowledged in the new one", () => {
  const world = new World(1);
  world.register("a");
  world.service.record("a", { version: true });
  world.settle();
  world.service.record("a", { version: true });
  world.network(true);
  world.beginJob();
  world.endJob();
  world.tick(1);
  world.beginSave();
  assert.equal(world.save?.cursor, 2n);
  world.client.receive(encodeFrame(GATEWAY_FRAME, { welcome: { inSync: true, epoch: 9 } }), world.now);
  world.endSave();
  world.tick(0.9);
  world.client.tick(world.now + 2);
  assert.equal(world.client.dataToSend(world.now).length, 0);
});

test("floors survive a new process and a new epoch", () => {
  const world = new World(1);
  for (const name of NAMES) world.register(name);
  for (const name of NAMES) world.service.record(name, { version: true });
  world.settle();
  const before = world.tellings;
  world.service.newEpoch();
  world.crash();
  world.settle();
  assert.equal(world.tellings, before);
  assert.equal(world.client.status(world.now).epoch, 2);
});

test("a reg-sync lets the cursor pass what is being told: it is a pending registration now", () => {
  const world = new World(1);
  world.register("a");
  world.settle();
  world.service.record("a", { version: true });
  world.network(true);
  world.beginJob();
  world.client.receive(encodeFrame(GATEWAY_FRAME, { welcome: {} }), world.now);
  assert.deepEqual([world.client.status(world.now).cursor, world.client.status(world.now).pending], [1n, 1]);
});

test("a registration is not settled by what came before it was confirmed", () => {
  const world = new World(1);
  world.register("a");
  world.service.record("a", { version: true });
  world.settle();
  world.service.record("a", { version: true });
  world.network(true);
  world.beginJob();
  world.service.losesAnswers = 1;
  world.client.receive(encodeFrame(GATEWAY_FRAME, { welcome: {} }), world.now);
  world.client.tick(world.now);
  world.beginSave();
  world.endSave();
  world.client.dataToSend(world.now);
  world.client.receive(encodeFrame(GATEWAY_FRAME, { welcome: { inSync: true } }), world.now);
  world.endJob();
  assert.equal(world.client.status(world.now).pending, 1, "its answer is to come");
});

test("an unchanged wake is of constant size and tells nothing", () => {
  const world = new World(1);
  for (const name of MANY) world.register(name);
  for (const name of MANY) world.service.record(name, { version: true });
  world.settle();
  const before = world.tellings;
  world.crash();
  world.beginSave();
  world.endSave();
  let [up, down] = [0, 0];
  assert(world.client.connectDue(world.now));
  const session = new ServiceSession(world.service);
  world.client.linkUp(world.now);
  for (let i = 0; i < 5; i++) {
    const data = world.client.dataToSend(world.now);
    up += data.length;
    session.receive(data);
    for (const frame of session.out.splice(0)) {
      down += frame.length;
      world.client.receive(frame, world.now);
    }
  }
  assert(world.client.caughtUp(world.now));
  assert(up < 100 && down < 30, `${up} bytes up, ${down} down`);
  assert.equal(world.client.nextJob(world.now), null);
  assert.equal(world.tellings, before);
});

test("stopping waits for the callback that runs, stores, acknowledges and says Bye", () => {
  const world = new World(1);
  world.register("a");
  world.service.record("a", { version: true });
  world.settle();
  world.service.record("a", { version: true });
  world.network(true);
  world.beginJob();
  assert(world.job);
  world.client.stop();
  world.tick(0);
  assert(world.client.linkWanted);
  world.endJob();
  world.tick(0);
  world.beginSave();
  world.endSave();
  world.tick(0);
  assert(!world.client.linkWanted);
  const session = world.link;
  world.network(true);
  assert.equal(session?.acknowledged, 2n);
  assert(world.client.finished);
  // What the application asks for until then is stored, too.
  world.register("b");
  assert(!world.client.finished);
  world.tick(0);
  world.beginSave();
  assert(!world.client.finished);
  world.endSave();
  assert(world.client.finished);
});

for (const stands of [false, true]) {
  test(`a connection from before a standstill is asked behind its Hello, and given up within the grace: ${stands}`, () => {
    const world = new World(1);
    const { client } = world;
    world.register("a");
    assert(client.connectDue(world.now));
    if (stands) client.linkUp(world.now);
    world.now += 200;
    client.doubt(world.now, 200);
    if (!stands) client.linkUp(world.now);
    world.beginSave();
    world.endSave();
    const bodies = [...new FrameBuffer(32 * 1024).feed(client.dataToSend(world.now))];
    const said = bodies.map((body) => parseFrame(CLIENT_FRAME, body));
    assert.deepEqual(said.map(({ hello, ping }) => [!!hello, !!ping]), [[true, false], [false, true]]);
    client.tick((world.now += SETTINGS.silenceGraceS - 0.1));
    assert(client.linkWanted);
    client.tick((world.now += 0.1));
    assert(!client.linkWanted);
  });
}
