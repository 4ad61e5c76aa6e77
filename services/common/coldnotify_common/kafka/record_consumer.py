"""A Kafka consumer that no record ends or stops: what of a partition cannot be read comes as a `Gap`, and it goes on.

All of our consumers read by it, with `read`. An error of one offset is none of the connection: the offset is looked at
again by a consumer of its own (unreadable_offsets.py), in a thread, while all other partitions are read on. A partition
from which nothing comes although Kafka has more of it is looked at, too.

Nor does a record that says another offset than its own. Kafka takes it, and its client believes it, and reads on behind
that offset. It is seen by saying an offset that Kafka does not have yet, or by records behind it that say lower ones.
One that says a lower offset itself is dropped: the records before it are right.
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
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from coldnotify_common.kafka.unreadable_offsets import BEYOND, Gap, GapSearch, is_of_offset, may_have_ended
from coldnotify_common.paced import Paced

__all__ = ["Gap", "RecordConsumer"]

_paced = Paced(structlog.get_logger())

STALL_S = 2.0
"""Without a record of a partition of which Kafka has more, until it is looked at. What is read is there in some ms."""
STALL_S_MAX = 60.0
"""The same once looks have shown that all is well: behind a transaction that is open nothing comes, either."""
_NEXT_STALL_S = 0.3
"""The same behind what could not be read."""
_LOOK_EVERY_S = 0.25
_JOIN_S = 2.0
_ASK_S = 2.0
"""For where a partition begins, once, and only if no fetch has told it."""

_Where = tuple[str, int]


@dataclass(slots=True)
class _Place:
    """One partition that is read."""

    next: int | None
    """The offset that is to be handed out next; None: wherever it was told to begin."""
    moved_s: float
    """When something of it came last, or it was looked at."""
    stall_s: float = STALL_S
    paused: bool = False
    looked_at: bool = False
    """It is being looked at, or is to be."""
    damaged: bool = False
    """The same, for an error: what comes meanwhile is of no use."""
    sound: int | None = None
    """From here on it was looked at last without finding anything: who says what it is not comes later."""


class _Run(NamedTuple):
    """What one call has read of a partition."""

    begin: int
    """The offset that was to come first."""
    said: list[tuple[int, int]]
    """Of each record that is handed out, its place among all of them, and the offset that it says."""

    def first_jump(self) -> int | None:
        """The first offset that does not follow the one before."""
        expected = self.begin
        for _, offset in self.said:
            if offset != expected:
                return offset
            expected += 1
        return None

    def expected(self, offset: int) -> int:
        """The offset that comes behind the last one that is lower than this."""
        return next((said + 1 for _, said in reversed(self.said) if said < offset), self.begin)

    def without(self, offset: int, handed: list[Message | None]) -> int:
        """Take back what says this offset or a higher one; returns the offset that was to come in its place."""
        while self.said and self.said[-1][1] >= offset:
            handed[self.said.pop()[0]] = None
        return self.expected(offset)


class _Looked(NamedTuple):
    """A search has ended."""

    where: _Where
    place: _Place
    start: int
    gap: Gap | None
    sound: bool
    """What stands there can be read, and stands at its own offset."""


class RecordConsumer(Consumer):
    """As confluent_kafka's, but for `read`, which stands for `poll` and `consume`. For use by one thread."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        self._config = config
        self._resets_by_error = config.get("auto.offset.reset") == "error"
        """Else the client may begin anew at a lower offset, and says nothing."""
        self._places: dict[_Where, _Place] = {}
        self._looked: queue.SimpleQueue[_Looked] = queue.SimpleQueue()
        self._to_search: deque[tuple[_Where, _Place, int]] = deque()
        self._searching: threading.Thread | None = None
        self._stopping = threading.Event()
        self._look_s = 0.0

    def read(self, timeout_s: float, records_max: int = 1) -> list[Message | Gap]:
        """What there is, in the order of each partition's offsets; waits at most so long for the first of it.

        A Gap stands for what cannot be read. Messages may say an error: the end of a partition, or one of the
        connection; never one of an offset.
        """
        # consume(n, timeout) waits for n records or the whole timeout: poll wakes at the first one.
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

    # ---- what is read, and from where on -------------------------------------------------------------------------

    def assign(self, partitions: list[TopicPartition]) -> None:
        """See Consumer."""
        self._places = self._begun(partitions)
        super().assign(partitions)

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """See Consumer."""
        self._places |= self._begun(partitions)
        super().incremental_assign(partitions)

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        """See Consumer."""
        for tp in partitions:
            self._places.pop((tp.topic, tp.partition), None)
        super().incremental_unassign(partitions)

    def unassign(self) -> None:
        """See Consumer."""
        self._places = {}
        super().unassign()

    def seek(self, partition: TopicPartition) -> None:
        """See Consumer."""
        super().seek(partition)
        where = partition.topic, partition.partition
        paused = where in self._places and self._places[where].paused
        self._places |= self._begun([partition])
        self._places[where].paused = paused

    def pause(self, partitions: list[TopicPartition]) -> None:
        """See Consumer."""
        super().pause(partitions)
        self._set_paused(partitions, paused=True)

    def resume(self, partitions: list[TopicPartition]) -> None:
        """See Consumer."""
        super().resume(partitions)
        self._set_paused(partitions, paused=False)

    def close(self) -> None:
        """See Consumer. A search that is under way is given up."""
        self._stopping.set()
        if self._searching is not None:
            self._searching.join(_JOIN_S)
        super().close()

    @staticmethod
    def _begun(partitions: list[TopicPartition]) -> dict[_Where, _Place]:
        now_s = time.monotonic()
        return {(tp.topic, tp.partition): _Place(tp.offset if tp.offset >= 0 else None, now_s) for tp in partitions}

    def _set_paused(self, partitions: list[TopicPartition], *, paused: bool) -> None:
        now_s = time.monotonic()
        for tp in partitions:
            if (place := self._places.get((tp.topic, tp.partition))) is not None:
                place.paused, place.moved_s = paused, now_s

    # ---- what cannot be read -------------------------------------------------------------------------------------

    def _believed(self, messages: Sequence[Message], now_s: float) -> list[Message]:
        """Those that are handed out."""
        handed: list[Message | None] = []
        runs: dict[_Where, _Run] = {}
        for message in messages:
            where = message.topic() or "", -1 if (number := message.partition()) is None else number
            place = self._places.get(where)
            if place is not None and place.next is None:
                place.next = self._begin_of(where)
            error, run = message.error(), runs.get(where)
            if place is not None and error is not None and error.code() in BEYOND and run is not None:
                jump = run.first_jump()
                if jump is not None and not place.damaged and run.expected(jump) != place.sound:
                    # The client asked for what is behind an offset that there is not.
                    self._suspect(where, place, run.without(jump, handed))
                    continue
            if place is None or place.damaged or place.next is None or error is not None:
                if self._take(message, now_s):
                    handed.append(message)
                continue
            offset = message.offset() or 0
            run = runs.setdefault(where, _Run(place.next, []))
            if offset < place.next and self._resets_by_error:
                # Of the client's offsets none is lower than the one before: one of the two says what it is not. Where
                # no hole is left for the earlier one, or none was found in it, it is this one.
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
            # Behind an offset that there is not, the client asks in vain, and forgets where the partition ends.
            end = self._watermarks(where)[1] or run.first_jump()
            if end is not None and run.said[-1][1] >= end:
                self._suspect(where, place, run.without(end, handed))
        return [message for message in handed if message is not None]

    def _watermarks(self, where: _Where) -> tuple[int | None, int | None]:
        """The first offset that Kafka has told of, and the one behind the last; None: it has not."""
        try:
            low, high = self.get_watermark_offsets(TopicPartition(*where), cached=True)
        except KafkaException:
            return None, None
        return low if low >= 0 else None, high if high > 0 else None

    def _begin_of(self, where: _Where) -> int | None:
        """The offset that comes first where none was named; None: Kafka does not say."""
        low, _ = self._watermarks(where)
        if low is None:
            with suppress(KafkaException):
                low, _ = self.get_watermark_offsets(TopicPartition(*where), timeout=_ASK_S)
        return low

    def _suspect(self, where: _Where, place: _Place, start: int) -> None:
        """Have a partition looked at from here on, and hand out nothing of it meanwhile."""
        place.next, place.damaged = start, True
        self._search(where, place, start)

    def _take(self, message: Message, now_s: float) -> bool:
        """Whether the message is handed out."""
        error, offset = message.error(), message.offset()
        # One of the consumer itself is of no partition.
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
                # The client made it of damaged bytes, and has been sent elsewhere since. With the answer that came too
                # late it has ended fetching all the same, and forgets where the partition ends.
                self._suspect((str(message.topic()), int(message.partition() or 0)), place, place.next)
            return not place.damaged
        if not is_of_offset(error):
            return True
        if not place.damaged:
            place.damaged = True
            # The error says the first offset of the batch, of which the beginning may be read already.
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
            start = max(low, 0) if place.next is None else place.next
            if high > start or (place.next is not None and may_have_ended(self, where)):
                place.stall_s = min(2 * place.stall_s, STALL_S_MAX)
                self._search(where, place, start)

    def _search(self, where: _Where, place: _Place, start: int) -> None:
        if not place.looked_at:
            place.looked_at = True
            self._to_search.append((where, place, start))

    def _search_next(self) -> None:
        """Begin the next search, if there is one and none is under way."""
        if not self._to_search or (self._searching is not None and self._searching.is_alive()):
            return
        args = self._to_search.popleft()
        self._searching = threading.Thread(target=self._run_search, args=args, name="gap-search", daemon=True)
        self._searching.start()

    def _run_search(self, where: _Where, place: _Place, start: int) -> None:
        gap, sound = None, False
        try:
            search = GapSearch(self._config, lambda: self._stopping.is_set() or self._places.get(where) is not place)
            try:
                gap = search.find(*where, start)
                sound = gap is None and search.answered
            finally:
                search.close()
        except KafkaException as error:
            _paced.log("what cannot be read is not known", level="warning", topic=where[0], error=str(error))
        self._looked.put(_Looked(where, place, start, gap, sound))

    def _go_to(self, partition: TopicPartition, place: _Place) -> bool:
        """False: the partition is being taken away."""
        with suppress(KafkaException):
            super().seek(partition)
            return True
        # Where damaged bytes were taken for an offset that there is not, the client has ended fetching.
        with suppress(KafkaException):
            super().incremental_unassign([partition])
            super().incremental_assign([partition])
            if place.paused:
                super().pause([partition])
            return True
        return False

    def _skip(self, looked: _Looked, now_s: float) -> Gap | None:
        """Go on behind what cannot be read; if it was an error that passes, at the place where it was."""
        where, place, start, gap, sound = looked
        ended = place.next == start and may_have_ended(self, where)
        was_damaged, place.damaged, place.looked_at = place.damaged or ended, False, False
        place.moved_s = now_s
        if self._places.get(where) is not place:
            return None  # it is read from elsewhere
        if place.next is not None and place.next > start:
            # It was read meanwhile, and maybe to what is to be looked at now.
            if was_damaged:
                self._suspect(where, place, place.next)
            return None
        if gap is None and not was_damaged:
            return None
        place.sound = start if sound else None
        if not self._go_to(TopicPartition(*where, start if gap is None else gap.next), place) or gap is None:
            return None
        # Where one stands there may be others, and nothing says so.
        place.next, place.stall_s = gap.next, _NEXT_STALL_S
        _paced.log(
            "what cannot be read is skipped", level="warning", topic=gap.topic, partition=gap.partition,
            offsets=f"{gap.start} to {gap.next - 1}", reason=gap.reason,
        )  # fmt: skip
        return gap
