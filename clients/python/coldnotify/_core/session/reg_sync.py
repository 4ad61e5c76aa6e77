"""A reg-sync under way: the whole wanted set, in chunks, because the service's set differs."""

from collections.abc import Collection

from coldnotify._core.interests.interests import ChannelInterest, Interest, QueryInterest, ShareInterest, frames_of
from coldnotify._core.interests.registrations import Operation, Registrations
from coldnotify._core.journal import Journal


class RegSync:
    """The chunks of one set. None leaves before the document is durable in which all of it is pending."""

    def __init__(self, journal: Journal, registrations: Registrations, operations: dict[Interest, Operation]) -> None:
        self.operations = operations
        self._revision = journal.revision
        self._journal = journal
        queries = sorted(registrations.queries if registrations.knows(QueryInterest) else ())
        channels = sorted(registrations.channels if registrations.knows(ChannelInterest) else ())
        shares = sorted(registrations.shares if registrations.knows(ShareInterest) else ())
        self._chunks = frames_of([*sorted(registrations.wanted), *queries, *channels, *shares])
        self._sent = 0
        self.due: float | None = None
        """When the answer must have come; None: the chunks have not all left."""

    @property
    def all_sent(self) -> bool:
        """True once the last chunk has left."""
        return self._sent == len(self._chunks)

    @property
    def is_ready(self) -> bool:
        """True if a chunk may leave."""
        return not self.all_sent and self._journal.is_durable(self._revision)

    def next_chunk(self) -> tuple[int, Collection[Interest], bool]:
        """Returns the next chunk's place, its interests, and true if it is the last one. It leaves now."""
        index = self._sent
        self._sent += 1
        return index, self._chunks[index], self.all_sent

    def await_answer(self, due: float) -> None:
        """Limits the time for the answer."""
        self.due = due
