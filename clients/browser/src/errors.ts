/**
 * The errors of this library, as the application sees them.
 *
 *     ColdNotifyError
 *     |-- StateError                  the state cannot be read or written
 *     |   |-- StateMismatch           it belongs to another client, or a newer library
 *     |   `-- StateDamaged            it was no state; it has been set aside      (reported)
 *     |-- OpenElsewhere               another page of this browser is this client (reported)
 *     |-- CallbackFailed              a callback threw; it will be tried again    (reported)
 *     |-- ObjectParked                its callbacks threw too often               (reported)
 *     |-- MembersCallbackFailed       the same of a query's members callback      (reported)
 *     |-- QueryParked                 its members callbacks threw too often       (reported)
 *     |-- QueriesUnknown              the service is older than queries           (reported)
 *     |-- DescriptionsUnknown         the service is older, and tells none      (reported)
 *     |-- ChannelCallbackFailed       a channel's callback threw; it is told again (reported)
 *     |-- ChannelParked               its callbacks threw too often               (reported)
 *     |-- MessagesMissed              messages may be missing, and nobody is told (reported)
 *     |-- ChannelsUnknown             the service is older than channels          (reported)
 *     |-- RegistrationRefused         the service refused a registration          (reported)
 *     |-- PublishRefused              the service refuses a publish for ever    (reported, and rejects `published`)
 *     |-- PublishGivenUp              disconnect() came before the answer       (rejects `published`)
 *     |-- OutboxFull                  too many publishes wait for the service
 *     |-- PayloadUnreadable           a payload is not JSON; null is told instead (reported)
 *     `-- ServiceRefused              a close code that says: do not come back    (reported)
 *
 * *reported* ones go to `onError`, and are never thrown. OutboxFull is thrown by `publish()` and `send()`. `connect()` is rejected with a StateError; later ones are
 * reported. A network that is away is no error; `Notify.status` tells it. Wrong arguments throw RangeError, whose
 * message begins with the name of the field.
 */

import type { Missed } from "./message.js";

/** Every error of this library but wrong arguments. */
export class ColdNotifyError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** The state cannot be read or written. */
export class StateError extends ColdNotifyError {}

/** The state belongs to another domain, group or client, or was written by a newer library. */
export class StateMismatch extends StateError {}

/** The stored text was not a state. It is set aside. The client starts without it, so the service sends everything
 * again. */
export class StateDamaged extends StateError {}

/** Another page of this browser (a second tab, mostly) is this client. This one waits until that one is gone. */
export class OpenElsewhere extends ColdNotifyError {
  constructor() {
    super(
      "another page of this browser is this client: this page is told nothing until that one is gone. " +
        "Pages that are open at the same time need a clientId each",
    );
  }
}

/** A callback threw (`cause`). The notification is not acknowledged, and is delivered again after a delay. */
export class CallbackFailed extends ColdNotifyError {
  constructor(
    readonly objectId: string,
    readonly version: bigint | null,
    cause: unknown,
  ) {
    super(`callback for ${JSON.stringify(objectId)}, version ${version}, threw ${String(cause)}`, { cause });
  }
}

/** The callbacks for an object failed `tries` times. It is delivered again at the next connection, or when a newer version
 * comes. */
export class ObjectParked extends ColdNotifyError {
  constructor(
    readonly objectId: string,
    readonly version: bigint | null,
    readonly tries: number,
  ) {
    super(`${JSON.stringify(objectId)}, version ${version}, is parked: its callbacks failed ${tries} times`);
  }
}

/** A query's members callback threw (`cause`). The changes are delivered again after a delay. */
export class MembersCallbackFailed extends ColdNotifyError {
  constructor(
    readonly query: string,
    cause: unknown,
  ) {
    super(`members callback for the query ${JSON.stringify(query)} threw ${String(cause)}`, { cause });
  }
}

/** The members callbacks of a query failed `tries` times. They are called again when its members change, or at the next
 * connection. */
export class QueryParked extends ColdNotifyError {
  constructor(
    readonly query: string,
    readonly tries: number,
  ) {
    super(`the query ${JSON.stringify(query)} is parked: its members callbacks failed ${tries} times`);
  }
}

