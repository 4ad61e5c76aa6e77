"""Offsets that Kafka's client cannot read, and never will: which they are, and where reading can go on.

Whoever may write to a topic may write a batch that Kafka takes and its client cannot read: of a broken compression, one
that unpacks to more than the client's bound, a record with a length that Kafka takes for null, or one that says another
offset than its own. The client comes back to the same batch again and again. It says an error, by the batch's first
offset; or, where it takes the record for one that was cut off, it says nothing at all; or it hands out a record by an
offset where another one stands, or none.
"""

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import Enum, auto
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

BAD_TIMES = 3
"""So often what stands there must have been found unreadable before it counts as such: a fetch may be broken, too."""
SEARCH_S_MAX = 10.0
"""Of one search. What it has found by then is skipped, and whatever comes behind is another search's."""
_OF_OFFSET = frozenset(
    (
        KafkaError._BAD_MSG,
        KafkaError._BAD_COMPRESSION,
        KafkaError.INVALID_MSG,
        KafkaError._UNDERFLOW,
        KafkaError._NOT_IMPLEMENTED,
    )
)
"""The last two as well: they are what librdkafka makes of bytes that are no records."""
BEYOND = frozenset((KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE))
"""There is no such offset any more, or not yet."""
_FORGOTTEN = -1
"""The end of a partition, as librdkafka has it once Kafka has answered with an error; before any answer it is lower."""
_POLL_S = 0.05
_ASK_AGAIN_S = 0.5
_STATISTICS_MS = 20
_OPTIONS_OF_ITS_OWN = ("group.instance.id", "partition.assignment.strategy", "on_commit", "client.id")


class Gap(NamedTuple):
    """Offsets of a partition that cannot be read."""

    topic: str
    partition: int
    start: int
    next: int
    """The first one behind them."""
    reason: str


def is_of_offset(error: KafkaError) -> bool:
    """Whether this error is one of what stands at an offset, and none of the connection or of the broker."""
    return error.code() in _OF_OFFSET


def may_have_ended(consumer: Consumer, where: tuple[str, int]) -> bool:
    """Whether Kafka's last answer was an error: with some the client ends fetching, and not always says it.

    It drops an error that it takes for one of a place that it has left.
    """
    with suppress(KafkaException):
        return bool(consumer.get_watermark_offsets(TopicPartition(*where), cached=True)[1] == _FORGOTTEN)
    return False


class _Answer(Enum):
    """What a look at an offset has shown, if it was no error of the offset."""

    READABLE = auto()
    """Something is handed out from here on, or the log ends."""
    SILENT = auto()
    """Kafka answers, and its client makes nothing of it."""
    UNKNOWN = auto()
    """Nobody answered in time."""


class _Damaged(NamedTuple):
    """An error of the offset."""

    batch: int
    """The batch's first offset: it tells one batch from another."""
    words: str


_Look = _Answer | _Damaged


class GapSearch:
    """Looks at a partition by a consumer of its own. Blocks; for one thread."""

    def __init__(self, config: Mapping[str, Any], stopped: Callable[[], bool]) -> None:
        """`config`: of the consumer that came upon it; what it could not read, this one must not read, either."""
        self._partial = 0
        self._consumer = Consumer(
            {
                **{name: value for name, value in config.items() if name not in _OPTIONS_OF_ITS_OWN},
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 20,
                "fetch.error.backoff.ms": 10,
                "statistics.interval.ms": _STATISTICS_MS,
                "stats_cb": self._on_statistics,
            }
        )
        self._stopped = stopped
        self._until_s = 0.0
        self.answered = False
        """Whether Kafka has said all that the last search asked."""

    def close(self) -> None:
        """It looks no more."""
        self._consumer.close()

    def find(self, topic: str, partition: int, start: int) -> Gap | None:
        """What cannot be read from `start` on; None: it can be read, or Kafka does not say.

        What it names is unreadable to the last offset, and nothing that can be read is skipped.
        """
        self._until_s = time.monotonic() + SEARCH_S_MAX
        where, at, words = (topic, partition), start, ""
        look = self._look(where, at, BAD_TIMES)
        while look not in (_Answer.READABLE, _Answer.UNKNOWN):
            if isinstance(look, _Damaged):
                words = words or look.words
                at, look = self._behind(where, at, look)
            else:
                # Told by a record's own length, its successor in the batch can be read.
                words = words or "the record's lengths are not those of a record"
                at += 1
                look = self._look(where, at, BAD_TIMES)
        self.answered = look is _Answer.READABLE
        return None if at == start else Gap(topic, partition, start, at, f"cannot be read: {words}")

    def _behind(self, where: tuple[str, int], at: int, damaged: _Damaged) -> tuple[int, _Look]:
        """The first offset behind the batch that `at` is in, and what a look at it has shown."""
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
        """`times`: so often the error must be said if there is one."""
        look = self._look_once(where, offset)
        for _ in range(times - 1):
            if not isinstance(look, _Damaged):
                break
            # What the client hands out behind an error is made of the damaged bytes, and says nothing.
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
            # Compaction leaves holes. What stands behind one is found by its own offset, too.
            return self._is_there(where, first)
        return _Answer.READABLE

    def _is_there(self, where: tuple[str, int], message: Message) -> _Look:
        """Whether a record stands at the offset that it says."""
        said = message.offset() or 0
        found = self._first(where, said)
        if found is _Answer.UNKNOWN:
            return found
        if isinstance(found, Message) and found.error() is None and _same(found, message):
            return _Answer.READABLE
        return _Damaged(said, f"the record says the offset {said}, which is not its own")

    def _first(self, where: tuple[str, int], offset: int) -> Message | _Answer:
        """What the client says first from here on: a record, the end, that there is no such offset, or an error of one.

        Else SILENT or UNKNOWN.
        """
        place = TopicPartition(*where, offset)
        self._consumer.assign([place])
        partial, asked_s = self._partial, time.monotonic()
        while not self._stopped() and time.monotonic() < self._until_s:
            message = self._consumer.poll(_POLL_S)
            if message is None:
                # An answer that is on its way from the look before counts once more.
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
                # It answers the look before, at an offset made of damaged bytes; with it the client has ended fetching.
                self._consumer.assign([place])
        return _Answer.UNKNOWN

    def _on_statistics(self, text: str) -> None:
        # Answers with a record that seemed to be cut off. Kafka sends the first batch whole, whatever its size.
        self._partial = sum(broker["rxpartial"] for broker in json.loads(text)["brokers"].values())


def _same(one: Message, other: Message) -> bool:
    """Whether they are one record, as far as anybody can tell."""
    if one.offset() != other.offset() or one.timestamp() != other.timestamp():
        return False
    return one.key() == other.key() and one.value() == other.value()
