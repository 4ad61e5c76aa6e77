"""Reads the nodes topic, in a thread of its own, for as long as the service runs.

    with NodesReader(settings) as reader:
        reader.nodes("gateway")    # those that count; none before the topic was read, or where it does not exist

Nothing waits for it. A missing topic (in a Kafka of release 0.1.0) is said, and looked for again and again. A topic
that was deleted and created again is read by a new consumer, because Kafka's client would continue at the old offset.
"""

import secrets
import threading
import time

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from coldnotify_common.errors import ServiceError
from coldnotify_common.kafka.kafka_clients import TopicLooks, TopicMissing, consumer_config
from coldnotify_common.kafka.record_consumer import TOPIC_IS_ANOTHER, Gap, RecordConsumer, bytes_of
from coldnotify_common.nodes import Node, NodeTable, SeenNode
from coldnotify_common.own_thread import OwnThread
from coldnotify_common.paced import Paced
from coldnotify_common.settings import ServiceSettings

_paced = Paced(structlog.get_logger())
_unknown = Paced(structlog.get_logger(), every_s=60.0)

_POLL_S = 0.2
"""Maximum time until the thread notices that it has to stop."""
_BATCH_RECORDS_MAX = 500
_FETCH_WAIT_MS = 1000
_BACK_RECORDS_MAX = 5_000
"""Number of records that are read at the start. All nodes write within RENEW_S, so fewer would do."""
_RETRY_S = 2.0
_CHECK_S = 5.0
"""Interval of checks that the topic was not deleted and created again."""
_ASK_S = 1.0
_JOIN_S = 3.0
_PARTITION = 0
"""The topic has one partition, so that its records have one order."""


class NodesReader(OwnThread):
    """The nodes of the topic. Any thread may ask."""

    def __init__(self, settings: ServiceSettings) -> None:
        super().__init__("nodes-reader", _JOIN_S)
        self._settings = settings
        self._topic = settings.topics.nodes
        self._lock = threading.Lock()
        self._table = NodeTable()
        self._end = 0
        """End of the topic when it began to be read."""
        self.loaded = False
        """True once the topic was read to where it ended, or cannot be read."""
        self.unknown: str | None = "the nodes topic was not read yet"
        """The reason why nodes are not known: the topic does not exist, or Kafka does not answer; None if they are."""
        self.last_record_s: float | None = None
        """Time at which the last record was read, on the monotonic clock."""

    def nodes(self, role: str = "") -> list[Node]:
        """Returns the nodes of a role, or all of them, that count."""
        with self._lock:
            return self._table.nodes(role)

    def seen(self, role: str = "") -> list[SeenNode]:
        """Returns the nodes of a role, or all of them, with their ages, silent ones included."""
        with self._lock:
            return self._table.seen(role)

    def passed_over(self) -> tuple[int, str]:
        """Returns the number of records passed over, and the reason for the last one."""
        with self._lock:
            return self._table.passed_over, self._table.last_passed_over

    def _run(self) -> None:
        # The group is never joined, but the client requires a group id.
        group = self._settings.topics.group(f"nodes-{secrets.token_hex(8)}")
        looks = TopicLooks(self._settings)
        while not self._stop.is_set():
            consumer = RecordConsumer(
                consumer_config(
                    self._settings,
                    group,
                    name="nodes-reader",
                    enable_partition_eof=True,
                    fetch_wait_max_ms=_FETCH_WAIT_MS,
                )
            )
            try:
                topic_id = self._begin(consumer, looks)
                if topic_id is not None:
                    self._read(consumer, looks, topic_id)
                    continue
            except KafkaException as error:
                _paced.log("nodes cannot be read", level="warning", error=str(error))
            finally:
                consumer.close()
            self._stop.wait(_RETRY_S)

    def _begin(self, consumer: RecordConsumer, looks: TopicLooks) -> str | None:
        """Begins to read near the topic's end. Returns the topic's id; None if it does not exist, or cannot be
        read."""
        try:
            # Before any record: the next check then finds a topic that replaces this one meanwhile.
            topic_id = str(looks.describe(self._topic, _ASK_S).topic_id)
        except ServiceError as error:
            self._on_unknown(str(error))
            return None
        place = TopicPartition(self._topic, _PARTITION)
        low, self._end = consumer.get_watermark_offsets(place, timeout=_ASK_S)
        start = max(low, self._end - _BACK_RECORDS_MAX)
        consumer.assign([TopicPartition(self._topic, _PARTITION, start)])
        self.unknown = None
        self._on_read(start)
        return topic_id

    def _on_unknown(self, reason: str) -> None:
        self.unknown, self.loaded = reason, True
        _unknown.log("nodes are not known", level="warning", reason=reason)

    def _read(self, consumer: RecordConsumer, looks: TopicLooks, topic_id: str) -> None:
        """Reads until the topic is another one, or this has to stop."""
        check_s = time.monotonic() + _CHECK_S
        while not self._stop.is_set():
            for message in consumer.read(_POLL_S, _BATCH_RECORDS_MAX):
                if isinstance(message, Gap):
                    with self._lock:
                        self._table.pass_over(f"record: offset {message.start} cannot be read: {message.reason}")
                    self._on_read(message.next)
                elif not self._take(message):
                    return
            if time.monotonic() >= check_s:
                check_s = time.monotonic() + _CHECK_S
                if self._is_another(looks, topic_id):
                    return

    def _is_another(self, looks: TopicLooks, topic_id: str) -> bool:
        try:
            return str(looks.describe(self._topic, _ASK_S).topic_id) != topic_id
        except TopicMissing:
            return True
        except ServiceError:
            return False

    def _take(self, message: Message) -> bool:
        """Returns false if the topic has to be read by a new consumer."""
        error = message.error()
        if error is None:
            now_s = time.monotonic()
            with self._lock:
                before = self._table.passed_over
                key, value = bytes_of(message.key()), bytes_of(message.value())
                self._table.on_record(key, value, message.timestamp()[1], now_s)
                reason = self._table.last_passed_over if self._table.passed_over > before else ""
            self.last_record_s = now_s
            if reason:
                _paced.log("a record of a node is passed over", level="warning", reason=reason)
            self._on_read((message.offset() or 0) + 1)
        elif error.code() == KafkaError._PARTITION_EOF:
            self.loaded = True
        elif error.code() in TOPIC_IS_ANOTHER:
            return False
        else:
            _paced.log("nodes cannot be read", level="warning", error=error.str())
        return True

    def _on_read(self, offset: int) -> None:
        """Ends the load once all that was there at the start was read. Kafka says the end only after it has waited."""
        if offset >= self._end:
            self.loaded = True
