"""What a session has besides, if its client is registered for channels."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from coldnotify_schemas import internal_pb2, wire_pb2

from coldnotify_matcher.engine.interests.by_channel import NO_CURSOR


class SaidChannel(NamedTuple):
    """A channel that a part of a reg-sync names."""

    text: str
    """Its name and attributes, as they were said, joined as `channel_text` does."""
    since: wire_pb2.Since
    at: int


class ChannelsState(Enum):
    """Where the channels of a session are, in the matcher's eyes."""

    IDLE = "idle"
    """Nothing was asked for yet, or the digests differ."""
    FILLING = "filling"
    """A page is being put together, and waits for a block, or for its tenant's turn."""
    PAGED = "paged"
    """A page is on its way; the next one follows when its client has it."""
    LIVE = "live"
    """Messages are told as they come."""


@dataclass(slots=True, eq=False)
class ChannelSession:
    """The channels of one session."""

    ask: int = 0
    state: ChannelsState = ChannelsState.IDLE
    cursor: int = NO_CURSOR
    """What its client may believe so far, for all channels that are not pending."""
    page: int = 0
    paging: int = 0
    """Names the present row of pages."""
    page_bytes: int = 0
    """How large its pages are to be, as its gateway says; 0: it does not say."""
    positions: dict[int, int] = field(default_factory=dict)
    """By hash, while it is caught up: all of the channel up to this offset has been told."""
    told: dict[int, int] = field(default_factory=dict)
    """By hash, in the same row of pages: what its client knows of the channel, which may be less: the last message, or
    where it began."""
    pending: dict[int, int] = field(default_factory=dict)
    """By hash: where channels begin of which its client has said so, and that were not caught up since."""
    lost: dict[int, None] = field(default_factory=dict)
    """Hashes of channels of which it is to be told that messages of another log may be missing."""
    lost_untold: dict[int, None] = field(default_factory=dict)
    """Those of which it is still to be told so in the present row of pages."""
    begun: dict[int, int] = field(default_factory=dict)
    """By hash: as `pending`, of the last page. Its gateway may not have taken that: then it asks again by the same
    number, and its cursor does not say where these begin."""
    lost_told: dict[int, None] = field(default_factory=dict)
    """As `lost`, of the last page."""
    joined: set[int] = field(default_factory=set)
    """Hashes of channels whose messages it is told as they come."""
    filling: internal_pb2.ChannelPage | None = None
    """The page that is being put together."""
    filled_bytes: int = 0
    asked_ms: int = 0
    """When the page was asked for."""
    waits_for: int = NO_CURSOR
    """The offset whose block it waits for; -1: it does not wait."""
    turn_since_ms: int | None = None
    """Since when its pages wait until its tenant may be told more; None: they do not."""
    entries_max: int | None = None
    """Of the present page, where its tenant may be told only so much; None: its size counts alone."""
    void: bool = False
    """Its Open's cursor was one of another log, and its set is not in yet. What it says to begin with the beginning is
    to be told that messages may be missing."""
    epoch_said: bool = False
    """Its client knows the log's epoch."""
    urgent_bytes: int = 0
    """In the same row: what came before others because of its priority."""
    ahead: dict[int, int] = field(default_factory=dict)
    """By hash: up to where channels were told in front of what waits of the page that is on its way."""
    ahead_bytes: int = 0
    """What that takes."""
    clean: bool = False
    """Nothing lacks, which its next Page is to say."""

    def sent_last(self) -> None:
        """The last page leaves: what its client has said is caught up, if its gateway takes it."""
        self.begun.update(self.pending)
        self.lost_told.update(self.lost)
        self.pending, self.lost = {}, {}

    def taken_last(self) -> None:
        """Its gateway has taken the last page, if there was one: it asks anew, from where its client is."""
        self.begun, self.lost_told = {}, {}

    def acknowledged(self, complete: int) -> None:
        """Its client has applied all up to here."""
        if self.state is ChannelsState.LIVE and complete >= self.cursor:
            self.taken_last()

    def said_anew(self) -> None:
        """Its client says where its channels are, of all that are not where its cursor is."""
        self.pending, self.begun = {}, {}
