/** Several `Notify` of one name, as tabs of one browser have them: one leads, the others follow. */

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import type { AnyJob } from "../src/core/delivery/callbackTurns.js";
import type { Asked } from "../src/core/wishes.js";
import * as errors from "../src/errors.js";
import { type Notification, Notify, type Options } from "../src/index.js";
import { errorOf, fieldsOf, Heard, TabRequests, type Told } from "../src/tabs.js";
import { Socket } from "./socket.js";

const DEADLINE_S = 150;
const QUICK = { backoffMinS: 0.1, backoffMaxS: 0.2, retryMinS: 0.01, ackDelayS: 0.01, saveIntervalS: 0.01, addressRestS: 0.1 };
const ME = { domain: "d", groupId: "g", clientId: "c", address: "ws://gateway" };

/** The browser's lock manager. */
class Locks {
  readonly #waiting = new Map<string, (() => Promise<void>)[]>();

  async request(name: string, ...rest: unknown[]): Promise<unknown> {
    const callback = rest.at(-1) as (lock: unknown) => unknown;
    const { ifAvailable = false, signal } = (rest.length > 1 ? rest[0] : {}) as { ifAvailable?: boolean; signal?: AbortSignal };
    const queue = this.#waiting.get(name) ?? [];
    if (ifAvailable && queue.length > 0) return callback(null);
    this.#waiting.set(name, queue);
    return new Promise((resolve, reject) => {
      const turn = async (): Promise<void> => {
        if (!signal?.aborted) await Promise.resolve(callback({ name })).then(resolve, reject);
        queue.shift();
        if (queue.length === 0) this.#waiting.delete(name);
        void queue[0]?.();
      };
      signal?.addEventListener("abort", () => reject(new DOMException("aborted", "AbortError")));
      if (queue.push(turn) === 1) void turn();
    });
  }

