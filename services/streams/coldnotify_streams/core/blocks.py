"""Chooses the next block of a log to read, and when: one at a time, for a share of the member's time. Pure.

Blocks serve readers that resume from further back than a job keeps of a log. Each step asks the partitions that had
something to do which blocks they want; a partition that wants some gets its turn, and chooses the block itself. A block
costs the time of its reader and of the step that handles it. After a block the run pauses for so long that blocks take
`Limits.blocks_share` of the time, because live readers must not wait for those that catch up.

A record that failed in a partition is left out of its block like an unreadable one, because it would fail again at
every reading. So is a whole block if it is not known which record is to blame.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from coldnotify_common.rest import Rest

from coldnotify_streams.core.actions import ReadBlock
from coldnotify_streams.core.events import LogBlock
from coldnotify_streams.core.job import JobPartition, Place

REST_MAX_S = 2.0
"""The longest pause, however long a block took: clients wait for the next one."""
_WHOLE = "block of "
"""Prefix of a log's name: used as the topic of a Place, it marks the whole block that begins there."""


class RunBlocks:
    """The blocks of one run."""

    def __init__(self, share: float) -> None:
        """`share`: the largest share of the time that blocks take."""
        self._rest = Rest(1 / share - 1, REST_MAX_S)
        self._wanting: dict[int, None] = {}
        """Partitions that want blocks, in the order of their turns."""
        self._asked: tuple[JobPartition, ReadBlock] | None = None
        self._read_s: float | None = None
        """Reading time of the block that this step has handled."""

    def look_at(self, partitions: Iterable[JobPartition]) -> None:
        """Notes which of these partitions want blocks."""
        for partition in partitions:
            if partition.wanted_blocks():
                self._wanting.setdefault(partition.number)
            else:
                self._wanting.pop(partition.number, None)

    def next(self, owned: Mapping[int, JobPartition], now_s: float) -> ReadBlock | None:
        """Returns the block to read now, or None."""
        if self._asked is not None or not self._wanting or self._rest.left_s(now_s):
            return None
        for number in list(self._wanting):
            del self._wanting[number]
            partition = owned.get(number)
            wanted = () if partition is None else partition.wanted_blocks()
            if partition is not None and wanted:
                self._wanting[number] = None  # behind all others
                topic, start = wanted[0]
                self._asked = partition, ReadBlock(topic, number, start)
                return self._asked[1]
        return None

    def due_in_s(self, now_s: float) -> float | None:
        """Returns after how many seconds `next` may return a block without a new event; None if only an event can lead
        to one.
        """
        return self._rest.left_s(now_s) if self._wanting and self._asked is None else None

    def take(self, block: LogBlock) -> JobPartition | None:
        """Notes that a block has arrived. Returns the partition that wanted it; by now it may have been replaced."""
        asked, self._asked = self._asked, None
        self._read_s = block.read_s
        return None if asked is None else asked[0]

    def on_stepped(self, began_s: float, ended_s: float) -> None:
        """Notes the beginning and end of a step."""
        if self._read_s is not None:
            self._rest.begin(began_s - self._read_s, ended_s)
            self._read_s = None


def without(block: LogBlock, aside: Mapping[Place, str]) -> LogBlock:
    """Returns the block up to the first record that is set aside; if it begins with that record, an unreadable block
    for it.
    """
    if place_of(block) in aside:
        return replace(block, records=(), unreadable=True)
    for at, record in enumerate(block.records):
        if (record.topic, record.offset) not in aside:
            continue
        if at or record.offset > block.start:
            return replace(block, records=block.records[:at], next=record.offset)
        return replace(block, records=(), next=record.offset + 1, unreadable=True)
    return block


def place_of(block: LogBlock) -> Place:
    """Returns the place to set aside if no single record of the block is known to be to blame."""
    return _WHOLE + block.topic, block.start
