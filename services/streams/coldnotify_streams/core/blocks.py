"""Which block of a log is read next, and when: one at a time, for a share of the member's time. Pure.

What lies behind is read for those who come from further back than what a job keeps of a log. Each step asks the
partitions that had something to do which blocks they want; a partition that wants any gets its turn, and chooses the
block itself. A block costs the time of its reader and of the step that handles it. Behind it none is read for so long
that blocks take `Limits.blocks_share` of the time: who is live does not wait for those who are behind.

A record that a partition failed of is left out of its block, as what cannot be read: it would fail again with every
reading. So is a whole block where it is not known which record is to blame.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from coldnotify_common.rest import Rest

from coldnotify_streams.core.actions import ReadBlock
from coldnotify_streams.core.events import Block
from coldnotify_streams.core.job import JobPartition, Place

REST_MAX_S = 2.0
"""However long a block took: clients wait for the next one."""
_WHOLE = "block of "
"""Before a log's name: as the topic of a Place, it stands for the block that begins there."""


class Blocks:
    """The blocks of one run."""

    def __init__(self, share: float) -> None:
        """They take at most this share of the time."""
        self._rest = Rest(1 / share - 1, REST_MAX_S)
        self._wanting: dict[int, None] = {}
        """Partitions that want blocks, in the order of their turns."""
        self._asked: tuple[JobPartition, ReadBlock] | None = None
        self._read_s: float | None = None
        """Of the block that this step has handled."""

    def look_at(self, partitions: Iterable[JobPartition]) -> None:
        """These may want blocks, or none any more."""
        for partition in partitions:
            if partition.wanted_blocks():
                self._wanting.setdefault(partition.number)
            else:
                self._wanting.pop(partition.number, None)

    def next(self, owned: Mapping[int, JobPartition], now_s: float) -> ReadBlock | None:
        """What is to be read now, if anything."""
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
        """When `next` may have one that nothing else calls for; None: not before something comes."""
        return self._rest.left_s(now_s) if self._wanting and self._asked is None else None

    def take(self, block: Block) -> JobPartition | None:
        """A block has come. The partition that had asked for it, which may be another by now."""
        asked, self._asked = self._asked, None
        self._read_s = block.read_s
        return None if asked is None else asked[0]

    def on_stepped(self, began_s: float, ended_s: float) -> None:
        """The step has ended that began then."""
        if self._read_s is not None:
            self._rest.begin(began_s - self._read_s, ended_s)
            self._read_s = None


def without(block: Block, aside: Mapping[Place, str]) -> Block:
    """The block up to the first record that is set aside; where it begins with that, what stands for it."""
    if place_of(block) in aside:
        return replace(block, records=(), unreadable=True)
    for at, record in enumerate(block.records):
        if (record.topic, record.offset) not in aside:
            continue
        if at or record.offset > block.start:
            return replace(block, records=block.records[:at], next=record.offset)
        return replace(block, records=(), next=record.offset + 1, unreadable=True)
    return block


def place_of(block: Block) -> Place:
    """What is set aside where no single record of it is to blame."""
    return _WHOLE + block.topic, block.start
