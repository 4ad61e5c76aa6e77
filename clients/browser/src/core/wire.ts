/** The messages of `schemas/wire.proto` as tables, and the two kinds of frame. */

import { FrameError, encodeLength } from "./frames.js";
import { decodeMessage, encodeMessage, type MessageOf, type MessagePart, type Table } from "./proto.js";

/** This session wants names, never CRC-32s. */
export const CAPABILITY_NAMES = 1;
/** The client wants queries: Welcome is to say whether the service knows them. */
export const CAPABILITY_QUERIES = 2;
/** It wants to be told how the members of its queries are described. */
export const CAPABILITY_DESCRIPTIONS = 4;
/** All that is unsettled is among the Hello's pending registrations. */
export const CAPABILITY_UNSETTLED = 16;
/** In `kinds`: the service knows queries. */
export const KINDS_QUERIES = 2;
/** In `kinds`: the service knows channels. */
export const KINDS_CHANNELS = 4;
/** In `kinds`: members' descriptions are told in this session. */
export const KINDS_DESCRIPTIONS = 8;

/** Where a channel's subscription begins: `Since` of wire.proto. */
export const SINCE = {
  SINCE_NOW: 0,
  SINCE_OLDEST: 1,
  SINCE_NEWEST: 2,
  SINCE_TIME: 3,
  SINCE_POSITION: 4,
  SINCE_BEGINNING: 5,
} as const;
/** Why messages of a channel may be missing: `Reason` of wire.proto. */
export const REASON = { REASON_UNSAID: 0, RETENTION: 1, EXPIRED: 2, LOST: 3, UNREADABLE: 4 } as const;

const QUERY = {
  text: { number: 1, type: "string" },
  held: { number: 2, type: "fixed64", label: "optional" },
  reached: { number: 3, type: "string" },
  reachedAt: { number: 4, type: "fixed64" },
} as const satisfies Table;

const CHANNEL = {
  name: { number: 1, type: "string" },
  attributes: { number: 2, type: "string", label: "repeated" },
  since: { number: 3, type: "uint32", names: SINCE },
  at: { number: 4, type: "uint64" },
} as const satisfies Table;

const CHANNEL_POSITION = {
  channel: { number: 1, type: "fixed64" },
  position: { number: 2, type: "fixed64", label: "optional" },
} as const satisfies Table;

const HELLO = {
  protocol: { number: 1, type: "uint32" },
  capabilities: { number: 2, type: "uint32" },
  domain: { number: 3, type: "string" },
  group: { number: 4, type: "string" },
  client: { number: 5, type: "string" },
  digest: { number: 6, type: "fixed64" },
  register: { number: 7, type: "string", label: "repeated" },
  unregister: { number: 8, type: "string", label: "repeated" },
  epoch: { number: 9, type: "fixed32", label: "optional" },
  cursor: { number: 10, type: "fixed64", label: "optional" },
  keepaliveS: { number: 11, type: "uint32" },
  token: { number: 12, type: "string" },
  queries: { number: 13, type: QUERY, label: "repeated" },
  unregisterQueries: { number: 14, type: "fixed64", label: "repeated" },
  channelsCursor: { number: 15, type: "fixed64", label: "optional" },
  channelsEpoch: { number: 16, type: "fixed32", label: "optional" },
  channels: { number: 17, type: CHANNEL, label: "repeated" },
  unregisterChannels: { number: 18, type: "fixed64", label: "repeated" },
} as const satisfies Table;

const REGISTER = {
  request: { number: 1, type: "uint32" },
  objects: { number: 2, type: "string", label: "repeated" },
  queries: { number: 3, type: QUERY, label: "repeated" },
  channels: { number: 4, type: CHANNEL, label: "repeated" },
} as const satisfies Table;

const UNREGISTER = {
  request: { number: 1, type: "uint32" },
  objects: { number: 2, type: "string", label: "repeated" },
  queries: { number: 3, type: "fixed64", label: "repeated" },
  channels: { number: 4, type: "fixed64", label: "repeated" },
} as const satisfies Table;

