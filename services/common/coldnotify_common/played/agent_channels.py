"""The channels of a device that keeps no cursor itself: where each of them is, as one text can say it. Pure.

Channels are told in the order of the log: the agent asks that none overtakes another. So what was told last, of
whichever channel, says how far all of them are, but for those that began further on. A mark names all channels that it
holds for: one that was added since begins where the device says, and one with other attributes is another one.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from coldnotify_schemas.protocol import OBJECTS_PER_FRAME_MAX
from coldnotify_schemas.whole_numbers import whole_number
from coldnotify_schemas.wire_pb2 import (
    INTEREST_CHANNEL,
    SINCE_BEGINNING,
    SINCE_POSITION,
    Interest,
    Message,
    Missed,
    Position,
    Stream,
)

NOWHERE = -1
"""A position in front of the log's first offset."""
_SHORT_DIGITS = 8
_MARK = re.compile(r"([0-9a-f]{1,8})\.([0-9]{0,19})\.((?:[0-9a-f]{8}(?:@[0-9]{1,19})?(?:-(?!$)|$))*)")


@dataclass(frozen=True)
class ChannelsMark:
    """How far a device is in its channels."""

    epoch: int
    offset: int
    """All but `ahead` are told up to here; NOWHERE: nothing is."""
    channels: frozenset[str] = frozenset()
    """The beginnings of their hashes, for which this holds."""
    ahead: Mapping[str, int] = field(default_factory=dict)
    """Those of them that are further on."""

    def __str__(self) -> str:
        named = (f"{one}@{self.ahead[one]}" if one in self.ahead else one for one in sorted(self.channels))
        return f"{self.epoch:x}.{'' if self.offset == NOWHERE else self.offset}.{'-'.join(named)}"

    def position(self, hash_: int) -> int | None:
        """Where this channel is; None: it does not say."""
        one = short(hash_)
        return self.ahead.get(one, self.offset) if one in self.channels else None


def log_of_channels(streams: Sequence[Stream]) -> Stream:
    """Returns the first of a frame's streams, the log of the domain's channels."""
    return streams[0] if streams else Stream()


def short(hash_: int) -> str:
    """What a mark says of a hash."""
    return f"{hash_:016x}"[:_SHORT_DIGITS]


def parse_mark(said: str) -> ChannelsMark | None:
    """The mark that a text is; None: it is none."""
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
    """The channels' part of a session: what is said of them, and what comes of them."""

    def __init__(self, wanted: Mapping[int, Interest], mark: ChannelsMark | None) -> None:
        """`wanted`: by hash, as the device asks for them."""
        self.wanted = wanted
        self._epoch = None if mark is None else mark.epoch
        self._at = NOWHERE if mark is None else mark.offset
        self._positions: dict[int, int] = {}
        """By hash, how far they are, as far as that is known and not all are told."""
        self._begins: dict[int, int] = {}
        """By hash, where they began."""
        self.page_end = 0
        """A page that waits to be acknowledged; 0: none."""
        self.live = not wanted
        """All is told, and what is sent comes."""
        if mark is not None:
            known = {hash_: mark.position(hash_) for hash_ in wanted}
            self._positions = {hash_: position for hash_, position in known.items() if position is not None}
            self._begins = dict(self._positions)

    # --- what is said

    @property
    def streams(self) -> list[Stream]:
        """The cursor, for the Hello; nothing: there is none."""
        if self._epoch is None:
            return []
        return [Stream(epoch=self._epoch, complete=None if self._at == NOWHERE else self._at)]

    @property
    def pending(self) -> list[Interest] | None:
        """What the Hello says of single channels; None: too many, the whole set must be said."""
        found = [self._said(hash_) for hash_ in self.wanted if self._positions.get(hash_) != self._at]
        return found if len(found) <= OBJECTS_PER_FRAME_MAX else None

    @property
    def whole_set(self) -> list[Interest]:
        """All of them, each from where it is."""
        return [self._said(hash_) for hash_ in self.wanted]

    def _said(self, hash_: int) -> Interest:
        channel = self.wanted[hash_]
        position = self._positions.get(hash_)
        if position is None:
            return channel
        since, at = (SINCE_BEGINNING, 0) if position == NOWHERE else (SINCE_POSITION, position)
        return Interest(kind=INTEREST_CHANNEL, text=channel.text, attributes=channel.attributes, since=since, at=at)

    def take_page_end(self) -> int:
        """The page that is taken now; 0: none waits."""
        page, self.page_end = self.page_end, 0
        return page

    # --- what comes

    def begin_epoch(self, epoch: int) -> None:
        """The service's log is another one than the device knows, if it knows any."""
        self._epoch, self._at = epoch, NOWHERE
        self._positions.clear()
        self._begins.clear()

    def resolved(self, positions: Iterable[Position]) -> None:
        """Where channels begin."""
        for one in positions:
            if one.interest in self.wanted:
                self._begins[one.interest] = one.position if one.HasField("position") else NOWHERE
                self._positions[one.interest] = self._begins[one.interest]

    def told(self, entry: Message | Missed) -> None:
        """A message, or what is missed."""
        offset = entry.before - 1 if isinstance(entry, Missed) else entry.offset
        if not entry.paged:
            self.complete(offset)
        elif entry.channel in self.wanted:
            self._positions[entry.channel] = max(offset, self._positions.get(entry.channel, NOWHERE))

    def complete(self, offset: int) -> None:
        """All channels are told up to here."""
        self._at = max(self._at, offset)

    def caught_up(self, complete: int | None) -> None:
        """Nothing lacks any more."""
        self.live = True
        self._positions.clear()
        if complete is not None:
            self.complete(complete)

    def mark_at(self, entry: Message | Missed) -> ChannelsMark:
        """How far a device is that has taken this, and nothing behind it: what comes is in the order of the log."""
        offset = entry.before - 1 if isinstance(entry, Missed) else entry.offset
        ahead = {short(hash_): begin for hash_, begin in self._begins.items() if begin > offset}
        return ChannelsMark(self._epoch or 0, offset, frozenset(map(short, self.wanted)), ahead)

    def mark(self) -> ChannelsMark | None:
        """How far the device is, once it has taken what came; None: the service has not said its epoch."""
        if self._epoch is None:
            return None
        if self.live:
            return ChannelsMark(self._epoch, self._at, frozenset(map(short, self.wanted)))
        known = {short(hash_): position for hash_, position in self._positions.items()}
        base = min(known.values(), default=self._at)
        ahead = {one: position for one, position in known.items() if position > base}
        return ChannelsMark(self._epoch, base, frozenset(known), ahead)
