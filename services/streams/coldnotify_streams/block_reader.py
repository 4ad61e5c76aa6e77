"""The reader of blocks: parts of logs that lie behind, one at a time, in a thread and with a consumer of its own.

There is a consumer only while blocks are wanted. A block that follows the one before is there already, more often than
not: the consumer fetches on meanwhile.
"""

import queue
import threading
import time
from contextlib import suppress
from typing import Any

import structlog
from coldnotify_common.paced import Paced
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from coldnotify_streams.core.actions import ReadBlock
from coldnotify_streams.core.events import Block, Failed, Record, Where
from coldnotify_streams.readers import POLL_S, Events, ReadHeaders, hand_on, record_of

_paced = Paced(structlog.get_logger())

BLOCK_RECORDS_MAX = 1000
"""Of one block: some 10 ms of its job's time, which is what an owned partition's record may wait for it."""
BLOCK_BYTES_MAX = 4 * 1024 * 1024
"""Above it a block ends. What a fetch holds may come above."""
FETCHED_KIB_MAX = 4096
"""Of fetched records that wait in the consumer."""
GIVE_UP_S = 10.0
"""Without an answer of Kafka the block is given up: it is asked for again, should it be wanted still."""
IDLE_S = 30.0
"""The consumer is closed when no block was wanted for so long: one that nobody polls collects errors."""
BAD_TIMES = 3
"""So often what stands there must have been found damaged before it counts as such: a fetch may be, too."""
_DAMAGED = frozenset(
    (
        KafkaError._BAD_MSG,
        KafkaError._BAD_COMPRESSION,
        KafkaError.INVALID_MSG,
        KafkaError._UNDERFLOW,
        KafkaError._NOT_IMPLEMENTED,
    )
)
"""The last two as well: they are what librdkafka makes of bytes that are no records."""
_BEYOND = frozenset((KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE))
_KAFKA_TIMEOUT_S = 5.0


class BlockReader(threading.Thread):
    """Reads what `read` says, and hands on what comes as a `Block`."""

    def __init__(self, config: dict[str, Any], events: Events, *, read_headers: ReadHeaders | None) -> None:
        super().__init__(name="block-reader", daemon=True)
        # Without the check a damaged record is handed on as if it were none.
        self._config = {**config, "check.crcs": True, "enable.partition.eof": True, "fetch.wait.max.ms": 100}
        self._events = events
        self._read_headers = read_headers
        self._stopping = threading.Event()
        self._wanted: queue.SimpleQueue[ReadBlock | None] = queue.SimpleQueue()
        self._consumer: Consumer | None = None
        self._at: tuple[Where, int] | None = None
        """What the consumer hands out next."""

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
            hand_on(self._events, Failed(error), self._stopping.is_set)
        self._close()

    def _close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
        self._consumer = self._at = None

    def _block(self, wanted: ReadBlock) -> Block:
        began_s = time.thread_time()
        where = wanted.topic, wanted.partition
        if self._consumer is None:
            self._consumer = Consumer(self._config)
        until_s = time.monotonic() + GIVE_UP_S
        read = _Read(wanted, self._log_start(self._consumer, wanted), self._read_headers)
        while not read.done and not self._stopping.is_set() and time.monotonic() < until_s:
            if self._at != (where, read.next):
                self._consumer.assign([TopicPartition(*where, read.next)])
                self._at = where, read.next
            first = self._consumer.poll(0 if read.records else POLL_S)
            if first is None:
                if read.records:
                    break  # a short block now is worth more than a long one later
                continue
            messages = [first, *self._consumer.consume(BLOCK_RECORDS_MAX - len(read.records) - 1, 0)]
            taken = next((number for number, message in enumerate(messages, 1) if read.take(message)), len(messages))
            # What comes behind a block that ended early was taken from the consumer, and so was all that librdkafka
            # makes of a fetch behind what is damaged.
            goes_on = taken == len(messages) and not read.damaged
            if read.beyond:
                read.begin_at(self._log_start(self._consumer, wanted))
                goes_on = False
            elif read.damaged >= BAD_TIMES and not read.done:
                read.end_damaged(self._readable_behind(self._consumer, where, read.next, until_s))
            self._at = (where, read.next) if goes_on else None
        return read.block(time.thread_time() - began_s)

    def _readable_behind(self, consumer: Consumer, where: Where, damaged: int, until_s: float) -> int:
        """The first offset behind a damaged one that can be read; `damaged` itself: it was not found in time.

        Read from any offset of a damaged batch, librdkafka comes to the same batch again and again.
        """
        last_bad, step, good = damaged, 1, None
        while good is None:
            good = self._readable_from(consumer, where, last_bad + step, until_s)
            if good is None:
                last_bad, step = last_bad + step, 2 * step
            elif good < 0:
                return damaged
        first_good = last_bad + step
        while first_good - last_bad > 1:
            middle = (first_good + last_bad) // 2
            found = self._readable_from(consumer, where, middle, until_s)
            if found is None:
                last_bad = middle
            elif found < 0:
                return damaged
            else:
                first_good, good = middle, found
        return good

    def _readable_from(self, consumer: Consumer, where: Where, offset: int, until_s: float) -> int | None:
        """The first offset that is handed out from here on; None: what stands here is damaged; -1: Kafka is silent."""
        consumer.assign([TopicPartition(*where, offset)])
        while not self._stopping.is_set() and time.monotonic() < until_s:
            message = consumer.poll(POLL_S)
            if message is None:
                continue
            error = message.error()
            if error is None or error.code() == KafkaError._PARTITION_EOF:
                return max(offset, message.offset() or 0)
            if error.code() in _DAMAGED:
                return None
            if error.code() in _BEYOND:
                return offset
        return -1

    @staticmethod
    def _log_start(consumer: Consumer, wanted: ReadBlock) -> int:
        """Where the log begins; as far as that is not known, not behind what is wanted."""
        with suppress(KafkaException):
            # As a time OFFSET_BEGINNING asks for the first record. It is the cheapest way to ask.
            asked = [TopicPartition(wanted.topic, wanted.partition, OFFSET_BEGINNING)]
            (found,) = consumer.offsets_for_times(asked, timeout=_KAFKA_TIMEOUT_S)
            if found.error is None and found.offset >= 0:
                return int(found.offset)
        return 0


class _Read:
    """What was read of one block so far."""

    def __init__(self, wanted: ReadBlock, log_start: int, read_headers: ReadHeaders | None) -> None:
        self.records: list[Record] = []
        self.next = wanted.start
        self.done = False
        self.damaged = 0
        """So often what stands at `next` was damaged."""
        self.beyond = False
        """There is no `next` any more."""
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

    def take(self, message: Message) -> bool:
        """What the consumer has handed out. True: nothing that came with it is of use."""
        error, offset = message.error(), message.offset()
        if error is None:
            self._take_record(message, offset or 0)
        elif error.code() == KafkaError._PARTITION_EOF:
            self.next, self.done = max(self.next, offset or 0), True
        elif error.code() in _DAMAGED:
            self.damaged += 1
            self.done = bool(self.records)
            return True
        elif error.code() in _BEYOND:
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

    def end_damaged(self, next_: int) -> None:
        """What lies below this offset is damaged, and that is all that the block says."""
        self._unreadable, self.done = next_ > self.next, True
        self.next = next_

    def block(self, read_s: float) -> Block:
        """All of it."""
        topic, partition, start = self._wanted.topic, self._wanted.partition, self._wanted.start
        return Block(topic, partition, start, self.next, self._log_start, self.records, self._unreadable, read_s)
