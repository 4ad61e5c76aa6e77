"""Publishing from a back-end: writes versions of objects to Kafka, and returns when they are durable there.

Needs the extra `coldnotify[publisher]`; a device's client does not import this module.

    with Publisher("kafka-1:9092") as publisher:
        publisher.publish("animal.observer", "region-1", "camera-config", version=42, payload={"fps": 5})
        await publisher.publish_async("animal.observer", "region-1", "camera-config", version=43)

    with Publisher("kafka-1:9092", http="coldnotify-1:55002") as publisher:
        published = publisher.publish("animal.observer", "region-1", "camera-config", version=44)
        print(published.outcome())  # published; or stale, altered ...: then clients are not told it
        published.applied_by(0.9, timeout_s=60)

    with Publisher("kafka-1:9092") as publisher:
        publisher.describe("animal.observer", "region-1", "lamp-7", {"Room": 410, "Kind": "lamp", "on": True})
        publisher.send("animal.observer", "region-1", "tasks", {"look": "north"})  # to a channel: every message counts

    with Publisher("kafka-1:9092", outbox="/var/lib/back-end/outbox") as publisher:
        publisher.send("animal.observer", "region-1", "tasks", {"look": "north"})  # on disk; Kafka may be away

A publish waits, at most `timeout_s`, while as many are in flight as Kafka acknowledges without a queue: flow control
(docs/flow-control.md). So an application that publishes faster than Kafka gets delays, then PublishTimeout.

With an outbox, publish() and send() return once the record is durable on this machine's disk (docs/publishing.md).

A version without a number is the time in ms. Numbered versions after it are stale: use one style for each object.

Exceptions
    ValueError (InvalidName, InvalidRecord)  bad input; the message begins with the field, nothing was sent
    PublishError                  Kafka did not store the record; `indeterminate`: it may exist nevertheless
        PublishTimeout            not acknowledged in time
        PublishRejected           Kafka will never store it: it is too large
        PublishManyError          some of many failed; `outcomes` has each one's
    OutboxError                   the outbox cannot be read, written or locked: nothing was accepted
        OutboxFull                too much waits in it
        OutboxInUse               another process or publisher uses it
    UsedAfterFork                 it is used in a child of fork(): nothing was done there, create another
    NotApplied                    (a TimeoutError) too few clients have applied a version in time
        NeverApplied              none ever will: it was stale or rejected; `outcome` has the newest one
    LedgerRefused                 the HTTP service does not report who has applied what
"""

import asyncio
import os
import ssl
import time
from collections.abc import Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

try:
    import confluent_kafka  # noqa: F401  (_publishing needs it)
    import msgspec  # noqa: F401  (coldnotify_schemas needs it for records)
except ImportError as error:
    raise ImportError(
        f"coldnotify.publisher needs the package {error.name}: pip install 'coldnotify[publisher]', or use "
        "coldnotify.http_publisher, which needs none"
    ) from error

from coldnotify_schemas.atomic_sets import AtomicSet, encode_set, set_key
from coldnotify_schemas.channels import parse_retentions
from coldnotify_schemas.descriptions import Value
from coldnotify_schemas.names import InvalidName
from coldnotify_schemas.records import InvalidRecord, PublicRecord
from coldnotify_schemas.topics import DEFAULT_PREFIX, TopicNames