  async query(): Promise<{ held: { name: string }[] }> {
    return { held: [...this.#waiting.keys()].map((name) => ({ name })) };
  }
}

interface Tab {
  readonly notify: Notify;
  readonly told: string[];
  readonly errors: Error[];
  readonly callback: (notification: Notification) => void;
}
let tabs: Tab[] = [];

async function open(options: Partial<Options> = {}): Promise<Tab> {
  const [told, problems]: [string[], Error[]] = [[], []];
  const notify = new Notify({ ...ME, ...QUICK, onError: (error) => problems.push(error), ...options });
  const callback = ({ objectId, version }: Notification): void => void told.push(`${objectId}@${version}`);
  const tab = { notify, told, errors: problems, callback };
  tabs.push(tab);
  await notify.connect();
  assert(await notify.waitCaughtUp(DEADLINE_S));
  return tab;
}

function socket(): Socket {
  return Socket.all.at(-1) as Socket;
}

function publish(name: string, version: bigint): void {
  socket().say({ notification: { name, version, offset: 5n + version } });
}

async function until(condition: () => unknown, what: string): Promise<void> {
  const deadline = Date.now() + 1000 * DEADLINE_S;
  while (!condition()) {
    assert(Date.now() < deadline, `${what}: not within ${DEADLINE_S} s`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

const real = { WebSocket: globalThis.WebSocket, localStorage: Object.getOwnPropertyDescriptor(globalThis, "localStorage") };
const realNavigator = Object.getOwnPropertyDescriptor(globalThis, "navigator");
beforeEach(() => {
  const kept = new Map<string, string>();
  const localStorage = { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, text: string) => kept.set(key, text) };
  Object.assign(globalThis, { WebSocket: Socket });
  Object.defineProperty(globalThis, "localStorage", { value: localStorage, configurable: true });
  Object.defineProperty(globalThis, "navigator", { value: { locks: new Locks() }, configurable: true });
  [Socket.all, tabs] = [[], []];
  Socket.refused = new Set();
  Socket.knowsQueries = true;
  Socket.publishes = true;
  Socket.tellsDescriptions = false;
});
afterEach(async () => {
  await Promise.all(tabs.map(({ notify }) => notify.disconnect()));
  Object.assign(globalThis, { WebSocket: real.WebSocket });
  for (const [name, one] of [["navigator", realNavigator], ["localStorage", real.localStorage]] as const) {
    if (one === undefined) Reflect.deleteProperty(globalThis, name);
    else Object.defineProperty(globalThis, name, one);
  }
});

test("a second tab shares the session: it is told, has current, and registers", async () => {
  const first = await open();
  first.notify.register("a").subscribe(first.callback);
  await until(() => first.told.length === 1, "the first is told");
  const second = await open();
  const a = second.notify.register("a");
  assert.equal(a.current?.version, 1n, "what the client was told before");
  a.subscribe(second.callback);
  const b = second.notify.register("b");
  b.subscribe(second.callback);
  assert(!second.notify.caughtUp, "the leader has not heard of it");
  assert(await second.notify.waitCaughtUp(DEADLINE_S));
  assert.deepEqual(second.told, ["b@1"]);
  publish("a", 2n);
  await until(() => second.told.length === 2 && first.told.length === 2, "both are told");
  assert.deepEqual([first.told, second.told], [["a@1", "a@2"], ["b@1", "a@2"]]);
  assert.equal(a.current?.version, 2n);
  await until(() => first.notify.register("b").current?.version === 1n, "what another tab was told");
  assert.equal(second.notify.status.registrations, 2);
  assert.deepEqual([second.notify.status.phase, second.notify.connected], ["live", true]);
  assert.equal(Socket.all.length, 1, "one session");
  assert.deepEqual([...first.errors, ...second.errors], []);
});

test("what one tab wants no more, another one keeps", async () => {
  const [first, second] = [await open(), await open()];
  for (const { notify, callback } of [first, second]) for (const name of ["a", "b"]) notify.register(name).subscribe(callback);
  await second.notify.waitCaughtUp(DEADLINE_S);
  second.notify.unregister("a");
  first.notify.registerOnly(["a"]);
  second.notify.register("c").subscribe(second.callback);
  await second.notify.waitCaughtUp(DEADLINE_S);
  assert.equal(first.notify.status.registrations, 3);
  for (const name of ["a", "b"]) publish(name, 2n);
  await until(() => first.told.includes("a@2") && second.told.includes("b@2"), "each what it wants");
  assert(!first.told.includes("b@2") && !second.told.includes("a@2"));
  second.notify.registerOnly([]);
  await until(() => first.notify.status.registrations === 1, "nobody wants them");
});

test("a query of a second tab has its members, descriptions and current", async () => {
  Socket.tellsDescriptions = true;
  const [, second] = [await open(), await open()];
  const query = second.notify.registerQuery("Room = 410", { descriptions: true });
  const entered: string[] = [];
  query.subscribeMembers((added, removed) => entered.push([...added].join() + [...removed].join()));
  query.subscribe(second.callback);
  await second.notify.waitCaughtUp(DEADLINE_S);
  assert.deepEqual(entered.join().split(","), ["a", "b"]);
  assert.deepEqual(second.told, ["a@1", "b@1"]);
  await until(() => query.current.size === 2 && query.membersKnown, "the leader's document");
  assert.deepEqual([...query.members], ["a", "b"]);
  assert.deepEqual(query.descriptions.get("a"), { Room: 410 });
  assert.deepEqual(query.current.get("a")?.description, { Room: 410 });
});

test("the next tab takes over, with all that is wanted, and tells nothing twice", async () => {
  const [first, second, third] = [await open(), await open(), await open()];
  for (const { notify, callback } of [first, second, third]) notify.register("a").subscribe(callback);
  second.notify.register("b").subscribe(second.callback);
  await second.notify.waitCaughtUp(DEADLINE_S);
  await third.notify.waitCaughtUp(DEADLINE_S);
  publish("a", 2n);
  await until(() => third.told.includes("a@2"), "it is told");
  await first.notify.disconnect();
  assert.equal(first.notify.status.phase, "stopped");
  await until(() => Socket.all.length === 2 && second.notify.caughtUp && third.notify.caughtUp, "another session");
  third.notify.register("c").subscribe(third.callback);
  await third.notify.waitCaughtUp(DEADLINE_S);
  publish("a", 3n);
  await until(() => third.told.includes("a@3"), "it is told by the next one");
  for (const { told } of [second, third]) assert.equal(new Set(told).size, told.length, "nothing twice");
  assert.deepEqual(second.told.filter((one) => one.startsWith("a")), ["a@1", "a@2", "a@3"]);
  await first.notify.connect();
  assert(await first.notify.waitCaughtUp(DEADLINE_S));
  publish("a", 4n);
  await until(() => first.told.includes("a@4"), "it follows now");
  assert.equal(Socket.all.length, 2);
});

test("a second tab publishes: the answer is its own, and what has none goes to the next leader", async () => {
  const [first, second] = [await open(), await open()];
  assert.equal(await second.notify.publish("a", { on: true }, { version: 5 }).published, 77n);
  assert.equal((await second.notify.publish("a", { on: true }, { version: 6 }).outcome()).outcome, "stale");
  Socket.publishes = "no";
  await assert.rejects(second.notify.send("tasks", 1).published, errors.PublishRefused);
  assert.deepEqual([first.errors.length, second.errors.length], [0, 1], "who published is told");
  Socket.publishes = false;
  const waiting = [second.notify.send("tasks", 2), second.notify.publish("a", 3, { version: 7 })];
  await until(() => socket().said.filter(({ publish }) => publish).length === 5, "it is sent");
  Socket.publishes = true;
  await first.notify.disconnect();
  assert.deepEqual(await Promise.all(waiting.map(({ published }) => published)), [77n, 77n]);
  const again = socket().said.flatMap(({ publish }) => (publish ? [publish.id || publish.version] : []));
  assert.deepEqual(again, [waiting[0]?.id, 7n], "in their order, as they were");
  assert.equal(second.notify.unanswered, 0);
});

test("a callback of a second tab that throws is called again, and each tab hears of it", async () => {
  const [first, second] = [await open(), await open()];
  let tries = 0;
  second.notify.register("a").subscribe((notification) => {
    tries += 1;
    if (tries === 1) throw new TypeError("not now");
    second.callback(notification);
  });
  await until(() => second.told.length === 1, "the second try");
  assert.equal(tries, 2);
  for (const { errors: [error] } of [first, second]) {
    assert(error instanceof errors.CallbackFailed);
    assert.equal(error.message, 'callback for "a", version 1, threw TypeError: not now');
    assert.equal((error.cause as Error).name, "TypeError");
  }
  second.notify.registerQuery("no");
  await until(() => first.errors.length === 2 && second.errors.length === 2, "the service's refusal");
  assert(second.errors[1] instanceof errors.RegistrationRefused);
  assert.equal(second.errors[1].query, "no");
});

test("who asks while the leader goes is asked for by the next one", async () => {
  const [first, second] = [await open(), await open()];
  const going = first.notify.disconnect();
  second.notify.register("late").subscribe(second.callback);
  await going;
  await until(() => second.told.includes("late@1"), "the next one has registered it");
});

test("every error is the same in another tab", () => {
  const fields = { channel: "tasks", after: null, before: 1n, reason: "EXPIRED" };
  for (const [name, made] of Object.entries(errors as unknown as Record<string, new (...given: unknown[]) => Error>)) {
    const given = name === "MessagesMissed" ? fields : "a";
    const error = new made(given, 3n, 4, new TypeError("no"));
    const there = errorOf(structuredClone(fieldsOf(error)));
    assert(there instanceof made, name);
    assert.deepEqual({ ...there }, { ...error }, name);
    assert.equal(String(there), String(error));
    if (error.cause instanceof Error) assert.equal(String(there.cause), String(error.cause));
  }
});

function job(version: bigint, description?: string): { told: Told; job: AnyJob } {
  const notification = { objectId: "a", version, payload: null, deleted: false, description: null };
  const update = { incarnation: 0n, version, payload: new Uint8Array(), deleted: false };
  const told = { notification, floor: { incarnation: 0n, version }, description };
  return { told, job: { notification, update, description, subscribers: [1] } };
}

test("what one leader has told, the next one does not tell again; what has failed or changed it does", async () => {
  const heard = new Heard();
  let calls = 0;
  const call = (): void => void (calls += 1);
  await heard.tell(1, job(1n).told, "x", 1, call);
  await heard.tell(1, job(1n).told, "y", 1, call);
  assert.equal(calls, 1, "the same");
  await heard.tell(1, job(1n, "{}").told, "y", 2, call);
  await heard.tell(2, job(1n).told, "y", 3, call);
  assert.equal(calls, 3, "another description, another callback");
  await assert.rejects(heard.tell(1, job(2n).told, "y", 4, () => Promise.reject(new Error("no"))));
  await heard.tell(1, job(2n).told, "z", 1, call);
  assert.equal(calls, 4, "it had failed");
  assert.notEqual(heard.before(1, job(2n).job), undefined);
  assert.equal(heard.before(1, job(2n).job), undefined, "once");
  heard.stored("y", 3);
  assert.equal(heard.before(2, job(1n).job), undefined, "it is stored");
});

test("an interest ends once no tab holds it", () => {
  const said: string[] = [];
  const next = new Proxy({}, { get: (_, method) => (...args: unknown[]) => said.push(`${String(method)} ${args.map((one) => (one instanceof Set ? [...one].join("+") : String(one))).join(" ")}`) });
  const one: TabRequests = new TabRequests(() => next as Asked, () => [other]);
  const other: TabRequests = new TabRequests(() => next as Asked, () => [one]);
  one.register("a");
  other.registerOnly(new Set(["b"]));
  other.unregister("a");
  one.unregister("a");
  other.unregister("b");
  assert.deepEqual(said, ["register a", "registerOnly b+a", "unregister a", "unregister b"]);
});
