/** Which revision of the client's document is the newest, and which one is durable. */
export class Journal {
  /** Of the document as it is in memory. */
  revision = 0;
  /** The newest revision that is stored. */
  durable = 0;
  /** The newest revision that something waits for; it is stored without delay. */
  urgent = 0;
  /** The document could not be written when that was tried last. */
  failing = false;

  /** The document changed; its new revision. `urgent`: something waits until it is durable. */
  changed(urgent = false): number {
    this.revision += 1;
    if (urgent) this.urgent = this.revision;
    return this.revision;
  }

  /** Whether what happened in `revision` survives a crash. */
  isDurable(revision: number): boolean {
    return this.durable >= revision;
  }

  /** Whether the application may be told what is in `revision`. While the store fails, it is told all the same: a crash
   * before that is over may leave it with what nobody corrects. */
  mayRestOn(revision: number): boolean {
    return this.failing || this.isDurable(revision);
  }
}