from coldnotify._core.publishing.outgoing import PAYLOAD_BYTES_MAX, Many, check_payload_bytes_max
from coldnotify._effect import Newest, Outcome
from coldnotify._http_addresses import HttpAddresses
from coldnotify._http_requests import HttpRequests
from coldnotify._outbox.outbox_base import Pending, RejectedRecord
from coldnotify._outbox.outbox_directory import BYTES_MAX, RECORDS_MAX
from coldnotify._payload_first import payload_first
from coldnotify._publishing.accepted import Accepted, AcceptedMessage
from coldnotify._publishing.applied import (
    OFFSET_NOT_KNOWN,
    Applied,
    LedgerClient,
    LedgerRefused,
    NeverApplied,
    NotApplied,
    Receipt,
)
from coldnotify._publishing.checks import (
    CheckedMessage,
    check_channel,
    check_key,
    checked_many,
    make_description,
    make_message,
    make_record,
    outgoing_message,
    outgoing_version,
)
from coldnotify._publishing.outbox_by_kafka import KafkaCarrier
from coldnotify._publishing.patient_sender import PatientSender, left_s
from coldnotify._publishing.published import (
    Published,
    PublishError,
    PublishManyError,
    PublishRejected,
    PublishTimeout,
    Sent,
)
from coldnotify._publishing.sender import QUEUE_MAX, Flow, Sender
from coldnotify._publishing.tracing import trace_of
from coldnotify._publishing.with_outbox import MayHaveOutbox, OnRejected, WithOutbox
from coldnotify.errors import OutboxDamaged, OutboxError, OutboxFull, OutboxInUse, UsedAfterFork
from coldnotify.flow.controllers import DEFAULT, NAMES

__all__ = [
    "OFFSET_NOT_KNOWN",
    "Accepted",
    "AcceptedMessage",
    "Applied",
    "CheckedMessage",
    "Flow",
    "InvalidName",
    "InvalidRecord",
    "LedgerRefused",
    "NeverApplied",
    "Newest",
    "NotApplied",
    "OutboxDamaged",
    "OutboxError",
    "OutboxFull",
    "OutboxInUse",
    "Outcome",
    "Pending",
    "PublicRecord",
    "PublishError",
    "PublishManyError",
    "PublishRejected",
    "PublishTimeout",
    "Published",
    "Publisher",
    "Receipt",
    "RejectedRecord",
    "Sent",
    "UsedAfterFork",
    "make_message",
    "make_record",
]

_T = TypeVar("_T")


