"""Tracks the channels of a device that keeps no cursor itself: their positions, as one text. Pure.

Messages of all channels come in the order of the log, because the agent requests that none overtakes another. So the
last message, of whichever channel, gives the position of all of them, except of those that began further on. A mark
names all channels that it covers: a channel added since begins where the device requests, and one with other attributes
is a different channel.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from coldnotify_schemas.protocol import OBJECTS_PER_FRAME_MAX
from coldnotify_schemas.whole_numbers import whole_number
from coldnotify_schemas.wire_pb2 import (
    INTEREST_PATTERN,
    SINCE_BEGINNING,
    SINCE_POSITION,
    Interest,
    Message,
    Missed,
    Position,
    Stream,
)

NOWHERE = -1
"""A position before the log's first offset."""
_SHORT_DIGITS = 8
_MARK = re.compile(r"([0-9a-f]{1,8})\.([0-9]{0,19})\.((?:[0-9a-f]{8}(?:@[0-9]{1,19})?(?:-(?!$)|$))*)")


@dataclass(frozen=True)
class ChannelsMark:
    """A device's position in its channels."""

    epoch: int
    offset: int
    """The position of all channels but `ahead`; NOWHERE: nothing was received."""
    channels: frozenset[str] = frozenset()
    """The first digits of the hashes of the channels that the mark covers."""
    ahead: Mapping[str, int] = field(default_factory=dict)
    """Positions of the channels that are further on, by the first digits of their hashes."""

    def __str__(self) -> str:
        named = (f"{one}@{self.ahead[one]}" if one in self.ahead else one for one in sorted(self.channels))
        return f"{self.epoch:x}.{'' if self.offset == NOWHERE else self.offset}.{'-'.join(named)}"

    def position(self, hash_: int) -> int | None:
        """Returns the position of a channel; None if the mark does not cover it."""
        one = short(hash_)
        return self.ahead.get(one, self.offset) if one in self.channels else None


def log_of_channels(streams: Sequence[Stream]) -> Stream:
    """Returns the first of a frame's streams, the log of the domain's channels."""
    return streams[0] if streams else Stream()


def short(hash_: int) -> str:
    """Returns the first digits of a hash, as used in a mark."""
    return f"{hash_:016x}"[:_SHORT_DIGITS]


def parse_mark(said: str) -> ChannelsMark | None:
    """Parses a mark; returns None if the text is not one."""
    match = _MARK.fullmatch(said)
    if match is None:
        return None
    epoch, offset, named = match.groups()
    entries = [entry.partition("@") for entry in named.split("-") if entry]
    ahead: dict[str, int] = {}
    for one, at, text in entries:
        if at:
            position = whole_number(text)
            if position is None:
                return None
            ahead[one] = position
    reached = whole_number(offset) if offset else NOWHERE
    if reached is None:
        return None
    return ChannelsMark(int(epoch, 16), reached, frozenset(entry[0] for entry in entries), ahead)


