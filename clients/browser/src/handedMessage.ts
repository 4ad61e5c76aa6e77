/** A message of a share, as it is handed to a page: the arguments of a share's callbacks. */

import type { Message } from "./message.js";

/** The contents of a message of a share. */
export interface HandedMessage extends Message {
  /** The share's name. */
  readonly share: string;
  /** So many callbacks have begun with it before, at whichever member. */
  readonly attempts: number;
  /** Messages with one key are handed out one after another; null: it has none. */
  readonly key: string | null;
}

/** What a callback may do with the lease of its message. */
export interface LeaseControls {
  readonly isLost: () => boolean;
  readonly leaseS: number;
  readonly retry: (afterS: number) => void;
  readonly reject: () => void;
  /** Calls `told` once the settlement is answered, or the lease is lost. */
  readonly settle: (told: () => void) => void;
}