class Publisher(MayHaveOutbox):
    """Writes to the objects topic. Safe to use from many threads and event loops; one is enough for a process."""

    def __init__(
        self,
        kafka: str = "127.0.0.1:9092",
        *,
        timeout_s: float = 10,
        kafka_config: Mapping[str, Any] | None = None,
        queue_max: int = QUEUE_MAX,
        flow: str = DEFAULT,
        sole_publisher: bool = False,
        http: HttpAddresses | None = None,
        http_token: str | None = None,
        http_ssl: ssl.SSLContext | None = None,
        channel_retentions: str = "*=1d",
        topics_prefix: str = DEFAULT_PREFIX,
        object_payload_bytes_max: int = PAYLOAD_BYTES_MAX,
        outbox: str | os.PathLike[str] | None = None,
        outbox_max_records: int = RECORDS_MAX,
        outbox_max_bytes: int = BYTES_MAX,
        on_rejected: OnRejected | None = None,
    ) -> None:
        """`kafka`: bootstrap servers. `timeout_s`: how long a publish may take. `kafka_config`: more options for
        librdkafka (TLS, SASL ...). `queue_max`: the most publishes in flight at once. `flow`: the controller that
        adapts the number in flight, between 1 and that, to Kafka's acknowledgements: "bottleneck" ..., or "fixed".
        Further publishes wait.

        A publish that equals the one last acknowledged for its object is not written again, if it has both version and
        incarnation. `sole_publisher` promises that nobody else writes or resets the objects; then that also holds
        without incarnation. (Otherwise somebody may have started the versions over, and the repeat would be news.)

        `http`: the HTTP service, for outcome() and applied_by(): host:port or a URL, or several nodes, as HttpPublisher
        takes them; `http_token` authenticates this
        publisher, `http_ssl` defines which certificates are trusted with https.

        `channel_retentions`: how long domains' channels are kept, which determines their topics; the same as the
        services' setting of this name. `topics_prefix`: the prefix of topics' names, the same as in the services'
        setting. `object_payload_bytes_max`: the limit on versions' payloads, likewise the services': matchers reject
        longer ones.

        `outbox`: a directory, for this publisher alone; it is created if it is missing. Publishes become durable in it
        first, and go to Kafka in order, even after a restart: publish() and send() return Accepted and AcceptedMessage.
        At most `outbox_max_records` and `outbox_max_bytes` wait in it; then OutboxFull is raised. `on_rejected` is
        called, in a separate thread, with records that Kafka refuses for ever; those are set aside in a file there.
        describe() does not use it.

        Raises ValueError naming the argument; OutboxError, OutboxInUse. Does not wait for Kafka yet.
        """
        if not timeout_s > 0:
            raise ValueError(f"timeout_s: {timeout_s!r} is not above 0")
        if queue_max < 1:
            raise ValueError(f"queue_max: {queue_max!r} is less than 1")
        if flow not in NAMES:
            raise ValueError(f"flow: unknown value {flow!r}, expected one of {', '.join(NAMES)}")
        try:
            retentions = parse_retentions(channel_retentions)
        except ValueError as error:
            raise ValueError(f"channel_retentions: {error}") from None
        try:
            topics = TopicNames(topics_prefix)
        except ValueError as error:
            raise ValueError(f"topics_prefix: {error}") from None
        self._payload_bytes_max = check_payload_bytes_max(object_payload_bytes_max)
        self._ledger = None if http is None else LedgerClient(HttpRequests(http, http_token, http_ssl, argument="http"))
        self._timeout_s = timeout_s
        new_sender = partial(
            Sender, kafka, timeout_s, kafka_config or {}, queue_max, sole_publisher, flow, retentions, topics
        )
        self._sender = new_sender()
        self._patient = PatientSender(self._sender, kafka, timeout_s)
        if outbox is None:
            return
        try:
            self._outbox = WithOutbox(
                outbox,
                lambda: KafkaCarrier(new_sender(gives_up=False)),
                records_max=outbox_max_records,
                bytes_max=outbox_max_bytes,
                on_rejected=on_rejected,
                ledger=self._ledger,
            )
        except BaseException:
            self._sender.close(0)
            raise

    # -- publishing ----------------------------------------------------------------------------------------------------

    @payload_first
    def publish(
        self,
        domain: str,
        group_id: str,
        object_id: str,
        payload: object = None,
        *,
        version: int | None = None,
        source: str | None = None,
        expires_at: int | None = None,
        deleted: bool = False,
        incarnation: int | None = None,
        description: Mapping[str, Value] | None = None,
        traceparent: str | None = None,
        priority: str | None = None,
    ) -> Receipt:
        """Publishes one version of an object; returns when it is durable.

        `payload`: bytes, or any JSON value, at most `object_payload_bytes_max`; None: no payload. `version`: 0 to
        2^63-1; None: the record's Kafka timestamp, and numbers below it are stale from then on. `source`: the client
        that caused it, which is not told of it unless it registers again or has no cursor. `expires_at`: Unix time in
        ms from which on the payload is not delivered. `deleted`: the object is gone, which is a version like any other.
        `incarnation`: starts the versions over if it is higher than the one in force. `description`: the object's
        description, as in describe(); it is durable before the version is sent, and both may take `timeout_s`; None:
        unchanged. `traceparent`: the W3C trace context of the publish; None: that of OpenTelemetry's current span, if
        there is one and it is sampled.
        `priority`: "high" is never held back, and told before what waits for a client's connection.

        Raises ValueError (InvalidName, InvalidRecord) before anything is sent, PublishError, PublishTimeout.
        """
        record = make_record(
            version,
            payload,
            source=source,
            expires_at=expires_at,
            deleted=deleted,
            incarnation=incarnation,
            priority=priority,
            payload_bytes_max=self._payload_bytes_max,
        )
        if description is not None:
            self._check_described()
            self.describe(domain, group_id, object_id, description, traceparent=traceparent)
        return self.publish_record(domain, group_id, object_id, record, traceparent=traceparent)

    @payload_first
    async def publish_async(
        self,
        domain: str,
        group_id: str,
        object_id: str,
        payload: object = None,
        *,
        version: int | None = None,
        source: str | None = None,
        expires_at: int | None = None,
        deleted: bool = False,
        incarnation: int | None = None,
        description: Mapping[str, Value] | None = None,
        traceparent: str | None = None,
        priority: str | None = None,
    ) -> Receipt:
        """publish() for asyncio. Cancelling the wait does not take back what is sent."""
        record = make_record(
            version,
            payload,
            source=source,
            expires_at=expires_at,
            deleted=deleted,
            incarnation=incarnation,
            priority=priority,
            payload_bytes_max=self._payload_bytes_max,
        )
        if description is not None:
            self._check_described()
            await self.describe_async(domain, group_id, object_id, description, traceparent=traceparent)
        return await self.publish_record_async(domain, group_id, object_id, record, traceparent=traceparent)

    def publish_many(self, domain: str, group_id: str, objects: Many) -> list[Receipt]:
        """Publishes many at once: {object: {"version": 1, ...}} or pairs of the two.

        All are checked before any is sent. Returns when all are durable. Descriptions are durable before any version is
        sent. Raises ValueError naming object and field, PublishManyError; PublishError where a description could not be
        written, and then no version was sent.
        """
        records, descriptions = checked_many(domain, group_id, objects, self._payload_bytes_max)
        if descriptions:
            self._check_described()
        trace = trace_of(None)
        if self._outbox is not None:
            outgoings = [outgoing_version(domain, group_id, *one, trace) for one in records]
            return list[Receipt](self._outbox.accept_versions(outgoings))
        _raise_first(self._patient.send_all(domain, group_id, descriptions, trace))
        outcomes = self._patient.send_all(domain, group_id, records, trace)
        return _all_published([self._receipt(domain, group_id, *one) for one in zip(records, outcomes, strict=True)])

    async def publish_many_async(self, domain: str, group_id: str, objects: Many) -> list[Receipt]:
        """publish_many() for asyncio."""
        records, descriptions = checked_many(domain, group_id, objects, self._payload_bytes_max)
        if descriptions:
            self._check_described()
        _raise_first(await self._patient.send_all_async(domain, group_id, descriptions, trace_of(None)))
        return _all_published(await self.publish_records_async(domain, group_id, records))

    def publish_record(
        self, domain: str, group_id: str, object_id: str, record: PublicRecord, *, traceparent: str | None = None
    ) -> Receipt:
        """publish() with a record that was checked before (make_record, parse_public_record)."""
        check_key(domain, group_id, object_id)
        trace = trace_of(traceparent)
        if self._outbox is not None:
            return self._outbox.accept_versions([outgoing_version(domain, group_id, object_id, record, trace)])[0]
        named = object_id, record
        (outcome,) = self._patient.send_all(domain, group_id, [named], trace)
        return _unless_failed(self._receipt(domain, group_id, named, outcome))

    async def publish_record_async(
        self, domain: str, group_id: str, object_id: str, record: PublicRecord, *, traceparent: str | None = None
    ) -> Receipt:
        """publish_record() for asyncio."""
        check_key(domain, group_id, object_id)
        records = [(object_id, record)]
        (outcome,) = await self.publish_records_async(domain, group_id, records, traceparent=traceparent)
        return _unless_failed(outcome)

    async def publish_records_async(
        self,
        domain: str,
        group_id: str,
        records: Iterable[tuple[str, PublicRecord]],
        *,
        traceparent: str | None = None,
    ) -> list[Receipt | PublishError]:
        """Publishes many checked records; what became of each, in order.

        Raises ValueError for a bad name or trace context only.
        """
        records = list(records)
        trace = trace_of(traceparent)
        for object_, _record in records:
            check_key(domain, group_id, object_)
        if self._outbox is not None:
            outgoings = [outgoing_version(domain, group_id, *one, trace) for one in records]
            return list[Receipt | PublishError](await self._outbox.accept_versions_async(outgoings))
        outcomes = await self._patient.send_all_async(domain, group_id, records, trace)
        return [self._receipt(domain, group_id, *one) for one in zip(records, outcomes, strict=True)]

    async def publish_set_async(
        self, domain: str, group_id: str, id_: str, said: AtomicSet, *, traceparent: str | None = None
    ) -> Published | PublishError:
        """Writes a checked set (parse_set), whose acknowledgement says nothing about its conditions: use
        HttpPublisher.publish_atomic(). Raises InvalidName, InvalidRecord."""
        set_key(domain, group_id, id_)
        encode_set(said)
        trace = trace_of(traceparent)
        (outcome,) = await self._patient.send_all_async(domain, group_id, [(id_, said)], trace)
        return outcome

    # -- descriptions --------------------------------------------------------------------------------------------------

    def describe(
        self,
        domain: str,
        group_id: str,
        object_id: str,
        description: Mapping[str, Value] | None,
        *,
        traceparent: str | None = None,
    ) -> Published:
        """Publishes an object's description, a map of keys to values, as a whole; returns when it is durable.

        Queries match this map. At most 64 keys and 8 KiB of JSON; a value is a text of up to 256 bytes, a finite
        number, or true or false. It replaces the previous one; None removes it. The record's timestamp is its version,
        and the highest counts. To change some keys of a description that others publish, too, use
        HttpPublisher.describe().

        Raises ValueError (InvalidName, InvalidRecord) before anything is sent, PublishError, PublishTimeout.
        """
        check_key(domain, group_id, object_id)
        record, trace = make_description(description), trace_of(traceparent)
        (outcome,) = self._patient.send_all(domain, group_id, [(object_id, record)], trace)
        return _unless_failed(outcome)

    async def describe_async(
        self,
        domain: str,
        group_id: str,
        object_id: str,
        description: Mapping[str, Value] | None,
        *,
        traceparent: str | None = None,
    ) -> Published:
        """describe() for asyncio."""
        check_key(domain, group_id, object_id)
        record, trace = make_description(description), trace_of(traceparent)
        (outcome,) = await self._patient.send_all_async(domain, group_id, [(object_id, record)], trace)
        return _unless_failed(outcome)

    def _check_described(self) -> None:
        if self._outbox is not None:
            raise ValueError("description: does not go through the outbox; say it by describe() before")

    # -- channels ------------------------------------------------------------------------------------------------------

    def send(
        self,
        domain: str,
        group_id: str,
        channel: str,
        payload: object,
        *,
        id: str | None = None,  # noqa: A002  (the field's name)
        to: Iterable[str] = (),
        expires_at: int | None = None,
        source: str | None = None,
        traceparent: str | None = None,
        priority: str | None = None,
        key: str | None = None,
    ) -> Sent:
        """Sends a message to a channel; returns when it is durable. Every subscriber is told each message, in order.

        `payload`: bytes, or any JSON value, at most 64 KiB. `id`: at most 64 bytes; a message that is sent again with
        the same id, among the next 10,000 records of the log, is told to nobody. None: a new one. `to`: only
        subscriptions with one of these attributes are told it. `expires_at`: Unix time in ms from which on nobody is
        told it. `source`: the client that caused it. `priority`: "high" moves what waits of this channel for a client
        in front of what waits of others. `key`, at most 64 bytes: members of a share are handed messages with one key
        in their order.

        Raises ValueError (InvalidName, InvalidRecord) before anything is sent, PublishError, PublishTimeout. After one
        that is `indeterminate`, sending again with the same id is safe.
        """
        check_channel(domain, group_id, channel)
        record = make_message(payload, id=id, to=to, expires_at=expires_at, source=source, priority=priority, key=key)
        trace = trace_of(traceparent)
        if self._outbox is not None:
            return self._outbox.accept_messages([outgoing_message(domain, group_id, channel, record, trace)])[0]
        (outcome,) = self._patient.send_all(domain, group_id, [(channel, record)], trace)
        return _unless_failed(_sent(record, outcome))

    async def send_async(
        self,
        domain: str,
        group_id: str,
        channel: str,
        payload: object,
        *,
        id: str | None = None,  # noqa: A002  (the field's name)
        to: Iterable[str] = (),
        expires_at: int | None = None,
        source: str | None = None,
        traceparent: str | None = None,
        priority: str | None = None,
        key: str | None = None,
    ) -> Sent:
        """send() for asyncio. Cancelling the wait does not take back what is sent."""
        check_channel(domain, group_id, channel)
        record = make_message(payload, id=id, to=to, expires_at=expires_at, source=source, priority=priority, key=key)
        (outcome,) = await self.send_messages_async(domain, group_id, [(channel, record)], traceparent=traceparent)
        return _unless_failed(outcome)

    async def send_messages_async(
        self,
        domain: str,
        group_id: str,
        messages: Iterable[tuple[str, CheckedMessage]],
        *,
        traceparent: str | None = None,
    ) -> list[Sent | PublishError]:
        """Sends many checked messages (make_message), each to its channel; what became of each, in order."""
        messages = list(messages)
        trace = trace_of(traceparent)
        if self._outbox is not None:
            outgoings = [outgoing_message(domain, group_id, *one, trace) for one in messages]
            return list[Sent | PublishError](await self._outbox.accept_messages_async(outgoings))
        outcomes = await self._patient.send_all_async(domain, group_id, messages, trace)
        return [_sent(record, outcome) for (_, record), outcome in zip(messages, outcomes, strict=True)]

    # -- flow control --------------------------------------------------------------------------------------------------

    @property
    def flow(self) -> Flow:
        """Flow control: how many publishes may be in flight, how many are, and the last measurements."""
        return self._sender.flow

    # -- the end -------------------------------------------------------------------------------------------------------

    def flush(self, timeout_s: float | None = None) -> int:
        """Waits until nothing is on its way, or in the outbox, at most `timeout_s` (default: the publisher's); how many
        still are."""
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        deadline_s = time.monotonic() + limit_s
        kept = 0 if self._outbox is None else self._outbox.flush(limit_s)
        return kept + self._sender.flush(left_s(deadline_s))

    def close(self, timeout_s: float | None = None) -> None:
        """Accepts nothing more, waits for what is in flight as flush() does, and drops the rest. What is in the outbox
        stays there, and is published after the next start. May be called twice.
        """
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        deadline_s = time.monotonic() + limit_s
        if self._outbox is not None:
            self._outbox.close(limit_s)
        self._sender.close(left_s(deadline_s))

    async def aclose(self, timeout_s: float | None = None) -> None:
        """close() for asyncio."""
        await asyncio.to_thread(self.close, timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def _receipt(
        self, domain: str, group: str, named: tuple[str, PublicRecord], outcome: Published | PublishError
    ) -> Receipt | PublishError:
        if isinstance(outcome, PublishError):
            return outcome
        object_, record = named
        return Receipt.of(outcome, self._ledger, (domain, group, object_), record.incarnation)


def _sent(record: CheckedMessage, outcome: Published | PublishError) -> Sent | PublishError:
    if isinstance(outcome, PublishError):
        return outcome
    return Sent(outcome.partition, outcome.offset, record.said.id)


def _unless_failed(outcome: _T | PublishError) -> _T:
    if isinstance(outcome, PublishError):
        raise outcome
    return outcome


def _raise_first(outcomes: Iterable[Published | PublishError]) -> None:
    for outcome in outcomes:
        _unless_failed(outcome)


def _all_published(outcomes: list[Receipt | PublishError]) -> list[Receipt]:
    published = [outcome for outcome in outcomes if isinstance(outcome, Receipt)]
    if len(published) < len(outcomes):
        raise PublishManyError(list(outcomes))
    return published
