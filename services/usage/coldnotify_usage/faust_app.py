"""The Faust app of the usage job: its settings, its one table, and the interfaces by which UsageJob reads and writes.

Faust provides the consumer group, the partitions' state from its changelog topic, and the order in which a worker takes
partitions over. UsageJob decides what counts as read. The settings here were found by killing workers
(docs/adr/0032-usage-by-faust.md); do not change one without doing that again.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import faust
from coldnotify_common.kafka.kafka_login import Login
from faust.types import TP
from mode import Service

from coldnotify_usage.readable_records import install
from coldnotify_usage.settings import UsageSettings
from coldnotify_usage.usage_job import WRITES_MAX, UsageJob
from coldnotify_usage.usage_look import first_from

REBALANCE_S = 4.0
"""Time beyond the session's timeout that a worker may take to take part in a new division of the partitions: by then a
dead one is noticed, and the living have answered."""
HEARTBEATS_PER_SESSION = 4
"""A session of 6 s has a heartbeat each 1.5 s: three may be lost."""
COMMIT_S = 1.0
REQUEST_TIMEOUT_S = 40.0
"""Timeout of a request to Kafka; it must exceed the consumer's session and the wait of a fetch."""
_CHANGELOG_QUEUE = 131_072
"""As many as Faust itself keeps of a changelog that it reads: nothing is acknowledged there."""


class FaustRecord:
    """A record of the usage topic as Faust's event."""

    __slots__ = ("_event", "offset", "partition", "timestamp_ms", "value")

    def __init__(self, event: Any) -> None:
        """`event`: of a stream whose values are bytes."""
        self._event = event
        message = event.message
        self.partition: int = message.partition
        self.offset: int = message.offset
        self.timestamp_ms = int(message.timestamp * 1000)
        self.value: bytes | None = event.value

    def ack(self) -> None:
        """It needs not be read again."""
        self._event.ack()


class FaustWriters:
    """Writes a UsageJob's records through Faust's producer; each call returns an awaitable that is done once the record
    is durable.
    """

    def __init__(self, table: Any, verdicts: Any, history: Any) -> None:
        """The table, and the topics."""
        self._table, self._verdicts, self._history = table, verdicts, history

    def store(self, partition: int, key: bytes, value: bytes | None) -> Awaitable[object]:
        """Writes to the table's changelog."""
        written: Awaitable[object] = self._table.send_changelog(partition, key, value, value_serializer="raw")
        return written

    def verdict(self, tenant: str, value: bytes) -> Awaitable[object]:
        """Writes to the verdicts, which have one partition."""
        written: Awaitable[object] = self._verdicts.send_soon(key=tenant.encode(), value=value, partition=0)
        return written

    def history(self, key: str, value: bytes) -> Awaitable[object]:
        """Writes to the usage history, which has one partition."""
        written: Awaitable[object] = self._history.send_soon(key=key.encode(), value=value, partition=0)
        return written


class _ReadOffsets(defaultdict[TP, int | None]):
    """The offset up to which Faust has read each partition: it drops records below.

    If the job goes back while Faust hands over a batch that it had fetched before, the rest of the batch would move
    this on again, and everything the job went back for would be dropped. So it never exceeds the offset that is sought.
    """

    def __init__(self, usage: str, sought: Callable[[int], int | None]) -> None:
        """`sought`: of a partition of the topic `usage`."""
        super().__init__(lambda: None)
        self._usage = usage
        self._sought = sought

    def __getitem__(self, tp: TP) -> int | None:
        read = super().__getitem__(tp)
        sought = self._sought(tp.partition) if tp.topic == self._usage else None
        return read if read is None or sought is None else min(read, sought)


def _worded(_service: Service, _severity: int, msg: str, *_args: Any, **_more: Any) -> str:
    """Words a log line of Faust's services without their places in Faust's tree, as [^---Consumer]."""
    return f"Faust: {msg}"


class _App(faust.App):
    """Faust's app without directories: it makes some for stores on disk, and a worker that is killed leaves them."""

    def _create_directories(self) -> None:
        pass


