/**
 * The client's durable state as JSON.
 *
 * Its fields are those of `document` in `clients/python/coldnotify/_core/document`; numbers of 64 bits are texts: JSON's own are rounded above
 * 2^53. The check detects changes by another script of the same page: a damaged cursor that still parses would lose
 * notifications without anybody noticing.
 */

import { StateDamaged, StateMismatch } from "../../errors.js";
import { crc32 } from "../../schemas/digest.js";
import type { Floor } from "../delivery/floors.js";
import { type KeptChannels, NO_CHANNELS } from "../streams/channels.js";
import { byQuery, type Interest, isName, namesOf } from "../interests/interests.js";
import type { KeptPayload } from "../delivery/newest.js";
import { bytesOfBase64 } from "../streams/payloads.js";
import {
  STATE_FORMAT,
  STATE_FORMAT_WITH_BYTES,
  STATE_FORMAT_WITH_CHANNELS,
  STATE_FORMAT_WITH_QUERIES,
  STATE_FORMAT_WITH_SHARES,
} from "../../schemas/protocol.js";
import type { KeptQuery } from "../delivery/membership.js";
import type { OperationKind } from "../interests/registrations.js";
import { decodeChannels, encodeChannels } from "./storedChannels.js";
import { checkedObject, numberOf, operationsOf, pairs, table } from "./storedFields.js";
import { decodeQueries, encodeQueries } from "./storedQueries.js";
import { decodeShares, encodeShares } from "./storedShares.js";
import type { KeptShare } from "../shares/shareMember.js";

const FORMATS = [
  STATE_FORMAT,
  STATE_FORMAT_WITH_QUERIES,
  STATE_FORMAT_WITH_CHANNELS,
  STATE_FORMAT_WITH_BYTES,
  STATE_FORMAT_WITH_SHARES,
];

/** A client's identity. */
export interface ClientIdentity {
  readonly domain: string;
  readonly group: string;
  readonly client: string;
}

/** The state that must survive. */
export interface Document {
  readonly identity: ClientIdentity;
  readonly wanted: ReadonlySet<Interest>;
  readonly pending: ReadonlyMap<Interest, OperationKind>;
  readonly applied: ReadonlyMap<string, Floor>;
  /** The kept payloads of the versions in `applied`. */
  readonly newest: ReadonlyMap<string, KeptPayload>;
  /** The state of each wanted query, by its text. */
  readonly queries: ReadonlyMap<string, KeptQuery>;
  readonly channels: KeptChannels;
  /** The shares in the wanted set. */
  readonly shares: ReadonlyMap<Interest, KeptShare>;
  readonly epoch: number | null;
  readonly cursor: bigint | null;
  /** True if the service knows that nothing is unsettled (`unsettled.ts`). */
  readonly settled: boolean;
}

/** Returns the document of a client that has never connected. */
export function emptyDocument(identity: ClientIdentity): Document {
  const [wanted, pending, applied, newest, queries] = [new Set<Interest>(), new Map(), new Map(), new Map(), new Map()];
  const known = { channels: NO_CHANNELS, shares: new Map<Interest, KeptShare>(), epoch: null, cursor: null, settled: false };
  return { identity, wanted, pending, applied, newest, queries, ...known };
}

/** Returns the document as JSON. */
export function encode(document: Document): string {
  const { identity, epoch, cursor } = document;
  const applied = [...document.applied].map(([name, floor]) => [
    name,
    [String(floor.incarnation), String(floor.version)],
  ]);
  const queries = encodeQueries(document.queries, document.pending);
  const channels = encodeChannels(document.channels, document.pending);
  const shares = encodeShares(document.shares, document.pending);
  const withQueries = "queries" in queries ? STATE_FORMAT_WITH_QUERIES : STATE_FORMAT;
  const withChannels = "channels" in channels ? STATE_FORMAT_WITH_CHANNELS : withQueries;
  const withBytes = [...document.newest.values()].some(({ raw }) => raw);
  const fields = {
    format: "shares" in shares ? STATE_FORMAT_WITH_SHARES : withBytes ? STATE_FORMAT_WITH_BYTES : withChannels,
    domain: identity.domain,
    group: identity.group,
    client: identity.client,
    epoch,
    cursor: cursor === null ? null : String(cursor),
    wanted: [...document.wanted].filter(isName).sort(),
    pending: pairs(namesOf(document.pending)),
    applied: pairs(applied as [string, unknown][]),
    ...(document.settled && { settled: true }),
    ...encodeNewest(document.newest),
    ...queries,
    ...channels,
    ...shares,
  };
  return JSON.stringify({ ...fields, check: checkOf(fields) });
}

