"""Parts of a log that were read again: the latest with their messages, many with a summary of their channels.

A block without a message for any waiting session is skipped by its summary. The followed part has summaries, too.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from coldnotify_schemas.protocol import REPEATS_KNOWN_OFFSETS
from coldnotify_streams.core.partition_turns import Spent

from coldnotify_matcher.engine.channel_logs.message_records import ChannelMessage
from coldnotify_matcher.engine.channel_logs.repeats import NO_MARKS, Marks
from coldnotify_matcher.engine.interests.by_channel import channel_mark

BLOCK_OFFSETS = 1_000
"""Blocks begin at multiples of this, so that sessions at about the same place wait for the same one."""
_SUMMARY_OVERHEAD_BYTES = 400


class Summary(NamedTuple):
    """Summary of the offsets from `start` to below `next`."""

    start: int
    next: int
    channels: array[int]
    """The marks of the channels with messages there, sorted."""
    marks: Marks = NO_MARKS
    unreadable: bool = False

    @property
    def size_bytes(self) -> int:
        """Approximate size in memory."""
        return _SUMMARY_OVERHEAD_BYTES + 4 * len(self.channels) + 16 * len(self.marks.marks)

    def may_have(self, channels: Collection[int]) -> bool:
        """Returns true if one of the channels with these marks may have a message there."""
        if self.unreadable:
            return True
        if len(channels) * 4 > len(self.channels):
            return bool(self.channels) and not set(self.channels).isdisjoint(channels)
        for mark in channels:
            place = bisect_left(self.channels, mark)
            if place < len(self.channels) and self.channels[place] == mark:
                return True
        return False


class KeptMessages(NamedTuple):
    """The messages of a block."""

    start: int
    next: int
    by_channel: dict[str, list[ChannelMessage]]
    size_bytes: int
    unreadable: bool = False


class Blocks:
    """The blocks of one log; they do not overlap."""

    def __init__(self, kept_bytes_max: int, summaries_bytes_max: int) -> None:
        self._kept_bytes_max = kept_bytes_max
        self._summaries_bytes_max = summaries_bytes_max
        self._starts: list[int] = []
        self._summaries: dict[int, Summary] = {}
        """By start; the first one added is forgotten first."""
        self._kept: dict[int, KeptMessages] = {}
        """By start; the one that was used last comes last."""
        self.kept_bytes = 0
        self.summaries_bytes = 0

    def kept_at(self, offset: int) -> KeptMessages | None:
        """Returns the block that contains this offset, if its messages are here."""
        summary = self.at(offset)
        kept = None if summary is None else self._kept.pop(summary.start, None)
        if kept is not None:
            self._kept[kept.start] = kept
        return kept

    def at(self, offset: int) -> Summary | None:
        """Returns the summary of the block that contains this offset."""
        place = bisect_right(self._starts, offset) - 1
        if place < 0:
            return None
        summary = self._summaries[self._starts[place]]
        return summary if offset < summary.next else None

    def nothing_of(self, channels: Collection[int], offset: int, spent: Spent) -> int:
        """Returns the end of the part from this offset on that has, by the summaries, no message of the channels with
        these marks.

        The search stops once the turn is `spent`: the part may be longer.
        """
        while (summary := self.at(offset)) is not None and not summary.may_have(channels):
            offset = summary.next
            if spent():
                break
        return offset

    def start_of(self, offset: int, log_start: int) -> int:
        """Returns the start of the block that contains this offset and is not here."""
        summary = self.at(offset)
        if summary is not None:
            return summary.start
        place = bisect_right(self._starts, offset) - 1
        before = self._summaries[self._starts[place]].next if place >= 0 else 0
        return max(offset - offset % BLOCK_OFFSETS, min(log_start, offset), before)

    def unknown_from(self, start: int, end: int) -> int:
        """Returns the first unknown offset from `start` to below `end`; `end`: there is none."""
        while start < end:
            summary = self.at(start)
            if summary is None:
                return start
            start = summary.next
        return end

    def room_at(self, start: int, next_: int) -> tuple[int, int]:
        """Returns the part of a block, read from `start` to below `next_`, that overlaps no other."""
        summary = self.at(start)
        if summary is not None and summary.start < start:
            start = summary.next
        place = bisect_right(self._starts, start)
        return start, min(next_, self._starts[place]) if place < len(self._starts) else next_

    def marks_before(self, start: int) -> Iterator[Marks]:
        """Yields the marks of the blocks that contain some of the REPEATS_KNOWN_OFFSETS before `start`."""
        first = bisect_right(self._starts, start - REPEATS_KNOWN_OFFSETS) - 1
        for place in range(max(first, 0), bisect_left(self._starts, start)):
            yield self._summaries[self._starts[place]].marks

    def add(self, summary: Summary, kept: KeptMessages | None) -> None:
        """Add a block, in the room that it has. The oldest others are dropped."""
        if summary.next <= summary.start:
            return
        self._drop(summary.start)
        insort(self._starts, summary.start)
        self._summaries[summary.start] = summary
        self.summaries_bytes += summary.size_bytes
        if kept is not None:
            self._kept[kept.start] = kept
            self.kept_bytes += kept.size_bytes
        while self.kept_bytes > self._kept_bytes_max and len(self._kept) > 1:
            self.kept_bytes -= self._kept.pop(next(iter(self._kept))).size_bytes
        while self.summaries_bytes > self._summaries_bytes_max and len(self._summaries) > 1:
            self._drop(next(iter(self._summaries)))

    def bound(self, kept_bytes_max: int, summaries_bytes_max: int) -> None:
        """Change their bounds. Those above that are dropped: messages that nobody waits for, so the last ones, too."""
        self._kept_bytes_max, self._summaries_bytes_max = kept_bytes_max, summaries_bytes_max
        while self.kept_bytes > kept_bytes_max:
            self.kept_bytes -= self._kept.pop(next(iter(self._kept))).size_bytes
        while self.summaries_bytes > summaries_bytes_max and len(self._summaries) > 1:
            self._drop(next(iter(self._summaries)))

    def drop_below(self, offset: int) -> None:
        """Forget blocks that end at or below this offset."""
        while self._starts and self._summaries[self._starts[0]].next <= offset:
            self._drop(self._starts[0])

    def drop_at(self, offset: int) -> None:
        """Forget the block that contains this offset, if there is one."""
        summary = self.at(offset)
        if summary is not None:
            self._drop(summary.start)

    def _drop(self, start: int) -> None:
        summary = self._summaries.pop(start, None)
        if summary is None:
            return
        del self._starts[bisect_left(self._starts, start)]
        self.summaries_bytes -= summary.size_bytes
        kept = self._kept.pop(start, None)
        if kept is not None:
            self.kept_bytes -= kept.size_bytes


def kept_of(messages: Sequence[ChannelMessage], start: int, next_: int, *, unreadable: bool) -> KeptMessages:
    """Returns the messages of a block, by channel."""
    by_channel: dict[str, list[ChannelMessage]] = {}
    for message in messages:
        by_channel.setdefault(message.key, []).append(message)
    size_bytes = _SUMMARY_OVERHEAD_BYTES + sum(message.size_bytes for message in messages)
    return KeptMessages(start, next_, by_channel, size_bytes, unreadable)


def channels_of(keys: Collection[str]) -> array[int]:
    """Returns the marks of these channels, sorted."""
    return array("I", sorted({channel_mark(key) for key in keys}))
