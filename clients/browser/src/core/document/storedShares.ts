/**
 * The fields for shares in the client's durable state, if there are any.
 *
 * They are those of `stored_shares` in `clients/python/coldnotify/_core/document`. What is in hand is not among them.
 */

import { StateDamaged } from "../../errors.js";
import { checkAttributes, checkChannel } from "../../schemas/names.js";
import { checkShare, checkWhole, HELD_MAX, LEASE_S_MAX, LEASE_S_MIN } from "../../schemas/shareNames.js";
import { byShare, type Interest, shareOf, type ShareInterest, sharesOf, shareText } from "../interests/interests.js";
import type { OperationKind } from "../interests/registrations.js";
import { sinceFields, sinceFrom } from "../interests/since.js";
import type { KeptShare } from "../shares/shareMember.js";
import { type Fields, operationsOf, pairs, table } from "./storedFields.js";

/** Returns the document's fields for shares, or none. */
export function encodeShares(
  shares: ReadonlyMap<Interest, KeptShare>,
  pending: ReadonlyMap<Interest, OperationKind>,
): Fields {
  const operations = sharesOf(pending.keys());
  if (shares.size + operations.length === 0) return {};
  const text = (interest: Interest): string => shareText(shareOf(interest) as ShareInterest);
  const entries = [...shares].sort(([one], [other]) => (one < other ? -1 : 1));
  return {
    shares: pairs(
      entries.map(([interest, { since, leaseS, prefetch }]) => [
        text(interest),
        { ...sinceFields(since), lease_s: leaseS, prefetch },
      ]),
    ),
    pending_shares: pairs(operations.map((interest) => [text(interest), pending.get(interest)])),
  };
}

/** Parses the document's fields. Throws StateDamaged. */
export function decodeShares(fields: Fields): {
  kept: Map<Interest, KeptShare>;
  pending: Map<Interest, OperationKind>;
} {
  const kept = new Map<Interest, KeptShare>();
  if (!("shares" in fields)) return { kept, pending: new Map() };
  for (const [text, entry] of table(fields, "shares")) kept.set(interestOf("shares", text), decodeKept(entry));
  const names = [...kept.keys()].map((one) => shareOf(one) as ShareInterest);
  if (new Set(names.map(({ share, channel }) => `${share}/${channel}`)).size < kept.size) {
    throw new StateDamaged("shares: has one name twice");
  }
  const isWanted = (text: string): boolean => kept.has(interestOf("pending_shares", text));
  const operations = operationsOf("pending_shares", table(fields, "pending_shares"), { has: isWanted }, "shares");
  const pending = new Map([...operations].map(([text, kind]) => [interestOf("pending_shares", text), kind] as const));
  return { kept, pending };
}

function decodeKept(entry: unknown): KeptShare {
  if (typeof entry !== "object" || entry === null) throw new StateDamaged("shares: has an entry that is not an object");
  const { lease_s: leaseS, prefetch, ...begins } = entry as Fields;
  try {
    return {
      since: sinceFrom(begins),
      leaseS: checkWhole("lease_s", leaseS, LEASE_S_MIN, LEASE_S_MAX),
      prefetch: checkWhole("prefetch", prefetch, 1, HELD_MAX),
    };
  } catch (error) {
    throw new StateDamaged(`shares: ${(error as Error).message}`);
  }
}

function interestOf(field: string, text: string): Interest {
  const [share, name, ...attributes] = text.split("\0");
  try {
    const channel = checkChannel(name);
    const found = { share: checkShare(share, channel), channel, attributes: checkAttributes(attributes) };
    if (shareText(found) !== text) throw new RangeError("attributes: are not sorted");
    return byShare(found);
  } catch (error) {
    throw new StateDamaged(`${field}: ${(error as Error).message}`);
  }
}