class AgentChannels:
    """The channels' part of a session: the frames' fields, and the positions."""

    def __init__(self, wanted: Mapping[int, Interest], mark: ChannelsMark | None) -> None:
        """`wanted`: the requested channels by hash."""
        self.wanted = wanted
        self._epoch = None if mark is None else mark.epoch
        self._at = NOWHERE if mark is None else mark.offset
        self._positions: dict[int, int] = {}
        """Known positions by hash, until all channels have caught up."""
        self._begins: dict[int, int] = {}
        """Positions at which the channels began, by hash."""
        self.page_end = 0
        """The page that waits to be acknowledged; 0: none."""
        self._several = len(wanted) > 1 and any(one.kind == INTEREST_PATTERN for one in wanted.values())
        """True if one message may come several times, by a channel and by patterns."""
        self._marked_at = NOWHERE
        self._marked: set[int] = set()
        """The registrations by which the message at this offset was marked."""
        self.live = not wanted
        """True once all channels have caught up, and new messages arrive as they are sent."""
        if mark is not None:
            known = {hash_: mark.position(hash_) for hash_ in wanted}
            self._positions = {hash_: position for hash_, position in known.items() if position is not None}
            self._begins = dict(self._positions)

    # --- outgoing

    @property
    def streams(self) -> list[Stream]:
        """The cursor for the Hello; empty if there is none."""
        if self._epoch is None:
            return []
        return [Stream(epoch=self._epoch, complete=None if self._at == NOWHERE else self._at)]

    @property
    def pending(self) -> list[Interest] | None:
        """The channels that the Hello has to name; None if there are too many, so the whole set must be sent."""
        found = [self._said(hash_) for hash_ in self.wanted if self._positions.get(hash_) != self._at]
        return found if len(found) <= OBJECTS_PER_FRAME_MAX else None

    @property
    def whole_set(self) -> list[Interest]:
        """All channels, each from its position."""
        return [self._said(hash_) for hash_ in self.wanted]

    def _said(self, hash_: int) -> Interest:
        channel = self.wanted[hash_]
        position = self._positions.get(hash_)
        if position is None:
            return channel
        since, at = (SINCE_BEGINNING, 0) if position == NOWHERE else (SINCE_POSITION, position)
        return Interest(kind=channel.kind, text=channel.text, attributes=channel.attributes, since=since, at=at)

    def take_page_end(self) -> int:
        """Returns the page that is acknowledged now, and clears it; 0 if none waits."""
        page, self.page_end = self.page_end, 0
        return page

    # --- incoming

    def begin_epoch(self, epoch: int) -> None:
        """Begins a log other than the one that the device knows, if it knows any."""
        self._epoch, self._at = epoch, NOWHERE
        self._positions.clear()
        self._begins.clear()

    def resolved(self, positions: Iterable[Position]) -> None:
        """Sets the positions at which channels begin."""
        for one in positions:
            if one.interest in self.wanted:
                self._begins[one.interest] = one.position if one.HasField("position") else NOWHERE
                self._positions[one.interest] = self._begins[one.interest]

    def told(self, entry: Message | Missed) -> None:
        """Takes a message, or a report of missed ones."""
        offset = entry.before - 1 if isinstance(entry, Missed) else entry.offset
        if not entry.paged:
            self.complete(offset)
        elif entry.channel in self.wanted:
            self._positions[entry.channel] = max(offset, self._positions.get(entry.channel, NOWHERE))

    def complete(self, offset: int) -> None:
        """Moves the position of all channels up to here."""
        self._at = max(self._at, offset)

    def caught_up(self, complete: int | None) -> None:
        """Marks all channels as caught up."""
        self.live = True
        self._positions.clear()
        if complete is not None:
            self.complete(complete)

    def mark_at(self, entry: Message | Missed) -> ChannelsMark:
        """Returns the mark of a device that has taken this entry and nothing after it, because entries come in log
        order. Entries of one offset, which patterns have, are marked one after the other."""
        offset = entry.before - 1 if isinstance(entry, Missed) else entry.offset
        base = offset
        ahead: dict[str, int] = {}
        if self._several:
            if offset != self._marked_at:
                self._marked_at = offset
                self._marked.clear()
            self._marked.add(entry.channel)
            base = max(offset - 1, NOWHERE)
            ahead = dict.fromkeys(map(short, self._marked), offset)
        ahead |= {short(hash_): begin for hash_, begin in self._begins.items() if begin > offset}
        return ChannelsMark(self._epoch or 0, base, frozenset(map(short, self.wanted)), ahead)

    def mark(self) -> ChannelsMark | None:
        """Returns the mark of the device after it has taken what came; None if the service has not sent its epoch."""
        if self._epoch is None:
            return None
        if self.live:
            # Of a message that comes by several registrations, some may be told, and others not yet.
            some = {short(hash_): position for hash_, position in self._positions.items() if position > self._at}
            return ChannelsMark(self._epoch, self._at, frozenset(map(short, self.wanted)), some)
        known = {short(hash_): position for hash_, position in self._positions.items()}
        base = min(known.values(), default=self._at)
        ahead = {one: position for one, position in known.items() if position > base}
        return ChannelsMark(self._epoch, base, frozenset(known), ahead)