const SYNC_CHUNK = {
  index: { number: 1, type: "uint32" },
  last: { number: 2, type: "bool" },
  objects: { number: 3, type: "string", label: "repeated" },
  queries: { number: 4, type: QUERY, label: "repeated" },
  channels: { number: 5, type: CHANNEL, label: "repeated" },
} as const satisfies Table;

const ACK = {
  complete: { number: 1, type: "fixed64", label: "optional" },
  page: { number: 2, type: "uint32" },
  channelsComplete: { number: 3, type: "fixed64", label: "optional" },
  channelsPage: { number: 4, type: "uint32" },
} as const satisfies Table;

const PUBLISH = {
  request: { number: 1, type: "uint32" },
  object: { number: 2, type: "string" },
  channel: { number: 3, type: "string" },
  version: { number: 4, type: "uint64" },
  payload: { number: 6, type: "bytes" },
  deleted: { number: 7, type: "bool" },
  id: { number: 8, type: "string" },
  expiresAt: { number: 9, type: "uint64" },
  to: { number: 10, type: "string", label: "repeated" },
  priority: { number: 11, type: "uint32" },
  clockMs: { number: 12, type: "uint64" },
} as const satisfies Table;

const ASK_OUTCOME = {
  ask: { number: 1, type: "uint32" },
  object: { number: 2, type: "string" },
  offset: { number: 3, type: "fixed64" },
} as const satisfies Table;

const UNSETTLED_ENTRY = {
  name: { number: 1, type: "string" },
  hash: { number: 2, type: "fixed64", label: "optional" },
  parked: { number: 3, type: "bool" },
  sinceS: { number: 4, type: "uint32" },
  failures: { number: 5, type: "uint32" },
  error: { number: 6, type: "string" },
  members: { number: 7, type: "string", label: "repeated" },
  position: { number: 8, type: "fixed64", label: "optional" },
} as const satisfies Table;

const UNSETTLED = {
  entries: { number: 1, type: UNSETTLED_ENTRY, label: "repeated" },
  settled: { number: 2, type: "string", label: "repeated" },
  settledHashes: { number: 3, type: "fixed64", label: "repeated" },
  all: { number: 4, type: "bool" },
  request: { number: 5, type: "uint32" },
} as const satisfies Table;

const PING = { digest: { number: 1, type: "fixed64", label: "optional" } } as const satisfies Table;
const NOTHING = {} as const satisfies Table;

const REFUSAL = {
  object: { number: 1, type: "string" },
  reason: { number: 2, type: "string" },
  query: { number: 3, type: "fixed64", label: "optional" },
  channel: { number: 4, type: "fixed64", label: "optional" },
} as const satisfies Table;

const WELCOME = {
  inSync: { number: 1, type: "bool" },
  epoch: { number: 2, type: "fixed32", label: "optional" },
  refused: { number: 3, type: REFUSAL, label: "repeated" },
  kinds: { number: 4, type: "uint32" },
  channelsEpoch: { number: 5, type: "fixed32", label: "optional" },
  positions: { number: 6, type: CHANNEL_POSITION, label: "repeated" },
} as const satisfies Table;

const NOTIFICATION = {
  crc: { number: 1, type: "fixed32" },
  name: { number: 2, type: "string" },
  version: { number: 3, type: "uint64", label: "optional" },
  incarnation: { number: 4, type: "uint64" },
  offset: { number: 5, type: "uint64" },
  behind: { number: 6, type: "uint64" },
  payload: { number: 7, type: "bytes" },
  deleted: { number: 8, type: "bool" },
  answer: { number: 9, type: "bool" },
  entered: { number: 10, type: "fixed64", label: "repeated" },
  left: { number: 11, type: "fixed64", label: "repeated" },
  description: { number: 12, type: "bytes", label: "optional" },
} as const satisfies Table;

