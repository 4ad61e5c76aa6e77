/** The first frame of a session: of one that begins with it, or of a trial from which a session may take over. */

import { PROTOCOL_VERSION } from "../../schemas/protocol.js";
import {
  CAPABILITY_DESCRIPTIONS,
  CAPABILITY_NAMES,
  CAPABILITY_QUERIES,
  CAPABILITY_RAW,
  type ClientFramePart,
} from "../../schemas/wire.js";
import { NamesInUse } from "./namesInUse.js";
import type { Parts } from "./session.js";
import { streamsOf } from "../streams/stream.js";

type Hello = NonNullable<ClientFramePart["hello"]>;

/** A Hello without operations that a trial has sent, and what its session has to know of it. */
export interface SaidHello {
  readonly frame: Hello;
  readonly at: number;
  readonly crcs: NamesInUse;
  readonly asksForKinds: boolean;
  readonly asksDescriptions: boolean;
}

/** Returns a Hello without operations and streams. */
export function helloOf({ identity, registrations, delivery, settings }: Parts, token: string, capabilities: number): Hello {
  return {
    protocol: PROTOCOL_VERSION,
    capabilities,
    domain: identity.domain,
    group: identity.group,
    client: identity.client,
    digest: registrations.digest,
    epoch: delivery.epoch ?? undefined,
    cursor: delivery.cursor ?? undefined,
    keepaliveS: settings.keepaliveS,
    token,
  };
}

/**
 * Returns a trial's Hello. It changes nothing of the present session. `place`: the bits that tell where the client is.
 */
export function helloBeside(parts: Parts, token: string, place: number, now: number): SaidHello {
  const { registrations, delivery } = parts;
  const crcs = new NamesInUse();
  const hasChannels = registrations.hasChannels || registrations.hasShares;
  const asksForKinds = registrations.hasQueries || (registrations.pending.size > 0 && hasChannels);
  const asksDescriptions = delivery.queries.descriptions.asked;
  crcs.areSaid = asksForKinds || !crcs.use([...new Set([...registrations.wanted, ...registrations.pending.keys()])]);
  const { epoch, cursor } = delivery.channels.forHello;
  const frame = {
    ...helloOf(parts, token, capabilitiesOf(crcs, place, asksForKinds, asksDescriptions)),
    streams: streamsOf(cursor === undefined ? null : { epoch, complete: cursor }),
  };
  return { frame, at: now, crcs, asksForKinds, asksDescriptions };
}

/** Returns the bits of a Hello; the session adds whether it tells all that is unsettled. */
export function capabilitiesOf(crcs: NamesInUse, place: number, queries: boolean, descriptions: boolean): number {
  const names = crcs.areSaid ? CAPABILITY_NAMES : 0;
  const kinds = (queries ? CAPABILITY_QUERIES : 0) | (descriptions ? CAPABILITY_DESCRIPTIONS : 0);
  return names | kinds | place | CAPABILITY_RAW;
}
