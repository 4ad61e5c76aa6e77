"""A Kafka consumer that no record can stop: unreadable offsets of a partition come as a `Gap`, and it continues.

All of our consumers use its `read`. An error of one offset is not an error of the connection: a consumer of its own
(unreadable_offsets.py) examines the offset in a thread, while all other partitions are read on. A partition without new
records although Kafka has more is examined, too.

A record that claims another offset than its own does not stop it, either. Kafka accepts such a record, and Kafka's
client trusts it, and continues after that offset. The record is detected because it claims an offset that Kafka does
not have yet, or because records after it claim lower ones. A record that itself claims a lower offset is dropped: the
records before it are right.
"""

import queue
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import structlog
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from coldnotify_common.kafka.consumer_close import close_in_time
from coldnotify_common.kafka.cut_off_nodes import CUT_OFF, NodeCutOff
from coldnotify_common.kafka.unreadable_offsets import (
    BEYOND,
    SEARCH_S_MAX,
    Gap,
    GapSearch,
    is_of_offset,
    may_have_ended,
)
from coldnotify_common.paced import Paced

__all__ = ["TOPIC_IS_ANOTHER", "Gap", "RecordConsumer", "bytes_of"]

_paced = Paced(structlog.get_logger())

TOPIC_IS_ANOTHER = frozenset(
    (
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._AUTO_OFFSET_RESET,
        KafkaError.OFFSET_OUT_OF_RANGE,
    )
)
"""Codes of the errors after which a topic has to be read by a new consumer: it was deleted, and perhaps recreated."""

STALL_S = 2.0
"""Time without a record of a partition that has more, until it is examined. Otherwise, records are there in some ms."""
STALL_S_MAX = 60.0
"""Upper bound of that time, reached once examinations have found no damage: an open transaction also holds records
back."""
_NEXT_STALL_S = 0.3
"""The same limit, directly after a gap."""
_SEARCH_S_LONGEST = 4 * SEARCH_S_MAX
"""Upper bound of the time limit of a search, which doubles while a search has too little time for an answer. Other
partitions' searches wait for it."""
_LOOK_EVERY_S = 0.25
_JOIN_S = 2.0
_ASK_S = 2.0
"""Timeout of the query for a partition's first offset, sent once, and only if no fetch has returned it."""

_Where = tuple[str, int]


@dataclass(slots=True)
class _Place:
    """One assigned partition."""

    next: int | None
    """The offset to return next; None: the position that the consumer started from."""
    moved_s: float
    """Time of its last record, or of the end of its last examination."""
    stall_s: float = STALL_S
    paused: bool = False
    looked_at: bool = False
    """True while it is examined, or waits for that."""
    damaged: bool = False
    """True while it is examined because of an error: records that arrive meanwhile are dropped."""
    at_beginning: bool = False
    """True if the consumer started from the partition's first offset, whatever that is."""
    search_s: float = SEARCH_S_MAX
    """Time limit of its next examination."""
    sound: int | None = None
    """The offset at which the last examination found no damage: a record with a wrong offset comes after it."""

    def starts_at(self, offset: int | None) -> None:
        """Sets the position that the consumer started from; None: it is not known yet."""
        self.next = offset


def bytes_of(data: bytes | str | None) -> bytes | None:
    """Returns a message's key or value as bytes: the client's types say that it may be text."""
    return data.encode() if isinstance(data, str) else data


class _Run(NamedTuple):
    """The records of one partition in one call of `read`."""

    begin: int
    """The offset expected first."""
    said: list[tuple[int, int]]
    """For each returned record its index among all of them, and the offset that it claims."""

    def first_jump(self) -> int | None:
        """Returns the first offset that does not follow the one before, or None."""
        expected = self.begin
        for _, offset in self.said:
            if offset != expected:
                return offset
            expected += 1
        return None

    def expected(self, offset: int) -> int:
        """Returns the offset after the last one that is lower than `offset`."""
        return next((said + 1 for _, said in reversed(self.said) if said < offset), self.begin)

    def without(self, offset: int, handed: list[Message | None]) -> int:
        """Removes the records that claim this offset or a higher one; returns the offset expected in their place."""
        while self.said and self.said[-1][1] >= offset:
            handed[self.said.pop()[0]] = None
        return self.expected(offset)


