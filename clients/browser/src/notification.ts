/** An object's description: a text, a number, or true or false for each key. */
export type Description = Readonly<Record<string, unknown>>;

/** The argument of a callback: the newest version of an object. Versions in between may have been skipped. */
export interface Notification {
  readonly objectId: string;
  /** null: unknown, because nothing was ever published for this object (delivered once, when it is registered), or
   * because only its description is delivered: it has no version, or one below the delivered version. */
  readonly version: bigint | null;
  /** The publisher's JSON, parsed; its bytes if they are no JSON; null if it has none, or if it has expired. */
  readonly payload: unknown;
  /** The bytes of a payload that was published as bytes. Absent: it was published as JSON. */
  readonly data?: Uint8Array;
  /** True if the object was deleted. Such a version is delivered like any other. */
  readonly deleted: boolean;
  /** The object's description, if a query that it is a member of asks for descriptions. null: it has none. */
  readonly description: Description | null;
}
