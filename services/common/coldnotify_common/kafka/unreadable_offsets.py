"""Finds offsets that Kafka's client can never read, and the offset after which reading can continue.

Anybody with write access to a topic may write a batch that Kafka accepts and its client cannot read: with broken
compression, one that unpacks to more than the client's bound, a record with a length that Kafka takes for null, or one
that claims another offset than its own. The client fetches the same batch again and again. It reports an error with the
batch's first offset; or, if it takes the record for a truncated one, it reports nothing at all; or it returns a record
at an offset that belongs to another record, or to none.
"""

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import Enum, auto
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from coldnotify_common.kafka.consumer_close import close_in_time, end_fetches

BAD_TIMES = 3
"""Number of times an offset must be found unreadable before it counts as such, because a fetch may be broken, too."""
SEARCH_S_MAX = 10.0
"""Time limit of a first search. The gap found by then is skipped; another search finds the rest."""
_OF_OFFSET = frozenset(
    (
        KafkaError._BAD_MSG,
        KafkaError._BAD_COMPRESSION,
        KafkaError.INVALID_MSG,
        KafkaError._UNDERFLOW,
        KafkaError._NOT_IMPLEMENTED,
    )
)
"""Errors of an offset. librdkafka also reports the last two for bytes that are not records."""
BEYOND = frozenset((KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE))
"""Errors for an offset that does not exist any more, or not yet."""
_FORGOTTEN = -1
"""librdkafka's value for the end of a partition after Kafka has answered with an error; before any answer it is
lower."""
_POLL_S = 0.05
_ASK_AGAIN_S = 0.5
_STATISTICS_MS = 20
_OPTIONS_OF_ITS_OWN = ("group.instance.id", "partition.assignment.strategy", "on_commit", "client.id")


class Gap(NamedTuple):
    """A range of offsets of a partition that cannot be read."""

    topic: str
    partition: int
    start: int
    next: int
    """The first offset after the gap."""
    reason: str


def is_of_offset(error: KafkaError) -> bool:
    """Returns true if the error concerns the record at an offset, not the connection or the broker."""
    return error.code() in _OF_OFFSET


def may_have_ended(consumer: Consumer, where: tuple[str, int]) -> bool:
    """Returns true if Kafka's last answer was an error: the client stops fetching after some, and may not report it.

    It drops an error that it assigns to a position it has left.
    """
    with suppress(KafkaException):
        return bool(consumer.get_watermark_offsets(TopicPartition(*where), cached=True)[1] == _FORGOTTEN)
    return False


class _Answer(Enum):
    """The result of examining an offset, other than an error of the offset."""

    READABLE = auto()
    """A record at or after the offset is returned, or the log ends."""
    SILENT = auto()
    """Kafka answers, but the client returns nothing."""
    UNKNOWN = auto()
    """No answer arrived in time."""


class _Damaged(NamedTuple):
    """An error of the offset."""

    batch: int
    """The batch's first offset, which identifies the batch."""
    words: str


_Look = _Answer | _Damaged