class UsageApp:
    """The app with its one agent, which passes everything to `job`."""

    def __init__(
        self, settings: UsageSettings, login: Login, partitions: int, make_job: Callable[["UsageApp"], UsageJob]
    ) -> None:
        """`partitions`: those of the usage topic. Nothing is started."""
        install()
        Service._format_log = _worded  # type: ignore[method-assign, assignment]
        self._settings = settings
        self._topics = topics = settings.topics
        self._partitions = partitions
        self.app: Any = _App(
            settings.group,
            broker=";".join(f"kafka://{one.strip()}" for one in settings.kafka.split(",")),
            broker_client_id=settings.topics.group("usage"),
            store="memory://",
            key_serializer="raw",
            value_serializer="raw",
            # Two workers that make topics race, and both crash.
            topic_allow_declare=False,
            topic_disable_leader=True,
            table_standby_replicas=0,
            web_enabled=False,
            broker_session_timeout=settings.usage_session_timeout_s,
            broker_heartbeat_interval=settings.usage_session_timeout_s / HEARTBEATS_PER_SESSION,
            broker_rebalance_timeout=settings.usage_session_timeout_s + REBALANCE_S,
            broker_request_timeout=max(REQUEST_TIMEOUT_S, 2 * settings.usage_session_timeout_s),
            broker_commit_interval=COMMIT_S,
            # What is not durable when partitions are taken away is read again by who gets them.
            stream_wait_empty=False,
            stream_recovery_delay=0.0,
            consumer_auto_offset_reset="earliest",
            **_credentials(login),
        )
        app: Any = self.app
        usage = app.topic(
            topics.usage,
            key_type=bytes,
            value_type=bytes,
            key_serializer="raw",
            value_serializer="raw",
            allow_empty=True,
        )
        raw = {"key_type": bytes, "value_type": bytes, "key_serializer": "raw", "value_serializer": "raw"}
        self._table = app.Table(
            "counters",
            key_type=bytes,
            value_type=bytes,
            partitions=partitions,
            changelog_topic=app.topic(
                topics.usage_state,
                **raw,
                partitions=partitions,
                acks=False,
                internal=True,
                maxsize=_CHANGELOG_QUEUE,
                allow_empty=True,
            ),
            on_recover=self._on_recovered,
        )
        self.writers = FaustWriters(
            self._table, app.topic(topics.verdicts, **raw), app.topic(topics.usage_history, **raw)
        )
        self.job = make_job(self)
        app.agent(usage, name="usage")(self._read)
        app.on_partitions_revoked.connect(self._on_revoked)

    async def start(self) -> None:
        """Returns when it has joined the group."""
        self._raise_buffer()
        self.app.consumer._read_offset = _ReadOffsets(self._topics.usage, self.job.sought)
        await self.app.start()

    async def stop(self) -> None:
        """Leaves the group: the others have its partitions at once."""
        await self.app.stop()

    @property
    def failure(self) -> BaseException | None:
        """Returns the exception that ended it; None if it has not ended by itself."""
        reason: BaseException | None = self.app.crash_reason
        return reason

    @property
    def progress(self) -> tuple[int, int]:
        """Another one after each division of the partitions, and with each record of the state that is read."""
        offsets = self.app.tables.recovery.active_offsets.values()
        return self.app.rebalancing_count, sum(offset or 0 for offset in offsets)

    async def start_of(self, partition: int) -> int:
        """The first offset of a partition of the usage topic that is still there."""
        tp = TP(self._topics.usage, partition)
        return int((await self.app.consumer.earliest_offsets(tp))[tp])

    async def first_from(self, partition: int, offset: int) -> int | None:
        """The offset of the first record of a partition of the usage topic from there on; None: that is not known."""
        return await asyncio.to_thread(first_from, self._settings, partition, offset)

    async def go_to(self, partition: int, offset: int) -> None:
        """Read a partition of the usage topic from there on."""
        await self.app.consumer.seek_wait({TP(self._topics.usage, partition): offset})

    def end_of(self, partition: int) -> int | None:
        """The offset at which a partition of the usage topic ends, as of the last fetch."""
        try:
            return int(self.app.consumer.highwater(TP(self._topics.usage, partition)))
        except (KeyError, TypeError, AssertionError):
            return None  # not fetched yet, or not ours any more

    async def _read(self, stream: Any) -> None:
        async for event in stream.noack().events():
            # One that was fetched before the partitions were divided anew is fetched again, in order.
            if event.message.generation_id == self.app.consumer_generation_id:
                await self.job.on_record(FaustRecord(event))

    async def _on_recovered(self) -> None:
        mine = [tp.partition for tp in self.app.consumer.assignment() if tp.topic == self._topics.usage]
        stored: MutableMapping[bytes, bytes] = self._table.data
        self.job.take_over(mine, stored)

    async def _on_revoked(self, *_arguments: object, **_named: object) -> None:
        self.job.lose()

    def _raise_buffer(self) -> None:
        """Faust warns, and reads no further, when more records than its buffer has wait to be sent."""
        self.app.producer.buffer.max_messages = 2 * WRITES_MAX


def _credentials(login: Login) -> dict[str, Any]:
    if login.mechanism is not None:
        return {
            "broker_credentials": faust.SASLCredentials(
                username=login.username, password=login.password, mechanism=login.mechanism, ssl_context=login.tls
            )
        }
    return {"broker_credentials": faust.SSLCredentials(login.tls)} if login.tls is not None else {}
