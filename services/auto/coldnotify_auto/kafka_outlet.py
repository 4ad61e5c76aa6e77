"""The outlet to Kafka: a producer for each source; progress is confirmed behind acknowledgements."""

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Collection
from functools import partial

import structlog
from coldnotify.publisher import make_message, make_record
from coldnotify_common.kafka.kafka_clients import polled, producer_config
from coldnotify_common.paced import Paced
from coldnotify_common.stop import StopFlag
from coldnotify_schemas.channels import message_headers
from coldnotify_schemas.descriptions import description_key, encode_description_record
from coldnotify_schemas.names import InvalidName, ObjectKey, object_key
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.records import InvalidRecord, encode_public_record, record_headers
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from coldnotify_auto.changes import Change, PutMessage, description_digest
from coldnotify_auto.metrics import PUBLISHED, RETAINED, SET_ASIDE
from coldnotify_auto.newest_log import NewestByKey
from coldnotify_auto.outlet_turns import TURN_S, OutletTurns
from coldnotify_auto.settings import AutoSettings
from coldnotify_auto.source import RunStopped, SourceFailed

_paced = Paced(structlog.get_logger())

UNACKNOWLEDGED_MAX = 1_000
_METADATA_S = 10.0
_PARTITIONS_S = 60.0
"""Age at which the number of partitions is asked for again. The matcher moves what was sent by an older number."""
_LAST_FLUSH_S = 5.0
_DESCRIBED_MAX = 100_000
"""Objects whose last description is remembered."""
_OF_THE_RECORD = frozenset({KafkaError.MSG_SIZE_TOO_LARGE})
"""Errors that would come again for the same record."""


