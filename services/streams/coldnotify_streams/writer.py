"""Writes a run's records to Kafka: hands them to the producer, and waits until all are durable.

Kafka stamps the records of some topics with its own clock, which tells the process Kafka's time.
"""

import threading
import time
from collections.abc import Iterable
from contextlib import suppress

from coldnotify_common.kafka.cut_off_nodes import CUT_OFF
from coldnotify_common.kafka.kafka_clients import connect, polled, producer_config
from coldnotify_common.settings import ServiceSettings
from coldnotify_common.stop import StopFlag
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from coldnotify_streams.core.job import JobProduced, RecordRefused
from coldnotify_streams.errors import RunFailure
from coldnotify_streams.job_clock import JobClock

FLUSH_TIMEOUT_S = 35.0
"""Longer than the producer's message.timeout.ms: a record without an answer by then never gets one."""
FLUSH_SLICE_S = 0.5
"""How often a flush checks whether to stop."""
STOP_FLUSH_TIMEOUT_S = 3.0
"""Once it must stop, a step that Kafka does not accept is not worth waiting for: the next run repeats it."""

_ANY_PARTITION = -1
"""librdkafka's RD_KAFKA_PARTITION_UA: its partitioner chooses."""


_CLAIMS = b"@"
"""The beginning of the keys of claims: no name of a client has it."""
_SMALL_BYTES = 64 * 1024
"""Every topic takes such a record. Where Kafka says that it is too large, the topic takes none: it was copied under
another prefix."""

_OF_THE_RECORD = frozenset(
    (
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError._BAD_MSG,
        KafkaError._INVALID_ARG,
    )
)
"""Errors that are the record's own fault: the next run would write the same record again, and fail again."""


class Writer:
    """The producer of one run. One thread uses it. A failed delivery ends the run, at the next call."""

    def __init__(self, settings: ServiceSettings, stop: StopFlag, clock: JobClock) -> None:
        """`clock` stamps the records, and learns Kafka's time."""
        self._stop = stop
        self._clock = clock
        self._producer = Producer(
            producer_config(
                settings, name="writer", queue_buffering_max_messages=500_000, message_max_bytes=2 * 1024 * 1024
            )
        )
        self._cut_off_count = CUT_OFF.count
        self._delivery_error: KafkaError | None = None
        self._refused: list[RecordRefused] = []

    def connect_soon(self) -> None:
        """Connects in the background: a claim that finds the producer unconnected waits for a second."""
        threading.Thread(target=connect, args=(self._producer,), name="writer-connects", daemon=True).start()

    def write(self, writes: Iterable[JobProduced]) -> None:
        """Hands records to the producer, in order; waits while it is full.

        Raises Failure. Any other error (KafkaException, OverflowError ...) is the fault of the record being written.
        """
        now_ms = self._clock.stamp_ms()
        for write in writes:
            while True:
                try:
                    self._producer.produce(
                        write.topic,
                        value=write.value,
                        key=write.key,
                        on_delivery=self._on_delivery,
                        headers=list(write.headers),
                        partition=_ANY_PARTITION if write.partition is None else write.partition,
                        timestamp=write.timestamp_ms or now_ms,
                    )
                except BufferError:
                    self._poll(0.1)  # full: wait for deliveries, which fail after message.timeout.ms at last
                    self._check_delivery()
                    if self._stop.is_set():
                        raise RunFailure("stopped while Kafka takes no records") from None
                    continue
                except KafkaException as error:
                    if error.args[0].fatal():
                        raise RunFailure(f"writing to Kafka: {error.args[0].str()}") from None
                    raise
                break

    def flush(self) -> None:
        """Returns when all that was written is durable, but for what `take_refused` names. Raises Failure."""
        started_s = time.monotonic()
        limit_s = FLUSH_TIMEOUT_S
        while left := self._flushed(FLUSH_SLICE_S):
            self._check_delivery()
            if self._stop.is_set():
                limit_s = min(limit_s, STOP_FLUSH_TIMEOUT_S)
            if self._cut_off_count != CUT_OFF.count:
                raise RunFailure("a node of Kafka is cut off from the others, and may be the one that was written to")
            if time.monotonic() - started_s > limit_s:
                raise RunFailure(f"Kafka did not take {left} records within {limit_s:g} s")
        self._check_delivery()

    def take_refused(self) -> list[RecordRefused]:
        """Returns the records that Kafka refuses for good."""
        refused, self._refused = self._refused, []
        return refused

    def poll(self) -> None:
        """Takes the producer's statistics, which would otherwise pile up in an idle one. Raises Failure."""
        self._poll(0)

    def _poll(self, timeout_s: float) -> None:
        if (fatal := polled(self._producer, timeout_s)) is not None:
            raise RunFailure(f"writing to Kafka: {fatal.str()}")

    def close(self) -> None:
        """Drops the records still in the producer: their step is not committed, and is done again."""
        self._producer.purge()
        with suppress(RunFailure):
            self._flushed(1)

    def _flushed(self, limit_s: float) -> int:
        """Returns how many records are left. Raises Failure if the producer has failed for good.

        It also fails if another process writes in its name, because the sequence numbers of its records no longer
        match.
        """
        try:
            left: int = self._producer.flush(limit_s)
        except SystemError as error:
            # The client returns nothing and says nothing then.
            self._check_delivery()
            raise RunFailure(f"writing to Kafka: {error}") from None
        return left

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._clock.on_delivered(message)
            return
        if error.code() in _OF_THE_RECORD and not _is_shut(error, message):
            self._refused.append(
                RecordRefused(message.topic() or "", message.partition() or 0, message.value(), error.str())
            )
        else:
            self._delivery_error = error

    def _check_delivery(self) -> None:
        if self._delivery_error is not None:
            raise RunFailure(f"writing to Kafka: {self._delivery_error.str()}")


def _is_shut(error: KafkaError, message: Message) -> bool:
    """Returns true if the topic takes no record at all: this one is as good as any.

    A claim that is refused is told, and written again, by itself.
    """
    is_claim = (message.key() or b"").startswith(_CLAIMS)
    small = len(message.value() or b"") <= _SMALL_BYTES
    return error.code() == KafkaError.MSG_SIZE_TOO_LARGE and small and not is_claim
