"""Stream: how far a session has come in its objects, or in the log of its domain's channels, and what it acknowledges.

Frames say these numbers of objects themselves, and those of other streams by place: `first_of` reads the first place,
`streams_of` writes it. The first stream, and the only one, is the log of the domain's channels.
"""

from collections.abc import Sequence

from coldnotify_schemas import wire_pb2 as wire

FIRST = 1
"""The number of the first stream in a PageEnd; there 0 is objects."""


class Stream:
    """One stream of a session. A service and a client count each stream for itself."""

    def __init__(self, acknowledged: int | None) -> None:
        """Begins with the cursor that the Hello says; None: it says none."""
        self._acknowledged = acknowledged
        self.acknowledgeable: int | None = None
        """The cursor in the durable document."""
        self.page_end = 0
        """The page to acknowledge with the next bytes that leave; 0: none."""
        self.live = False
        """The service sends what comes into the stream as it comes."""

    @property
    def acknowledgement(self) -> int | None:
        """Returns the cursor to acknowledge; None: the service knows it."""
        return None if self.acknowledgeable == self._acknowledged else self.acknowledgeable

    def welcomed(self) -> None:
        """A Welcome: what is missing comes first."""
        self.live = False

    def caught_up(self) -> None:
        """Nothing is missing any more."""
        self.live = True

    def page_ended(self, page: int) -> None:
        """A page has come; the next Ack says it."""
        self.page_end = page

    def durable(self, cursor: int | None) -> None:
        """The document holds this cursor."""
        self.acknowledgeable = cursor

    def begin_epoch(self) -> None:
        """Forgets both cursors: they are of another epoch."""
        self._acknowledged = self.acknowledgeable = None

    def acknowledge(self, said: wire.Ack | wire.Stream) -> None:
        """Puts the cursor and the page into this part of an Ack, if there is one to say."""
        complete = self.acknowledgement
        if complete is not None:
            self._acknowledged = said.complete = complete
        self.acknowledge_page(said)

    def acknowledge_page(self, said: wire.Ack | wire.Stream) -> None:
        """Puts the page alone into it."""
        said.page, self.page_end = self.page_end, 0


def first_of(streams: Sequence[wire.Stream]) -> wire.Stream:
    """Returns what a frame says of the first stream; an empty message: it says nothing."""
    return streams[0] if streams else wire.Stream()


def streams_of(first: wire.Stream) -> list[wire.Stream]:
    """Returns the streams of a frame that says this of the first one: none if it is empty."""
    return [first] if first.ByteSize() else []
