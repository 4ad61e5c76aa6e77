"""The newest revision of the client's document, and the durable one."""


class Journal:
    """Counts revisions. Everything that changes the document reports it here."""

    def __init__(self) -> None:
        self.revision = 0
        """Revision of the document in memory."""
        self.durable = 0
        """The newest revision that is on disk."""
        self.urgent = 0
        """The newest revision that something waits for; it is saved without delay."""

        self.failing = False
        """The document could not be written when that was tried last."""

    def changed(self, *, urgent: bool = False) -> int:
        """The document changed; its new revision. `urgent`: something waits until it is durable."""
        self.revision += 1
        if urgent:
            self.urgent = self.revision
        return self.revision

    def is_durable(self, revision: int) -> bool:
        """Returns true if `revision` survives a crash."""
        return self.durable >= revision

    def may_rest_on(self, revision: int) -> bool:
        """Returns true if the application may be told what is in `revision`. While the disk fails, it is told
        nevertheless: a crash before that is over may leave it with something that nobody corrects.
        """
        return self.failing or self.is_durable(revision)
