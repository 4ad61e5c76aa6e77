"""Reads the tenants and the verdicts from Kafka, in a thread of its own, for as long as the service runs.

A topic that is not there (a Kafka of the release before) is looked for again and again: until then nobody is limited.
One that was made anew is read from its beginning, by a consumer that knows nothing of the one before: Kafka's client
would go on in the new topic at the place it had reached, where there is such a place.
"""

import secrets
import threading
import time
from collections.abc import Sequence
from typing import Protocol

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from coldnotify_common.errors import ServiceError
from coldnotify_common.kafka.kafka_clients import TopicLooks, TopicMissing, connect, consumer_config
from coldnotify_common.kafka.record_consumer import Gap, RecordConsumer
from coldnotify_common.paced import Paced
from coldnotify_common.settings import ServiceSettings

log = structlog.get_logger()
_paced = Paced(log)

_POLL_S = 0.2
"""How soon the thread notices that it is to stop."""
_BATCH_RECORDS_MAX = 500
_FETCH_WAIT_MS = 2000
"""How long Kafka may wait before it says that there is nothing new. What is written comes at once, whatever this is; a
topic that is read later than the other waits for that answer once."""
_RETRY_S = 2.0
_CHECK_S = 5.0
"""How often it is asked whether the topics are still those that are read."""
_ASK_S = 1.0
"""A Kafka that is there answers in milliseconds; stopping waits for a question that is under way."""
_VERDICTS_BACK_MS = 60_000
"""How far back verdicts are of use: those of the last minute name the nodes that there are."""
_JOIN_S = 3.0
_PARTITION = 0
"""Both topics have one partition, so that their records have one order."""
_BEGIN_ANEW = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._AUTO_OFFSET_RESET,
    KafkaError.OFFSET_OUT_OF_RANGE,
}


class ReadKeeper(Protocol):
    """Who keeps what is read. Called from the reader's thread."""

    def on_load(self) -> None:
        """The tenants topic is read from its beginning."""

    def on_tenant(self, key: bytes | None, value: bytes | None) -> None:
        """A record of it."""

    def on_loaded(self, *, missing: bool) -> None:
        """It was read up to its end; what did not come since on_load is there no more. `missing`: there is no such
        topic."""

    def on_verdict(self, key: bytes | None, value: bytes | None) -> None:
        """A record of the verdicts topic."""

    def on_unreadable(self, topic: str, offset: int, reason: str) -> None:
        """What stands there, of either topic, nobody can read; what comes behind it is told."""


class TenancyReader:
    """Reads both topics, or that of tenants alone, and follows them."""

    def __init__(self, settings: ServiceSettings, keeper: ReadKeeper, *, verdicts: bool = True) -> None:
        self._settings = settings
        self._tenants, self._verdicts = settings.topics.tenants, settings.topics.verdicts
        self._topics = {self._tenants, self._verdicts} if verdicts else {self._tenants}
        self._keeper = keeper
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tenancy-reader", daemon=True)
        self._assigned: dict[str, str] = {}
        """What is read, each with the topic's id."""
        self._tenants_end: int | None = None
        """Up to where the tenants are to be read, until they were. Kafka's word that there is nothing more comes only
        when it has waited for more."""
        self._begin_anew = False
        """What is assigned is not what there is."""
        self._next_look_s = 0.0
        """Before that, topics that are missing are not looked for."""
        self._next_check_s = 0.0
        """Before that, nobody asks whether those that are read are still there."""

    def start(self) -> None:
        """Begins to read."""
        self._thread.start()

    def stop(self) -> None:
        """Ends reading; waits a moment for the thread."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(_JOIN_S)

    def _run(self) -> None:
        # No group is joined: the id only has to be there.
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
            except KafkaException as error:
                # Whoever reads no more holds everybody to the agreements of that moment.
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
        """Have those be read that are there: at once, as one that comes later waits for the other's fetch."""
        found: dict[str, str] = {}
        places = []
        for topic in topics:
            try:
                # Asked before anything is read: a topic that takes its place meanwhile is found by the next check.
                read = str(looks.describe(topic, _ASK_S).topic_id)
                places.append(self._place(consumer, topic))
            except TopicMissing:
                words = "a topic of tenants is missing: run `coldnotify topics apply`"
                _paced.log(words, level="warning", topic=topic)
                if topic == self._tenants:
                    self._keeper.on_loaded(missing=True)
            except (ServiceError, KafkaException):
                continue  # what else is wrong with Kafka, the service says itself
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
        """Where reading begins."""
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
        """What lies before this offset was read."""
        if self._tenants_end is not None and offset >= self._tenants_end:
            self._tenants_end = None
            self._keeper.on_loaded(missing=False)

    def _check(self, looks: TopicLooks, topic: str, read: str) -> None:
        try:
            there = str(looks.describe(topic, _ASK_S).topic_id)
        except ServiceError:
            return  # a topic that is gone is read anew once there is another one
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
            key, value = _bytes(message.key()), _bytes(message.value())
            if topic == self._tenants:
                self._keeper.on_tenant(key, value)
                self._on_tenants_read((message.offset() or 0) + 1)
            else:
                self._keeper.on_verdict(key, value)
        elif error.code() == KafkaError._PARTITION_EOF:
            if topic == self._tenants:
                self._keeper.on_loaded(missing=False)
        elif error.code() in _BEGIN_ANEW and topic in self._assigned:
            log.warning("a topic of tenants is read anew", topic=topic, error=error.str())
            del self._assigned[topic]
            self._begin_anew = True
        elif error.code() not in _BEGIN_ANEW:
            _paced.log("a topic of tenants cannot be read", level="warning", topic=topic, error=error.str())


def _bytes(data: bytes | str | None) -> bytes | None:
    return data.encode() if isinstance(data, str) else data
