"""Sessions: one connection of a client, as the matcher follows it."""

from dataclasses import dataclass, field

from coldnotify_matcher.engine.gateways import GatewayView
from coldnotify_matcher.engine.streams.answers import Answers
from coldnotify_matcher.engine.streams.message_stream import MessageStream
from coldnotify_matcher.engine.streams.stream import Stream

NO_ASK = 0
"""Gateways count their askings from 1: an answer to this one is stale, so a live session is announced anew."""


@dataclass(slots=True, eq=False)
class EngineSession:
    """The one session of a client that counts."""

    gateway: GatewayView
    number: int
    objects: Stream = field(default_factory=Stream)
    """Newest versions. Its ask also numbers Open and CheckDigest."""
    answers: Answers = field(default_factory=Answers)
    """Told in pages of objects alone."""
    channels: MessageStream | None = None
    """None: its client is registered for none."""
    in_sync: bool = True
    """False: the digests differ, and only the client's whole set helps."""
    indexed: bool = False
    """Its number stands in the fan-out index."""
    descriptions: bool = False
    """Its client is told how members are described."""
    channels_in_order: bool = False
    """None of them is told before others, whatever the priority."""
    announced_ms: int = 0
    """When its gateway last said that it is there; 0: a predecessor knew."""

    @property
    def shown_state(self) -> str:
        """For those who look in. One that a predecessor left is live, though it has had no pages of this matcher."""
        if self.indexed or self.objects.live:
            return "live"
        return "catching" if self.in_sync else "unsynced"

    @property
    def in_an_index(self) -> bool:
        """Whether its number stands in an index, so that it must not come back."""
        return self.indexed or (self.channels is not None and bool(self.channels.positions.joined))

    def announced(self, now_ms: int, *, descriptions: bool, channels_in_order: bool) -> None:
        """Its gateway says that it is there, and what its client can do."""
        self.announced_ms = now_ms
        self.descriptions, self.channels_in_order = descriptions, channels_in_order

    def wants_descriptions(self) -> None:
        """Its client is told from here on how members are described."""
        self.descriptions = True

    def agree(self) -> None:
        """The digests are the same."""
        self.in_sync = True

    def disagree(self) -> None:
        """The digests differ: no objects are told in pages until its client has said its whole set."""
        self.in_sync = False
        self.objects.pause()

    def join(self) -> None:
        """Its number stands in the fan-out index from here on."""
        self.indexed = True

    def follow_channels(self) -> MessageStream:
        """The stream of its channels, made where there is none."""
        if self.channels is None:
            self.channels = MessageStream()
        return self.channels

    def leave_channels(self) -> None:
        """Its client is registered for none any more."""
        self.channels = None