class KafkaOutlet(OutletTurns):
    """Writes a source's changes. The thread that calls it serves the acknowledgements, too."""

    is_plan = False

    def __init__(
        self, name: str, settings: AutoSettings, stop: StopFlag, on_ready: Callable[[str | None], None]
    ) -> None:
        """Connects to nothing yet. `on_ready` is told why the source is not followed, or None."""
        self.while_waiting: Callable[[], None] = lambda: None
        self._name, self._settings, self._stop, self._on_ready = name, settings, stop, on_ready
        self._retentions = settings.retentions()
        # Without a limit of time: records wait for Kafka in the order in which they came.
        self._producer = Producer(producer_config(settings, message_timeout_ms=0))
        self._number = 0
        self._pending: dict[int, float] = {}
        """Times of the changes that are not acknowledged, by number, in order."""
        self._marks: deque[tuple[int, int]] = deque()
        """(number of the last change before it, mark)."""
        self._confirmed = 0
        self._failure: str | None = None
        self._partitions = 0
        self._partitions_s = 0.0
        self._described: OrderedDict[ObjectKey, bytes] = OrderedDict()

    @property
    def payload_bytes_max(self) -> int:
        """Limit on payloads (bytes)."""
        return self._settings.object_payload_bytes_max

    def put(self, change: Change, at_s: float | None = None) -> None:
        """Publishes; waits while UNACKNOWLEDGED_MAX are not acknowledged. A change that no record can contain is set
        aside. Raises SourceFailed, RunStopped."""
        position = f"{change.channel} {change.id}" if isinstance(change, PutMessage) else "/".join(change.key)
        try:
            self._put(change, position, time.time() if at_s is None else at_s)
        except (InvalidName, InvalidRecord) as error:
            self.set_aside(position, str(error))

    def passed(self, mark: int) -> None:
        """Marks the place behind the changes so far."""
        if self._marks and self._marks[-1][0] == self._number:
            self._marks.pop()  # nothing has come since: there are no more marks than changes
        self._marks.append((self._number, mark))

    def confirmed(self) -> int:
        """Returns the highest mark whose changes Kafka has acknowledged, 0 if there is none. Raises SourceFailed."""
        self._serve(0)
        oldest = next(iter(self._pending), self._number + 1)
        while self._marks and self._marks[0][0] < oldest:
            self._confirmed = self._marks.popleft()[1]
        return self._confirmed

    def flush(self) -> None:
        """Waits until everything is acknowledged. Raises SourceFailed, RunStopped."""
        while self._pending:
            self._turn(TURN_S)

    def set_aside(self, position: str, reason: str) -> None:
        """Counts and logs what cannot be mapped."""
        SET_ASIDE.labels(self._name).inc()
        _paced.log("set aside", level="warning", source=self._name, position=position, reason=reason)

    def newest(self, domains: Collection[str]) -> NewestByKey:
        """Returns the newest versions of the domains' objects. What was put before is in the log by then.

        Raises SourceFailed, RunStopped."""
        self.flush()
        return super().newest(domains)

    def ready(self, reason: str | None) -> None:
        """Says why the source is not followed; None: it is."""
        self._on_ready(reason)

    def retained(self, bytes_: int) -> None:
        """Says how much log a database keeps for the source."""
        RETAINED.labels(self._name).set(bytes_)

    def close(self) -> None:
        """Gives up what is not acknowledged after some seconds."""
        end_s = time.monotonic() + _LAST_FLUSH_S
        while self._pending and self._failure is None and time.monotonic() < end_s:
            self._serve(TURN_S, raising=False)
        self._producer.purge()
        polled(self._producer, 0)

    def _turn(self, wait_s: float) -> None:
        if self._stop.is_set():
            raise RunStopped
        self.while_waiting()
        if self._pending:
            self._serve(wait_s)
        elif self._stop.wait(wait_s):
            raise RunStopped

    def _put(self, change: Change, position: str, at_s: float) -> None:
        if isinstance(change, PutMessage):
            object_key(change.domain, change.group, change.channel)
            message = make_message(change.payload, id=change.id, source=None)
            topic = self._topic_of(change.domain)
            key = object_key(change.domain, change.group, change.channel)
            self._produce(
                topic, change.domain, change.group, key, message.payload, message_headers(message.said), position, at_s
            )
            return
        record = make_record(
            change.version,
            change.payload or None,
            source=change.source or None,
            deleted=change.deleted,
            incarnation=change.incarnation,
            payload_bytes_max=self.payload_bytes_max,
        )
        names, topic = change.key, self._settings.topics.objects
        if change.description is not None and self._is_news(names, said := description_digest(change.description)):
            value = encode_description_record(change.description or None)
            self._produce(topic, *names[:2], description_key(*names), value, [], position, at_s)
            self._described[names] = said
            if len(self._described) > _DESCRIBED_MAX:
                self._described.popitem(last=False)
        self._produce(
            topic, *names[:2], object_key(*names), encode_public_record(record), record_headers(record), position, at_s
        )

    def _is_news(self, key: ObjectKey, said: bytes) -> bool:
        if key in self._described:
            self._described.move_to_end(key)
        return self._described.get(key) != said

    def _topic_of(self, domain: str) -> str:
        topics = self._settings.topics
        return f"{topics.prefix}channels.{self._retentions.of(domain).value}"

    def _produce(
        self,
        topic: str,
        domain: str,
        group: str,
        key: str,
        value: bytes,
        headers: list[tuple[str, bytes]],
        position: str,
        at_s: float,
    ) -> None:
        while len(self._pending) >= UNACKNOWLEDGED_MAX:
            self._turn(TURN_S)
        partitions = self._known_partitions()
        number = self._number + 1
        try:
            self._producer.produce(
                topic,
                key=key.encode(),
                value=value,
                headers=[*headers] or None,
                partition=partition_of(domain, group, partitions),
                on_delivery=partial(self._on_delivery, number, position),
            )
        except KafkaException as error:
            if error.args[0].code() in _OF_THE_RECORD:
                self.set_aside(position, error.args[0].str())
                return
            raise SourceFailed(f"Kafka: {error.args[0].str()}") from None
        self._number = number
        self._pending[number] = at_s
        self._serve(0)

    def _known_partitions(self) -> int:
        now_s = time.monotonic()
        if not self._partitions or now_s - self._partitions_s > _PARTITIONS_S:
            topic = self._settings.topics.objects
            try:
                found = self._producer.list_topics(topic, timeout=_METADATA_S).topics[topic]
            except KafkaException as error:
                if self._partitions:
                    return self._partitions
                raise SourceFailed(f"Kafka ({self._settings.kafka}): {error.args[0].str()}") from None
            if found.error is not None or not found.partitions:
                raise SourceFailed(f"topic {topic} does not exist: run `coldnotify topics apply`")
            self._partitions, self._partitions_s = len(found.partitions), now_s
        return self._partitions

    def _serve(self, wait_s: float, *, raising: bool = True) -> None:
        fatal = polled(self._producer, wait_s)
        if fatal is not None and self._failure is None:
            self._failure = fatal.str()
        if raising and self._failure is not None:
            raise SourceFailed(f"Kafka: {self._failure}")

    def _on_delivery(self, number: int, position: str, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            PUBLISHED.labels(self._name).inc()
        elif error.code() in _OF_THE_RECORD:
            self.set_aside(position, error.str())
        else:
            # It stays pending, so nothing behind it is confirmed.
            self._failure = self._failure or error.str()
            return
        self._pending.pop(number, None)

    def lag_s(self) -> float:
        """Returns the age of the oldest change that is not acknowledged (seconds). Any thread may ask."""
        try:
            oldest_s = next(iter(self._pending.values()), None)
        except RuntimeError:  # the source's thread changes it meanwhile
            return 0.0
        return 0.0 if oldest_s is None else max(0.0, time.time() - oldest_s)
