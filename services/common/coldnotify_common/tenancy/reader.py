"""Reads the tenants and the verdicts from Kafka, in a thread of its own, for as long as the service runs.

A missing topic (in a Kafka of the release before) is looked for repeatedly: until it exists, nobody is limited. A topic
that was deleted and created again is read from its beginning by a new consumer, because Kafka's client would continue
in the new topic at the old offset, if that offset exists.
"""

import secrets
import time
from collections.abc import Sequence
from typing import Protocol

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from coldnotify_common.errors import ServiceError
from coldnotify_common.kafka.cut_off_nodes import NodeCutOff
from coldnotify_common.kafka.kafka_clients import TopicLooks, TopicMissing, connect, consumer_config
from coldnotify_common.kafka.record_consumer import TOPIC_IS_ANOTHER, Gap, RecordConsumer, bytes_of
from coldnotify_common.own_thread import OwnThread
from coldnotify_common.paced import Paced
from coldnotify_common.settings import ServiceSettings

log = structlog.get_logger()
_paced = Paced(log)

_POLL_S = 0.2
"""Maximum time until the thread notices that it has to stop."""
_BATCH_RECORDS_MAX = 500
_FETCH_WAIT_MS = 2000
"""Maximum time that Kafka waits before it answers that there are no new records. New records arrive at once, whatever
this is; a topic that is assigned later than the other waits once for that answer."""
_RETRY_S = 2.0
_CHECK_S = 5.0
"""Interval of checks that the topics were not deleted and created again."""
_ASK_S = 1.0
"""Timeout of a question. A running Kafka answers in milliseconds; stopping waits for a question under way."""
_VERDICTS_BACK_MS = 60_000
"""Age of the oldest verdicts to read: the verdicts of the last minute name the existing nodes."""
_JOIN_S = 3.0
_PARTITION = 0
"""Both topics have one partition, so that their records have one order."""


class ReadKeeper(Protocol):
    """Keeps the records read. Called from the reader's thread."""

    def on_load(self) -> None:
        """Begins a read of the tenants topic from its beginning."""

    def on_tenant(self, key: bytes | None, value: bytes | None) -> None:
        """Takes a record of the tenants topic."""

    def on_loaded(self, *, missing: bool) -> None:
        """The tenants topic was read up to its end; tenants without a record since on_load no longer exist. `missing`:
        the topic does not exist."""

    def on_verdict(self, key: bytes | None, value: bytes | None) -> None:
        """Takes a record of the verdicts topic."""

    def on_unreadable(self, topic: str, offset: int, reason: str) -> None:
        """Reports an unreadable record of either topic; the records after it follow."""