class GapSearch:
    """Examines a partition with a consumer of its own. Blocks; for one thread."""

    def __init__(self, config: Mapping[str, Any], stopped: Callable[[], bool]) -> None:
        """`config`: that of the consumer that found the damage, because both have to fail at the same records."""
        self._partial, self._partial_s = 0, 0.0
        """Answers with a record that seemed truncated, and the time of that count."""
        self._consumer = Consumer(
            {
                **{name: value for name, value in config.items() if name not in _OPTIONS_OF_ITS_OWN},
                "enable.partition.eof": True,
                # A client that began anew elsewhere would find other records than it was asked for.
                "auto.offset.reset": "error",
                # Kafka answers with one batch, whatever its size. Those behind it may unpack to hundreds of MiB, each
                # time.
                "max.partition.fetch.bytes": 1,
                # Nor are they fetched in advance, unless the next look is late. Behind a full queue the client would
                # wait for a second, at each look.
                "queued.min.messages": 1,
                "fetch.queue.backoff.ms": 30,
                "fetch.wait.max.ms": 20,
                "fetch.error.backoff.ms": 10,
                "statistics.interval.ms": _STATISTICS_MS,
                "stats_cb": self._on_statistics,
            }
        )
        self._stopped = stopped
        self._until_s = 0.0
        self.answered = False
        """True if Kafka has answered all queries of the last search."""

    def close(self) -> None:
        """Closes the consumer, once no fetch is under way: most searches cause fetches of offsets that do not exist."""
        end_fetches(self._consumer)
        close_in_time(self._consumer.close)

    def find(self, topic: str, partition: int, start: int, limit_s: float = SEARCH_S_MAX) -> Gap | None:
        """Returns the unreadable gap that begins at `start`; None if that offset can be read, or if Kafka, or this
        machine, does not answer all questions within the limit.

        Every offset of the gap is unreadable: no readable record is skipped.
        """
        self._until_s = time.monotonic() + limit_s
        where, at, words = (topic, partition), start, ""
        look = self._look(where, at, BAD_TIMES)
        while look not in (_Answer.READABLE, _Answer.UNKNOWN):
            if isinstance(look, _Damaged):
                words = words or look.words
                at, look = self._behind(where, at, look)
            else:
                # A record's own length leads to its successor in the batch, which can be read.
                words = words or "the record's lengths are not those of a record"
                at += 1
                look = self._look(where, at, BAD_TIMES)
        self.answered = look is _Answer.READABLE
        return None if at == start else Gap(topic, partition, start, at, f"cannot be read: {words}")

    def _behind(self, where: tuple[str, int], at: int, damaged: _Damaged) -> tuple[int, _Look]:
        """Returns the first offset after the batch that contains `at`, and the result of examining it."""
        bad, step = at, 1
        while self._is_in(damaged, look := self._look(where, bad + step, 1)):
            bad, step = bad + step, 2 * step
        if look is _Answer.UNKNOWN:
            return at, look
        behind = bad + step
        while behind - bad > 1:
            middle = (bad + behind) // 2
            found = self._look(where, middle, 1)
            if found is _Answer.UNKNOWN:
                return at, found
            if self._is_in(damaged, found):
                bad = middle
            else:
                behind, look = middle, found
        return behind, look

    @staticmethod
    def _is_in(damaged: _Damaged, look: _Look) -> bool:
        return isinstance(look, _Damaged) and look.batch == damaged.batch

    def _look(self, where: tuple[str, int], offset: int, times: int) -> _Look:
        """Examines an offset. `times`: how often an error must be repeated to count."""
        look = self._look_once(where, offset)
        for _ in range(times - 1):
            if not isinstance(look, _Damaged):
                break
            # Records that the client returns after an error are made of the damaged bytes, and prove nothing.
            look = self._look_once(where, offset)
        return look

    def _look_once(self, where: tuple[str, int], offset: int) -> _Look:
        first = self._first(where, offset)
        if isinstance(first, _Answer):
            return first
        error = first.error()
        if error is not None and is_of_offset(error):
            return _Damaged(first.offset() or 0, error.str())
        if error is None and (first.offset() or 0) > offset:
            # Compaction leaves holes. A record after a hole can be found at its own offset, too.
            return self._is_there(where, first)
        return _Answer.READABLE

    def _is_there(self, where: tuple[str, int], message: Message) -> _Look:
        """Checks that the record exists at the offset that it claims."""
        said = message.offset() or 0
        found = self._first(where, said)
        if found is _Answer.UNKNOWN:
            return found
        if isinstance(found, Message) and found.error() is None and _same(found, message):
            return _Answer.READABLE
        return _Damaged(said, f"the record says the offset {said}, which is not its own")

    def _first(self, where: tuple[str, int], offset: int) -> Message | _Answer:
        """Returns the client's first result at this offset: a record, the end, a missing offset, or an offset's error.

        Otherwise returns SILENT or UNKNOWN.
        """
        place = TopicPartition(*where, offset)
        self._consumer.assign([place])
        # The client's main thread does one thing after the other: with this answer, it has left the former offset.
        self._consumer.assignment()
        partial: int | None = None
        begun_s = asked_s = time.monotonic()
        while not self._stopped() and time.monotonic() < self._until_s:
            message = self._consumer.poll(_POLL_S)
            if message is None:
                if self._partial_s > begun_s:
                    partial = self._partial if partial is None else partial
                    # A late answer to the former query may count, too.
                    if self._partial - partial > BAD_TIMES:
                        return _Answer.SILENT
                if time.monotonic() - asked_s > _ASK_AGAIN_S and may_have_ended(self._consumer, where):
                    self._consumer.assign([place])
                    asked_s = time.monotonic()
                continue
            error = message.error()
            if error is None or error.code() == KafkaError._PARTITION_EOF or is_of_offset(error):
                return message
            if error.code() in BEYOND:
                if message.offset() == offset:
                    return message
                # This answers the former query, at an offset made of damaged bytes; it has stopped the client's
                # fetching.
                self._consumer.assign([place])
        return _Answer.UNKNOWN

    def _on_statistics(self, text: str) -> None:
        # Kafka sends the first batch whole, whatever its size. These wait in the client's queue while nobody polls.
        statistics = json.loads(text)
        self._partial = sum(broker["rxpartial"] for broker in statistics["brokers"].values())
        self._partial_s = statistics["ts"] / 1e6


def _same(one: Message, other: Message) -> bool:
    """Returns true if both are the same record, as far as can be told."""
    if one.offset() != other.offset() or one.timestamp() != other.timestamp():
        return False
    return one.key() == other.key() and one.value() == other.value()
