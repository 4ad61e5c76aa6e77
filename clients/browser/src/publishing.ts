/** Publishing on the page's sessions: each publish waits in memory until the service has answered it. */

import type { Outgoing } from "./core/publishing/outgoing.js";
import { type PublishAnswer, Publications } from "./core/publishing/publications.js";
import { type ColdNotifyError, PublishGivenUp, PublishRefused } from "./errors.js";
import { TIMER_MS_MAX } from "./link.js";
import { type Outcome, outcomeOf, unknownOutcome } from "./outcome.js";

/** Default time to wait for the outcome of a publish, as in Python's library. */
const OUTCOME_S = 5;

/** Size of a message's id: so large that no two are equal by chance. */
const ID_BYTES = 16;

/** A publish that is accepted. Every resend has the same version or id. */
export interface Publication {
  /** The version of an object's publish; null for a message. If it comes from this machine's clock and the service finds
   * that the clock is wrong, it changes to another one. */
  readonly version: bigint | null;
  /** The id of a message, by which its repeats are recognized; null for an object's publish. */
  readonly id: string | null;
  /**
   * Its offset in Kafka, once the service has stored it, or a newer publish of the object that replaced it.
   *
   * Rejects with PublishRefused if it would be refused again, and with PublishGivenUp if disconnect() came before. An
   * ignored rejection has no further effect.
   */
  readonly published: Promise<bigint>;
  /**
   * Resolves to the outcome of the version once the service has it: published, repeated, altered, stale, rejected;
   * unknown, with the reason, if that could not be found out within `timeoutS` (5). If a newer publish replaced it, the outcome is
   * that one's. Rejects as `published` does, and with TypeError for a message, which has no outcome.
   */
  outcome(timeoutS?: number): Promise<Outcome>;
}

/** The publishes of one `Notify`. */
export class SessionPublishing {
  readonly #publications: Publications;
  readonly #onError: (error: ColdNotifyError) => unknown;
  readonly #wake: () => void;
  readonly #floor: (name: string) => bigint;
  /** For each waiting publish, the function that reports that it is given up. */
  readonly #waiting = new Map<(answer: PublishAnswer) => void, () => void>();

  /** `wake`: the client looks again. `floor`: the newest version of an object that is known here; -1: none. */
  constructor(
    publications: Publications,
    onError: (error: ColdNotifyError) => unknown,
    wake: () => void,
    floor: (name: string) => bigint,
  ) {
    this.#publications = publications;
    this.#onError = onError;
    this.#wake = wake;
    this.#floor = floor;
  }

  /** Gives up everything that waits. */
  withdraw(): void {
    for (const told of this.#publications.withdraw()) this.#waiting.get(told)?.();
    this.#waiting.clear();
  }

  /** Publishes until the service answers. Throws OutboxFull. */
  publish(said: Outgoing): Publication {
    const outgoing = this.#complete(said);
    let { version } = outgoing;
    let told: (answer: PublishAnswer) => void = () => undefined;
    let giveUp = (): void => undefined;
    const published = new Promise<bigint>((resolve, reject) => {
      told = (answer): void => {
        if ("renumbered" in answer) {
          version = answer.renumbered;
          return;
        }
        this.#waiting.delete(told);
        if ("offset" in answer) return resolve(answer.offset);
        const error = new PublishRefused(outgoing.name, answer.reason);
        this.#onError(error);
        reject(error);
      };
      giveUp = (): void => reject(new PublishGivenUp(outgoing.name));
    });
    published.catch(() => undefined); // who wants to know awaits it
    this.#publications.say(outgoing, told);
    this.#waiting.set(told, giveUp);
    this.#wake();
    const id = outgoing.isMessage ? outgoing.id : null;
    return {
      get version(): bigint | null {
        return version;
      },
      id,
      published,
      outcome: (timeoutS = OUTCOME_S) => this.#outcome(outgoing, published, timeoutS),
    };
  }

  async #outcome({ isMessage, onlyDescribe, name }: Outgoing, published: Promise<bigint>, timeoutS: number): Promise<Outcome> {
    if (isMessage || onlyDescribe) throw new TypeError("outcome: a message has none, nor has a patch alone");
    let question: number | null = null;
    let over = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<Outcome>((resolve) => {
      const reason = `the service has not told the outcome within ${timeoutS} s`;
      timer = setTimeout(() => resolve(unknownOutcome(reason)), Math.min(1000 * timeoutS, TIMER_MS_MAX));
    });
    const told = published.then((offset) => new Promise<Outcome>((resolve) => {
      if (over) return;
      question = this.#publications.ask(name, offset, (outcome) => resolve(outcomeOf(outcome)));
      this.#wake();
    }));
    try {
      return await Promise.race([told, late]);
    } finally {
      over = true;
      clearTimeout(timer);
      if (question !== null) this.#publications.forget(question);
    }
  }

  /** Publishes at most once, in the present session. */
  publishOnce(said: Outgoing): void {
    this.#publications.sayOnce(this.#complete(said));
    this.#wake();
  }

  #complete(outgoing: Outgoing): Outgoing {
    return this.#publications.complete(outgoing, this.#floor(outgoing.name));
  }
}

/** Not randomUUID(), which pages have only that came by TLS or from this machine. */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(ID_BYTES));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
