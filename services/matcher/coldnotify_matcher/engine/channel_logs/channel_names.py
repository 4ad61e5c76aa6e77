"""Sets of a group's channels, by the offsets of their last messages: what filters and patterns of channels ask.

A set is made from the log's last offsets when it is first asked for, and grows with the first message of each channel.
All that ask for the same share it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from coldnotify_matcher.engine.channel_logs.last_offsets import NONE, LastOffsets
from coldnotify_matcher.engine.interests.by_channel import channel_mark
from coldnotify_matcher.engine.objects.offset_order import OffsetOrder

UNUSED_TICKS_MAX = 60
"""A set that nobody has asked for in so many ticks is dropped."""


class ChannelSet:
    """Some channels of one group, by their keys."""

    __slots__ = ("_marks", "_order", "forgotten", "used")

    def __init__(self, found: Iterable[tuple[str, int]], forgotten: int) -> None:
        """`found`: keys of channels, and the offsets of their last messages."""
        self._order = OffsetOrder(found)
        self._marks: set[int] | None = None
        self.forgotten = forgotten
        """Channels that are not in it any more may have had messages up to this offset."""
        self.used = True

    def __len__(self) -> int:
        return len(self._order)

    def __contains__(self, key: str) -> bool:
        return key in self._order

    def __iter__(self) -> Iterator[str]:
        """Yields the keys."""
        return iter(self._order)

    @property
    def known(self) -> int | None:
        """The offset of the last message that is known; None: there is none."""
        return self._order.last

    @property
    def last(self) -> int:
        """The offset above which none of its channels has a message; -1: none ever had one."""
        known = self._order.last
        return self.forgotten if known is None else max(known, self.forgotten)

    @property
    def marks(self) -> set[int]:
        """The marks of its channels in summaries of blocks."""
        if self._marks is None:
            self._marks = set(map(channel_mark, self._order))
        return self._marks

    def above(self, offset: int) -> Iterator[str]:
        """Yields the keys of channels with messages above this offset. Nothing may be changed meanwhile."""
        return (key for key, _ in self._order.above(offset))

    def put(self, key: str, offset: int) -> None:
        """Note that a channel that belongs to it has a message at this offset."""
        if offset <= self._order.offset_of(key, NONE):
            return
        if self._marks is not None and key not in self._order:
            self._marks.add(channel_mark(key))
        self._order.put(key, offset)

    def forget(self, key: str, offset: int) -> None:
        """Note that the log has no message of this channel any more, whose last one was at this offset."""
        if key in self._order:
            self._order.remove(key)
            self.forgotten = max(self.forgotten, offset)


class ChannelNames:
    """The sets of one log."""

    def __init__(self, last: Callable[[], LastOffsets]) -> None:
        """`last`: returns the log's last offsets."""
        self._last = last
        self._groups: dict[str, ChannelSet] = {}
        """By domain/group: all channels of it."""
        self._ticks = 0

    def of_group(self, group: str) -> ChannelSet:
        """Returns all channels of a group (domain/group)."""
        found = self._groups.get(group)
        if found is None:
            last = self._last()
            found = self._groups[group] = ChannelSet(last.offsets(f"{group}/"), last.forgotten)
        found.used = True
        return found

    def note(self, key: str, offset: int) -> None:
        """Note that the channel of this key has a message at this offset."""
        if self._groups and (found := self._groups.get(_group_of(key))) is not None:
            found.put(key, offset)

    def forget(self, gone: Iterable[tuple[str, int]]) -> None:
        """Note that the log has no message any more of these channels, whose last ones were at these offsets."""
        if self._groups:
            for key, offset in gone:
                if (found := self._groups.get(_group_of(key))) is not None:
                    found.forget(key, offset)

    def begin_anew(self) -> None:
        """Make the sets anew when they are asked for, because all last offsets are forgotten."""
        self._groups.clear()

    def on_tick(self) -> None:
        """Drop sets that nobody asks for, as time passes."""
        self._ticks += 1
        if self._ticks % UNUSED_TICKS_MAX:
            return
        self._groups = {group: found for group, found in self._groups.items() if found.used}
        for found in self._groups.values():
            found.used = False


def _group_of(key: str) -> str:
    return key[: key.index("/", key.index("/") + 1)]
