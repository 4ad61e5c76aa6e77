/** Where a client keeps what must survive: one text, written as a whole. */

import { StateError } from "./errors.js";

/** What a client needs of a store; each method may be asynchronous. What throws is told as StateError. */
export interface State {
  /**
   * Wait until no other page is this client; resolves to what lets it go. Rejects when `signal` is aborted.
   *
   * Two pages that both write would undo each other's state. `waits` is called if there is another one.
   */
  lock(signal: AbortSignal, waits: () => void): Promise<() => void>;
  /** What was written last; null: nothing yet. */
  read(): string | null | Promise<string | null>;
  /** Make `text` the content: once this is over, it survives. The old content stays if it fails. */
  write(text: string): void | Promise<void>;
  /** The content is no state: keep it under another name, which is returned, and go on without. */
  setAside(): string | Promise<string>;
}

/** In this tab's memory, for tests and for looking on: after a reload everything is told again. */
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

/** In the browser's localStorage, under a key: it survives reloads and restarts, until the user clears it. */
export class LocalState implements State {
  /** `key`: one for each client of this origin. */
  constructor(readonly key: string) {
    if (key === "") throw new RangeError("key: is empty");
  }

  /** By the browser's lock manager; where there is none (a page that came without TLS), nothing is waited for. */
  lock(signal: AbortSignal, waits: () => void): Promise<() => void> {
    const locks = (globalThis.navigator as Partial<Navigator> | undefined)?.locks;
    if (locks === undefined) return Promise.resolve(() => undefined);
    const { promise, release } = gate();
    return new Promise((resolve, reject) => {
      const name = `coldnotify ${this.key}`;
      const hold = async (): Promise<boolean> => {
        resolve(release);
        await promise;
        return true;
      };
      const request = async (): Promise<void> => {
        const wasFree: boolean = await locks.request(name, { ifAvailable: true }, (lock) => (lock ? hold() : false));
        if (wasFree) return;
        waits();
        await locks.request(name, { signal }, hold);
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
