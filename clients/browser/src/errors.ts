/**
 * The errors of this library, as the application sees them: those of `sharedErrors.ts`, and two that only a page has.
 *
 *     ColdNotifyError
 *     |-- OpenElsewhere               another page is this client, and shares no session (reported)
 *     `-- PublishGivenUp              disconnect() came before the answer         (rejects `published`)
 *
 * *reported* ones go to `onError`, and are never thrown. OutboxFull is thrown by `publish()` and `send()`; PublishRefused
 * is reported, and rejects `published`. `connect()` is rejected with a StateError; later ones are reported. A network
 * that is away is not an error; `Notify.status` shows it. Wrong arguments throw RangeError, whose message begins with
 * the name of the field.
 */

import { ColdNotifyError } from "./sharedErrors.js";

export * from "./sharedErrors.js";

/** Another page of this browser is this client, and its session is not shared. This one waits until that one is gone. */
export class OpenElsewhere extends ColdNotifyError {
  override name = "OpenElsewhere";

  constructor() {
    super(
      "another page of this browser is this client, and shares no session with this one: it sleeps, is of an older " +
        "release, or the state or the browser does not allow it. This page is told nothing until that one wakes or is gone",
    );
  }
}

/** disconnect() was called before the service had answered. It may be published, if it was sent. */
export class PublishGivenUp extends ColdNotifyError {
  override name = "PublishGivenUp";

  constructor(readonly target: string) {
    super(`publish to ${JSON.stringify(target)} given up: disconnect() came before the service's answer`);
  }
}
