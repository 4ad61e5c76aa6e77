"""Reads the gateway's inbox from a thread of its own, and hands the event loop at most so much at a time."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum, auto

import structlog
from coldnotify_common.kafka.kafka_clients import consumer_config
from coldnotify_common.kafka.record_consumer import Gap, RecordConsumer
from coldnotify_schemas.internal_pb2 import Inbox
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from coldnotify_gateway.inbox_records import Aside, UnreadableInbox, parse_inbox
from coldnotify_gateway.settings import GatewaySettings

log = structlog.get_logger()

_BATCH_RECORDS_MAX = 200
_BATCHES_PENDING_MAX = 8
"""What may wait for the event loop. Behind that the thread waits, and Kafka keeps the rest."""
_POLL_S = 0.1
"""How soon the thread notices that it is to stop."""
_AT_ONCE_S = 0.0002
"""A record that comes so soon was there already, and others may be, too. One that was waited for does not wait for a
look whether there are more, in which this thread and the event loop would take turns at the interpreter."""
_FULL_S = 0.005
"""How soon the thread looks again whether the event loop has handled a batch."""
_END_TIMEOUT_S = 5.0
_RETRY_S = 0.5
_JOIN_S = 2.0
_OFFSET_LOST = {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}


class InboxMark(Enum):
    """What comes in a record's place."""

    LOST = auto()
    """Records were removed before they were read; the reading goes on from the inbox's end."""


Read = Inbox | Aside | InboxMark
"""What is read, one for each record that may be this gateway's."""


class InboxReader:
    """Reads one partition of notifications from its end on.

    Callbacks come from its thread: `on_assigned()` once the end is fixed from which it reads, and `on_records(records)`
    with this gateway's own records, in order; each is to be followed by a call of `handled()`.
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
        # Each is counted by one thread only: no lock is needed, and none is taken for every batch.
        self._handed_over = 0
        self._handled = 0
        self._thread = threading.Thread(target=self._run, name="inbox-reader", daemon=True)
        self.foreign_records = 0
        """Of other gateways that share the inbox."""

    def start(self) -> None:
        """Begins to read."""
        self._thread.start()

    def handled(self) -> None:
        """A batch that on_records handed over is done with."""
        self._handled += 1

    def stop(self) -> None:
        """Ends reading; waits a moment for the thread."""
        self._stop.set()
        self._thread.join(_JOIN_S)

    def _run(self) -> None:
        # No group is joined: the id only has to be there.
        consumer = RecordConsumer(
            consumer_config(
                self._settings,
                self._settings.topics.group(f"gateway-{self._id:016x}"),
                name="inbox-reader",
                fetch_error_backoff_ms=100,
            )
        )
        try:
            if self._assign_at_end(consumer):
                self._on_assigned()
                self._read(consumer)
        finally:
            consumer.close()

    def _assign_at_end(self, consumer: RecordConsumer) -> bool:
        """Fixes the end from which is read. False: stopped before Kafka said where that is."""
        partition = TopicPartition(self._topic, self._inbox)
        while not self._stop.is_set():
            try:
                _, end = consumer.get_watermark_offsets(partition, timeout=_END_TIMEOUT_S)
            except KafkaException as error:
                log.warning("the inbox's end is not known yet", inbox=self._inbox, error=error.args[0].str())
                self._stop.wait(_RETRY_S)
                # A partition that had no leader when librdkafka looked has none for it until it looks again, which it
                # does for partitions that are read, and this one is not read yet.
                with suppress(KafkaException):
                    consumer.list_topics(self._topic, timeout=_END_TIMEOUT_S)
                continue
            consumer.assign([TopicPartition(self._topic, self._inbox, end)])
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
            if lost and self._assign_at_end(consumer):
                log.warning("inbox records were lost, reading from the end again", inbox=self._inbox)
                self._hand_over([InboxMark.LOST])

    def _sort(self, messages: Sequence[Message | Gap]) -> tuple[list[Read], bool]:
        """Our records among these, and whether the place where we read does not exist any more."""
        records: list[Read] = []
        lost = False
        for message in messages:
            if isinstance(message, Gap):
                # The notifications that stood there are missed by their numbers.
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