class TenancyReader(OwnThread):
    """Reads both topics, or only that of tenants, and follows them."""

    def __init__(self, settings: ServiceSettings, keeper: ReadKeeper, *, verdicts: bool = True) -> None:
        super().__init__("tenancy-reader", _JOIN_S)
        self._settings = settings
        self._tenants, self._verdicts = settings.topics.tenants, settings.topics.verdicts
        self._topics = {self._tenants, self._verdicts} if verdicts else {self._tenants}
        self._keeper = keeper
        self._assigned: dict[str, str] = {}
        """The topics being read, with their ids."""
        self._tenants_end: int | None = None
        """The end offset of the tenants topic, until it was reached; then None. Needed because Kafka reports the end of
        a partition only after it has waited for more records."""
        self._begin_anew = False
        """The assigned topics no longer match the existing ones."""
        self._next_look_s = 0.0
        """Missing topics are not looked for before this time."""
        self._next_check_s = 0.0
        """The topics being read are not checked before this time."""

    def _run(self) -> None:
        # The group is never joined, but the client requires a group id.
        group = self._settings.topics.group(f"tenancy-{secrets.token_hex(8)}")
        looks = TopicLooks(self._settings)
        while not self._stop.is_set():
            self._begin_anew = False
            self._assigned.clear()
            self._next_check_s = time.monotonic() + _CHECK_S
            consumer = RecordConsumer(
                consumer_config(
                    self._settings,
                    group,
                    name="tenancy-reader",
                    enable_partition_eof=True,
                    fetch_wait_max_ms=_FETCH_WAIT_MS,
                )
            )
            try:
                connect(consumer, _ASK_S)
                self._read(consumer, looks)
            finally:
                consumer.close()

    def _read(self, consumer: RecordConsumer, looks: TopicLooks) -> None:
        while not (self._stop.is_set() or self._begin_anew):
            try:
                self._read_on(consumer, looks)
            except NodeCutOff:
                return
            except KafkaException as error:
                # A reader that stopped would hold everybody to the agreements of that moment.
                _paced.log("the tenants cannot be read", level="warning", error=str(error))
                self._stop.wait(_RETRY_S)

    def _read_on(self, consumer: RecordConsumer, looks: TopicLooks) -> None:
        now_s = time.monotonic()
        missing = self._topics - self._assigned.keys()
        if missing and now_s >= self._next_look_s:
            self._next_look_s = now_s + _RETRY_S
            self._assign(consumer, looks, sorted(missing))
        if self._assigned and now_s >= self._next_check_s:
            self._next_check_s = now_s + _CHECK_S
            for topic, read in self._assigned.items():
                self._check(looks, topic, read)
        if not self._assigned:
            self._stop.wait(_POLL_S)
            return
        for message in consumer.read(_POLL_S, _BATCH_RECORDS_MAX):
            if isinstance(message, Gap):
                self._skip(message)
            else:
                self._take(message)

    def _assign(self, consumer: RecordConsumer, looks: TopicLooks, topics: Sequence[str]) -> None:
        """Assigns the topics that exist, all at once, because one assigned later waits for the other's fetch."""
        found: dict[str, str] = {}
        places = []
        for topic in topics:
            try:
                # Reads the topic's id before any record: the next check then finds a topic that replaces this one
                # meanwhile.
                read = str(looks.describe(topic, _ASK_S).topic_id)
                places.append(self._place(consumer, topic))
            except TopicMissing:
                words = "a topic of tenants is missing: run `coldnotify topics apply`"
                _paced.log(words, level="warning", topic=topic)
                if topic == self._tenants:
                    self._keeper.on_loaded(missing=True)
            except (ServiceError, KafkaException):
                continue  # the service itself reports other problems with Kafka
            else:
                found[topic] = read
        if not places:
            return
        consumer.incremental_assign(places)
        self._assigned |= found
        for place in places:
            if place.topic == self._tenants:
                self._keeper.on_load()
                self._on_tenants_read(place.offset)

    def _place(self, consumer: RecordConsumer, topic: str) -> TopicPartition:
        """Returns the offset to start from."""
        if topic == self._verdicts:
            since_ms = int(time.time() * 1000) - _VERDICTS_BACK_MS
            (place,) = consumer.offsets_for_times([TopicPartition(topic, _PARTITION, since_ms)], timeout=_ASK_S)
            if place.error is not None:
                raise KafkaException(place.error)
            return place
        place = TopicPartition(topic, _PARTITION)
        place.offset, self._tenants_end = consumer.get_watermark_offsets(place, timeout=_ASK_S)
        return place

    def _on_tenants_read(self, offset: int) -> None:
        """Ends the load once the records before this offset include all that the topic held at the start."""
        if self._tenants_end is not None and offset >= self._tenants_end:
            self._tenants_end = None
            self._keeper.on_loaded(missing=False)

    def _check(self, looks: TopicLooks, topic: str, read: str) -> None:
        try:
            there = str(looks.describe(topic, _ASK_S).topic_id)
        except ServiceError:
            return  # a deleted topic is read again from its beginning once it was created again
        if there != read:
            log.warning("a topic of tenants is read anew", topic=topic, error="it was made anew")
            self._begin_anew = True

    def _skip(self, gap: Gap) -> None:
        if gap.topic not in self._assigned:
            return
        self._keeper.on_unreadable(gap.topic, gap.start, gap.reason)
        if gap.topic == self._tenants:
            self._on_tenants_read(gap.next)

    def _take(self, message: Message) -> None:
        topic, error = str(message.topic()), message.error()
        if error is None:
            if topic not in self._assigned:
                return
            key, value = bytes_of(message.key()), bytes_of(message.value())
            if topic == self._tenants:
                self._keeper.on_tenant(key, value)
                self._on_tenants_read((message.offset() or 0) + 1)
            else:
                self._keeper.on_verdict(key, value)
        elif error.code() == KafkaError._PARTITION_EOF:
            if topic == self._tenants:
                self._keeper.on_loaded(missing=False)
        elif error.code() in TOPIC_IS_ANOTHER and topic in self._assigned:
            log.warning("a topic of tenants is read anew", topic=topic, error=error.str())
            del self._assigned[topic]
            self._begin_anew = True
        elif error.code() not in TOPIC_IS_ANOTHER:
            _paced.log("a topic of tenants cannot be read", level="warning", topic=topic, error=error.str())
