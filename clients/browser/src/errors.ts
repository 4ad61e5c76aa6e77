/**
 * What can go wrong, as the application sees it.
 *
 *     ColdNotifyError
 *     |-- StateError                  the state cannot be read or written
 *     |   |-- StateMismatch           it belongs to another client, or a newer library
 *     |   `-- StateDamaged            it was no state; it has been set aside      (reported)
 *     |-- CallbackFailed              a callback threw; it will be tried again    (reported)
 *     |-- ObjectParked                its callbacks threw too often               (reported)
 *     |-- MembersCallbackFailed       the same of a query's members callback      (reported)
 *     |-- QueryParked                 its members callbacks threw too often       (reported)
 *     |-- QueriesUnknown              the service is older than queries           (reported)
 *     |-- RegistrationRefused         the service refused a registration          (reported)
 *     |-- PayloadUnreadable           a payload is not JSON; null is told instead (reported)
 *     `-- ServiceRefused              a close code that says: do not come back    (reported)
 *
 * *reported* ones go to `onError`, and are never thrown. `connect()` is rejected with a StateError; later ones are
 * reported. A network that is away is no error; `Notify.status` tells it. Wrong arguments throw RangeError, whose
 * message begins with the name of the field.
 */

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

/** What was stored was no state. It has been set aside; the client starts without, the service tells everything. */
export class StateDamaged extends StateError {}

/** A callback threw (`cause`). The notification is not acknowledged and is told again after a delay. */
export class CallbackFailed extends ColdNotifyError {
  constructor(
    readonly objectId: string,
    readonly version: bigint | null,
    cause: unknown,
  ) {
    super(`callback for ${JSON.stringify(objectId)}, version ${version}, threw ${String(cause)}`, { cause });
  }
}

/** The callbacks for an object failed `tries` times. It is told again at the next connection, or when a newer version
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

/** A query's members callback threw (`cause`). What has changed is told again after a delay. */
export class MembersCallbackFailed extends ColdNotifyError {
  constructor(
    readonly query: string,
    cause: unknown,
  ) {
    super(`members callback for the query ${JSON.stringify(query)} threw ${String(cause)}`, { cause });
  }
}

/** The members callbacks of a query failed `tries` times. They are told again when its members change, or at the next
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

/** The service refused a registration; the object or the query has left the wanted set. */
export class RegistrationRefused extends ColdNotifyError {
  constructor(
    /** "" if it is a query's. */
    readonly objectId: string,
    readonly reason: string,
    /** The query's text; null if it is an object's. */
    readonly query: string | null = null,
  ) {
    super(`registration for ${query === null ? "" : "the query "}${JSON.stringify(query ?? objectId)} refused: ${reason}`);
  }
}

/** A payload is not JSON. The version is told all the same, with null as its payload. */
export class PayloadUnreadable extends ColdNotifyError {
  constructor(
    readonly objectId: string,
    readonly version: bigint | null,
  ) {
    super(`payload of ${JSON.stringify(objectId)}, version ${version}, is not JSON`);
  }
}

/** The gateway ended the session for good. Nothing is tried any more until connect() is called again. */
export class ServiceRefused extends ColdNotifyError {
  constructor(
    readonly code: number,
    codeName: string,
    readonly reason: string,
  ) {
    super(`the service refuses this client: ${codeName} (${code}): ${reason}`);
  }
}
