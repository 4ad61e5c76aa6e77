"""Which revision of the client's document is the newest, and which one is durable."""


class Journal:
    """Counts revisions. Everything that changes the document says so here."""

    def __init__(self) -> None:
        self.revision = 0
        """Of the document as it is in memory."""
        self.durable = 0
        """The newest revision that is on disk."""
        self.urgent = 0
        """The newest revision that something waits for; it is saved without delay."""

    def changed(self, *, urgent: bool = False) -> int:
        """The document changed; its new revision. `urgent`: something waits until it is durable."""
        self.revision += 1
        if urgent:
            self.urgent = self.revision
        return self.revision

    def is_durable(self, revision: int) -> bool:
        """Whether what happened in `revision` survives a crash."""
        return self.durable >= revision
