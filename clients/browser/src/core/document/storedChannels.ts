/**
 * The fields for channels in the client's durable state, if there are any.
 *
 * They are those of `stored_channels` in `clients/python/coldnotify/_core/document`; numbers of 64 bits are texts.
 */

import { StateDamaged } from "../../errors.js";
import { type KeptChannels, NO_CHANNELS } from "../streams/channels.js";
import { BEGINNING, type KeptChannel } from "../streams/feed.js";
import { byChannel, type Channel, channelOf, channelText, type Interest } from "../interests/interests.js";
import { checkAttributes, checkChannel, expressionOf, patternName, titleOf } from "../../schemas/names.js";
import type { OperationKind } from "../interests/registrations.js";
import { sinceFields, sinceFrom } from "../interests/since.js";
import { type Fields, numberOf, operationsOf, pairs, table } from "./storedFields.js";

/** Returns the document's fields for channels, or none. */
export function encodeChannels(kept: KeptChannels, pending: ReadonlyMap<Interest, OperationKind>): Fields {
  const text = (interest: Interest): string => channelText(channelOf(interest) as Channel);
  const operations = [...pending].filter(([interest]) => channelOf(interest) !== null);
  if (kept.channels.size + operations.length === 0) return {};
  const entries = [...kept.channels].sort(([one], [other]) => (one < other ? -1 : 1));
  return {
    channels_epoch: kept.epoch,
    channels_cursor: kept.cursor === null ? null : String(kept.cursor),
    channels: pairs(entries.map(([interest, one]) => [text(interest), encodeKept(one)])),
    pending_channels: pairs(operations.map(([interest, kind]) => [text(interest), kind])),
  };
}

function encodeKept({ since, position, told, lost }: KeptChannel): Fields {
  return {
    ...(since && sinceFields(since)),
    ...(since === null && position !== null && { position: position === BEGINNING ? null : String(position) }),
    ...(told !== null && { told: String(told) }),
    ...(lost && { lost }),
  };
}

/** Parses the document's fields. Throws StateDamaged. */
export function decodeChannels(fields: Fields): { kept: KeptChannels; pending: Map<Interest, OperationKind> } {
  if (!("channels" in fields)) return { kept: NO_CHANNELS, pending: new Map() };
  const epoch = fields["channels_epoch"];
  if (epoch !== null && !(Number.isInteger(epoch) && (epoch as number) >= 0 && (epoch as number) < 2 ** 32)) {
    throw new StateDamaged("channels_epoch: is not a number from 0 to 4294967295");
  }
  const cursor = fields["channels_cursor"] === null ? null : numberOf("channels_cursor", fields["channels_cursor"]);
  if (cursor !== null && epoch === null) throw new StateDamaged("channels_cursor: given without an epoch");
  const channels = new Map<Interest, KeptChannel>();
  for (const [text, entry] of table(fields, "channels")) channels.set(interestOf("channels", text), decodeKept(entry));
  if (new Set([...channels.keys()].map((one) => channelOf(one)?.name)).size < channels.size) {
    throw new StateDamaged("channels: has one name twice");
  }
  const isWanted = (text: string): boolean => channels.has(interestOf("pending_channels", text));
  const operations = operationsOf("pending_channels", table(fields, "pending_channels"), { has: isWanted }, "channels");
  const pending = new Map([...operations].map(([text, kind]) => [interestOf("pending_channels", text), kind]));
  for (const [interest, { since, position }] of channels) {
    if (!pending.has(interest) && (cursor === null || since !== null || position !== null)) {
      throw new StateDamaged(`channels: ${JSON.stringify(titleOf(channelOf(interest)?.name ?? ""))} is behind the cursor, and not pending`);
    }
  }
  return { kept: { channels, epoch: epoch as number | null, cursor }, pending };
}

function decodeKept(entry: unknown): KeptChannel {
  if (typeof entry !== "object" || entry === null) throw new StateDamaged("channels: has an entry that is not an object");
  const { position, told, lost = false, ...begins } = entry as Fields;
  if (typeof lost !== "boolean") throw new StateDamaged("channels: lost is not true or false");
  const kept = { told: told === undefined ? null : numberOf("channels", told), lost };
  if ("since" in begins) {
    try {
      return { since: sinceFrom(begins), position: null, ...kept };
    } catch (error) {
      throw new StateDamaged(`channels: ${(error as Error).message}`);
    }
  }
  if (position === undefined) return { since: null, position: null, ...kept };
  return { since: null, position: position === null ? BEGINNING : numberOf("channels", position), ...kept };
}

function interestOf(field: string, text: string): Interest {
  const expression = expressionOf(text);
  const [name, ...attributes] = (expression ?? text).split("\0");
  try {
    const channel = {
      name: expression === null ? checkChannel(name) : patternName(name),
      attributes: checkAttributes(attributes),
    };
    if (channelText(channel) !== text) throw new RangeError("attributes: are not sorted");
    return byChannel(channel);
  } catch (error) {
    throw new StateDamaged(`${field}: ${(error as Error).message}`);
  }
}
