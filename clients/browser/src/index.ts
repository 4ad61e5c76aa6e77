/**
 * ColdNotify in a web page: the newest version of each object it registered for, eventually and for certain.
 *
 *     const notify = new Notify({ domain: "animal.observer", groupId: "region-1", clientId: "page-1" });
 *     notify.register("camera-config").subscribe((n) => console.log(n.objectId, n.version, n.payload));
 *     await notify.connect();
 */

export { CloseCode } from "./schemas/protocol.js";
export type { Status } from "./core/client.js";
export type { ClientSettings as Settings } from "./core/settings.js";
export * from "./errors.js";
export type { Patch } from "./core/publishing/patches.js";
export type { MessageOptions, VersionOptions } from "./core/publishing/outgoing.js";
export type { SinceOption } from "./core/interests/since.js";
export type { HandedMessage } from "./handedMessage.js";
export { LeasedMessage } from "./leasedMessage.js";
export type { Message, Missed, MissedReason } from "./message.js";
export type { Description, Notification } from "./notification.js";
export { Notify, type Options } from "./notify.js";
export type { Publication } from "./publishing.js";
export type {
  Callback,
  Channel,
  ChannelOptions,
  LeasedCallback,
  MembersCallback,
  MessageCallback,
  MissedCallback,
  Query,
  QueryOptions,
  Registration,
  Share,
  ShareOptions,
  Subscription,
} from "./registration.js";
export type { Newest, Outcome } from "./outcome.js";
export { LocalState, MemoryState, type State } from "./state.js";
