/** What the callbacks of a channel are told. */

/** A message of a channel. */
export interface Message {
  /** The channel's name. */
  readonly channel: string;
  /** What `data` says as JSON, else `data` itself. */
  readonly payload: unknown;
  /** What was sent. */
  readonly data: Uint8Array;
  /** In the log of the domain's channels: it rises from message to message, not by 1. */
  readonly offset: bigint;
  /** Up to this offset the channel was told before: the message before, or one below the `before` of what was missed.
   * null: nothing was. */
  readonly previous: bigint | null;
  /** The sender's; null: it gave none. A message that is sent twice has the same. */
  readonly id: string | null;
  /** The client that sent it; null: not known. */
  readonly source: string | null;
  /** When the log took it. */
  readonly publishedAt: Date | null;
  /** For `since` of `Notify.channel`: what comes behind this message. */
  readonly position: string;
}

/** Why messages may be missing. */
export type MissedReason =
  | "UNSAID"
  /** The log does not have them any more. */
  | "RETENTION"
  /** Their `expires_at` has passed. */
  | "EXPIRED"
  /** The log is another one: it was made anew, or the domain's retention was changed. */
  | "LOST"
  /** Kafka could not read them. */
  | "UNREADABLE";

/** Between two offsets of a channel messages may be missing. Neither of the two is meant. */
export interface Missed {
  /** The channel's name. */
  readonly channel: string;
  /** null: nothing of the log was told before. */
  readonly after: bigint | null;
  readonly before: bigint;
  readonly reason: MissedReason;
}
