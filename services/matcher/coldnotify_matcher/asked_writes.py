"""Writes for HTTP requests, descriptions and operators' requests: ends of topics, and records that become durable.

Its methods run in an event loop; calls that wait for Kafka run in threads of their own, at most two.
"""

import asyncio
from typing import NamedTuple

from coldnotify_common.errors import ServiceError
from coldnotify_common.kafka.kafka_clients import connect, producer_config
from coldnotify_common.settings import ServiceSettings
from coldnotify_streams.log_ends import log_ends
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient

RECORD_TIMEOUT_MS = 5_000
"""Time after which a record that Kafka does not take counts as lost. Its caller waits for some seconds."""
IDLE_S = 60.0
"""After so long without a record the producer is dropped: its connections, its threads, and the errors that it would
collect while it is not polled."""
_POLL_S = 0.2
Headers = tuple[tuple[str, bytes], ...]
"""Headers of a record."""


class NotWritten(ServiceError):
    """Kafka has not acknowledged a record; it may be there all the same."""


class LogEnd(NamedTuple):
    """Offsets that the next records of one partition would get."""

    objects: int
    sessions: int
    """The topic of claims: a reader that has read up to there knows each matcher that served the partition by then."""


class AskedWrites:
    """Writes records, and asks for ends of topics. For use in one event loop."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._settings = settings
        self._topics = settings.topics
        self._wanted: dict[int, asyncio.Future[LogEnd]] = {}
        """By partition, the waiting callers of a question that is not asked yet."""
        self._asking: asyncio.Task[None] | None = None
        self._line: _Line | None = None
        self._idle: asyncio.TimerHandle | None = None

    async def end(self, admin: AdminClient, partition: int) -> LogEnd:
        """Returns the partition's end, requested after this call. Raises KafkaUnavailable.

        A caller that comes while a question is under way waits for the next one, which serves all that have come by
        then.
        """
        future = self._wanted.get(partition)
        if future is None:
            future = self._wanted[partition] = asyncio.get_running_loop().create_future()
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask(admin))
        return await asyncio.shield(future)  # others wait for the same answer

    async def write(self, partition: int, key: bytes, value: bytes, timestamp_ms: int, headers: Headers = ()) -> int:
        """Returns the record's offset, once it is durable; -1: Kafka does not say. Raises NotWritten."""
        return await self._write(self._topics.objects, partition, key, value, timestamp_ms, headers)

    async def write_request(self, partition: int, key: bytes, value: bytes) -> int:
        """Does the same for a record of the requests topic. Raises NotWritten."""
        return await self._write(self._topics.requests, partition, key, value, 0, ())

    async def _write(
        self, topic: str, partition: int, key: bytes, value: bytes, timestamp_ms: int, headers: Headers
    ) -> int:
        line = await self._line_of_now()
        try:
            return await line.write(topic, partition, key, value, timestamp_ms, headers)
        except NotWritten:
            if self._line is line:
                self._line = None  # it may not be usable any more
            raise
        finally:
            self._let_go_later()

    async def _ask(self, admin: AdminClient) -> None:
        try:
            while self._wanted:
                wanted, self._wanted = self._wanted, {}
                objects, claims = self._topics.objects, self._topics.sessions
                places = [(topic, partition) for partition in wanted for topic in (objects, claims)]
                try:
                    ends = await asyncio.to_thread(log_ends, admin, places, uncommitted=True)
                except Exception as error:
                    for future in wanted.values():
                        future.set_exception(error)
                        future.exception()  # marks it as seen, even if the caller has gone
                else:
                    for partition, future in wanted.items():
                        end = LogEnd(ends[objects, partition], ends[claims, partition])
                        future.set_result(end)
        finally:
            self._asking = None

    async def _line_of_now(self) -> "_Line":
        if self._line is None:
            producer = Producer(producer_config(self._settings, message_timeout_ms=RECORD_TIMEOUT_MS))
            await asyncio.to_thread(connect, producer)
            if self._line is None:  # no other call was quicker
                self._line = _Line(producer)
        return self._line

    def _let_go_later(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._idle = asyncio.get_running_loop().call_later(IDLE_S, self._let_go)

    def _let_go(self) -> None:
        self._idle = self._line = None


class _Line:
    """A producer, which is polled while it has records under way."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._under_way = 0
        self._polling: asyncio.Task[None] | None = None

    async def write(
        self, topic: str, partition: int, key: bytes, value: bytes, timestamp_ms: int, headers: Headers
    ) -> int:
        """Does the same as that of AskedWrites; with timestamp 0 the producer sets the time."""
        loop = asyncio.get_running_loop()
        durable: asyncio.Future[int] = loop.create_future()

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            loop.call_soon_threadsafe(self._on_delivery, durable, error, message)

        try:
            self._producer.produce(
                topic,
                value,
                key,
                partition=partition,
                timestamp=timestamp_ms,
                headers=list(headers),
                on_delivery=on_delivery,
            )
        except (BufferError, KafkaException) as error:
            raise NotWritten(f"Kafka does not take the record: {error}") from None
        self._under_way += 1
        if self._polling is None:
            self._polling = asyncio.create_task(self._poll())
        return await durable

    def _on_delivery(self, durable: "asyncio.Future[int]", error: KafkaError | None, message: Message) -> None:
        self._under_way -= 1
        if durable.done():
            return  # the caller has gone
        if error is not None:
            durable.set_exception(NotWritten(f"Kafka has not acknowledged the record: {error.str()}"))
        else:
            offset = message.offset()
            durable.set_result(-1 if offset is None else max(-1, offset))

    async def _poll(self) -> None:
        while self._under_way:
            await asyncio.to_thread(self._producer.poll, _POLL_S)
        self._polling = None
