"""PartitionClaims: Kafka's side of the part. One thread reads hooks and their state, claims partitions, and asks where
the logs end; the event loop is told what it has, and what it has lost.

The steps of a takeover, in this order:

1. the group assigns the partition; hooks[p] and hooks_state[p] are read up to where they ended then;
2. a claim with the next generation is written to hooks_state[p], and read back;
3. the hooks are handed to the event loop, where each connects: its predecessor is displaced;
4. WAIT_S behind the claim, and from then on for a second behind each proof, calls may begin (`core/ownership.py`).
"""

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import structlog
from coldnotify.errors import StateError
from coldnotify_common.errors import ServiceError
from coldnotify_common.hooks.hook_records import STATUS, TEST, Hook, InvalidHook, decode_hook, json_fields, parse_key
from coldnotify_common.kafka.kafka_clients import admin_config, connect, consumer_config, polled, producer_config
from coldnotify_common.kafka.record_consumer import Gap, RecordConsumer, bytes_of
from coldnotify_common.own_thread import OwnThread
from coldnotify_common.paced import Paced
from coldnotify_common.settings import ServiceSettings
from coldnotify_streams.log_ends import LogEnds
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from coldnotify_hooks.core.ownership import Ownership

log = structlog.get_logger()
_paced = Paced(log)

CLAIM_KEY = b"claim"
_POLL_S = 0.02
_BATCH = 500
_ASK_S = 0.25
"""So often it is asked where the logs end: several times within PROOF_S."""
_STORE_S = 10.0
_AGAIN_S = 10.0
"""A partition that another process has claimed, and that the group still assigns here, is claimed after this time."""
_JOIN_S = 10.0
SESSION_MS = 6_000
"""The least that brokers allow by default. A killed caller's partitions are assigned to others after this."""
_HEARTBEAT_MS = 300


@dataclass
class ClaimedPartition:
    """One partition, from its assignment to its end. The thread of PartitionClaims changes it."""

    number: int
    ownership: Ownership
    hooks: dict[str, Hook] = field(default_factory=dict)
    """By key."""
    state: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The fields of the newest record of the highest generation, by key."""
    ends: dict[str, int] = field(default_factory=dict)
    """The offsets up to which both topics are read before the claim."""
    read: dict[str, int] = field(default_factory=dict)
    claiming: bool = False
    served: bool = False
    """True once the event loop has it."""
    lost_s: float | None = None

    def note_claim(self, *, begun: bool) -> None:
        """A claim is on its way, or was in vain."""
        self.claiming = begun

    def note_loss(self, now_s: float) -> None:
        """Another process has it."""
        self.lost_s = now_s

    def hand_over(self) -> dict[str, dict[str, Any]]:
        """Returns the state for the event loop, which has it from now on."""
        self.served = True
        state, self.state = self.state, {}
        return state

    @property
    def generation(self) -> int:
        """The claim's."""
        return self.ownership.generation

    @property
    def loaded(self) -> bool:
        """True once everything that stood there at the assignment was read."""
        return bool(self.ends) and all(self.read.get(topic, 0) >= end for topic, end in self.ends.items())


@dataclass(frozen=True)
class PartitionEvents:
    """Called in the thread of PartitionClaims; each hands over to the event loop."""

    on_claimed: Callable[[ClaimedPartition, dict[str, Hook], dict[str, dict[str, Any]]], None]
    on_lost: Callable[[int], None]
    on_hook: Callable[[int, str, Hook | None], None]
    on_test: Callable[[int, str, str, float], None]
    """Partition, key of the hook, id of the test, and the Unix time in s of the request."""


