/** What an object is, by key: a text, a number, or true or false. */
export type Description = Readonly<Record<string, unknown>>;

/** What a callback is told: the newest version of an object. Versions in between may have been skipped. */
export interface Notification {
  readonly objectId: string;
  /** null: unknown, nothing was ever published for this object (told once, when it is registered), or only its description
   * is told: it has no version, or one below what was told. */
  readonly version: bigint | null;
  /** The publisher's JSON, parsed; null where there is none, or where it has expired. */
  readonly payload: unknown;
  /** The object is gone. A version like any other. */
  readonly deleted: boolean;
  /** What the object is, if a query that it is a member of asks for descriptions. null: it has none. */
  readonly description: Description | null;
}
