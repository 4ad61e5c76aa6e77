"""Writes a node's usage records once a second, in a thread of its own. Nothing waits for it, and its queue is
bounded."""

import time
from collections.abc import Callable, Iterable

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from coldnotify_common.kafka.kafka_clients import renewed_producer
from coldnotify_common.own_thread import OwnThread
from coldnotify_common.paced import Paced
from coldnotify_common.settings import ServiceSettings

_paced = Paced(structlog.get_logger())

EVERY_S = 1.0
_ASK_S = 1.0
_LOOK_EVERY_S = 60.0
"""Maximum time until added partitions are noticed."""
_QUEUED_MAX = 1_000
_LAST_S = 2.0
_JOIN_S = 5.0

Take = Callable[[int, int], Iterable[tuple[int, bytes]]]
"""Called with the time (Unix, ms) and the number of partitions; returns partition and value of each record to write."""


class UsageWriter(OwnThread):
    """Calls `take` once a second. A record that cannot be written is dropped, because counters are cumulative: a later
    record includes it."""

    def __init__(self, settings: ServiceSettings, take: Take) -> None:
        super().__init__("usage-writer", _JOIN_S)
        self._settings = settings
        self._topic = settings.topics.usage
        self._take = take
        self._partitions = 0
        self._looked_s = float("-inf")
        self.written = 0
        """Number of records that Kafka has acknowledged."""

    def _run(self) -> None:
        producer = renewed_producer(self._settings, "usage-writer", _QUEUED_MAX, self._on_delivery)
        while not self._stop.is_set():
            began_s = time.monotonic()
            producer.poll(0)  # delivery reports of earlier records
            self._write(producer)
            self._stop.wait(began_s + EVERY_S - time.monotonic())
        if self._partitions:
            self._write(producer)
            if left := producer.flush(_LAST_S):
                _paced.log("the last usage records were not written", level="warning", records=left)

    def _write(self, producer: Producer) -> None:
        partitions = self._partitions if self._stop.is_set() else self._known_partitions(producer)
        if not partitions:
            return
        for partition, value in self._take(int(time.time() * 1000), partitions):
            try:
                producer.produce(self._topic, value, partition=partition)
            except (BufferError, KafkaException) as error:
                self._say_dropped(str(error))

    def _known_partitions(self, producer: Producer) -> int:
        """Returns the number of partitions; 0 if not known yet: a later record then contains what is counted
        meanwhile."""
        now_s = time.monotonic()
        if now_s - self._looked_s >= (_LOOK_EVERY_S if self._partitions else EVERY_S):
            self._looked_s = now_s
            try:
                found = producer.list_topics(self._topic, timeout=_ASK_S).topics[self._topic]
            except KafkaException:
                return self._partitions
            if found.error is None:
                self._partitions = len(found.partitions)
        return self._partitions

    def _on_delivery(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self.written += 1
        else:
            self._say_dropped(error.str())

    def _say_dropped(self, reason: str) -> None:
        _paced.log("usage was not written; the next record says it, too", level="warning", reason=reason)