/** The service is older than queries. They stay registered, and are asked for at each connection. */
export class QueriesUnknown extends ColdNotifyError {
  constructor() {
    super("the service is older than this library and knows no queries: nothing is told of them until it does");
  }
}

/** A gateway or matcher of an older release does not send descriptions to clients that ask for them. Reported once. */
export class DescriptionsUnknown extends ColdNotifyError {
  constructor() {
    super("the service is older: it tells members and versions, and descriptions once it does");
  }
}

/** A channel's callback threw (`cause`). The message counts as not delivered, and is delivered again after a delay. */
export class ChannelCallbackFailed extends ColdNotifyError {
  constructor(
    readonly channel: string,
    readonly offset: bigint,
    cause: unknown,
  ) {
    super(`callback for the channel ${JSON.stringify(channel)}, offset ${offset}, threw ${String(cause)}`, { cause });
  }
}

/** The callbacks for a message failed `tries` times, so its channel does not go past it. It is delivered again at the next
 * connection, when another message of the channel comes, or to the next callback that subscribes. */
export class ChannelParked extends ColdNotifyError {
  constructor(
    readonly channel: string,
    readonly offset: bigint,
    readonly tries: number,
  ) {
    super(`the channel ${JSON.stringify(channel)} is parked at offset ${offset}: its callbacks failed ${tries} times`);
  }
}

/** Messages of a channel may be missing, and no `onMissed` was given to be called. */
export class MessagesMissed extends ColdNotifyError {
  constructor(readonly missed: Missed) {
    const after = missed.after === null ? "the beginning" : `offset ${missed.after}`;
    super(
      `channel ${JSON.stringify(missed.channel)}: between ${after} and offset ${missed.before} messages may be missing: ` +
        missed.reason,
    );
  }
}

/** The service is older than channels: they wait for one that knows them. Reported once. */
export class ChannelsUnknown extends ColdNotifyError {
  constructor() {
    super("the service is older than this library and knows no channels: they are registered once it does");
  }
}

/** The service refused a registration; the object, the query or the channel has left the wanted set. */
export class RegistrationRefused extends ColdNotifyError {
  constructor(
    /** "" if the registration is for a query or a channel. */
    readonly objectId: string,
    readonly reason: string,
    /** The query's text; null if the registration is not for a query. */
    readonly query: string | null = null,
    /** The channel's name; null if the registration is not for a channel. */
    readonly channel: string | null = null,
  ) {
    const kind = query !== null ? "the query " : channel !== null ? "the channel " : "";
    super(`registration for ${kind}${JSON.stringify(query ?? channel ?? objectId)} refused: ${reason}`);
  }
}

/** The service refuses the publish, and would refuse it again. */
export class PublishRefused extends ColdNotifyError {
  constructor(
    /** The name of the object or the channel. */
    readonly target: string,
    readonly reason: string,
  ) {
    super(`publish to ${JSON.stringify(target)} refused: ${reason}`);
  }
}

/** disconnect() was called before the service had answered. It may be published, if it was sent. */
export class PublishGivenUp extends ColdNotifyError {
  constructor(readonly target: string) {
    super(`publish to ${JSON.stringify(target)} given up: disconnect() came before the service's answer`);
  }
}

/** Too many publishes wait for the service. None of them is dropped; this one was not accepted. */
export class OutboxFull extends ColdNotifyError {}

/** A payload is not JSON. The version is delivered all the same, with null as its payload. */
export class PayloadUnreadable extends ColdNotifyError {
  constructor(
    readonly objectId: string,
    readonly version: bigint | null,
  ) {
    super(`payload of ${JSON.stringify(objectId)}, version ${version}, is not JSON`);
  }
}

/** The gateway ended the session for good. The client does not reconnect until connect() is called again. */
export class ServiceRefused extends ColdNotifyError {
  constructor(
    readonly code: number,
    codeName: string,
    readonly reason: string,
  ) {
    super(`the service refuses this client: ${codeName} (${code}): ${reason}`);
  }
}
