"""The Kafka side of the publisher: one idempotent producer, its acknowledgements, and the topic's partitions."""

import concurrent.futures
import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple, cast

from coldnotify_schemas.atomic_sets import SET_PREFIX, AtomicSet, encode_set
from coldnotify_schemas.channels import Retentions, message_headers
from coldnotify_schemas.descriptions import KEY_PREFIX, encode_description_record
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.protocol import CLOCK_SET_S
from coldnotify_schemas.records import (
    PAYLOAD_HEADER,
    ConditionalRecord,
    PublicRecord,
    encode_public_record,
    record_headers,
)
from coldnotify_schemas.topics import TopicNames
from coldnotify_schemas.traceparent import TRACEPARENT_HEADER
from coldnotify_schemas.wrong_clocks import clock_fault, time_words
from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicCollection
from confluent_kafka.admin import AdminClient

from coldnotify._forked import Owner
from coldnotify._publishing.checks import CheckedMessage, DescriptionRecord
from coldnotify._publishing.published import Published, PublishError, PublishRejected, PublishTimeout, Repeat
from coldnotify._publishing.stamping import STAMPS_MAX, StampClock, Stamps
from coldnotify.flow.beginnings import KAFKA
from coldnotify.flow.flow_limit import FlowLimit
from coldnotify.flow.windows import Window

_logger = logging.getLogger("coldnotify.publisher")

QUEUE_MAX = 10_000
"""The most records on their way at once: some 50 MiB of the largest; more would only wait in another place."""
MEMORY_MAX = 10_000
"""Limit on objects whose last publish is remembered."""
REPEAT_TRUST_S = 1
"""A known repeat is left out only if the topic was seen to be the same so short a time ago: in a new one it would be
missing. Else the topic is looked at first."""
_LOOKUP_PAUSE_S = 0.1
"""Pause between two look-ups that fail at once: a topic that is being recreated is missing for a moment."""
PARTITIONS_REFRESH_S = 60
"""How old the known number of partitions may get. The matcher moves records that were sent by an older number."""
_PURGE_S = 10
"""How long giving up may take: it needs nobody else, so only a machine that stands still needs longer."""
_METADATA_S = 1
"""Acknowledgements wait while librdkafka learns of new partitions: not for long, it is asked again if need be."""
_POLL_S = 0.2
"""Poll time of the thread that serves acknowledgements; they wake it at once, so this only limits
the wait for its end.
"""

_REFUSED = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.POLICY_VIOLATION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    }
)
"""Errors after which the record is certainly not in Kafka."""
_REJECTED = frozenset({KafkaError.MSG_SIZE_TOO_LARGE})
"""Those of them that would come again for the same record, if they come before it is sent. Kafka says the same of a
whole batch, and of a topic that takes nothing any more because it was copied under another prefix."""
_MISSTAMPED = frozenset(
    {
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.INVALID_RECORD,
        KafkaError._INVALID_DIFFERENT_RECORD,
    }
)
"""Kafka's errors for a whole batch in which a timestamp is too far ahead: the first if one record is named, the others
for the records at fault and for the rest. Our records have no other fault: each has a key. None of the batch is in
Kafka.
"""
_TIMEOUTS = frozenset(
    {
        KafkaError._MSG_TIMED_OUT,
        KafkaError._TIMED_OUT,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError._PURGE_INFLIGHT,
    }
)
_PRODUCER_ONLY = frozenset({"statistics.interval.ms", "stats_cb"})
_TOPIC_CHANGED = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})


Sending = concurrent.futures.Future[Published]
Lookup = concurrent.futures.Future[Any]
Room = concurrent.futures.Future[None]


class NotNow(Exception):
    """The record cannot be sent at this moment; the message says why. Trying again soon will help."""


class NoRoom(NotNow):
    """The limit on records in flight is reached: `Sender.room` tells when that is over."""


class VersionAhead(PublishError):
    """Kafka refuses the time that our clock gave as a version; it is known better by now."""

    def __init__(self, message: str, now_ms: int) -> None:
        super().__init__(message, indeterminate=False)
        self.now_ms = now_ms
        """The time, as we know it now."""


class Flow(NamedTuple):
    """The state of a publisher's flow control."""

    limit: int
    """Records that may be on their way at once, at the moment."""
    in_flight: int
    """Records on their way."""
    waiting: int
    """Publishes of asyncio tasks that wait for one of these to be acknowledged."""
    window: Window | None
    """The last measurement: throughput and time to acknowledgement; None if there is none yet."""


