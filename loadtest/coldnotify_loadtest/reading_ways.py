"""Three ways of reading a log for clients that are behind, on the same drawn work: blocks, readers, caravans. Pure.

    blocks                the shipped code: the matcher's ChannelLog decides which block is read next, what is kept, and
                          what is skipped; only the pages are a model
    one reader a client   a model: each reads all from its client's place to the end, one block in turn
    two caravans          a model of Wormhole's readers: each serves the clients that are at its place, and those that
                          are further on once it gets there. It waits until all have taken its block. The clients are
                          split where they wait least in sum, and anew when one reader is free; a reader that arrives
                          at the other one's place joins it

Time is counted in turns: in a turn one block is read, whoever reads it, because all readers share what a matcher may
spend on them. In a turn a client is told a page at most.
"""

import random
from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import NamedTuple

from coldnotify_matcher.engine import Block, MessageRecord
from coldnotify_matcher.engine.channel_bounds import ChannelBounds
from coldnotify_matcher.engine.channel_logs.channel_log import ChannelLog
from coldnotify_matcher.engine.channel_logs.kept_blocks import BLOCK_OFFSETS
from coldnotify_matcher.engine.channel_logs.message_records import Home, Message
from coldnotify_matcher.engine.clients import Client
from coldnotify_matcher.engine.interests.by_channel import channel_mark
from coldnotify_schemas.channels import NO_HEADERS, Retention, Retentions
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.protocol import MESSAGE_BYTES_MAX

_PARTITIONS = 8


