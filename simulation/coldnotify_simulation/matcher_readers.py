"""The readers of a simulated matcher's run: requests, compacted topics, logs, and the standby's topics.

Each reader is a position in a log. How much of the log a look returns is drawn at random.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from random import Random

from coldnotify_matcher.record_headers import HeadersReader
from coldnotify_schemas.topics import TopicNames
from coldnotify_streams.core.events import (
    Began,
    Event,
    JobRecord,
    LogBlock,
    LogsBegan,
    ReaderFailed,
    Records,
    UnreadableOffsets,
    Where,
)
from coldnotify_streams.core.partition_progress import JobTopics

from coldnotify_simulation.kafka import Kafka, PartitionLog

TOPICS = TopicNames()
headers_of = HeadersReader(TOPICS)

NOTHING_UNREAD = 1 << 62
"""Above all offsets."""
_FOLLOWED_RECORDS_MAX = 20
_BLOCK_RECORDS = (1, 3, 10)
"""Records in a block: a log of the simulation is short."""
_STANDBY_FAILS = 0.001
"""The probability that the standby's reader has failed at a look."""


class MatcherReaders:
    """The readers of one run, from its first assignment to its end."""

    def __init__(self, kafka: Kafka, random: Random, topics_read: JobTopics) -> None:
        self._kafka = kafka
        self._topics = topics_read
        self._random = random
        self._topic_ids: dict[Where, str] = {}
        self._read: dict[Where, int] = {}
        """Positions of the three readers."""
        self._ended: set[Where] = set()
        """Places whose end was reported, without a record since."""
        self._stale: dict[int, list[JobRecord]] = {}
        """Read of the compacted topics before they were dropped, and still on the way."""
        self._stale_logs: dict[int, list[JobRecord]] = {}
        """Stale records of the logs."""
        self._reading: set[int] = set()
        self._logs: dict[int, list[Where]] = {}
        """The logs that are read, by partition."""
        self._held_back: set[int] = set()
        self._serving: set[int] = set()
        self._follows: dict[Where, int] = {}
        """Positions of the standby's reader."""
        self._followed_ended: set[Where] = set()
        self._followed_events: deque[Event] = deque()

    # ---- what the run wants read

    def assign(self, number: int, requests_start: int) -> None:
        """Its requests will be read from there, but not before `serve`."""
        where = TOPICS.requests, number
        self._topic_ids[where] = self._kafka.topics[TOPICS.requests].id
        self._read[where] = requests_start
        self._serving.discard(number)

    def read(self, number: int, offsets: Mapping[str, int]) -> list[Event]:
        """Reads its compacted topics from there on; stale records in transit come first."""
        self._begin(number, offsets)
        self._reading.add(number)
        self._held_back.discard(number)
        stale = self._stale.pop(number, [])
        return [*([Records(stale)] if stale else []), Began(number)]

    def read_logs(self, number: int, offsets: Mapping[str, int]) -> list[Event]:
        """Also reads its logs from there on; stale records in transit come first."""
        self._begin(number, offsets)
        self._logs[number] = [(topic, number) for topic in offsets]
        stale = self._stale_logs.pop(number, [])
        return [*([Records(stale)] if stale else []), LogsBegan(number, offsets)]

    def _begin(self, number: int, offsets: Mapping[str, int]) -> None:
        for topic, offset in offsets.items():
            self._topic_ids[topic, number] = self._kafka.topics[topic].id
            self._read[topic, number] = offset
            self._ended.discard((topic, number))

    def block(self, topic: str, number: int, start: int) -> LogBlock:
        """A part of a log that lies behind, of some length."""
        log = self._kafka.log(topic, number)
        first = max(start, log.start)
        stop = _stop(log, first)
        if stop == first < log.stable_end:
            _, behind = log.gap_from(first) or (first, first)
            return LogBlock(topic, number, start, min(behind, log.stable_end), log.start, (), unreadable=True)
        records = _records((topic, number), log, first, self._random.choice(_BLOCK_RECORDS), stop)
        more = bool(records) and any(entry.offset < stop for entry in log.read(records[-1].offset + 1, 1))
        end = records[-1].offset + 1 if more else max(first, stop)
        return LogBlock(topic, number, start, end, log.start, records)

    def drop(self, number: int) -> None:
        """Stops reading its compacted topics and its logs.

        Records that exist by now are in transit, and come when they are read again.
        """
        if number not in self._reading:
            return
        self._reading.discard(number)
        self._stale[number] = self._unread(self._compacted(number))
        self._stale_logs[number] = self._unread(self._logs.pop(number, ()))

    def hold_back(self, number: int, *, on: bool) -> None:
        """Its compacted topics and its logs are left where they are, or read `on`."""
        (self._held_back.discard if on else self._held_back.add)(number)

    def _unread(self, places: Iterable[Where]) -> list[JobRecord]:
        """Returns their unread records, if their topics are still the same."""
        same = [where for where in places if self._kafka.topics[where[0]].id == self._topic_ids[where]]
        return [record for where in same for record in _records(where, self._kafka.log(*where), self._read[where])]

    def serve(self, number: int, *, from_beginning: bool) -> None:
        """Its requests are read."""
        self._serving.add(number)
        if from_beginning:
            self._read[TOPICS.requests, number] = 0

    def pause(self, number: int) -> None:
        """Its requests are not read."""
        self._serving.discard(number)

    def rewind(self, number: int, offset: int) -> None:
        """Its requests will be read from there, but not before `serve`."""
        self._serving.discard(number)
        self._read[TOPICS.requests, number] = offset

    def release(self, number: int) -> None:
        """It is given up."""
        self._serving.discard(number)
        self._stale.pop(number, None)
        self._stale_logs.pop(number, None)

    def follow(self, number: int) -> None:
        """The standby reads its compacted topics from the beginning."""
        for where in self._compacted(number):
            self._topic_ids[where] = self._kafka.topics[where[0]].id
            self._follows[where] = 0
            self._followed_ended.discard(where)
        self._followed_events.append(Began(number))

    def unfollow(self, number: int) -> None:
        """The standby reads it no more."""
        for where in self._compacted(number):
            self._follows.pop(where, None)

    # ---- what there is

    def reads(self, number: int) -> bool:
        """Returns true if anything of this partition is read."""
        return number in self._reading or (TOPICS.objects, number) in self._follows

    def unread_from(self, topic: str, number: int) -> int:
        """Returns the first offset of a compacted topic that it has not read; NOTHING_UNREAD if it reads none of it."""
        where = topic, number
        positions = [self._follows.get(where, NOTHING_UNREAD)]
        if number in self._reading:
            positions.append(self._read[where])
        return min(positions)

    def is_behind(self, *, follows: bool) -> bool:
        """Returns true if something is unread. `follows`: also by the standby."""
        log, reading = self._kafka.log, self._reading - self._held_back
        if any(self._read[w] < log(*w).stable_end for n in reading for w in self._followed_live(n)):
            return True
        if any(self._read[w] < log(*w).end for n in self._serving for w in [(TOPICS.requests, n)]):
            return True
        if not follows:
            return False
        return bool(self._followed_events) or any(at < log(*w).stable_end for w, at in self._follows.items())

    def take(self, *, lag: float, requests_max: int) -> Iterator[Event]:
        """Yields the three readers' events; the last one reports a failed reader. `lag`: the probability that one has
        nothing.
        """
        try:
            for number in sorted(self._reading - self._held_back):
                for places in (self._compacted(number), self._logs.get(number, ())):
                    taken = [event for where in places if (event := self._take(where, lag)) is not None]
                    if records := [record for event in taken if isinstance(event, Records) for record in event.records]:
                        yield Records(records)
                    yield from (event for event in taken if not isinstance(event, Records))
            for number in sorted(self._serving):
                if (event := self._take_requests((TOPICS.requests, number), requests_max)) is not None:
                    yield event
        except OSError as error:
            yield ReaderFailed(error)

    def _take(self, where: Where, lag: float) -> Event | None:
        """Returns the records of a compacted topic's partition, and its end; or a gap, if one is next."""
        log, position = self._checked_log(where, self._read[where]), self._read[where]
        if position < log.stable_end:
            if self._random.random() < lag:
                return None
        elif where in self._ended:
            return None
        if (gap := _gap_at(where, log, position)) is not None:
            self._read[where] = gap.next
            return gap
        stop = _stop(log, position)
        records = _records(where, log, position, stop=stop)
        self._read[where] = max(position, stop)
        if stop < log.stable_end:
            return Records(records)
        self._ended.add(where)
        return Records([*records, JobRecord(*where, self._read[where], end=True)])

    def _take_requests(self, where: Where, records_max: int) -> Event | None:
        log, position = self._checked_log(where, self._read[where]), self._read[where]
        if (gap := _gap_at(where, log, position)) is not None:
            self._read[where] = gap.next
            return gap
        stop = _stop(log, position)
        records = _records(where, log, position, records_max, stop)
        if not records:
            if stop < log.stable_end:
                self._read[where] = stop
            return None
        self._read[where] = records[-1].offset + 1
        return Records(records)

    def take_followed(self, *, lag: float) -> Event | None:
        """A small batch for the standby."""
        if self._followed_events:
            return self._followed_events.popleft()
        if self._follows and self._random.random() < _STANDBY_FAILS:
            self._follows.clear()
            return ReaderFailed(OSError("by design"))
        for where, position in self._follows.items():
            try:
                log = self._checked_log(where, position)
            except OSError as error:
                self._follows.clear()
                return ReaderFailed(error)
            if position == log.stable_end and where in self._followed_ended:
                continue
            if self._random.random() >= lag:
                if (gap := _gap_at(where, log, position)) is not None:
                    self._follows[where] = gap.next
                    return gap
                stop = _stop(log, position)
                records = _records(where, log, position, _FOLLOWED_RECORDS_MAX, stop)
                rest = len(records) == _FOLLOWED_RECORDS_MAX
                end = self._follows[where] = records[-1].offset + 1 if rest else stop
                if rest or stop < log.stable_end:
                    return Records(records)
                self._followed_ended.add(where)
                return Records([*records, JobRecord(*where, end, end=True)])
        return None

    def _compacted(self, number: int) -> list[Where]:
        return [(topic, number) for topic in self._topics.compacted]

    def _followed_live(self, number: int) -> list[Where]:
        return [*self._compacted(number), *self._logs.get(number, ())]

    def _checked_log(self, where: Where, position: int) -> PartitionLog:
        log = self._kafka.log(*where)
        if position < log.start and where[0] in self._topics.logs:
            raise OSError(f"{where[0]}: retention has taken the offset that was to be read next")
        recreated = self._kafka.topics[where[0]].id != self._topic_ids[where] and position > 0
        if recreated or position > log.end:
            raise OSError(f"{where[0]}: the offset that was to be read next does not exist")
        return log


def _gap_at(where: Where, log: PartitionLog, position: int) -> UnreadableOffsets | None:
    """Returns the unreadable gap at this position, or None."""
    gap = log.gap_from(position)
    if gap is None or gap[0] > position or position >= log.stable_end:
        return None
    return UnreadableOffsets(*where, position, min(gap[1], log.stable_end), "by design")


def _stop(log: PartitionLog, position: int) -> int:
    """Up to where a reader comes at one go: to what nobody can read, or to the end."""
    gap = log.gap_from(position)
    return log.stable_end if gap is None else min(gap[0], log.stable_end)


def _records(
    where: Where, log: PartitionLog, position: int, records_max: int = 1 << 30, stop: int = 1 << 62
) -> list[JobRecord]:
    """Returns the readable records from here on, below `stop`."""
    return [
        JobRecord(
            *where,
            entry.offset,
            end=False,
            key=entry.key,
            value=entry.value,
            timestamp_ms=entry.timestamp_ms,
            said=headers_of(where[0], entry.headers) if entry.headers else None,
        )
        for entry in log.read(position, records_max)
        if entry.offset < min(log.stable_end, stop)
    ]
