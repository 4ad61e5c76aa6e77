"""Sessions: one connection of a client, as the matcher follows it."""

from dataclasses import dataclass, field

from coldnotify_matcher.engine.gateways.gateways import GatewayView
from coldnotify_matcher.engine.streams.answers import Answers
from coldnotify_matcher.engine.streams.filter_answers import FilterAnswers
from coldnotify_matcher.engine.streams.message_stream import MessageStream
from coldnotify_matcher.engine.streams.stream import Stream

NO_ASK = 0
"""Gateways count their questions from 1: an answer to this one is stale, so a live session is announced again."""


@dataclass(slots=True, eq=False)
class EngineSession:
    """The current session of a client."""

    gateway: GatewayView
    number: int
    objects: Stream = field(default_factory=Stream)
    """The stream of newest versions. Its ask also numbers Open and CheckDigest."""
    answers: Answers = field(default_factory=Answers)
    """Answers are sent in pages of objects alone."""
    filter_answers: FilterAnswers = field(default_factory=FilterAnswers)
    """Answers to filters, in pages of objects, too."""
    channels: MessageStream | None = None
    """None: its client is registered for no channels."""
    in_sync: bool = True
    """False: the digests differ, and only the client's whole set helps."""
    indexed: bool = False
    """True if its number is in the fan-out index."""
    descriptions: bool = False
    """True if its client receives descriptions of members."""
    channels_in_order: bool = False
    """True if no channel is sent before others, whatever the priority."""
    shares: bool = False
    """True if its gateway hands on what shares hand out."""
    was_present: bool = True
    """False if nothing was kept of its client when it began."""
    packet_bytes_max: int = 0
    """Its client's Maximum Packet Size; 0: any, or its gateway has not announced it to this matcher."""
    announced_ms: int = 0
    """Time at which its gateway last announced it; 0: a predecessor knew."""

    @property
    def shown_state(self) -> str:
        """The state for the HTTP views. A session that a predecessor left is live, though this matcher has sent it no
        pages."""
        if self.indexed or self.objects.live:
            return "live"
        return "catching" if self.in_sync else "unsynced"

    @property
    def in_an_index(self) -> bool:
        """True if its number is in an index, so that it must not come back."""
        return self.indexed or (self.channels is not None and bool(self.channels.positions.joined))

    def announced(self, now_ms: int, *, descriptions: bool, channels_in_order: bool, shares: bool = False) -> None:
        """Note that its gateway announces it, and its client's abilities."""
        self.announced_ms = now_ms
        self.descriptions, self.channels_in_order, self.shares = descriptions, channels_in_order, shares

    def begins_anew(self) -> None:
        """Note that nothing was kept of its client when it began."""
        self.was_present = False

    def takes_packets(self, bytes_max: int) -> None:
        """Note its client's Maximum Packet Size."""
        self.packet_bytes_max = bytes_max

    def wants_descriptions(self) -> None:
        """Send its client descriptions of members from here on."""
        self.descriptions = True

    def takes_hand_outs(self) -> None:
        """Note that its gateway hands on what shares hand out."""
        self.shares = True

    def agree(self) -> None:
        """Note that the digests are the same."""
        self.in_sync = True

    def disagree(self) -> None:
        """Note that the digests differ: no pages of objects are sent until its client has sent its whole set."""
        self.in_sync = False
        self.objects.pause()

    def join(self) -> None:
        """Note that its number is in the fan-out index."""
        self.indexed = True

    def follow_channels(self) -> MessageStream:
        """Returns the stream of its channels, and makes it if there is none."""
        if self.channels is None:
            self.channels = MessageStream()
        return self.channels

    def leave_channels(self) -> None:
        """Drop the stream of its channels: its client is registered for none any more."""
        self.channels = None
