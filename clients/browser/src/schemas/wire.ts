/**
 * The two kinds of frame, and the types of their messages. `wireTables` contains the messages of `schemas/wire.proto`.
 */

import { FrameError, encodeLength } from "./frames.js";
import { decodeMessage, encodeMessage, type MessageOf, type MessagePart, type Table } from "./proto.js";
import type {
  ASK_OUTCOME,
  CAUGHT_UP,
  CLIENT_FRAME,
  GATEWAY_FRAME,
  HELD_MESSAGE,
  HOLD,
  INTEREST,
  LEASES,
  MESSAGE,
  MISSED,
  NOTIFICATION,
  OUTCOME,
  PAGE_END,
  PONG,
  POSITION,
  PUBLISH,
  REFUSAL,
  REGISTERED,
  STREAM,
  UNSETTLED,
  UNSETTLED_ENTRY,
  WELCOME,
} from "./wireTables.js";

export { CLIENT_FRAME, GATEWAY_FRAME, HELD_STATE, INTEREST_KIND, OUTCOME_KIND, REASON, SINCE } from "./wireTables.js";

/** The client wants names in this session, never CRC-32s. */
export const CAPABILITY_NAMES = 1;
/** The client wants queries: Welcome states if the service knows them. */
export const CAPABILITY_QUERIES = 2;
/** The client wants the descriptions of its queries' members. */
export const CAPABILITY_DESCRIPTIONS = 4;
/** The client wants payloads that are any bytes. */
export const CAPABILITY_RAW = 8;
/** All unsettled interests are among the Hello's pending registrations. */
export const CAPABILITY_UNSETTLED = 16;
/** This gateway is the client's home. */
export const CAPABILITY_AT_HOME = 32;
/** The client knows other addresses. */
export const CAPABILITY_MOVES = 64;
/** In `kinds`: the service knows queries. */
export const KINDS_QUERIES = 2;
/** In `kinds`: the service knows channels. */
export const KINDS_CHANNELS = 4;
/** In `kinds`: the service knows shares. */
export const KINDS_SHARES = 16;
/** In `kinds`: the service sends members' descriptions in this session. */
export const KINDS_DESCRIPTIONS = 8;

export type ClientFrame = MessageOf<typeof CLIENT_FRAME>;
export type ClientFramePart = MessagePart<typeof CLIENT_FRAME>;
export type GatewayFrame = MessageOf<typeof GATEWAY_FRAME>;
export type GatewayFramePart = MessagePart<typeof GATEWAY_FRAME>;
export type Welcome = MessageOf<typeof WELCOME>;
export type WireInterest = MessagePart<typeof INTEREST>;
export type Position = MessageOf<typeof POSITION>;
export type WireStream = MessagePart<typeof STREAM>;
export type WireMessage = MessageOf<typeof MESSAGE>;
export type WireMissed = MessageOf<typeof MISSED>;
export type WireHold = MessagePart<typeof HOLD>;
export type WireHeldMessage = MessagePart<typeof HELD_MESSAGE>;
export type WireLeases = MessageOf<typeof LEASES>;
export type Registered = MessageOf<typeof REGISTERED>;
export type CaughtUp = MessageOf<typeof CAUGHT_UP>;
export type PageEnd = MessageOf<typeof PAGE_END>;
export type Pong = MessageOf<typeof PONG>;
export type WireNotification = MessageOf<typeof NOTIFICATION>;
export type Refusal = MessageOf<typeof REFUSAL>;
export type WirePublish = MessagePart<typeof PUBLISH>;
export type WireAskOutcome = MessagePart<typeof ASK_OUTCOME>;
export type WireOutcome = MessageOf<typeof OUTCOME>;
export type WireUnsettled = MessagePart<typeof UNSETTLED>;
export type WireUnsettledEntry = MessagePart<typeof UNSETTLED_ENTRY>;

/** Returns one frame: the message's length as a varint, then the message. */
export function encodeFrame<T extends Table>(table: T, message: MessagePart<T>): Uint8Array {
  const body = encodeMessage(table, message);
  const length = encodeLength(body.length);
  const frame = new Uint8Array(length.length + body.length);
  frame.set(length);
  frame.set(body, length.length);
  return frame;
}

/** Parses the body of a frame; a frame of an unknown kind has no field set. Throws FrameError. */
export function parseFrame<T extends Table>(table: T, body: Uint8Array): MessageOf<T> {
  const frame = decodeMessage(table, body);
  if (Object.values(frame).filter((kind) => kind !== undefined).length > 1) {
    throw new FrameError("a frame is of several kinds");
  }
  return frame;
}
