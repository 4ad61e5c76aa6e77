"""Sessions that may be over before anybody has to know of them: their records are not written at once.

A device that wakes, has missed nothing and sleeps again leaves everything as it was: no record says anything new of it,
but when it was seen last. So the record of a session whose Open changed no registrations waits for `WAITS_MS`. Until it
is written, or the session is over, the Open counts as not handled: its offset is not committed, and whoever takes the
partition over handles it again.
"""

from typing import NamedTuple

from coldnotify_matcher.engine.clients import RegisteredClient

WAITS_MS = 2_000
"""A wake takes some round trips. What waits longer is not handled again by more than this much of a successor's time:
it handles a second of requests in some 0.1 s."""


class _Brief(NamedTuple):
    offset: int
    since_ms: int


class BriefSessions:
    """The sessions of one partition whose records wait, in the order of their Opens."""

    def __init__(self) -> None:
        self._waiting: dict[RegisteredClient, _Brief] = {}

    @property
    def first_offset(self) -> int | None:
        """Of the Opens whose sessions wait, the first one's; None: none does."""
        return next((brief.offset for brief in self._waiting.values()), None)

    def begin(self, client: RegisteredClient, offset: int, now_ms: int) -> bool:
        """The client's session was opened at this offset. False: its record cannot wait.

        If the Open has changed registrations, the record is written with them in this step, and waits no more.
        """
        # What is stored of it must be as true once the session is over as it was before.
        if client.stored_offline_at is None:
            return False
        self._waiting.pop(client, None)
        self._waiting[client] = _Brief(offset, now_ms)
        return True

    def end(self, client: RegisteredClient) -> bool:
        """The client's session is over. False: its record was written, or what is stored is not true any more."""
        if self._waiting.pop(client, None) is None or client.stored_offline_at is None:
            return False
        return not client.lacking(client.stored_offline_at)

    def written(self, client: RegisteredClient) -> None:
        """Its record is: it waits no more."""
        self._waiting.pop(client, None)

    def take_due(self, now_ms: int) -> list[RegisteredClient]:
        """Those that have lasted: their records are to be written."""
        due = []
        for client, brief in self._waiting.items():
            if now_ms - brief.since_ms < WAITS_MS:
                break
            due.append(client)
        for client in due:
            del self._waiting[client]
        return due
