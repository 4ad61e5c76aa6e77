/** The arguments of a channel's callbacks. */

/** A message of a channel. */
export interface Message {
  /** The channel's name. */
  readonly channel: string;
  /** `data` parsed as JSON; `data` itself if it is not JSON. */
  readonly payload: unknown;
  /** The bytes that were sent. */
  readonly data: Uint8Array;
  /** Offset in the log of the domain's channels. It rises from message to message, but not by 1. */
  readonly offset: bigint;
  /** Offset up to which the channel was delivered before: the previous message, or one below the `before` of a Missed.
   * null: nothing was delivered before. */
  readonly previous: bigint | null;
  /** The sender's id; null: it gave none. Both copies of a message that is sent twice have the same id. */
  readonly id: string | null;
  /** The client that sent it; null: not known. */
  readonly source: string | null;
  /** When the log accepted it. */
  readonly publishedAt: Date | null;
  /** For `since` of `Notify.channel`: begins after this message. */
  readonly position: string;
}

/** Why messages may be missing. */
export type MissedReason =
  | "UNSAID"
  /** The log no longer has them. */
  | "RETENTION"
  /** Their `expires_at` has passed. */
  | "EXPIRED"
  /** The log is another one: it was recreated, or the domain's retention was changed. */
  | "LOST"
  /** Kafka could not read them. */
  | "UNREADABLE";

/** Messages of a channel may be missing between two offsets, both exclusive. */
export interface Missed {
  /** The channel's name. */
  readonly channel: string;
  /** null: nothing of the log was delivered before. */
  readonly after: bigint | null;
  readonly before: bigint;
  readonly reason: MissedReason;
}
