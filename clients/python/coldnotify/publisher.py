"""Publishing from a back-end: writes versions of objects to Kafka, and returns when they are durable there.

Needs the extra `coldnotify[publisher]`; the OU's client does not import this module.

    with Publisher("kafka-1:9092") as publisher:
        publisher.publish("animal.observer", "region-1", "camera-config", version=42, payload={"fps": 5})
        await publisher.publish_async("animal.observer", "region-1", "camera-config", version=43)

    with Publisher("kafka-1:9092", http="coldnotify-1:55002") as publisher:
        published = publisher.publish("animal.observer", "region-1", "camera-config", version=44)
        print(published.outcome())  # published; or stale, altered ...: then clients are not told of it
        published.applied_by(0.9, timeout_s=3600)

    with Publisher("kafka-1:9092") as publisher:
        publisher.describe("animal.observer", "region-1", "lamp-7", {"Room": 410, "Kind": "lamp", "on": True})

A version without a number is the time in ms. Numbered versions after it are stale: an object is for one style of both.

Exceptions
    ValueError (InvalidName, InvalidRecord)  bad input; the message begins with the field, nothing was sent
    PublishError                  Kafka did not take the record; `indeterminate`: it may be there all the same
        PublishTimeout            not acknowledged in time
        PublishManyError          some of many; `outcomes` has each one's
    NotApplied                    (a TimeoutError) too few clients have applied a version in time
        NeverApplied              none ever will: it was stale or rejected; `outcome` says what is newest instead
    LedgerRefused                 the HTTP service does not say who has applied what
"""

import asyncio
import ssl
import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from coldnotify_schemas.descriptions import Value
from coldnotify_schemas.names import InvalidName
from coldnotify_schemas.records import InvalidRecord, PublicRecord
from coldnotify_schemas.topics import OBJECTS
from confluent_kafka import KafkaError, KafkaException

from coldnotify._publishing.applied import (
    OFFSET_NOT_KNOWN,
    Applied,
    Ledger,
    LedgerRefused,
    NeverApplied,
    NotApplied,
    Receipt,
)
from coldnotify._publishing.checks import (
    DescriptionRecord,
    Many,
    check_key,
    checked_records,
    make_description,
    make_record,
)
from coldnotify._publishing.effect import Newest, Outcome
from coldnotify._publishing.published import Published, PublishError, PublishManyError, PublishTimeout
from coldnotify._publishing.sender import QUEUE_MAX, NotNow, Sender, Sending
from coldnotify._publishing.tracing import trace_of

__all__ = [
    "OFFSET_NOT_KNOWN",
    "Applied",
    "InvalidName",
    "InvalidRecord",
    "LedgerRefused",
    "NeverApplied",
    "Newest",
    "NotApplied",
    "Outcome",
    "PublicRecord",
    "PublishError",
    "PublishManyError",
    "PublishTimeout",
    "Published",
    "Publisher",
    "Receipt",
    "make_record",
]

_Record = PublicRecord | DescriptionRecord
_NOT_NOW_RETRY_S = 0.01
"""A full queue is tried again this often: librdkafka's own does not say when it has room."""
_LOOKUP_RETRY_S = 0.1


