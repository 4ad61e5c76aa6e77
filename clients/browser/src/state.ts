/** Stores of a client's state: one text, written as a whole. */

import { StateError } from "./errors.js";

/** The store of a client's state. Each method may be asynchronous. What it throws is reported as a StateError. */
export interface State {
  /**
   * The name of what all pages share that have this store: they share one session by it, if the browser can. Without it
   * only the page that has the lock is told anything.
   */
  readonly shared?: string;
  /**
   * Waits until no other page is this client, and resolves to a function that releases the lock. Rejects when `signal` is
   * aborted.
   *
   * Two pages that both write would undo each other's state. `waits` is called if another page has the lock.
   */
  lock(signal: AbortSignal, waits: () => void): Promise<() => void>;
  /** Returns the text that was written last; null if nothing was. */
  read(): string | null | Promise<string | null>;
  /** Replaces the content by `text`, durably. If it fails, the old content stays. */
  write(text: string): void | Promise<void>;
  /** Keeps the content, which is not a state, under another name, and returns that name. */
  setAside(): string | Promise<string>;
}

/** Keeps the state in this tab's memory, for tests and for viewers: after a reload everything is delivered again. */
export class MemoryState implements State {
  #text: string | null = null;
  #taken = Promise.resolve();
  #holders = 0;

  async lock(signal: AbortSignal, waits: () => void): Promise<() => void> {
    if (this.#holders > 0) waits();
    this.#holders += 1;
    const before = this.#taken;
    const { promise, release } = gate();
    this.#taken = before.then(() => promise).then(() => void (this.#holders -= 1));
    await Promise.race([before, aborted(signal)]).catch((error: unknown) => {
      release();
      throw error;
    });
    return release;
  }

  read(): string | null {
    return this.#text;
  }

  write(text: string): void {
    this.#text = text;
  }

  setAside(): string {
    this.#text = null;
    return "memory";
  }
}

/** Keeps the state in the browser's localStorage, under a key. It survives reloads and restarts, until the
 * user clears it. */
export class LocalState implements State {
  readonly shared: string;

  /** `key`: one for each client of this origin. */
  constructor(readonly key: string) {
    if (key === "") throw new RangeError("key: is empty");
    this.shared = `coldnotify ${key}`;
  }

  /** Uses the browser's lock manager. Without one (in a page that was loaded without TLS) it does not wait. */
  lock(signal: AbortSignal, waits: () => void): Promise<() => void> {
    const locks = (globalThis.navigator as Partial<Navigator> | undefined)?.locks;
    if (locks === undefined) return Promise.resolve(() => undefined);
    const { promise, release } = gate();
    return new Promise((resolve, reject) => {
      const hold = async (): Promise<boolean> => {
        resolve(release);
        await promise;
        return true;
      };
      const request = async (): Promise<void> => {
        const wasFree: boolean = await locks.request(this.shared, { ifAvailable: true }, (lock) => (lock ? hold() : false));
        if (wasFree) return;
        waits();
        await locks.request(this.shared, { signal }, hold);
      };
      request().catch(reject);
    });
  }

  read(): string | null {
    return this.#do("read", () => localStorage.getItem(this.key));
  }

  write(text: string): void {
    this.#do("written", () => localStorage.setItem(this.key, text));
  }

  setAside(): string {
    const aside = `${this.key} (damaged)`;
    return this.#do("set aside", () => {
      // The latest damaged one only: the place is small.
      localStorage.setItem(aside, localStorage.getItem(this.key) ?? "");
      localStorage.removeItem(this.key);
      return aside;
    });
  }

  #do<T>(what: string, step: () => T): T {
    try {
      return step();
    } catch (cause) {
      throw new StateError(`localStorage ${this.key}: cannot be ${what}: ${String(cause)}`, { cause });
    }
  }
}

function gate(): { promise: Promise<void>; release: () => void } {
  let release: () => void = () => undefined;
  const promise = new Promise<void>((resolve) => (release = resolve));
  return { promise, release };
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const abort = (): void => reject(new DOMException("the lock is not waited for any more", "AbortError"));
    if (signal.aborted) abort();
    else signal.addEventListener("abort", abort, { once: true });
  });
}
