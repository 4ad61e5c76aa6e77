"""The reader of a warm standby: the compacted topics of partitions that others own, in a thread and a queue of its own.

The worker takes a small batch from it only when all that it owns is served: what is followed holds up nothing that is
owned.
"""

import queue

from coldnotify_common.kafka import consumer_config
from coldnotify_common.settings import ServiceSettings
from confluent_kafka import OFFSET_BEGINNING

from coldnotify_streams.core.events import Began, Event, Failed
from coldnotify_streams.core.job import Topics
from coldnotify_streams.readers import Reader, ReadHeaders, begin_reading, stop_reading

BATCH_RECORDS_MAX = 200
"""Taken in between two steps: some 5 ms, which is what an owned partition's record may wait for it."""
QUEUE_BATCHES_MAX = 16
FETCHED_KIB_MAX = 4096
"""Of fetched records that wait in the consumer."""


class Standby:
    """Reads what `Follow` and `Unfollow` say. A reader that failed is replaced by the next that is to be followed."""

    def __init__(self, settings: ServiceSettings, group: str, topics: Topics, read_headers: ReadHeaders | None) -> None:
        self._settings = settings
        self._group = group
        self.topics = topics
        self._read_headers = read_headers
        self._events: queue.Queue[Event] = queue.Queue(QUEUE_BATCHES_MAX)
        self._reader: Reader | None = None

    @property
    def waiting(self) -> bool:
        """Whether something has been read that `take` would hand on."""
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
        """One small batch, if there is one. After Failed the reader is gone, and reads nothing any more."""
        try:
            event = self._events.get_nowait()
        except queue.Empty:
            return None
        if isinstance(event, Failed):
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

    def _new_reader(self) -> Reader:
        config = consumer_config(
            self._settings,
            f"{self._group}-standby",
            name="standby-reader",
            enable_partition_eof=True,
            queued_max_messages_kbytes=FETCHED_KIB_MAX,
        )
        return Reader(
            "standby-reader",
            config,
            self._events,
            read_headers=self._read_headers,
            batch_records_max=BATCH_RECORDS_MAX,
        )
