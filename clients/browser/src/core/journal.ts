/** Revisions of the client's document: the newest, and the newest durable one. */
export class Journal {
  /** Revision of the document in memory. */
  revision = 0;
  /** The newest revision that is stored. */
  durable = 0;
  /** The newest revision that something waits for; it is stored without delay. */
  urgent = 0;
  /** True if the last attempt to write the document failed. */
  failing = false;

  /** Notes a change of the document, and returns its new revision. `urgent`: something waits until it is durable. */
  changed(urgent = false): number {
    this.revision += 1;
    if (urgent) this.urgent = this.revision;
    return this.revision;
  }

  /** Returns true if changes of `revision` survive a crash. */
  isDurable(revision: number): boolean {
    return this.durable >= revision;
  }

  /**
   * Returns true if the application may be told changes of `revision`. While the store fails, it is told all the same:
   * a crash before that is over may leave the application with a state that nobody corrects.
   */
  mayRestOn(revision: number): boolean {
    return this.failing || this.isDurable(revision);
  }
}