const PONG = {
  complete: { number: 1, type: "fixed64", label: "optional" },
  channelsComplete: { number: 2, type: "fixed64", label: "optional" },
} as const satisfies Table;

const MESSAGE = {
  channel: { number: 1, type: "fixed64" },
  offset: { number: 2, type: "uint64" },
  back: { number: 3, type: "uint64" },
  payload: { number: 4, type: "bytes" },
  id: { number: 5, type: "string" },
  source: { number: 6, type: "string" },
  publishedMs: { number: 7, type: "uint64" },
  paged: { number: 8, type: "bool" },
} as const satisfies Table;

const MISSED = {
  channel: { number: 1, type: "fixed64" },
  after: { number: 2, type: "fixed64", label: "optional" },
  before: { number: 3, type: "fixed64" },
  reason: { number: 4, type: "uint32", names: REASON },
  paged: { number: 5, type: "bool" },
} as const satisfies Table;

const CHANNELS_END = {
  page: { number: 1, type: "uint32" },
  last: { number: 2, type: "bool" },
  complete: { number: 3, type: "fixed64", label: "optional" },
} as const satisfies Table;

const PUBLISHED = {
  request: { number: 1, type: "uint32" },
  offset: { number: 2, type: "uint64" },
} as const satisfies Table;

/** Enum OutcomeKind. */
export const OUTCOME_KIND = {
  OUTCOME_UNKNOWN: 0,
  OUTCOME_PUBLISHED: 1,
  OUTCOME_REPEATED: 2,
  OUTCOME_ALTERED: 3,
  OUTCOME_STALE: 4,
  OUTCOME_REJECTED: 5,
} as const;

const OUTCOME = {
  ask: { number: 1, type: "uint32" },
  kind: { number: 2, type: "uint32", names: OUTCOME_KIND },
  version: { number: 3, type: "uint64", label: "optional" },
  incarnation: { number: 4, type: "uint64" },
  publishedMs: { number: 5, type: "uint64" },
  reason: { number: 6, type: "string" },
} as const satisfies Table;

const NOT_PUBLISHED = {
  request: { number: 1, type: "uint32" },
  reason: { number: 2, type: "string" },
  retryAfterMs: { number: 3, type: "uint32" },
  clockMs: { number: 4, type: "uint64" },
} as const satisfies Table;

const CAUGHT_UP = {
  complete: { number: 1, type: "fixed64", label: "optional" },
  setsDigest: { number: 2, type: "fixed64", label: "optional" },
  channelsComplete: { number: 3, type: "fixed64", label: "optional" },
} as const satisfies Table;

const REGISTERED = {
  request: { number: 1, type: "uint32" },
  refused: { number: 2, type: REFUSAL, label: "repeated" },
  kinds: { number: 3, type: "uint32" },
  answered: { number: 4, type: "fixed64", label: "repeated" },
  unchanged: { number: 5, type: "fixed64", label: "repeated" },
  begun: { number: 6, type: "fixed64", label: "repeated" },
  positions: { number: 7, type: CHANNEL_POSITION, label: "repeated" },
  channelsEpoch: { number: 8, type: "fixed32", label: "optional" },
} as const satisfies Table;

const PAGE_END = {
  page: { number: 1, type: "uint32" },
  query: { number: 2, type: "fixed64", label: "optional" },
  reached: { number: 3, type: "string" },
  reachedAt: { number: 4, type: "fixed64" },
  setsUnknown: { number: 5, type: "bool" },
} as const satisfies Table;

const CLOSE = {
  code: { number: 1, type: "uint32" },
  reason: { number: 2, type: "string" },
} as const satisfies Table;

