"""Reads blocks, which are older parts of logs, one at a time, in its own thread and with its own consumer.

The consumer exists only while blocks are wanted. A block that follows the previous one has usually been fetched
already, because the consumer keeps fetching in between.
"""

import queue
import threading
import time
from contextlib import suppress
from typing import Any

import structlog
from coldnotify_common.kafka.record_consumer import Gap, RecordConsumer
from coldnotify_common.kafka.unreadable_offsets import BEYOND
from coldnotify_common.paced import Paced
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from coldnotify_streams.core.actions import ReadBlock
from coldnotify_streams.core.events import JobRecord, LogBlock, ReaderFailed, Where
from coldnotify_streams.readers import POLL_S, EventReceiver, ReadHeaders, hand_on, record_of

_paced = Paced(structlog.get_logger())

BLOCK_RECORDS_MAX = 1000
"""A block takes some 10 ms of its job's time, which is the longest that a record of an owned partition may wait for it.
"""
BLOCK_BYTES_MAX = 4 * 1024 * 1024
"""A block ends above this; a single fetch may exceed it."""
FETCHED_KIB_MAX = 4096
"""Limit on fetched records that wait in the consumer."""
GIVE_UP_S = 10.0
"""If Kafka does not answer for so long, the block is given up; it is requested again if it is still wanted."""
IDLE_S = 30.0
"""The consumer is closed when no block was wanted for so long, because one that nobody polls collects errors."""
_KAFKA_TIMEOUT_S = 5.0


class BlockReader(threading.Thread):
    """Reads the blocks passed to `read`, and puts each into `events` as a `LogBlock`."""

    def __init__(self, config: dict[str, Any], events: EventReceiver, *, read_headers: ReadHeaders | None) -> None:
        super().__init__(name="block-reader", daemon=True)
        # Without the check a damaged record is handed on as if it were none.
        self._config = {**config, "check.crcs": True, "enable.partition.eof": True, "fetch.wait.max.ms": 100}
        self._events = events
        self._read_headers = read_headers
        self._stopping = threading.Event()
        self._wanted: queue.SimpleQueue[ReadBlock | None] = queue.SimpleQueue()
        self._consumer: RecordConsumer | None = None
        self._at: tuple[Where, int] | None = None
        """The place of the next record that the consumer returns."""

    def read(self, wanted: ReadBlock) -> None:
        """Read this block, soon."""
        self._wanted.put(wanted)

    def stop(self) -> None:
        """Ask the thread to end."""
        self._stopping.set()
        self._wanted.put(None)

    def run(self) -> None:
        """The thread."""
        try:
            while not self._stopping.is_set():
                try:
                    wanted = self._wanted.get(timeout=IDLE_S if self._consumer is not None else None)
                except queue.Empty:
                    self._close()
                    continue
                if wanted is not None and not hand_on(self._events, self._block(wanted), self._stopping.is_set):
                    break
        except BaseException as error:
            hand_on(self._events, ReaderFailed(error), self._stopping.is_set)
        self._close()

    def _close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
        self._consumer = self._at = None

    def _block(self, wanted: ReadBlock) -> LogBlock:
        began_s = time.thread_time()
        where = wanted.topic, wanted.partition
        if self._consumer is None:
            self._consumer = RecordConsumer(self._config)
        until_s = time.monotonic() + GIVE_UP_S
        read = _Read(wanted, self._log_start(self._consumer, wanted), self._read_headers)
        while not read.done and not self._stopping.is_set() and time.monotonic() < until_s:
            if self._at != (where, read.next):
                self._consumer.assign([TopicPartition(*where, read.next)])
                self._at = where, read.next
            found = self._consumer.read(0 if read.records else POLL_S, BLOCK_RECORDS_MAX - len(read.records))
            if not found:
                if read.records:
                    break  # a short block now is worth more than a long one later
                continue
            taken = next((number for number, one in enumerate(found, 1) if read.take(one)), len(found))
            # What comes behind a block that ended early was taken from the consumer.
            goes_on = taken == len(found)
            if read.beyond:
                read.begin_at(self._log_start(self._consumer, wanted))
                goes_on = False
            self._at = (where, read.next) if goes_on else None
        return read.block(time.thread_time() - began_s)

    @staticmethod
    def _log_start(consumer: Consumer, wanted: ReadBlock) -> int:
        """Returns the log's first offset; if Kafka does not tell it, at most the offset that is wanted."""
        with suppress(KafkaException):
            # As a time OFFSET_BEGINNING asks for the first record. It is the cheapest way to ask.
            asked = [TopicPartition(wanted.topic, wanted.partition, OFFSET_BEGINNING)]
            (found,) = consumer.offsets_for_times(asked, timeout=_KAFKA_TIMEOUT_S)
            if found.error is None and found.offset >= 0:
                return int(found.offset)
        return 0


class _Read:
    """The part of one block that has been read so far."""

    def __init__(self, wanted: ReadBlock, log_start: int, read_headers: ReadHeaders | None) -> None:
        self.records: list[JobRecord] = []
        self.next = wanted.start
        self.done = False
        self.beyond = False
        """True once `next` is above the end of the log."""
        self._wanted = wanted
        self._log_start = log_start
        self._read_headers = read_headers
        self._bytes = 0
        self._unreadable = False
        self.begin_at(log_start)

    def begin_at(self, log_start: int) -> None:
        """The log begins there."""
        self.beyond = False
        self._log_start = log_start
        self.next = max(self.next, log_start)

    def take(self, message: Message | Gap) -> bool:
        """Takes one message or gap from the consumer. Returns true if the rest of its batch is useless."""
        if isinstance(message, Gap):
            self._take_gap(message)
            return True
        error, offset = message.error(), message.offset()
        if error is None:
            self._take_record(message, offset or 0)
        elif error.code() == KafkaError._PARTITION_EOF:
            self.next, self.done = max(self.next, offset or 0), True
        elif error.code() in BEYOND:
            self.beyond = True
        else:
            words = "a block cannot be read, and is tried again"
            _paced.log(words, level="warning", topic=self._wanted.topic, error=error.str())
        return self.done

    def _take_record(self, message: Message, offset: int) -> None:
        self.records.append(record_of(message, self._read_headers))
        self._bytes += len(message)
        self.next = offset + 1
        self.done = len(self.records) >= BLOCK_RECORDS_MAX or self._bytes >= BLOCK_BYTES_MAX

    def _take_gap(self, gap: Gap) -> None:
        """Makes the gap a block of its own. If records precede it, the gap is read again for the next block."""
        self.done = True
        if not self.records:
            self._unreadable = True
            self.next = gap.next

    def block(self, read_s: float) -> LogBlock:
        """All of it."""
        topic, partition, start = self._wanted.topic, self._wanted.partition, self._wanted.start
        return LogBlock(topic, partition, start, self.next, self._log_start, self.records, self._unreadable, read_s)
