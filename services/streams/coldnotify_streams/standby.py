"""Reads the compacted topics of partitions that others own, in its own thread and with its own queue.

The worker takes a small batch from it only when it has nothing left to do for its own partitions: following never
delays them.
"""

import queue

from coldnotify_common.kafka.kafka_clients import consumer_config
from coldnotify_common.settings import ServiceSettings
from confluent_kafka import OFFSET_BEGINNING

from coldnotify_streams.core.events import Began, Event, ReaderFailed
from coldnotify_streams.core.partition_progress import JobTopics
from coldnotify_streams.readers import LaneReader, ReadHeaders, begin_reading, stop_reading

BATCH_RECORDS_MAX = 200
"""The most records taken between two steps: some 5 ms, which a record of an owned partition may have to wait."""
QUEUE_BATCHES_MAX = 16
FETCHED_KIB_MAX = 4096
"""Limit on fetched records that wait in the consumer."""


class Standby:
    """Follows the partitions passed to `follow`. A failed reader is replaced when the next partition is followed."""

    def __init__(
        self, settings: ServiceSettings, group: str, topics: JobTopics, read_headers: ReadHeaders | None
    ) -> None:
        self._settings = settings
        self._group = group
        self.topics = topics
        self._read_headers = read_headers
        self._events: queue.Queue[Event] = queue.Queue(QUEUE_BATCHES_MAX)
        self._reader: LaneReader | None = None

    @property
    def waiting(self) -> bool:
        """Returns true if `take` would return something."""
        return not self._events.empty()

    def begin(self, number: int) -> None:
        """Read this partition, too, from the beginning."""
        if self._reader is None:
            self._events = queue.Queue(QUEUE_BATCHES_MAX)
            self._reader = self._new_reader()
            self._reader.start()
        begin_reading(self._reader, number, dict.fromkeys(self.topics.compacted, OFFSET_BEGINNING), Began(number))

    def drop(self, number: int) -> None:
        """Read this partition no more."""
        if self._reader is not None:
            stop_reading(self._reader, number, self.topics.compacted)

    def take(self) -> Event | None:
        """Returns one small batch, or None. After Failed the reader is gone, and reads nothing more."""
        try:
            event = self._events.get_nowait()
        except queue.Empty:
            return None
        if isinstance(event, ReaderFailed):
            self._reader = None
        return event

    def stop(self) -> None:
        """Ask the reader to end."""
        if self._reader is not None:
            self._reader.stop()

    def join(self, timeout_s: float) -> None:
        """Wait for the reader's end."""
        if self._reader is not None:
            self._reader.join(timeout_s)

    def _new_reader(self) -> LaneReader:
        config = consumer_config(
            self._settings,
            f"{self._group}-standby",
            name="standby-reader",
            enable_partition_eof=True,
            queued_max_messages_kbytes=FETCHED_KIB_MAX,
        )
        return LaneReader(
            "standby-reader",
            config,
            self._events,
            read_headers=self._read_headers,
            batch_records_max=BATCH_RECORDS_MAX,
        )