class Publisher:
    """Writes to the objects topic. Safe to use from many threads and event loops; one is enough for a process."""

    def __init__(
        self,
        kafka: str = "127.0.0.1:9092",
        *,
        timeout_s: float = 10,
        kafka_config: Mapping[str, Any] | None = None,
        queue_max: int = QUEUE_MAX,
        sole_publisher: bool = False,
        http: str | None = None,
        http_token: str | None = None,
        http_ssl: ssl.SSLContext | None = None,
    ) -> None:
        """`kafka`: bootstrap servers. `timeout_s`: how long a publish may take. `kafka_config`: more options for
        librdkafka (TLS, SASL ...). `queue_max`: publishes on their way at once.

        A publish of exactly what was acknowledged last for its object is not written again, if it says both version
        and incarnation. `sole_publisher` promises that nobody else writes or resets the objects; then that also holds
        without incarnation. (Otherwise somebody may have begun the versions over, and the repeat be news.)

        `http`: the HTTP service, host:port or a URL, for outcome() and applied_by(); `http_token` is shown to it,
        `http_ssl` says which certificates count with https.

        Raises ValueError naming the argument. Does not wait for Kafka yet.
        """
        if not timeout_s > 0:
            raise ValueError(f"timeout_s: {timeout_s!r} is not above 0")
        if queue_max < 1:
            raise ValueError(f"queue_max: {queue_max!r} is less than 1")
        self._ledger = None if http is None else Ledger(http, http_token, http_ssl)
        self._kafka = kafka
        self._timeout_s = timeout_s
        self._sender = Sender(kafka, timeout_s, kafka_config or {}, queue_max, sole_publisher)

    # -- publishing ----------------------------------------------------------------------------------------------------

    def publish(
        self,
        domain: str,
        group_id: str,
        object_id: str,
        version: int | None = None,
        payload: object = None,
        *,
        source: str | None = None,
        expires_at: int | None = None,
        deleted: bool = False,
        incarnation: int | None = None,
        description: Mapping[str, Value] | None = None,
        traceparent: str | None = None,
    ) -> Receipt:
        """Publishes one version of an object; returns when it is durable.

        `version`: 0 to 2^63-1; None: the record's Kafka timestamp, and numbers below it are stale from then on.
        `payload`: anything JSON can say, at most 4 KiB of it; None: no payload. `source`: the client that caused it,
        which is not told of it unless it registers anew or has no cursor. `expires_at`: Unix time in ms from which on
        the payload is not delivered. `deleted`: the object is gone, a version like any other. `incarnation`: begins the
        versions over where it is higher than the one in force. `description`: what the object is, as describe() says
        it; it is durable before the version is sent, and both may take `timeout_s`; None: as before. `traceparent`: the
        W3C trace context that the publish belongs to; None: that of OpenTelemetry's current span, if there is one and
        it is sampled.

        Raises ValueError (InvalidName, InvalidRecord) before anything is sent, PublishError, PublishTimeout.
        """
        record = make_record(
            version, payload, source=source, expires_at=expires_at, deleted=deleted, incarnation=incarnation
        )
        if description is not None:
            self.describe(domain, group_id, object_id, description, traceparent=traceparent)
        return self.publish_record(domain, group_id, object_id, record, traceparent=traceparent)

    async def publish_async(
        self,
        domain: str,
        group_id: str,
        object_id: str,
        version: int | None = None,
        payload: object = None,
        *,
        source: str | None = None,
        expires_at: int | None = None,
        deleted: bool = False,
        incarnation: int | None = None,
        description: Mapping[str, Value] | None = None,
        traceparent: str | None = None,
    ) -> Receipt:
        """As publish(), for asyncio. Cancelling the wait does not take back what is sent."""
        record = make_record(
            version, payload, source=source, expires_at=expires_at, deleted=deleted, incarnation=incarnation
        )
        if description is not None:
            await self.describe_async(domain, group_id, object_id, description, traceparent=traceparent)
        return await self.publish_record_async(domain, group_id, object_id, record, traceparent=traceparent)

    def publish_many(self, domain: str, group_id: str, objects: Many) -> list[Receipt]:
        """Publishes many at once: {object: {"version": 1, ...}} or pairs of the two.

        All are checked before any is sent. Returns when all are durable. Raises ValueError naming object and field,
        PublishManyError.
        """
        records = checked_records(domain, group_id, objects)
        trace = trace_of(None)
        deadline_s = time.monotonic() + self._timeout_s
        futures = [self._send(domain, group_id, object_, record, deadline_s, trace) for object_, record in records]
        outcomes = [self._outcome(future, deadline_s) for future in futures]
        return _all_published([self._receipt(domain, group_id, *one) for one in zip(records, outcomes, strict=True)])

    async def publish_many_async(self, domain: str, group_id: str, objects: Many) -> list[Receipt]:
        """As publish_many(), for asyncio."""
        return _all_published(
            await self.publish_records_async(domain, group_id, checked_records(domain, group_id, objects))
        )

    def publish_record(
        self, domain: str, group_id: str, object_id: str, record: PublicRecord, *, traceparent: str | None = None
    ) -> Receipt:
        """As publish(), of a record that is checked already (make_record, parse_public_record)."""
        check_key(domain, group_id, object_id)
        trace = trace_of(traceparent)
        deadline_s = time.monotonic() + self._timeout_s
        sent = self._send(domain, group_id, object_id, record, deadline_s, trace)
        outcome = self._receipt(domain, group_id, (object_id, record), self._outcome(sent, deadline_s))
        if isinstance(outcome, PublishError):
            raise outcome
        return outcome

    async def publish_record_async(
        self, domain: str, group_id: str, object_id: str, record: PublicRecord, *, traceparent: str | None = None
    ) -> Receipt:
        """As publish_record(), for asyncio."""
        check_key(domain, group_id, object_id)
        records = [(object_id, record)]
        (outcome,) = await self.publish_records_async(domain, group_id, records, traceparent=traceparent)
        if isinstance(outcome, PublishError):
            raise outcome
        return outcome

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
        deadline_s = time.monotonic() + self._timeout_s
        sent: list[Sending | PublishError] = []
        for object_, record in records:
            sent.append(await self._send_async(domain, group_id, object_, record, deadline_s, trace))
        outcomes = [await self._outcome_async(future, deadline_s) for future in sent]
        return [self._receipt(domain, group_id, *one) for one in zip(records, outcomes, strict=True)]

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
        """Says what an object is, as the whole map of keys to values; returns when that is durable.

        Queries are about this map. At most 64 keys and 8 KiB of JSON; a value is a text of up to 256 bytes, a finite
        number, or true or false. What was said before is replaced; None: there is no description any more. The record's
        timestamp is its version, and the highest counts. To change some keys of what others say, too, use
        HttpPublisher.describe().

        Raises ValueError (InvalidName, InvalidRecord) before anything is sent, PublishError, PublishTimeout.
        """
        check_key(domain, group_id, object_id)
        record, trace = make_description(description), trace_of(traceparent)
        deadline_s = time.monotonic() + self._timeout_s
        outcome = self._outcome(self._send(domain, group_id, object_id, record, deadline_s, trace), deadline_s)
        if isinstance(outcome, PublishError):
            raise outcome
        return outcome

    async def describe_async(
        self,
        domain: str,
        group_id: str,
        object_id: str,
        description: Mapping[str, Value] | None,
        *,
        traceparent: str | None = None,
    ) -> Published:
        """As describe(), for asyncio."""
        check_key(domain, group_id, object_id)
        record, trace = make_description(description), trace_of(traceparent)
        deadline_s = time.monotonic() + self._timeout_s
        sent = await self._send_async(domain, group_id, object_id, record, deadline_s, trace)
        outcome = await self._outcome_async(sent, deadline_s)
        if isinstance(outcome, PublishError):
            raise outcome
        return outcome

    # -- the end -------------------------------------------------------------------------------------------------------

    def flush(self, timeout_s: float | None = None) -> int:
        """Waits until nothing is on its way, at most `timeout_s` (default: the publisher's); how many still are."""
        return self._sender.flush(self._timeout_s if timeout_s is None else timeout_s)

    def close(self, timeout_s: float | None = None) -> None:
        """Takes nothing more, waits for what is on its way as flush() does, gives up the rest. May be called twice."""
        self._sender.close(self._timeout_s if timeout_s is None else timeout_s)

    async def aclose(self, timeout_s: float | None = None) -> None:
        """As close(), for asyncio."""
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

    # -- waiting, for threads and for asyncio: the same steps ----------------------------------------------------------

    def _send(
        self, domain: str, group: str, object_: str, record: _Record, deadline_s: float, trace: str | None
    ) -> Sending | PublishError:
        try:
            while (lookup := self._sender.lookup_needed()) is not None:
                try:
                    lookup.result(_left_s(deadline_s))
                except (TimeoutError, KafkaException) as error:
                    self._lookup_failed(error, deadline_s)
                    time.sleep(_LOOKUP_RETRY_S)
                else:
                    self._sender.lookup_done(lookup)
            while True:
                try:
                    return self._sender.send(domain, group, object_, record, trace)
                except NotNow as reason:
                    self._not_now(reason, deadline_s)
                    self._sender.wait_for_room(_NOT_NOW_RETRY_S)
        except PublishError as error:
            return error

    async def _send_async(
        self, domain: str, group: str, object_: str, record: _Record, deadline_s: float, trace: str | None
    ) -> Sending | PublishError:
        try:
            while (lookup := self._sender.lookup_needed()) is not None:
                try:
                    # Shielded: others wait for the same answer.
                    await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(lookup)), _left_s(deadline_s))
                except (TimeoutError, KafkaException) as error:
                    self._lookup_failed(error, deadline_s)
                    await asyncio.sleep(_LOOKUP_RETRY_S)
                else:
                    self._sender.lookup_done(lookup)
            while True:
                try:
                    return self._sender.send(domain, group, object_, record, trace)
                except NotNow as reason:
                    self._not_now(reason, deadline_s)
                    await asyncio.sleep(_NOT_NOW_RETRY_S)
        except PublishError as error:
            return error

    def _outcome(self, sent: Sending | PublishError, deadline_s: float) -> Published | PublishError:
        if isinstance(sent, PublishError):
            return sent
        try:
            return sent.result(_left_s(deadline_s))
        except PublishError as error:
            return error
        except TimeoutError:
            return self._sender.timeout()

    async def _outcome_async(self, sent: Sending | PublishError, deadline_s: float) -> Published | PublishError:
        if isinstance(sent, PublishError):
            return sent
        try:
            return await asyncio.wait_for(asyncio.wrap_future(sent), _left_s(deadline_s))
        except PublishError as error:
            return error
        except TimeoutError:
            return self._sender.timeout()

    def _receipt(
        self, domain: str, group: str, named: tuple[str, PublicRecord], outcome: Published | PublishError
    ) -> Receipt | PublishError:
        if isinstance(outcome, PublishError):
            return outcome
        object_, record = named
        return Receipt.of(outcome, self._ledger, (domain, group, object_), record.incarnation)

    def _lookup_failed(self, error: BaseException, deadline_s: float) -> None:
        """Raises PublishError unless there is time to ask once more."""
        if isinstance(error, KafkaException) and error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise PublishError(f"topic {OBJECTS} does not exist in Kafka; nothing was sent", indeterminate=False)
        if _left_s(deadline_s) <= _LOOKUP_RETRY_S:
            raise PublishTimeout(
                f"Kafka ({self._kafka}) does not answer within {self._timeout_s:g} s; nothing was sent",
                indeterminate=False,
            )

    def _not_now(self, reason: NotNow, deadline_s: float) -> None:
        """Raises PublishTimeout unless there is time to try once more."""
        if _left_s(deadline_s) <= 0:
            raise PublishTimeout(
                f"Kafka ({self._kafka}): {reason}, since {self._timeout_s:g} s; nothing was sent",
                indeterminate=False,
            )


def _left_s(deadline_s: float) -> float:
    return max(0.0, deadline_s - time.monotonic())


def _all_published(outcomes: list[Receipt | PublishError]) -> list[Receipt]:
    published = [outcome for outcome in outcomes if isinstance(outcome, Receipt)]
    if len(published) < len(outcomes):
        raise PublishManyError(list(outcomes))
    return published
