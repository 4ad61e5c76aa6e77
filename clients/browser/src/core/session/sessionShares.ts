/** The part of a session that concerns shares as a whole: support by the service, and what a frame says of them. */

import { type ColdNotifyError, SharesUnknown } from "../../errors.js";
import { INTEREST_KIND, KINDS_SHARES, type Welcome, type WireInterest } from "../../schemas/wire.js";
import { type Interest, isShare, type ShareInterest, shareOf } from "../interests/interests.js";
import type { Operations, Registrations } from "../interests/registrations.js";
import { sinceNumber } from "../interests/since.js";
import type { ShareMember } from "../shares/shareMember.js";

/** The shares of a session. */
export class SessionShares {
  readonly #member: ShareMember;
  readonly #registrations: Registrations;
  readonly #report: (error: ColdNotifyError) => void;
  /** True if its Hello has shares: then Welcome lists the kinds that the service knows. */
  #asks = false;
  #toldUnknown = false;

  constructor(member: ShareMember, registrations: Registrations, report: (error: ColdNotifyError) => void) {
    this.#member = member;
    this.#registrations = registrations;
    this.#report = report;
    member.beginSession();
  }

  /** Notes the registrations in the Hello. */
  saidIn(registered: readonly Interest[]): void {
    this.#asks = registered.some(isShare);
  }

  /** Returns the share for a frame; null if the interest is not one that is wanted. */
  said(interest: Interest): WireInterest | null {
    const kept = this.#member.kept.get(interest);
    if (kept === undefined) return null;
    const { channel, share, attributes } = shareOf(interest) as ShareInterest;
    const { since } = kept;
    return { kind: INTEREST_KIND.INTEREST_SHARE, text: channel, share, attributes, since: sinceNumber(since), at: since.at };
  }

  // What the service says

  /** Notes if the service knows shares. `asked`: the Hello asked for the kinds. */
  welcomed({ kinds }: Welcome, asked: boolean): void {
    if (asked || this.#asks || kinds !== 0) this.#know(kinds);
    this.#asks = false;
    this.#member.welcomed();
  }

  /** Notes the answer to these operations. */
  registered(kinds: number, operations: Operations): void {
    if ([...operations.keys()].some(isShare)) this.#know(kinds);
  }

  #know(kinds: number): void {
    const knows = (kinds & KINDS_SHARES) !== 0;
    this.#registrations.knowShares(knows);
    if (knows || !this.#registrations.hasShares || this.#toldUnknown) return;
    this.#toldUnknown = true;
    this.#report(new SharesUnknown());
  }
}