_QUEUE_FULL = "as many records are on their way as Kafka acknowledges without a queue"


class _Last(NamedTuple):
    """The last publish of an object by this publisher, acknowledged or not."""

    value_hash: bytes
    future: Sending
    stamps: Stamps


@dataclass(slots=True)
class _Sent:
    """A record on its way."""

    topic: str
    partition: int
    key: bytes
    value: bytes
    headers: list[tuple[str, str | bytes | None]]
    version: int | None
    stamps: Stamps
    number: int
    """Among these."""
    timestamp_ms: int
    offset_s: float
    """The clock that it was stamped by minus the monotonic one."""
    future: Sending
    taken_s: float
    clock_ms: int | None
    times: int = 1
    """So often it was stamped."""


class Sender:
    """Never blocks but in flush() and close(); publisher.py waits, for threads and for asyncio.

    Callbacks of librdkafka run in one thread of this class, and in the AdminClient's.
    """

    def __init__(
        self,
        kafka: str,
        timeout_s: float,
        kafka_config: Mapping[str, Any],
        queue_max: int,
        sole_publisher: bool,
        controller: str,
        retentions: Retentions,
        topics: TopicNames,
        *,
        gives_up: bool = True,
    ) -> None:
        """Starts its thread. `gives_up`: a record that is not acknowledged within `timeout_s` fails; else it is sent
        again until close(), so that none overtakes an earlier one of its partition.

        Raises ValueError if the controller is unknown, or librdkafka refuses the configuration.
        """
        self.topics = topics
        self._kafka = kafka
        self._timeout_s = timeout_s
        self._gives_up = gives_up
        self._queue_max = queue_max
        self._sole_publisher = sole_publisher
        self._retentions = retentions
        self._config: dict[str, Any] = {
            "bootstrap.servers": kafka,
            "logger": _logger,
            # After an outage the first publish should not wait for the default back-off of up to 10 s.
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 1000,
            **kafka_config,
        }
        self._owner = Owner("Publisher", "make another one in this process")
        self._settled = threading.Condition()
        """Guards what follows; notified at each acknowledgement."""
        # Several publishers of one Kafka measure at the same times, by Unix time.
        self._flow = FlowLimit.named(controller, queue_max, KAFKA, unix_s=time.time() - time.monotonic())
        self._waiting: deque[Room] = deque()
        self._memory: OrderedDict[str, _Last] = OrderedDict()
        self._clock = StampClock()
        self._topic_id: str | None = None
        self._partitions: int | None = None
        self._partitions_at_s = 0.0
        self._lookup: Lookup | None = None
        self._asked_at_s = 0.0
        self._fatal = False
        self._metadata_wanted = False
        self._closed = False
        self._given_up = False
        """Nothing is sent any more."""
        self._stopped = threading.Event()
        try:
            self._producer = self._new_producer()
            # An AdminClient is not polled: its statistics would only pile up.
            self._admin = AdminClient({k: v for k, v in self._config.items() if k not in _PRODUCER_ONLY})
        except (KafkaException, TypeError) as error:
            raise ValueError(f"kafka_config: {_words(error)}") from None
        self._thread = threading.Thread(target=self._serve, name="coldnotify-publisher", daemon=True)
        self._thread.start()

    # -- the topic's partitions ----------------------------------------------------------------------------------------

    def lookup_needed(self) -> Lookup | None:
        """Asks for the topic's partitions where that is due; the answer to wait for, None if none need be. Raises
        UsedAfterFork, as all that follows."""
        self._owner.check()
        with self._settled:
            if self._closed or (self._partitions is not None and self._known_for_less_than(PARTITIONS_REFRESH_S)):
                return None
            lookup = self._ask()
            # Old knowledge is good enough to go on with while the new is fetched.
            return lookup if self._partitions is None else None

    def _known_for_less_than(self, seconds: float) -> bool:
        return time.monotonic() - self._partitions_at_s < seconds

    def _ask(self) -> Lookup:
        if self._lookup is None or self._lookup.done():
            objects = self.topics.objects
            asked = TopicCollection([objects])
            self._lookup = self._admin.describe_topics(asked, request_timeout=self._timeout_s)[objects]
            self._asked_at_s = time.monotonic()
            self._lookup.add_done_callback(self.lookup_done)
        return self._lookup

    def lookup_done(self, lookup: Lookup) -> None:
        """Takes the answer in. Called by the look-up itself, and by who waited for it and may be earlier."""
        if lookup.cancelled() or lookup.exception() is not None:
            return  # old knowledge, if any, stays
        description = lookup.result()
        if self._topic_id not in (None, str(description.topic_id)):
            self._memory = OrderedDict()  # what was acknowledged was in a topic that is gone
        self._topic_id = str(description.topic_id)
        self._partitions_at_s = time.monotonic()
        self._partitions = len(description.partitions)

    # -- records -------------------------------------------------------------------------------------------------------

    def send(
        self,
        domain: str,
        group: str,
        object_: str,
        record: PublicRecord | DescriptionRecord | CheckedMessage | AtomicSet,
        traceparent: str | None = None,
        *,
        waited: bool = False,
        clock_ms: int | None = None,
    ) -> Sending:
        """Hands the record to librdkafka; the future is settled by its acknowledgement, or by a PublishError. Of a set
        `object_` is its ID.

        `traceparent`: the trace context that the record carries in a header; None: none. `waited`: it is this one's
        turn; others let those go first that wait for room. `clock_ms`: its version, if our clock gave it: Kafka judges
        that time, too, and the future raises VersionAhead where it is refused and the clock has been set back since.

        Raises NotNow, and PublishError when the record cannot be sent at all.
        """
        self._owner.check()
        key = f"{domain}/{group}/{object_}"
        objects = topic = self.topics.objects
        headers: list[tuple[str, str | bytes | None]] = []
        if traceparent:
            headers.append((TRACEPARENT_HEADER, traceparent.encode()))
        version: int | None = None
        if isinstance(record, PublicRecord):
            version, value = record.version, encode_public_record(record)
            headers += record_headers(record)
        elif isinstance(record, CheckedMessage):
            topic, value = self._retentions.of(domain).topic(self.topics), record.payload
            headers += message_headers(record.said)
        elif isinstance(record, AtomicSet):
            key, value = SET_PREFIX + key, encode_set(record)
        else:
            key = KEY_PREFIX + key
            value = encode_description_record(record.description)
        remembered = topic == objects
        # A text in base64 is another payload than the bytes.
        person = PAYLOAD_HEADER[:16].encode() if isinstance(record, PublicRecord) and record.is_raw else b""
        value_hash = blake2b(value, digest_size=16, person=person).digest()
        with self._settled:
            if self._closed:
                raise PublishError("the publisher is closed; nothing was sent", indeterminate=False)
            last = self._memory.get(key) if remembered else None
            if last is not None and self._is_known_repeat(last, record, value_hash):
                if self._known_for_less_than(REPEAT_TRUST_S):
                    repeat: Sending = concurrent.futures.Future()
                    repeat.set_result(Repeat(*last.future.result()))
                    return repeat
                if self._lookup is None or time.monotonic() - self._asked_at_s >= _LOOKUP_PAUSE_S:
                    self._ask()
                raise NotNow(f"it is not known yet whether {objects} is still the same topic")
            # Where nothing is on its way, nobody who waits will be woken: there is nobody to let go first.
            if not self._flow.free or (self._waiting and self._flow.in_flight and not waited):
                raise NoRoom(_QUEUE_FULL)
            if self._fatal:
                self._replace_producer()
            if self._partitions is None:  # a failure took the knowledge back since the look-up
                raise PublishError(f"topic {objects} has changed meanwhile; nothing was sent", indeterminate=False)
            future: Sending = concurrent.futures.Future()
            stamps = last.stamps if last else Stamps()
            taken_s = time.monotonic()
            now_ms = max(self._clock.now_ms(time.time(), taken_s), clock_ms or 0)
            sent = _Sent(
                topic,
                partition_of(domain, group, self._partitions),
                key.encode(),
                value,
                headers,
                version,
                stamps,
                *stamps.begin(now_ms),
                now_ms / 1000 - taken_s,
                future,
                taken_s,
                clock_ms,
            )
            try:
                self._produce(sent)
            except BufferError:
                stamps.end(sent.number, taken=False)
                raise NotNow("librdkafka's queue is full") from None
            except KafkaException as error:
                stamps.end(sent.number, taken=False)
                if error.args[0].code() == KafkaError._UNKNOWN_PARTITION:
                    # New partitions: librdkafka's own knowledge of the topic is older than ours.
                    self._metadata_wanted = True
                    raise NotNow(f"partitions of {topic} are not known yet") from None
                self._note(error.args[0])
                if error.args[0].code() in _REJECTED:
                    raise PublishRejected(f"{_words(error)}; nothing was sent") from None
                raise PublishError(f"{_words(error)}; nothing was sent", indeterminate=False) from None
            future.set_running_or_notify_cancel()  # whoever waits may go, the record cannot be taken back
            self._flow.take()
            if remembered:
                self._memory[key] = _Last(value_hash, future, stamps)
                self._memory.move_to_end(key)
                if len(self._memory) > MEMORY_MAX:
                    self._memory.popitem(last=False)
            return future

    def now_ms(self) -> int:
        """Returns the time by the wall clock or, if Kafka refuses that, by the last one it accepted."""
        with self._settled:
            return self._clock.now_ms(time.time(), time.monotonic())

    @property
    def flow(self) -> Flow:
        """Returns the state of its flow control."""
        self._owner.check()
        with self._settled:
            return Flow(self._flow.limit, self._flow.in_flight, len(self._waiting), self._flow.window)

    def wait_for_room(self, timeout_s: float) -> None:
        """After NotNow: returns when trying again may help, at most after `timeout_s`."""
        self._owner.check()
        with self._settled:
            self._settled.wait(timeout_s)

    def room(self, *, first: bool) -> Room:
        """Call it after NoRoom. The future is settled when there is room for the caller, who may cancel it. `first`:
        ahead of the others, because the caller has waited already.
        """
        self._owner.check()
        room: Room = concurrent.futures.Future()
        with self._settled:
            if self._flow.free and not self._waiting:
                room.set_result(None)
            elif first:
                self._waiting.appendleft(room)
            else:
                self._waiting.append(room)
        return room

    def timeout(self) -> PublishTimeout:
        """Returns the error of a record that was sent and not acknowledged in time."""
        return PublishTimeout(
            f"Kafka ({self._kafka}) did not acknowledge the record within {self._timeout_s:g} s; "
            "the outcome is indeterminate: it may be published",
            indeterminate=True,
        )

    def _is_known_repeat(self, last: _Last, record: object, value_hash: bytes) -> bool:
        return (
            isinstance(record, PublicRecord)
            and not isinstance(record, ConditionalRecord)
            and last.value_hash == value_hash
            and record.version is not None
            and (self._sole_publisher or record.incarnation is not None)
            and last.future.done()
            and last.future.exception() is None
        )

    # -- the end -------------------------------------------------------------------------------------------------------

    def flush(self, timeout_s: float) -> int:
        """Waits until nothing is on its way, at most `timeout_s`; how many records still are."""
        self._owner.check()
        with self._settled:
            self._settled.wait_for(lambda: not self._flow.in_flight, timeout_s)
            return self._flow.in_flight

    def close(self, timeout_s: float) -> None:
        """Takes nothing more, waits as flush() does, gives up the rest. May be called twice. In a child of fork() it
        does nothing."""
        if not self._owner.is_here:
            return
        with self._settled:
            already, self._closed = self._closed, True
        if already:
            return
        self.flush(timeout_s)
        self._given_up = True
        self._producer.purge()
        self.flush(_PURGE_S)
        self._stopped.set()
        self._thread.join(_PURGE_S)

    # -- what librdkafka says ------------------------------------------------------------------------------------------

    def _new_producer(self) -> Producer:
        return Producer(
            {
                "linger.ms": 0,
                "queue.buffering.max.messages": self._queue_max,
                "queue.buffering.max.kbytes": 64 * 1024,
                **self._config,
                # What the promise rests on is not for kafka_config to change.
                "enable.idempotence": True,
                "acks": "all",
                "message.timeout.ms": max(1, int(self._timeout_s * 1000)) if self._gives_up else 0,
                "error_cb": self._note,
            }
        )

    def _replace_producer(self) -> None:
        """Replaces librdkafka's producer, which accepts nothing after a fatal error; what it had is given up."""
        old, self._producer = self._producer, self._new_producer()
        self._fatal = False
        old.purge()
        # Its callbacks take our lock, so they must come from another thread than this one.
        threading.Thread(target=old.flush, args=(self._timeout_s,), daemon=True).start()

    def _serve(self) -> None:
        while not self._stopped.is_set():
            try:
                self._producer.poll(_POLL_S)
            except Exception:
                # A bug, here or in confluent-kafka (it was seen to raise a SystemError of its own). Nobody else takes
                # delivery reports: without them nothing would be acknowledged any more.
                _logger.exception("a delivery report of Kafka could not be handled; later ones are handled")
                self._stopped.wait(_POLL_S)
            if self._metadata_wanted:
                self._metadata_wanted = False
                with suppress(KafkaException):
                    self._producer.list_topics(self.topics.objects, timeout=_METADATA_S)

    def _note(self, error: KafkaError) -> None:
        if error.fatal():
            self._fatal = True
        if error.code() in _TOPIC_CHANGED:
            self._partitions = None
        _logger.debug("Kafka: %s", error.str())

    def _produce(self, sent: _Sent) -> None:
        """Raises BufferError, KafkaException."""
        self._producer.produce(
            sent.topic,
            key=sent.key,
            value=sent.value,
            partition=sent.partition,
            timestamp=sent.timestamp_ms,
            headers=sent.headers or None,
            on_delivery=partial(self._on_delivery, sent),
        )

    def _on_delivery(self, sent: _Sent, error: KafkaError | None, message: Message | None) -> None:
        # Under the lock: whoever has its result sees its room free, and behind flush() all have theirs.
        with self._settled:
            if error is not None and self._stamped_anew(sent, error):
                return
            try:
                if error is not None:
                    self._note(error)
                    failure = self._failure(error, sent.clock_ms)
                    sent.stamps.end(sent.number, taken=failure.indeterminate)
                    sent.future.set_exception(failure)
                else:
                    message = cast(Message, message)
                    _kind, timestamp_ms = message.timestamp()
                    partition, offset = cast(int, message.partition()), cast(int, message.offset())
                    version = timestamp_ms if sent.version is None else sent.version
                    sent.stamps.end(sent.number, taken=True)
                    self._clock.taken(sent.offset_s)
                    sent.future.set_result(Published(version, partition, max(-1, offset)))
            finally:
                if error is None:
                    self._flow.acknowledged(time.monotonic(), sent.taken_s)
                else:
                    self._flow.failed()
                free = self._flow.free
                while free > 0 and self._waiting:
                    room = self._waiting.popleft()
                    if room.set_running_or_notify_cancel():
                        room.set_result(None)
                        free -= 1
                self._settled.notify_all()

    def _stamped_anew(self, sent: _Sent, error: KafkaError) -> bool:
        """Sends a record again that was refused for its timestamp, or that of another in its batch; False: no more."""
        if error.code() not in _MISSTAMPED or sent.times >= STAMPS_MAX or self._given_up:
            return False
        monotonic_s = time.monotonic()
        if sent.times > 1 and error.code() != KafkaError._INVALID_DIFFERENT_RECORD:
            self._clock.refused(monotonic_s)
        now_ms = self._clock.now_ms(time.time(), monotonic_s)
        if sent.clock_ms is not None and clock_fault(sent.clock_ms, now_ms) is not None:
            return False  # by its timestamp it is known to be wrong
        sent.times += 1
        sent.timestamp_ms = sent.stamps.again(sent.number, now_ms)
        sent.offset_s = now_ms / 1000 - monotonic_s
        try:
            self._produce(sent)
        except (BufferError, KafkaException):
            return False
        return True

    def _failure(self, error: KafkaError, clock_ms: int | None) -> PublishError:
        code = error.code()
        if code in _MISSTAMPED:
            now_ms = self._clock.now_ms(time.time(), time.monotonic())
            if clock_ms is not None and now_ms >= CLOCK_SET_S * 1000:
                fault = clock_fault(clock_ms, now_ms)
                if fault is not None:
                    return VersionAhead(f"version: {fault}; nothing was published", now_ms)
            here = time_words(time.time_ns() // 1_000_000)
            return PublishError(
                f"Kafka refused the record's timestamp: this machine's clock is at {here}, far ahead of Kafka's; "
                "nothing was published",
                indeterminate=False,
            )
        if code == KafkaError._PURGE_QUEUE:
            return PublishTimeout("the record was given up before it was sent", indeterminate=False)
        if code in _TIMEOUTS:
            return self.timeout()
        if code in _REFUSED:
            return PublishError(f"Kafka refused the record: {error.str()}", indeterminate=False)
        return PublishError(
            f"Kafka did not acknowledge the record: {error.str()}; the outcome is indeterminate: it may be published",
            indeterminate=True,
        )


def _words(error: Exception) -> str:
    first = error.args[0] if error.args else error
    return first.str() if isinstance(first, KafkaError) else str(first)