/** What a client sends. */
export const CLIENT_FRAME = {
  hello: { number: 1, type: HELLO, label: "optional" },
  register: { number: 2, type: REGISTER, label: "optional" },
  unregister: { number: 3, type: UNREGISTER, label: "optional" },
  sync: { number: 4, type: SYNC_CHUNK, label: "optional" },
  ack: { number: 5, type: ACK, label: "optional" },
  ping: { number: 6, type: PING, label: "optional" },
  useNames: { number: 7, type: NOTHING, label: "optional" },
  bye: { number: 8, type: NOTHING, label: "optional" },
  publish: { number: 9, type: PUBLISH, label: "optional" },
  unsettled: { number: 10, type: UNSETTLED, label: "optional" },
  askOutcome: { number: 12, type: ASK_OUTCOME, label: "optional" },
} as const satisfies Table;

/** What a gateway sends. */
export const GATEWAY_FRAME = {
  welcome: { number: 1, type: WELCOME, label: "optional" },
  notification: { number: 2, type: NOTIFICATION, label: "optional" },
  caughtUp: { number: 3, type: CAUGHT_UP, label: "optional" },
  registered: { number: 4, type: REGISTERED, label: "optional" },
  unregistered: { number: 5, type: { request: { number: 1, type: "uint32" } }, label: "optional" },
  pageEnd: { number: 6, type: PAGE_END, label: "optional" },
  pong: { number: 7, type: PONG, label: "optional" },
  wait: { number: 8, type: { seconds: { number: 1, type: "uint32" } }, label: "optional" },
  close: { number: 9, type: CLOSE, label: "optional" },
  message: { number: 10, type: MESSAGE, label: "optional" },
  missed: { number: 11, type: MISSED, label: "optional" },
  channelsEnd: { number: 12, type: CHANNELS_END, label: "optional" },
  published: { number: 13, type: PUBLISHED, label: "optional" },
  notPublished: { number: 14, type: NOT_PUBLISHED, label: "optional" },
  outcome: { number: 16, type: OUTCOME, label: "optional" },
} as const satisfies Table;

export type ClientFrame = MessageOf<typeof CLIENT_FRAME>;
export type ClientFramePart = MessagePart<typeof CLIENT_FRAME>;
export type GatewayFrame = MessageOf<typeof GATEWAY_FRAME>;
export type GatewayFramePart = MessagePart<typeof GATEWAY_FRAME>;
export type Welcome = MessageOf<typeof WELCOME>;
export type WireQuery = MessagePart<typeof QUERY>;
export type WireChannel = MessagePart<typeof CHANNEL>;
export type ChannelPosition = MessageOf<typeof CHANNEL_POSITION>;
export type WireMessage = MessageOf<typeof MESSAGE>;
export type WireMissed = MessageOf<typeof MISSED>;
export type ChannelsEnd = MessageOf<typeof CHANNELS_END>;
export type Registered = MessageOf<typeof REGISTERED>;
export type CaughtUp = MessageOf<typeof CAUGHT_UP>;
export type PageEnd = MessageOf<typeof PAGE_END>;
export type WireNotification = MessageOf<typeof NOTIFICATION>;
export type Refusal = MessageOf<typeof REFUSAL>;
export type WirePublish = MessagePart<typeof PUBLISH>;
export type WireAskOutcome = MessagePart<typeof ASK_OUTCOME>;
export type WireOutcome = MessageOf<typeof OUTCOME>;
export type WireUnsettled = MessagePart<typeof UNSETTLED>;
export type WireUnsettledEntry = MessagePart<typeof UNSETTLED_ENTRY>;

/** One frame: the message's length as a varint, then the message. */
export function encodeFrame<T extends Table>(table: T, message: MessagePart<T>): Uint8Array {
  const body = encodeMessage(table, message);
  const length = encodeLength(body.length);
  const frame = new Uint8Array(length.length + body.length);
  frame.set(length);
  frame.set(body, length.length);
  return frame;
}

/** The frame of this body; one of an unknown kind has nothing set. Raises FrameError. */
export function parseFrame<T extends Table>(table: T, body: Uint8Array): MessageOf<T> {
  const frame = decodeMessage(table, body);
  if (Object.values(frame).filter((kind) => kind !== undefined).length > 1) {
    throw new FrameError("a frame is of several kinds");
  }
  return frame;
}
