/**
 * The gateways that a client knows, and which one is next: its home, others by weight, then one from the directory.
 *
 * An address that did not serve the client rests for a while. One that said `notHereS` is left out for so long, and so
 * is a home that ended its sessions again and again. If none is left, the directory is asked, at most once a second; if
 * there is none, or it names none, the address that failed first is next: to stay away from all would help nobody.
 */

import type { Address, Random } from "./reconnect.js";

/** The directory is asked at most so often. */
const QUESTIONS_APART_S = 1;
/** A home that has ended so many sessions within HOME_ALONE_S is left alone for as long. */
/** So many addresses are left out before a client with a directory says that it goes nowhere else. */
const DIRECTORY_TRIES_MAX = 3;
const HOME_ENDINGS_MAX = 3;
const HOME_ALONE_S = 600;
export const WEIGHT_MAX = 1000;

/** All addresses of one client, with what each has done lately. */
export class AddressBook {
  readonly home: Address | null;
  readonly #addresses: Address[];
  readonly #restS: number;
  readonly #directory: boolean;
  /** The directory's last answer, until it fails. */
  #named: Address | null = null;
  readonly #outUntil = new Map<Address, number>();
  readonly #failedAt = new Map<Address, number>();
  #askAt = -Infinity;
  #homeEndings: number[] = [];

  /** `addresses`: each with its weight. `directory`: there is one to ask. */
  constructor(
    addresses: readonly (readonly [Address, number])[],
    restS: number,
    random: Random,
    home: Address | null = null,
    directory = false,
  ) {
    // Drawn by weight, so that clients that know the same addresses spread over them.
    const drawn = addresses.filter(([address]) => address !== home).map(([address, weight]) => [random() ** (1 / weight), address] as const);
    this.#addresses = drawn.sort(([a], [b]) => b - a).map(([, address]) => address);
    this.#restS = restS;
    this.home = home;
    this.#directory = directory;
  }

  /** Returns the address to connect to now: the same one as long as it does not fail. null: ask the directory first. */
  next(now: number): Address | null {
    const awake = this.#firstAwake(now, null);
    if (awake !== null) return awake;
    const known = this.#known;
    if (known.length === 0 || (this.#directory && this.#askAt <= now)) return null;
    const failedAt = (address: Address): number => this.#failedAt.get(address) ?? -Infinity;
    return known.reduce((a, b) => (failedAt(b) < failedAt(a) ? b : a));
  }

  /** Returns another address to try while the present one serves. null: the directory may name one. */
  nextBeside(now: number, present: Address): Address | null {
    return this.#firstAwake(now, present);
  }

  #firstAwake(now: number, but: Address | null): Address | null {
    return this.#known.find((address) => address !== but && this.#until(address) <= now) ?? null;
  }

  get #known(): Address[] {
    const known = this.home === null ? this.#addresses : [this.home, ...this.#addresses];
    return this.#named === null || known.includes(this.#named) ? known : [...known, this.#named];
  }

  #until(address: Address): number {
    return this.#outUntil.get(address) ?? -Infinity;
  }

  /** Returns true if a client that is at this address could go elsewhere. */
  knowsOther(address: Address | null): boolean {
    return this.#directory || this.#known.some((one) => one !== address);
  }

  /**
   * Returns true if a client that this address refuses has another one to try at once. The last one left hears no, and
   * takes the client.
   */
  goesElsewhere(address: Address | null, now: number): boolean {
    if (this.#known.some((one) => one !== address && this.#until(one) <= now)) return true;
    const leftOut = [...this.#outUntil.values()].filter((until) => until > now).length;
    return this.#directory && leftOut < DIRECTORY_TRIES_MAX;
  }

  /** The time from which its home may be tried; Infinity: it has none. */
  get homeFreeAt(): number {
    return this.home === null ? Infinity : this.#until(this.home);
  }

  // What addresses do

  /** Notes that it did not answer, or sent the client away: for `restS`, if it said a time. */
  failed(address: Address, now: number, restS = 0): void {
    this.#leaveOut(address, now + (restS || this.#restS));
    this.#failedAt.set(address, now);
    // To the end: after its rest it is tried after those that have not failed since.
    const at = this.#addresses.indexOf(address);
    if (at >= 0) this.#addresses.push(...this.#addresses.splice(at, 1));
    if (address === this.#named) this.#named = null;
  }

  /** Notes that it has ended a session that it had served. */
  ended(address: Address, now: number): void {
    if (address !== this.home) return;
    this.#homeEndings = [...this.#homeEndings, now].slice(-HOME_ENDINGS_MAX);
    const [first = 0] = this.#homeEndings;
    if (this.#homeEndings.length < HOME_ENDINGS_MAX || now - first > HOME_ALONE_S) return;
    this.#homeEndings = [];
    this.#leaveOut(address, now + HOME_ALONE_S);
  }

  #leaveOut(address: Address, until: number): void {
    this.#outUntil.set(address, Math.max(until, this.#until(address)));
  }

  // The directory

  /** Returns true if the directory may be asked now. */
  asks(now: number): boolean {
    return this.#directory && this.#askAt <= now;
  }

  /** The time from which the directory may be asked; Infinity: there is none. */
  get askAt(): number {
    return this.#directory ? this.#askAt : Infinity;
  }

  /** Notes that the question is on its way. */
  asked(now: number): void {
    this.#askAt = now + QUESTIONS_APART_S;
  }

  /** Handles the directory's answer. `homeOutS`: it says that the client's home takes nobody for so long. */
  named(address: Address, now: number, homeOutS: number): void {
    this.#outUntil.delete(address);
    this.#named = address;
    if (homeOutS > 0 && this.home !== null && address !== this.home) this.#leaveOut(this.home, now + homeOutS);
  }

  /** Notes that the directory names none, or does not answer: it is asked again after `retryAfterS` at the earliest. */
  unnamed(now: number, retryAfterS: number): void {
    this.#askAt = Math.max(this.#askAt, now + retryAfterS);
  }
}
