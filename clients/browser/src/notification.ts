/** What a callback is told: the newest version of an object. Versions in between may have been skipped. */
export interface Notification {
  readonly objectId: string;
  /** null: unknown, nothing was ever published for this object (told once, when it is registered). */
  readonly version: bigint | null;
  /** The publisher's JSON, parsed; null where there is none, or where it has expired. */
  readonly payload: unknown;
  /** The object is gone. A version like any other. */
  readonly deleted: boolean;
}