/** Parses a document of this client. Throws StateDamaged, StateMismatch. */
export function decode(text: string, identity: ClientIdentity): Document {
  const fields = parse(text);
  const format = fields["format"];
  if (typeof format === "number" && format > STATE_FORMAT_WITH_BYTES && !FORMATS.includes(format)) {
    throw new StateMismatch(`format: is ${format}, this library reads ${STATE_FORMAT_WITH_SHARES}`);
  }
  const { check, ...checked } = fields;
  if (check !== checkOf(checked)) throw new StateDamaged("check: does not match the rest");
  if (!FORMATS.includes(format as number)) {
    throw new StateDamaged("format: is missing or unknown");
  }
  for (const name of ["domain", "group", "client"] as const) {
    if (fields[name] !== identity[name]) {
      const theirs = [fields["domain"], fields["group"], fields["client"]].join("/");
      throw new StateMismatch(`belongs to ${theirs}, not to ${Object.values(identity).join("/")}`);
    }
  }
  const epoch = fields["epoch"];
  if (epoch !== null && !(Number.isInteger(epoch) && (epoch as number) >= 0 && (epoch as number) < 2 ** 32)) {
    throw new StateDamaged("epoch: is not a number from 0 to 4294967295");
  }
  const cursor = fields["cursor"] === null ? null : numberOf("cursor", fields["cursor"]);
  if (cursor !== null && epoch === null) throw new StateDamaged("cursor: given without an epoch");
  const list = fields["wanted"];
  if (!Array.isArray(list)) throw new StateDamaged("wanted: is not a list");
  const wanted = new Set<Interest>(list.map((name) => checkedObject("wanted", name)));
  const pending = new Map<Interest, OperationKind>(operationsOf("pending", objects(fields, "pending"), wanted, "wanted"));
  const applied = new Map<string, Floor>();
  for (const [name, floor] of objects(fields, "applied")) {
    if (!Array.isArray(floor) || floor.length !== 2) {
      throw new StateDamaged(`applied: ${JSON.stringify(name)} has no [incarnation, version]`);
    }
    applied.set(name, { incarnation: numberOf("applied", floor[0]), version: numberOf("applied", floor[1]) });
  }
  const { settled = false } = fields;
  if (typeof settled !== "boolean") throw new StateDamaged("settled: is not true or false");
  const newest = new Map("newest" in fields ? table(fields, "newest").map(payload) : []);
  const withBytes = format === STATE_FORMAT_WITH_BYTES || format === STATE_FORMAT_WITH_SHARES;
  const withChannels = format === STATE_FORMAT_WITH_CHANNELS || (withBytes && "channels" in fields);
  const withQueries = format === STATE_FORMAT_WITH_QUERIES || ((withChannels || withBytes) && "queries" in fields);
  const stored = withQueries ? decodeQueries(fields) : null;
  for (const text of stored?.queries.keys() ?? []) wanted.add(byQuery(text));
  for (const [interest, kind] of stored?.pending ?? []) pending.set(interest, kind);
  const queries = stored?.queries ?? new Map<string, KeptQuery>();
  const told = withChannels ? decodeChannels(fields) : null;
  const channels = told?.kept ?? NO_CHANNELS;
  for (const interest of channels.channels.keys()) wanted.add(interest);
  for (const [interest, kind] of told?.pending ?? []) pending.set(interest, kind);
  const shared = decodeShares(format === STATE_FORMAT_WITH_SHARES ? fields : {});
  for (const interest of shared.kept.keys()) wanted.add(interest);
  for (const [interest, kind] of shared.pending) pending.set(interest, kind);
  const shares = shared.kept;
  return { identity, wanted, pending, applied, newest, queries, channels, shares, epoch: epoch as number | null, cursor, settled };
}

/** Returns the field `newest`, or no field if it is empty. */
function encodeNewest(newest: ReadonlyMap<string, KeptPayload>): Record<string, unknown> {
  if (newest.size === 0) return {};
  const entry = ({ payload, deleted, raw = false }: KeptPayload): object => ({
    ...(payload && { [raw ? "payload_base64" : "payload"]: payload }),
    ...(deleted && { deleted }),
  });
  return { newest: pairs([...newest].map(([name, kept]) => [name, entry(kept)])) };
}

function payload([name, entry]: [string, unknown]): [string, KeptPayload] {
  if (typeof entry !== "object" || entry === null) throw new StateDamaged("newest: has an entry that is not an object");
  const raw = "payload_base64" in entry;
  const { [raw ? "payload_base64" : "payload"]: payload = "", deleted = false } = entry as Record<string, unknown>;
  if (typeof payload !== "string" || typeof deleted !== "boolean") {
    throw new StateDamaged("newest: payload is not a text, or deleted is not true or false");
  }
  if (raw) {
    try {
      bytesOfBase64(payload);
    } catch {
      throw new StateDamaged("newest: payload_base64 is not base64");
    }
  }
  return [checkedObject("newest", name), { payload, deleted, ...(raw && { raw }) }];
}

function parse(text: string): Record<string, unknown> {
  let fields: unknown;
  try {
    fields = JSON.parse(text);
  } catch (error) {
    throw new StateDamaged(`is not JSON: ${String(error)}`);
  }
  if (typeof fields !== "object" || fields === null || Array.isArray(fields)) {
    throw new StateDamaged("is not a JSON object");
  }
  return fields as Record<string, unknown>;
}

/** Returns the entries of a field whose keys are objects' names. */
function objects(fields: Record<string, unknown>, name: string): [string, unknown][] {
  return table(fields, name).map(([key, entry]) => [checkedObject(name, key), entry]);
}

function checkOf(fields: object): number {
  return crc32(new TextEncoder().encode(JSON.stringify(fields)));
}