class PartitionClaims(OwnThread):
    """The partitions of this process."""

    def __init__(self, settings: ServiceSettings, owner: str, events: PartitionEvents) -> None:
        super().__init__("hooks-claims", _JOIN_S)
        self._settings = settings
        self._topics = settings.topics
        self._owner = owner
        self._events = events
        self._partitions: dict[int, ClaimedPartition] = {}
        self._producer: Producer | None = None
        self._lock = threading.Lock()
        self.not_ready: str | None = "Kafka was not asked yet"

    # From other threads

    def store(self, topic: str, partition: int, key: str, value: bytes | None) -> None:
        """Makes a record durable; blocks. Raises StateError."""
        done: Future[None] = Future()

        def on_delivery(error: KafkaError | None, _: Message) -> None:
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(StateError(f"{topic}: Kafka has not taken it: {error.str()}"))

        with self._lock:
            producer = self._producer
        if producer is None:
            raise StateError(f"{topic}: this process stops")
        try:
            producer.produce(topic, value, key.encode(), partition=partition, on_delivery=on_delivery)
            done.result(_STORE_S + 1)
        except (KafkaException, BufferError) as error:
            raise StateError(f"{topic}: Kafka has not taken it: {error}") from None
        except TimeoutError:
            raise StateError(f"{topic}: Kafka does not answer") from None

    # The thread

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._follow()
            except (KafkaException, ServiceError) as error:
                self.not_ready = str(error)
                _paced.log("hooks cannot be read", level="warning", error=str(error))
            finally:
                self._drop_all()
            self._stop.wait(1.0)

    def _follow(self) -> None:
        settings, topics = self._settings, self._topics
        group = topics.group("hooks")
        config = consumer_config(
            settings,
            group,
            name="hooks",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=_HEARTBEAT_MS,
            partition_assignment_strategy="cooperative-sticky",
            fetch_wait_max_ms=100,
        )
        hooks = RecordConsumer(config)
        state = RecordConsumer(consumer_config(settings, group + "-state", name="hooks-state", fetch_wait_max_ms=100))
        producer = Producer(producer_config(settings, name="hooks", message_timeout_ms=int(_STORE_S * 1000)))
        ends = LogEnds(settings, group + "-ends", AdminClient(admin_config(settings)))
        connect(producer)
        with self._lock:
            self._producer = producer
        try:
            self._check_topics(hooks)
            hooks.subscribe(
                [topics.hooks],
                on_assign=lambda consumer, some: self._assigned(consumer, state, some),
                on_revoke=lambda consumer, some: self._revoked(consumer, state, some),
                on_lost=lambda consumer, some: self._revoked(consumer, state, some),
            )
            ask_s = 0.0
            while not self._stop.is_set():
                for message in hooks.read(_POLL_S, _BATCH):
                    self._on_message(message)
                for message in state.read(_POLL_S if self._partitions else 0.0, _BATCH):
                    self._on_message(message)
                if (failed := polled(producer, 0)) is not None:
                    raise KafkaException(failed)
                now_s = time.monotonic()
                if now_s >= ask_s:
                    ask_s = now_s + _ASK_S
                    self._ask(ends)
                for one in list(self._partitions.values()):
                    self._step(one, producer)
        finally:
            with self._lock:
                self._producer = None
            producer.flush(1.0)
            ends.close()
            state.close()
            hooks.close()

    def _check_topics(self, consumer: Consumer) -> None:
        counts = {}
        for topic in self._topics.of_hooks:
            found = consumer.list_topics(topic, timeout=5.0).topics[topic]
            if found.error is not None:
                raise ServiceError(f"topic {topic}: {found.error.str()}: run `coldnotify topics apply`")
            counts[topic] = len(found.partitions)
        if len(set(counts.values())) != 1:
            raise ServiceError(f"the topics of hooks have different numbers of partitions: {counts}")
        self.not_ready = None

    def _assigned(self, consumer: Consumer, state: Consumer, some: list[TopicPartition]) -> None:
        if not some:
            return
        for one in some:
            self._partitions[one.partition] = ClaimedPartition(one.partition, Ownership(self._owner))
        numbers = [one.partition for one in some]
        consumer.incremental_assign([TopicPartition(self._topics.hooks, p, OFFSET_BEGINNING) for p in numbers])
        state.incremental_assign([TopicPartition(self._topics.hooks_state, p, OFFSET_BEGINNING) for p in numbers])

    def _revoked(self, consumer: Consumer, state: Consumer, some: list[TopicPartition]) -> None:
        for one in some:
            self._drop(one.partition)
        if some:
            consumer.incremental_unassign(some)
            state.incremental_unassign([TopicPartition(self._topics.hooks_state, one.partition) for one in some])

    def _drop(self, number: int) -> None:
        found = self._partitions.pop(number, None)
        if found is not None:
            found.ownership.lose()
            if found.served:
                self._events.on_lost(number)

    def _drop_all(self) -> None:
        for number in list(self._partitions):
            self._drop(number)

    def _ask(self, ends: LogEnds) -> None:
        """Asks where the logs end. A Kafka that does not answer proves nothing, so nothing is called."""
        if not self._partitions:
            return
        places = [(self._topics.hooks_state, p) for p in self._partitions]
        fresh = [(self._topics.hooks, p) for p, one in self._partitions.items() if not one.ends]
        asked_s = time.monotonic()
        try:
            found = ends.uncommitted([*places, *fresh])
        except ServiceError as error:
            _paced.log("Kafka does not say where the hooks' state ends", level="warning", error=str(error))
            return
        for (topic, number), end in found.items():
            one = self._partitions[number]
            if topic == self._topics.hooks_state:
                one.ownership.on_end(asked_s, end)
        for _, number in fresh:
            self._partitions[number].ends.update({topic: found[topic, number] for topic in self._topics.of_hooks})

    def _on_message(self, message: Message | Gap) -> None:
        if isinstance(message, Gap):
            self._on_read(message.topic, message.partition, message.next)
            return
        error = message.error()
        if error is not None:
            if error.code() != KafkaError._PARTITION_EOF and not error.retriable():
                raise KafkaException(error)
            return
        topic, number, offset = str(message.topic()), int(message.partition() or 0), int(message.offset() or 0)
        one = self._partitions.get(number)
        if one is None:
            return
        key, value = bytes_of(message.key()) or b"", bytes_of(message.value())
        try:
            if topic == self._topics.hooks:
                self._on_hook(one, key, value)
            else:
                self._on_state(one, key, value)
        except (InvalidHook, ValueError) as failure:
            _paced.log(
                "a record of a hook is passed over", level="warning", topic=topic, offset=offset, error=str(failure)
            )
        self._on_read(topic, number, offset + 1)

    def _on_read(self, topic: str, number: int, position: int) -> None:
        one = self._partitions.get(number)
        if one is not None:
            one.read[topic] = position
            if topic == self._topics.hooks_state:
                one.ownership.on_read(position)

    def _on_hook(self, one: ClaimedPartition, key: bytes, value: bytes | None) -> None:
        domain, group, name, kind = parse_key(key)
        whole = f"{domain}/{group}/{name}"
        if kind == STATUS:
            return
        if kind == TEST:
            said = json_fields(value)
            if one.served and isinstance(said.get("id"), str) and isinstance(said.get("at_ms"), int):
                self._events.on_test(one.number, whole, said["id"], said["at_ms"] / 1000)
            return
        hook = None if value is None else decode_hook(key, value)
        if hook is None:
            one.hooks.pop(whole, None)
        else:
            one.hooks[whole] = hook
        if one.served:
            self._events.on_hook(one.number, whole, hook)

    def _on_state(self, one: ClaimedPartition, key: bytes, value: bytes | None) -> None:
        if key == CLAIM_KEY:
            said = json_fields(value)
            generation, owner = said.get("generation"), said.get("owner")
            if isinstance(generation, int) and one.ownership.on_claim(generation, str(owner), time.monotonic()):
                one.note_claim(begun=False)
            return
        whole = key.decode(errors="replace")
        if value is None:
            one.state.pop(whole, None)
            return
        said = json_fields(value)
        generation = said.get("generation")
        before = one.state.get(whole, {}).get("generation", 0)
        if isinstance(generation, int) and generation >= before and not one.served:
            one.state[whole] = said

    def _step(self, one: ClaimedPartition, producer: Producer) -> None:
        ownership, now_s = one.ownership, time.monotonic()
        if ownership.lost:
            if one.lost_s is None:
                one.note_loss(now_s)
                log.warning("another process has claimed the hooks of a partition", partition=one.number)
                if one.served:
                    self._events.on_lost(one.number)
            elif now_s - one.lost_s >= _AGAIN_S:
                # The group assigns it here all the same. All state is read again, by a run of its own.
                raise ServiceError(f"partition {one.number} of hooks was claimed by another process")
            return
        if not one.loaded or one.served:
            return
        if ownership.is_held:
            log.info("hooks claimed", partition=one.number, generation=one.generation, hooks=len(one.hooks))
            self._events.on_claimed(one, dict(one.hooks), one.hand_over())
        elif not one.claiming:
            one.note_claim(begun=True)
            said = {"generation": ownership.next_claim(), "owner": self._owner}
            producer.produce(self._topics.hooks_state, json.dumps(said).encode(), CLAIM_KEY, partition=one.number)