class _Looked(NamedTuple):
    """The result of a search."""

    where: _Where
    place: _Place
    start: int
    gap: Gap | None
    answered: bool
    """True if the time was enough: without a gap, the record can be read, and is at the offset that it claims."""


class RecordConsumer(Consumer):
    """A confluent_kafka Consumer with `read` instead of `poll` and `consume`. For use by one thread."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        self._config = config
        self._cut_off_count = CUT_OFF.count
        self._resets_by_error = config.get("auto.offset.reset") == "error"
        """If false, the client may silently start again at a lower offset."""
        self._places: dict[_Where, _Place] = {}
        self._looked: queue.SimpleQueue[_Looked] = queue.SimpleQueue()
        self._to_search: deque[tuple[_Where, _Place, int]] = deque()
        self._searching: threading.Thread | None = None
        self._stopping = threading.Event()
        self._look_s = 0.0

    def read(self, timeout_s: float, records_max: int = 1) -> list[Message | Gap]:
        """Returns records in the order of each partition's offsets; waits at most `timeout_s` for the first one.

        A Gap stands for unreadable records. A message may carry an error: the end of a partition, or an error of the
        connection; never an error of an offset. Raises NodeCutOff.
        """
        if CUT_OFF.count != self._cut_off_count:
            raise NodeCutOff
        # consume(n, timeout) waits for n records or the whole timeout; poll returns at the first one.
        first = self.poll(timeout_s)
        now_s = time.monotonic()
        read: list[Message | Gap] = []
        if first is not None:
            messages = [first, *(self.consume(records_max - 1, 0) if records_max > 1 else ())]
            read += self._believed(messages, now_s)
        if now_s >= self._look_s:
            self._look_s = now_s + _LOOK_EVERY_S
            self._look_for_stalls(now_s)
        while not self._looked.empty():
            looked = self._looked.get()
            if (gap := self._skip(looked, now_s)) is not None:
                read.append(gap)
        self._search_next()
        return read

    # ---- positions ------------------------------------------------------------------------------------------------

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Replaces the assigned partitions, see Consumer."""
        self._places = self._begun(partitions)
        super().assign(partitions)

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """Adds partitions, see Consumer."""
        self._places |= self._begun(partitions)
        super().incremental_assign(partitions)

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        """Removes partitions, see Consumer."""
        for tp in partitions:
            self._places.pop((tp.topic, tp.partition), None)
        super().incremental_unassign(partitions)

    def unassign(self) -> None:
        """Removes all partitions, see Consumer."""
        self._places = {}
        super().unassign()

    def seek(self, partition: TopicPartition) -> None:
        """Moves the position of a partition, see Consumer."""
        super().seek(partition)
        where = partition.topic, partition.partition
        paused = where in self._places and self._places[where].paused
        self._places |= self._begun([partition])
        self._places[where].paused = paused

    def pause(self, partitions: list[TopicPartition]) -> None:
        """Pauses partitions, see Consumer."""
        super().pause(partitions)
        self._set_paused(partitions, paused=True)

    def resume(self, partitions: list[TopicPartition]) -> None:
        """Resumes partitions, see Consumer."""
        super().resume(partitions)
        self._set_paused(partitions, paused=False)

    def close(self) -> None:
        """Closes the consumer, see Consumer. A search under way is cancelled."""
        self._stopping.set()
        if self._searching is not None:
            self._searching.join(_JOIN_S)
        close_in_time(super().close)

    @staticmethod
    def _begun(partitions: list[TopicPartition]) -> dict[_Where, _Place]:
        now_s = time.monotonic()
        return {
            (tp.topic, tp.partition): _Place(
                tp.offset if tp.offset >= 0 else None, now_s, at_beginning=tp.offset == OFFSET_BEGINNING
            )
            for tp in partitions
        }

    def _set_paused(self, partitions: list[TopicPartition], *, paused: bool) -> None:
        now_s = time.monotonic()
        for tp in partitions:
            if (place := self._places.get((tp.topic, tp.partition))) is not None:
                place.paused, place.moved_s = paused, now_s

    # ---- unreadable records ---------------------------------------------------------------------------------------

    def _believed(self, messages: Sequence[Message], now_s: float) -> list[Message]:
        """Returns the messages to hand out, without those at wrong offsets."""
        handed: list[Message | None] = []
        runs: dict[_Where, _Run] = {}
        for message in messages:
            where = message.topic() or "", -1 if (number := message.partition()) is None else number
            place = self._places.get(where)
            if place is not None and place.next is None:
                place.starts_at(self._begin_of(where))
            error, run = message.error(), runs.get(where)
            if place is not None and error is not None and error.code() in BEYOND and run is not None:
                jump = run.first_jump()
                if jump is not None and not place.damaged and run.expected(jump) != place.sound:
                    # The client requested records after an offset that does not exist.
                    self._suspect(where, place, run.without(jump, handed))
                    continue
            if place is None or place.damaged or place.next is None or error is not None:
                if self._take(message, now_s):
                    handed.append(message)
                continue
            offset = message.offset() or 0
            run = runs.setdefault(where, _Run(place.next, []))
            if offset < place.next and self._resets_by_error:
                # The client's offsets never decrease, so one of the two records claims a wrong offset. It is this one
                # if the earlier one left no hole, or if no damage was found in the hole.
                if offset > run.expected(offset) != place.sound:
                    self._suspect(where, place, run.without(offset, handed))
                continue
            run.said.append((len(handed), offset))
            self._take(message, now_s)
            handed.append(message)
        for where, run in runs.items():
            place = self._places[where]
            if place.damaged or not run.said:
                continue
            # After an offset that does not exist, the client fetches in vain, and forgets the end of the partition.
            end = self._watermarks(where)[1] or run.first_jump()
            if end is not None and run.said[-1][1] >= end:
                self._suspect(where, place, run.without(end, handed))
        return [message for message in handed if message is not None]

    def _watermarks(self, where: _Where) -> tuple[int | None, int | None]:
        """Returns the first offset and the one after the last, as last reported by Kafka; None for one not reported."""
        try:
            low, high = self.get_watermark_offsets(TopicPartition(*where), cached=True)
        except KafkaException:
            return None, None
        return low if low >= 0 else None, high if high > 0 else None

    def _begin_of(self, where: _Where) -> int | None:
        """Returns the partition's first offset, for an assignment without an offset; None if Kafka does not report
        it."""
        low, _ = self._watermarks(where)
        if low is None:
            with suppress(KafkaException):
                low, _ = self.get_watermark_offsets(TopicPartition(*where), timeout=_ASK_S)
        return low

    def _suspect(self, where: _Where, place: _Place, start: int) -> None:
        """Starts an examination of a partition at `start`, and returns none of its records meanwhile."""
        place.next, place.damaged = start, True
        self._search(where, place, start)

    def _take(self, message: Message, now_s: float) -> bool:
        """Returns true if the message is handed out."""
        error, offset = message.error(), message.offset()
        # An error of the consumer itself belongs to no partition.
        place = self._places.get((message.topic() or "", -1 if (p := message.partition()) is None else p))
        if place is None:
            return True
        if error is None or error.code() == KafkaError._PARTITION_EOF:
            if place.damaged:
                return False
            place.next = (offset or 0) + (error is None)
            place.moved_s, place.stall_s = now_s, STALL_S
            return True
        if error.code() in BEYOND:
            if not place.damaged and place.next is not None and offset != place.next:
                # The client derived this offset from damaged bytes, and was moved elsewhere since. The late answer has
                # stopped its fetching all the same, and it forgets the end of the partition.
                self._suspect((str(message.topic()), int(message.partition() or 0)), place, place.next)
            return not place.damaged
        if not is_of_offset(error):
            return True
        if not place.damaged:
            place.damaged = True
            # The error carries the first offset of the batch, whose beginning may already have been returned.
            start = max(offset or 0, 0) if place.next is None else place.next
            self._search((str(message.topic()), int(message.partition() or 0)), place, start)
        return False

    def _look_for_stalls(self, now_s: float) -> None:
        for where, place in self._places.items():
            if place.paused or place.looked_at or now_s - place.moved_s < place.stall_s:
                continue
            try:
                low, high = self.get_watermark_offsets(TopicPartition(*where), cached=True)
            except KafkaException:
                continue  # it was not fetched from so far
            if place.next is None and place.at_beginning and may_have_ended(self, where):
                place.starts_at(self._begin_of(where))
            start = max(low, 0) if place.next is None else place.next
            if high > start or (place.next is not None and may_have_ended(self, where)):
                place.stall_s = min(2 * place.stall_s, STALL_S_MAX)
                self._search(where, place, start)

    def _search(self, where: _Where, place: _Place, start: int) -> None:
        if not place.looked_at:
            place.looked_at = True
            self._to_search.append((where, place, start))

    def _search_next(self) -> None:
        """Starts the next search, if one is waiting and none is under way."""
        if not self._to_search or (self._searching is not None and self._searching.is_alive()):
            return
        args = self._to_search.popleft()
        self._searching = threading.Thread(target=self._run_search, args=args, name="gap-search", daemon=True)
        self._searching.start()

    def _run_search(self, where: _Where, place: _Place, start: int) -> None:
        search, gap, answered = None, None, False
        try:
            search = GapSearch(self._config, lambda: self._stopping.is_set() or self._places.get(where) is not place)
            gap = search.find(*where, start, place.search_s)
            answered = search.answered
        except KafkaException as error:
            _paced.log("what cannot be read is not known", level="warning", topic=where[0], error=str(error))
        finally:
            # The partition is read on while the search closes.
            self._looked.put(_Looked(where, place, start, gap, answered))
            if search is not None:
                search.close()

    def _go_to(self, partition: TopicPartition, place: _Place) -> bool:
        """Moves the position. Returns false if the partition is being taken away."""
        with suppress(KafkaException):
            super().seek(partition)
            return True
        # If damaged bytes were taken for an offset that does not exist, the client has stopped fetching.
        with suppress(KafkaException):
            super().incremental_unassign([partition])
            super().incremental_assign([partition])
            if place.paused:
                super().pause([partition])
            return True
        return False

    def _skip(self, looked: _Looked, now_s: float) -> Gap | None:
        """Moves behind an unreadable gap; after a temporary error, returns to the same position."""
        where, place, start, gap, answered = looked
        ended = place.next == start and may_have_ended(self, where)
        was_damaged, place.damaged, place.looked_at = place.damaged or ended, False, False
        place.moved_s = now_s
        place.search_s = SEARCH_S_MAX if answered else min(2 * place.search_s, _SEARCH_S_LONGEST)
        if self._places.get(where) is not place:
            return None  # it is read from another position
        if place.next is not None and place.next > start:
            # Records were returned meanwhile, perhaps up to the damage that has to be examined now.
            if was_damaged:
                self._suspect(where, place, place.next)
            return None
        if gap is None and not was_damaged:
            return None
        place.sound = start if answered and gap is None else None
        if not self._go_to(TopicPartition(*where, start if gap is None else gap.next), place) or gap is None:
            return None
        # Other unreadable records may follow, without any error.
        place.next, place.stall_s = gap.next, _NEXT_STALL_S
        _paced.log(
            "what cannot be read is skipped", level="warning", topic=gap.topic, partition=gap.partition,
            offsets=f"{gap.start} to {gap.next - 1}", reason=gap.reason,
        )  # fmt: skip
        return gap
