"""One log of channels as its partition's owner sees it: what was read, what is kept, and which sessions wait for
more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from coldnotify_schemas import internal_pb2
from coldnotify_schemas.channels import MessageHeaders, Retention
from coldnotify_schemas.matcher_state import CHANNEL_BUCKETS
from coldnotify_schemas.protocol import REPEATS_KNOWN_OFFSETS
from coldnotify_schemas.records import InvalidRecord

from coldnotify_matcher.engine.channel_logs.channel_names import ChannelNames, ChannelSet
from coldnotify_matcher.engine.channel_logs.kept_blocks import BLOCK_OFFSETS, Blocks, Summary, channels_of, kept_of
from coldnotify_matcher.engine.channel_logs.last_offsets import LastOffsets
from coldnotify_matcher.engine.channel_logs.message_records import (
    Block,
    ChannelMessage,
    Home,
    MessageRecord,
    understand,
)
from coldnotify_matcher.engine.channel_logs.repeats import Repeats, repeats_among
from coldnotify_matcher.engine.channel_logs.subscriptions import Subscriptions
from coldnotify_matcher.engine.channel_logs.tail import Tail
from coldnotify_matcher.engine.interests.by_channel import ClientChannel
from coldnotify_matcher.engine.rules.channel_bounds import ChannelBounds
from coldnotify_matcher.engine.streams.end_history import EndHistory
from coldnotify_matcher.engine.streams.message_stream import MessageStream
from coldnotify_matcher.engine.streams.stream import NO_CURSOR

if TYPE_CHECKING:
    from coldnotify_matcher.engine.clients.clients import RegisteredClient

WANTED_MAX = 8
"""Number of blocks that are wanted at once: enough that a reader always has one under way, and few enough that a block
is still the next one when it comes."""
FORGOTTEN_A_TICK = 32
"""Buckets that are searched each second for channels whose messages the log has all removed: all in half a minute, at
3,000 channels a second where there are 100,000."""


_NUMBERS = {
    Retention.HOUR: internal_pb2.LOG_1H,
    Retention.DAY: internal_pb2.LOG_1D,
    Retention.MONTH: internal_pb2.LOG_30D,
}


class BlockWaiter:
    """Waits for blocks of a log, and has no session."""

    session = None


class ChannelLog:
    """The log of one retention, in one partition."""

    def __init__(self, retention: Retention, epoch: int, bounds: ChannelBounds) -> None:
        self.retention = retention
        self.number = _NUMBERS[retention]
        """The log in messages to gateways."""
        self.epoch = epoch
        self.bounds = bounds
        self.position = 0
        """The next offset of the log."""
        self.ends = EndHistory()
        self.log_start = 0
        """Retention has removed all below it."""
        self.replay_from = 0
        """From this offset on no predecessor has rejected or moved records."""
        self.read = 0
        """The next offset that was not taken in yet."""
        self.done = 0
        """All below it is written, in steps that were taken, together with this position."""
        self.written_to: int | None = None
        """The last step wrote all below it; the next one writes this position. None: it wrote nothing."""
        self.write_due_ms = 0
        self.last = LastOffsets()
        self.names = ChannelNames(lambda: self.last)
        self.tail = Tail(0, 0, 0)
        self.repeats = Repeats(0)
        self.blocks = Blocks(0, 0)
        self.subscriptions = Subscriptions()
        self.waiting: dict[int, dict[RegisteredClient | BlockWaiter, int]] = {}
        """By the first offset of the block that they wait for: clients, shares, and the offset that each waits for."""
        self._goes_on = False
        """True: the next block is the first one above `_onward_at`. False: it is the block of the session that lacks
        least."""
        self._onward_at = self._onward_next = -1
        self.pages_bytes = 0
        """Total size of pages that are being assembled."""
        self.paged: dict[RegisteredClient, None] = {}
        """Clients to whose sessions a page is on its way; some of these pages may have arrived."""
        self._cell: dict[str, None] = {}
        """Channels with messages since `_cell_start`: the summary of the followed part."""
        self._cell_start = 0
        self._skipped: set[int] = set()
        self._to_forget: list[int] = []
        self._forgotten_below = 0

    def start(self, start: int, log_start: int, *, through: int) -> None:
        """Begin the log: its records come from `start` on, after those that they may repeat.

        `through`: the end of what a predecessor wrote about it, which is loaded; 0: nothing is known.
        """
        start = max(start, log_start)
        # Retention may have removed unread records, or what was written is lost.
        unknown_below = log_start if through < log_start else start if not through else 0
        if unknown_below:
            self.last.know_nothing_below(unknown_below)
            self.names.reload()
        # Repeats are known from where all records that may be repeated are among those that are read.
        self._begin_at(log_start if start - REPEATS_KNOWN_OFFSETS <= log_start else start)
        self.log_start = log_start
        self.position = self.replay_from = self.done = start

    def _begin_at(self, offset: int) -> None:
        self.tail = Tail(offset, self.bounds.tail_bytes_max, self.bounds.tail_messages_max)
        self.repeats = Repeats(offset)
        self.blocks = Blocks(self.bounds.blocks_bytes_max, self.bounds.summaries_bytes_max)
        self._cell, self._cell_start = {}, offset

    @property
    def memory_bytes(self) -> int:
        """The memory that its bounds are about."""
        return self.tail.size_bytes + self.blocks.kept_bytes + self.blocks.summaries_bytes + self.pages_bytes

    def bound(self, bounds: ChannelBounds) -> None:
        """Change its bounds, because the logs of other partitions use more or less of the matcher's memory now."""
        self.bounds = bounds
        self.tail.bound(bounds.tail_bytes_max)
        self.blocks.bound(bounds.blocks_bytes_max, bounds.summaries_bytes_max)

    def on_end(self, offset: int) -> None:
        """Note that the log was read up to `offset`."""
        self.read = max(self.read, offset)
        self.position = max(self.position, offset)

    def take_in(self, message: ChannelMessage, headers: MessageHeaders) -> bool:
        """Take in the log's next message. Returns false if it repeats one, or was taken in before."""
        offset = message.offset
        if offset < self.read:
            return False
        self.on_end(offset + 1)
        repeat = self.repeats.note(message.key, headers, offset, self.log_start)
        if repeat:
            if self.repeats.is_full():
                self.repeats.forget_older()
                self.blocks.drop_below(self.repeats.known_from)
            return False
        self._note(message.key, offset)
        if offset >= self.repeats.known_from:
            if offset // BLOCK_OFFSETS != self._cell_start // BLOCK_OFFSETS:
                self._end_cell(offset - offset % BLOCK_OFFSETS)
            self._cell[message.key] = None
            self.tail.add(message)
        return True

    def _note(self, key: str, offset: int) -> None:
        self.last.note(key, offset)
        self.names.note(key, offset)

    def _end_cell(self, next_: int) -> None:
        """Summarise the followed part up to there, but for the blocks that were read in it meanwhile."""
        start, channels = self._cell_start, channels_of(self._cell)
        while start < next_:
            block = self.blocks.at(start)
            end = self.blocks.room_at(start, next_)[1] if block is None else block.next
            if block is None:
                self.blocks.add(Summary(start, end, channels), None)
            start = end
        self._cell_start = next_
        self._cell = {}

    def skip(self, offset: int) -> None:
        """Skip the record at this offset, which is set aside: no session receives it."""
        self.on_end(offset + 1)
        self._skipped.add(offset)

    def on_log_start(self, log_start: int) -> bool:
        """Note that retention has removed all below. Returns true if unread records, which are unknown, were among
        them."""
        if log_start <= self.log_start:
            return False
        self.log_start = log_start
        self._skipped = {offset for offset in self._skipped if offset >= log_start}
        if log_start <= self.position:
            if self.read < log_start:
                # The records before the commit are still being read, and some of them never will be.
                self._begin_at(max(log_start, self.tail.start))
            self.blocks.drop_below(log_start)
            self._free_repeats()
            return False
        self.last.know_nothing_below(log_start)
        self.names.reload()
        self._begin_at(log_start)
        self.on_end(log_start)
        return True

    def _free_repeats(self) -> None:
        """Make repeats messages whose originals retention has removed: sessions that are behind read them in blocks.

        They may have been written after the removal, which is noticed later.
        """
        for key, offset in self.repeats.take_freed(self.log_start):
            self._note(key, offset)
            self.tail.drop_below(offset + 1)
            self.blocks.drop_at(offset)
            if offset >= self._cell_start:
                self._cell[key] = None

    @property
    def oldest(self) -> int:
        """The first offset that can still be sent."""
        return min(self.log_start, self.tail.start)

    def forget_some(self) -> int:
        """Forget channels that have no messages any more, in some buckets. Returns their number."""
        if not self._to_forget:
            oldest = self.oldest
            if oldest <= self._forgotten_below:
                return 0
            self._forgotten_below = oldest
            self._to_forget = list(range(CHANNEL_BUCKETS))
        some, self._to_forget = self._to_forget[:FORGOTTEN_A_TICK], self._to_forget[FORGOTTEN_A_TICK:]
        gone = list(chain.from_iterable(self.last.forget_below(self._forgotten_below, index) for index in some))
        self.names.forget(gone)
        return len(gone)

    # --- registrations

    def set_of(self, pattern: ClientChannel) -> ChannelSet:
        """Returns the channels that a registered pattern fits."""
        assert pattern.expression is not None
        return self.names.of_pattern(pattern.group, pattern.expression)

    def last_of(self, channel: ClientChannel) -> int:
        """Returns the offset above which a registered channel, or a pattern, has no message; -1: it never had one."""
        if channel.expression is None:
            return self.last.of_marked(channel.key, channel.mark)
        return self.set_of(channel).last

    # --- blocks

    def read_block(self, block: Block, home: Home) -> None:
        """Take in a block: its messages, without repeats."""
        start, next_ = self.blocks.room_at(block.start, min(block.next, self.tail.start))
        records = [(message, headers) for message, headers in _messages(block.records, home) if message.offset >= start]
        records = [(m, h) for m, h in records if m.offset < next_ and m.offset not in self._skipped]
        marked = [(message.offset, message.key, headers) for message, headers in records]
        found, marks = repeats_among(marked, self.blocks.marks_before(start))
        known_from = self.repeats.known_from
        messages = [
            message
            for message, _ in records
            if message.offset not in (found if message.offset < known_from else self.repeats)
        ]
        kept = kept_of(messages, start, next_, unreadable=block.unreadable)
        summary = Summary(start, next_, channels_of(kept.by_channel), marks, block.unreadable)
        # Without the records before it, its repeats are not known: then it only precedes another block.
        self.blocks.add(summary, kept if self._known_before(start) == start else None)

    def _known_before(self, start: int) -> int:
        """Returns `start` if the repeats of a block that begins there can be known; else the offset to read before
        it."""
        if start >= self.repeats.known_from:
            return start
        return self.blocks.unknown_from(max(self.log_start, start - REPEATS_KNOWN_OFFSETS), start)

    def wanted(self) -> Iterator[int]:
        """Yields the first offsets of blocks that are waited for; before them, those of blocks that they may repeat.

        It alternates between the block of the session that lacks least and the next one *onward*, from the log's
        beginning to its end and then from the beginning again: no session waits longer than until it has passed, and
        those it passes travel with it.
        """
        found: dict[int, None] = {}
        for start in chain(self._next(), self.waiting):
            found[self._known_before(start)] = None
            if len(found) == WANTED_MAX:
                break
        yield from found

    def _next(self) -> Sequence[int]:
        if not self.waiting:
            return ()
        if not self._goes_on:
            return (max(self.waiting),)
        self._onward_next = min((at for at in self.waiting if at > self._onward_at), default=min(self.waiting))
        return (self._onward_next,)

    def wait(self, client: RegisteredClient | BlockWaiter, offset: int) -> None:
        """The client's session, or the share, waits for the block with this offset."""
        start = self.blocks.start_of(offset, self.log_start)
        self.waiting.setdefault(start, {})[client] = offset

    def wait_no_more(self, client: RegisteredClient | BlockWaiter, offset: int) -> None:
        """Stop the client's wait."""
        for start, clients in list(self.waiting.items()):
            if clients.get(client) == offset:
                del clients[client]
                if not clients:
                    del self.waiting[start]
                return

    def stop(self, client: RegisteredClient, stream: MessageStream) -> None:
        """End the row of pages of the client's session."""
        if stream.row.waits_for != NO_CURSOR:
            self.wait_no_more(client, stream.row.waits_for)
        self.fill_pages(-stream.stop())

    def fill_pages(self, by_bytes: int) -> None:
        """Count bytes of pages that are being assembled; below 0: pages that left."""
        self.pages_bytes += by_bytes

    def take_served(self, block: Block | None) -> list[RegisteredClient | BlockWaiter]:
        """Returns the clients and shares whose wait is over, now that this block has come, or retention has removed
        what they waited for.

        The block may end before what some wait for: they go on waiting, in their turn, for the next one.
        """
        if block is not None:
            if self._goes_on and block.start <= self._onward_next < block.next:
                self._onward_at = self._onward_next
            self._goes_on = not self._goes_on
        served: list[RegisteredClient | BlockWaiter] = []
        waiting: dict[int, dict[RegisteredClient | BlockWaiter, int]] = {}
        for start, clients in self.waiting.items():
            over = block is not None and block.start <= start < block.next
            for client, offset in clients.items():
                if offset < self.log_start or (block is not None and block.start <= offset < block.next):
                    served.append(client)
                else:
                    at = self.blocks.start_of(offset, self.log_start) if over else start
                    waiting.setdefault(at, {})[client] = offset
        self.waiting = waiting
        return served


def _messages(records: Sequence[MessageRecord], home: Home) -> Iterator[tuple[ChannelMessage, MessageHeaders]]:
    for record in records:
        try:
            message, right = understand(record, home, known=False)
        except InvalidRecord:
            continue
        if right == home.partition and isinstance(record.headers, MessageHeaders):
            yield message, record.headers
