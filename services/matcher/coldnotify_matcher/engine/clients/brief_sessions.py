"""Sessions that may end before anyone has to know of them: their records are not written at once.

A device that wakes, has missed nothing and sleeps again leaves everything as it was: a record would add nothing but the
time when it was last seen. So the record of a session whose Open changed no registrations waits for `WAITS_MS`. Until
it is written, or the session is over, the Open counts as not handled: its offset is not committed, and the next owner
of the partition handles it again.
"""

from typing import NamedTuple

from coldnotify_matcher.engine.clients.clients import RegisteredClient

WAITS_MS = 2_000
"""A wake takes some round trips. Handling the waiting Opens again costs a successor little time: it handles a second of
requests in some 0.1 s."""


class _Brief(NamedTuple):
    offset: int
    since_ms: int


class BriefSessions:
    """The sessions of one partition whose records wait, in the order of their Opens."""

    def __init__(self) -> None:
        self._waiting: dict[RegisteredClient, _Brief] = {}

    @property
    def first_offset(self) -> int | None:
        """Offset of the first Open whose session waits; None: none waits."""
        return next((brief.offset for brief in self._waiting.values()), None)

    def begin(self, client: RegisteredClient, offset: int, now_ms: int) -> bool:
        """Begin the client's session, which was opened at this offset. Returns false if its record cannot wait.

        If the Open has changed registrations, the record is written with them in this step, and waits no more.
        """
        # The stored record must be as true once the session is over as it was before.
        if client.stored_offline_at is None:
            return False
        self._waiting.pop(client, None)
        self._waiting[client] = _Brief(offset, now_ms)
        return True

    def end(self, client: RegisteredClient) -> bool:
        """End the client's session. Returns false if its record was written, or the stored one is not true any more."""
        if self._waiting.pop(client, None) is None or client.stored_offline_at is None:
            return False
        return not client.lacking(client.stored_offline_at)

    def written(self, client: RegisteredClient) -> None:
        """Stop waiting: its record is written."""
        self._waiting.pop(client, None)

    def take_due(self, now_ms: int) -> list[RegisteredClient]:
        """Returns the clients whose sessions have lasted: their records are to be written."""
        due = []
        for client, brief in self._waiting.items():
            if now_ms - brief.since_ms < WAITS_MS:
                break
            due.append(client)
        for client in due:
            del self._waiting[client]
        return due
