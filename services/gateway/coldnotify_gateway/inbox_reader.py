"""Reads the gateway's inbox in a thread of its own, and passes the event loop a limited number of records at a time."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum, auto

import structlog
from coldnotify_common.kafka.cut_off_nodes import NodeCutOff
from coldnotify_common.kafka.kafka_clients import consumer_config
from coldnotify_common.kafka.record_consumer import Gap, RecordConsumer
from coldnotify_schemas.internal_pb2 import Inbox
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from coldnotify_gateway.inbox_records import Aside, UnreadableInbox, parse_inbox
from coldnotify_gateway.settings import GatewaySettings

log = structlog.get_logger()

_BATCH_RECORDS_MAX = 200
_BATCHES_PENDING_MAX = 8
"""Most batches that wait for the event loop. With more, the thread waits, and Kafka keeps the rest."""
_POLL_S = 0.1
"""Longest time until the thread notices that it must stop."""
_AT_ONCE_S = 0.0002
"""A record that arrives within this time was there already, so there may be others. After a longer wait the thread does
not look for more, because it and the event loop would then compete for the interpreter."""
_FULL_S = 0.005
"""Interval at which the thread checks if the event loop has handled a batch."""
_END_TIMEOUT_S = 5.0
_RETRY_S = 0.5
_JOIN_S = 2.0
_STATISTICS_MS = 1000
"""They show that Kafka answers the two fetches in each second, although the inbox stays empty."""
_OFFSET_LOST = {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}


class InboxMark(Enum):
    """Marks that take a record's place."""

    LOST = auto()
    """Records were removed before they were read. Reading continues from the inbox's end."""


Read = Inbox | Aside | InboxMark
"""An entry for each record that may be for this gateway."""


class InboxReader:
    """Reads one partition of notifications from its end on.

    Its thread calls `on_assigned()` once it has fixed the end from which it reads, and `on_records(records)` with this
    gateway's own records, in order. The receiver calls `handled()` after each batch.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        gateway_id: int,
        inbox: int,
        *,
        on_assigned: Callable[[], None],
        on_records: Callable[[Sequence[Read]], None],
    ) -> None:
        self._settings = settings
        self._topic = settings.topics.notifications
        self._id = gateway_id
        self._inbox = inbox
        self._on_assigned = on_assigned
        self._on_records = on_records
        self._stop = threading.Event()
        # Each counter has one writing thread only, so no batch needs a lock.
        self._handed_over = 0
        self._handled = 0
        self._next: int | None = None
        """The offset to read next; None until the end is known."""
        self._thread = threading.Thread(target=self._run, name="inbox-reader", daemon=True)
        self.foreign_records = 0
        """Number of records for other gateways that share the inbox."""

    def start(self) -> None:
        """Starts reading."""
        self._thread.start()

    def handled(self) -> None:
        """Notes that a batch of `on_records` was handled."""
        self._handled += 1

    def stop(self) -> None:
        """Stops reading, and waits a moment for the thread."""
        self._stop.set()
        self._thread.join(_JOIN_S)

    def _run(self) -> None:
        while not self._stop.is_set():
            # The consumer joins no group, but its configuration requires an id.
            consumer = RecordConsumer(
                consumer_config(
                    self._settings,
                    self._settings.topics.group(f"gateway-{self._id:016x}"),
                    name="inbox-reader",
                    fetch_error_backoff_ms=100,
                    statistics_interval_ms=_STATISTICS_MS,
                )
            )
            try:
                if self._next is not None:
                    consumer.assign([TopicPartition(self._topic, self._inbox, self._next)])
                elif self._assign_at_end(consumer):
                    self._on_assigned()
                self._read(consumer)
            except NodeCutOff:
                continue
            finally:
                consumer.close()

    def _assign_at_end(self, consumer: RecordConsumer) -> bool:
        """Fixes the end from which the inbox is read. Returns false if the reader was stopped before Kafka answered."""
        partition = TopicPartition(self._topic, self._inbox)
        while not self._stop.is_set():
            try:
                _, end = consumer.get_watermark_offsets(partition, timeout=_END_TIMEOUT_S)
            except KafkaException as error:
                log.warning("the inbox's end is not known yet", inbox=self._inbox, error=error.args[0].str())
                self._stop.wait(_RETRY_S)
                # librdkafka remembers that a partition had no leader until it refreshes its metadata. It does that for
                # assigned partitions only, and this one is not assigned yet.
                with suppress(KafkaException):
                    consumer.list_topics(self._topic, timeout=_END_TIMEOUT_S)
                continue
            consumer.assign([TopicPartition(self._topic, self._inbox, end)])
            self._next = end
            return True
        return False

    def _read(self, consumer: RecordConsumer) -> None:
        while not self._stop.is_set():
            asked_s = time.monotonic()
            messages = consumer.read(_POLL_S)
            if not messages:
                continue
            if time.monotonic() - asked_s < _AT_ONCE_S:
                messages += consumer.read(0, _BATCH_RECORDS_MAX - 1)
            records, lost = self._sort(messages)
            if records:
                self._hand_over(records)
            last = messages[-1]
            if isinstance(last, Gap):
                self._next = last.next
            elif last.error() is None:
                self._next = (last.offset() or 0) + 1
            if lost and self._assign_at_end(consumer):
                log.warning("inbox records were lost, reading from the end again", inbox=self._inbox)
                self._hand_over([InboxMark.LOST])

    def _sort(self, messages: Sequence[Message | Gap]) -> tuple[list[Read], bool]:
        """Returns this gateway's records among these, and true if the read offset no longer exists."""
        records: list[Read] = []
        lost = False
        for message in messages:
            if isinstance(message, Gap):
                # The gap in the numbers reveals the lost notifications.
                records.append(Aside(b"", self._inbox, message.start, message.reason))
                continue
            error = message.error()
            if error is not None:
                if error.code() in _OFFSET_LOST:
                    lost = True
                else:
                    log.warning("inbox cannot be read", inbox=self._inbox, error=error.str())
                continue
            value = message.value() or b""
            try:
                inbox = parse_inbox(value, time.time_ns() // 1_000_000)
            except UnreadableInbox as unreadable:
                records.append(Aside(value, self._inbox, message.offset(), str(unreadable)))
                continue
            if inbox.gateway in (0, self._id):
                records.append(inbox)
            else:
                self.foreign_records += 1
        return records, lost

    def _hand_over(self, records: Sequence[Read]) -> None:
        while self._handed_over - self._handled >= _BATCHES_PENDING_MAX:
            if self._stop.wait(_FULL_S):
                return
        self._handed_over += 1
        self._on_records(records)