class DrawnLog:
    """A log whose messages are each of a channel drawn at random."""

    def __init__(self, messages: int, channels: int, seed: int = 1) -> None:
        self._chance = random.Random(seed)
        self.channel_at = array("I", self._chance.choices(range(channels), k=messages))
        """By offset."""
        self._by_channel = [array("I") for _ in range(channels)]
        for offset, channel in enumerate(self.channel_at):
            self._by_channel[channel].append(offset)

    def __len__(self) -> int:
        return len(self.channel_at)

    def draw_channels(self, count: int) -> list[int]:
        """So many different ones that somebody wants."""
        return self._chance.sample(range(len(self._by_channel)), count)

    def draw_behind(self, lag: int) -> int:
        """How many messages somebody is behind who was away that long: half of them to all, less than the log has."""
        return min(self._chance.randint((lag + 1) // 2, lag), len(self) - 1)

    def offsets(self, channels: Sequence[int]) -> "array[int]":
        """Of these channels' messages, in order."""
        return array("I", sorted(offset for channel in channels for offset in self._by_channel[channel]))

    def above(self, channels: Sequence[int], offset: int) -> int:
        """How many messages these channels have above it."""
        found = (self._by_channel[channel] for channel in channels)
        return sum(len(offsets) - bisect_right(offsets, offset) for offsets in found)


class Away(NamedTuple):
    """A client that comes back."""

    begins: int
    """The first offset that it lacks."""
    channels: Sequence[int]
    wanted: "array[int]"
    """The offsets of their messages."""


@dataclass
class Reading:
    """What one way of reading takes."""

    records: int = 0
    """Read from the log, and decoded."""
    turns: list[int] = field(default_factory=list)
    """Of each client, until it was told all."""


class Followed:
    """A matcher's log that was followed from its beginning: tail and summaries are there, blocks are not."""

    def __init__(self, drawn: DrawnLog, bounds: ChannelBounds, payload_bytes: int) -> None:
        self._drawn, self._payload = drawn, bytes(payload_bytes)
        domain, group = "animal.observer", "region-1"
        self._prefix = f"{domain}/{group}/"
        home = partition_of(domain, group, _PARTITIONS)
        self._home = Home(home, _PARTITIONS, Retentions(), MESSAGE_BYTES_MAX)
        self._log = ChannelLog(Retention.DAY, 1, bounds)
        self._log.start(0, 0, through=0)
        for offset, channel in enumerate(drawn.channel_at):
            message = Message(self._key(channel), offset, self._payload, "", "", 0, None, ())
            self._log.take_in(message, NO_HEADERS)

    def _key(self, channel: int) -> str:
        return f"{self._prefix}{channel}"

    def read(self, clients: Sequence[Away], page: int) -> Reading:
        """By blocks. `page`: so many messages."""
        log, reading, turn = deepcopy(self._log), Reading(), 0
        away = {Client(f"{self._prefix}{number}"): client for number, client in enumerate(clients)}
        at = {client: one.begins for client, one in away.items()}
        marks = {id(one): [channel_mark(self._key(channel)) for channel in one.channels] for one in away.values()}
        ready = list(away)
        while ready or log.waiting:
            turn += 1
            full: list[Client] = []
            for client in ready:
                one = away[client]
                at[client], is_full = _fill_page(log, client, one, marks[id(one)], at[client], page)
                if is_full:
                    full.append(client)
                elif at[client] >= log.position:
                    reading.turns.append(turn)
            start = next(log.wanted(), None)
            ready = full
            if start is not None:
                block = self._block(start)
                reading.records += len(block.records)
                log.read_block(block, self._home)
                ready = full + log.take_served(block)
        return reading

    def _block(self, start: int) -> Block:
        next_ = min(start + BLOCK_OFFSETS, len(self._drawn))
        records = [
            MessageRecord(
                Retention.DAY, self._key(self._drawn.channel_at[offset]).encode(), self._payload, NO_HEADERS, offset, 0
            )
            for offset in range(start, next_)
        ]
        return Block(Retention.DAY, start, next_, 0, records)


def _fill_page(
    log: ChannelLog, client: Client, one: Away, marks: Sequence[int], at: int, room: int
) -> tuple[int, bool]:
    """As the engine fills a page: (the next offset that the client lacks, whether the page is full)."""
    while at < log.position:
        if bisect_left(one.wanted, at) == len(one.wanted):
            return log.position, False
        kept = None if at >= log.tail.start else log.blocks.kept_at(at)
        if kept is not None or at >= log.tail.start:
            at, told = _tell(one.wanted, at, log.position if kept is None else kept.next, room)
            room -= told
            if not room:
                return at, True
            continue
        summary = log.blocks.at(at)
        if summary is not None and not summary.may_have(marks):
            at = summary.next
            continue
        log.wait(client, at)
        break
    return at, False


def _tell(wanted: Sequence[int], at: int, next_: int, room: int) -> tuple[int, int]:
    """(the next offset, how many are told) of the wanted ones from `at` to below `next_`, at most `room`."""
    first, last = bisect_left(wanted, at), bisect_left(wanted, next_)
    if last - first < room:
        return next_, last - first
    return wanted[first + room - 1] + 1, room


def one_reader_a_client(end: int, clients: Sequence[Away], page: int) -> Reading:
    """Each client has a reader of its own; they read in turn."""
    reading, turn = Reading(), 0
    queue = deque((one.begins, one) for one in clients)
    while queue:
        turn += 1
        at, one = queue.popleft()
        next_ = min(at - at % BLOCK_OFFSETS + BLOCK_OFFSETS, end)
        reading.records += next_ - at
        pages = -(-(bisect_left(one.wanted, next_) - bisect_left(one.wanted, at)) // page)
        if next_ == end:
            reading.turns.append(turn + max(pages - 1, 0))
        else:
            queue.append((next_, one))
    return reading


class _Caravan:
    """A reader, the clients that it serves, and those that it will come to."""

    def __init__(self, clients: Sequence[Away]) -> None:
        self.clients = list(clients)
        """By where they begin."""
        self.at = clients[0].begins
        self._left: list[tuple[int, Away]] = []
        """Who has not taken all of what was read, and the next offset of each."""

    def take(self, page: int) -> None:
        """Each is told a page of what was read."""
        left = []
        for at, one in self._left:
            at, _ = _tell(one.wanted, at, self.at, page)
            if at < self.at:
                left.append((at, one))
        self._left = left

    @property
    def waits(self) -> bool:
        """Whether some have not taken all."""
        return bool(self._left)

    def read(self, end: int) -> int:
        """The next block, for who is there: how many records."""
        before = self.at
        self.at = min(before - before % BLOCK_OFFSETS + BLOCK_OFFSETS, end)
        served = self.clients[: self._reached()]
        self._left = [(max(before, one.begins), one) for one in served]
        return self.at - before

    def split(self, end: int) -> list["_Caravan"]:
        """This one, and one for those further on, if all together wait less then. Both read in turn."""
        behind, count = end - self.at, len(self.clients)
        best, place = count * behind, count
        for first in range(max(self._reached(), 1), count):
            rest = end - self.clients[first].begins
            waits = (count - first) * 2 * rest + first * (behind + rest)
            if waits < best:
                best, place = waits, first
        front, self.clients = self.clients[place:], self.clients[:place]
        return [self, _Caravan(front)] if front else [self]

    def _reached(self) -> int:
        """How many clients it has come to."""
        return bisect_left(self.clients, self.at, key=lambda one: one.begins)


def two_caravans(end: int, clients: Sequence[Away], page: int) -> Reading:
    """Two readers serve all clients."""
    reading, turn = Reading(), 0
    caravans = _Caravan(sorted(clients, key=lambda one: one.begins)).split(end)
    while caravans:
        turn += 1
        for caravan in [one for one in caravans if not one.waits and one.at < end][:1]:
            reading.records += caravan.read(end)
            # The other one is next.
            caravans.remove(caravan)
            caravans.append(caravan)
        for caravan in list(caravans):
            caravan.take(page)
            if caravan.at == end and not caravan.waits:
                reading.turns += [turn] * len(caravan.clients)
                caravans.remove(caravan)
                caravans = [part for one in caravans for part in one.split(end)]
        if len({one.at for one in caravans}) < len(caravans) and not any(one.waits for one in caravans):
            rear, front = sorted(caravans, key=lambda one: one.clients[0].begins)
            rear.clients += front.clients
            caravans = rear.split(end)
    return reading
