"""Kept cursors that have moved since they were stored: such a client does not keep them itself.

Until they are written, the requests that moved them count as not handled: their offsets are not committed, and the next
owner of the partition handles them again.
"""

from coldnotify_matcher.engine.clients.clients import RegisteredClient

STORE_EVERY_MS = 5_000
"""Maximum age of the stored copy of a kept cursor: after a crash of everything what was acknowledged meanwhile comes
again."""


class KeptCursors:
    """Clients of one partition whose kept cursor is not stored, in the order of the requests that moved it first."""

    def __init__(self) -> None:
        self._moved: dict[RegisteredClient, int] = {}

    @property
    def first_offset(self) -> int | None:
        """Offset of the first request whose effect is not stored; None: all are."""
        return next(iter(self._moved.values()), None)

    def moved(self, client: RegisteredClient, offset: int) -> None:
        """Note that the request at this offset has moved the client's cursor."""
        self._moved.setdefault(client, offset)

    def written(self, client: RegisteredClient) -> None:
        """Note that the client's record is written, or that the client is forgotten."""
        self._moved.pop(client, None)
