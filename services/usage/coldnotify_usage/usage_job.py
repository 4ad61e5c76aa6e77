"""A worker of the usage job and its partitions: `UsageJob` reads, stores, and sends verdicts.

The order of a flush must not change: first the counters that records have changed become durable in the topic of the
job's state, then, in the same topic, the offset after these records. The next owner of a partition begins at that
offset. The consumer group's commit only decides where Faust begins to read. It is not reliable: after a rebalance,
Faust was seen to hand over records that it had fetched before, to skip those in between, and to commit them as read
(docs/adr/0032-usage-by-faust.md). So a record counts only if it is the next one; else the job seeks the next one, as
long as Kafka has it.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Protocol

import structlog
from coldnotify_common.clocks import Trust
from coldnotify_common.errors import ServiceError
from coldnotify_common.paced import Paced
from coldnotify_schemas.tenant_usage import (
    encode_counters,
    encode_verdict,
    history_key,
    parse_usage,
    usage_partition_of,
)
from coldnotify_schemas.tenants import Agreement, InvalidTenant
from coldnotify_streams.job_clock import JobClock

from coldnotify_usage import metrics
from coldnotify_usage.core.highs import counters_of
from coldnotify_usage.core.partition_usage import PartitionUsage, SeenKey
from coldnotify_usage.core.seen import DAY_MS, SeenCounts

COUNTERS_MAX = 200_000
"""Counters in memory, one for each tenant, node and start of the node in the last day. 2.1 KB each, so 420 MB: 5,000
tenants at 20 nodes need half. The job sets aside what comes on top. More workers share it."""
PENDING_MAX = 5_000
"""Records that were read and are not acknowledged; more are read when these are stored."""
WRITES_MAX = 2_000
"""Records on their way to Kafka at a time."""
WRITE_TIMEOUT_S = 60.0
"""Kafka may be restarting. After this time the process ends, and its successor begins from what is durable."""
GO_BACK_S = 1.0
"""Pause between two attempts to read from the right offset, in which previously fetched records arrive."""
GO_BACK_TRIES = 1
"""Behind so many Kafka is asked whether it is there: the end of a transaction takes an offset, too."""
STALLED_S = 5.0
"""If records exist and none came for so long, they are sought, too."""
NEXT_KEY = b"next/"
"""Followed by a partition's number, the key of the offset at which to resume; a counter's key has another "/"."""
OFFSET_DIGITS_MAX = 18
"""No log has as many records."""
FORGET_PER_S = 2_000
FLUSH_S = 2.0
"""Each counter that changed is written once in it; what was read since is read again after a kill."""
TICK_S = 0.25
TELL_S = 0.5
"""Between two looks at what verdicts are due; each tenant has one a second at most."""

_WORDS = {
    "partition": "usage set aside: the tenant belongs to another partition",
    "room": "usage set aside: no room for more counters; start another worker",
}

log = structlog.get_logger()
_paced = Paced(log)


class WriteFailed(ServiceError):
    """Kafka did not take a record in time."""


class ReadUsage(Protocol):
    """A record of the usage topic, as the reader hands it over."""

    @property
    def partition(self) -> int: ...

    @property
    def offset(self) -> int: ...

    @property
    def timestamp_ms(self) -> int: ...

    @property
    def value(self) -> bytes | None: ...

    def ack(self) -> None:
        """It needs not be read again."""


class Writers(Protocol):
    """Writes to Kafka; each call returns an awaitable at once, which is done when the record is durable."""

    def store(self, partition: int, key: bytes, value: bytes | None) -> Awaitable[object]:
        """Writes to the topic of the job's state; None: a tombstone."""

    def verdict(self, tenant: str, value: bytes) -> Awaitable[object]:
        """Writes to the verdicts."""

    def history(self, key: str, value: bytes) -> Awaitable[object]:
        """Writes to the usage history."""


class UsageReader(Protocol):
    """The consumer of the usage topic."""

    def end_of(self, partition: int) -> int | None:
        """Returns where a partition ends, if that is known."""

    async def start_of(self, partition: int) -> int:
        """The first offset that is still there."""

    async def first_from(self, partition: int, offset: int) -> int | None:
        """Returns the offset of the first existing record from `offset` on; None if that is not known."""

    async def go_to(self, partition: int, offset: int) -> None:
        """Read from there on."""


def decode_next(key: bytes, value: bytes) -> tuple[int, int]:
    """The partition, and the offset at which it is to be read on. Raises ValueError."""
    number = key.removeprefix(NEXT_KEY)
    for name, digits in (("next: partition", number), ("next: offset", value)):
        if not digits.isdigit() or len(digits) > OFFSET_DIGITS_MAX:
            raise ValueError(f"{name}: is {digits[: OFFSET_DIGITS_MAX + 1]!r}")
    return int(number), int(value)


class UsageJob:
    """The partitions of one worker."""

    def __init__(
        self,
        writers: Writers,
        reader: UsageReader,
        agreement_of: Callable[[str], Agreement | None],
        *,
        partitions: int,
        counters_max: int = COUNTERS_MAX,
        flush_s: float = FLUSH_S,
        history_s: float,
        now_ms: Callable[[], int] | None = None,
        clocks: Trust | None = None,
    ) -> None:
        """`partitions`: those of the usage topic; it has none of them yet.

        `now_ms`: what time it is, and `clocks` whether that can be believed; None: by this process's clock.
        """
        self._writers, self._reader = writers, reader
        self._agreement_of = agreement_of
        self._partitions = partitions
        self._counters_max = counters_max
        self._flush_s, self._history_s = flush_s, history_s
        clock = JobClock()
        self._now_ms = clock.now_ms if now_ms is None else now_ms
        self._clocks: Trust = clock.trust if clocks is None else clocks
        self._mine: dict[int, PartitionUsage] = {}
        self._stored: MutableMapping[bytes, bytes] = {}
        self._pending: list[ReadUsage] = []
        self._next: dict[int, int] = {}
        """The offset of the next record to count, by partition."""
        self._next_stored: dict[int, int] = {}
        self._missing: dict[int, tuple[int, float]] = {}
        """By partition whose next record did not come: how often the job went back for it, and when."""
        self._came_s: dict[int, float] = {}
        """When the last record came, by partition."""
        self._tenure = 0
        """Rises with each rebalance: work that began before one is not finished after it."""
        self._flushing = asyncio.Lock()
        self._failure: Exception | None = None
        """The error of a flush, also of one that on_record() began, because Faust restarts its agent and continues."""
        self.has_partitions = False
        """True once it knows its own partitions, of which there may be none."""

    def lose(self) -> None:
        """A rebalance: forgets everything that is not durable."""
        self._tenure += 1
        self.has_partitions = False
        self._mine = {}
        self._pending = []
        self._next, self._next_stored, self._missing = {}, {}, {}
        self._measure()

    def take_over(self, partitions: Iterable[int], stored: MutableMapping[bytes, bytes]) -> None:
        """Takes over these partitions. `stored`: their stored state, by key; it is kept up to date."""
        self.lose()
        metrics.EVENTS.labels(metrics.TAKEOVER).inc()
        self._stored = stored
        self._mine = {partition: self._partition(partition) for partition in partitions}
        self._next = dict.fromkeys(self._mine, 0)
        self._came_s = dict.fromkeys(self._mine, time.monotonic())
        for key, value in list(stored.items()):
            try:
                if key.startswith(NEXT_KEY):
                    partition, offset = decode_next(key, value)
                    if partition in self._mine:
                        self._next[partition] = self._next_stored[partition] = offset
                    else:
                        del stored[key]
                    continue
                parsed, seen = SeenKey.decode(key), SeenCounts.decode(value)
            except ValueError as error:
                # A counter that is lost is read again from the nodes' next records; an offset, from the beginning.
                _paced.log("stored state set aside", level="warning", key=repr(key[:200]), reason=str(error))
                metrics.SET_ASIDE.labels("state").inc()
                del stored[key]
                continue
            mine = self._mine.get(usage_partition_of(parsed.tenant, self._partitions))
            if mine is not None:
                mine.load(parsed, seen)
            else:
                del stored[key]  # another worker's by now
        self.has_partitions = True
        self._measure()
        log.info(
            "partitions taken over",
            partitions=sorted(self._mine),
            counters=sum(one.seen_count for one in self._mine.values()),
        )

    def sought(self, partition: int) -> int | None:
        """Returns the offset from which a partition must be read again; None if it need not be."""
        return self._next.get(partition) if partition in self._missing else None

    async def on_record(self, record: ReadUsage) -> None:
        """Handles a record. Returns when there is room for the next."""
        mine = self._mine.get(record.partition)
        if mine is None:
            return  # of a partition that it had
        self._came_s[record.partition] = time.monotonic()
        if not await self._is_next(record):
            return
        self._next[record.partition] = record.offset + 1
        metrics.EVENTS.labels(metrics.RECORD).inc()
        self._count(mine, record)
        self._pending.append(record)
        if len(self._pending) >= PENDING_MAX:
            await self.flush()

    async def flush(self) -> None:
        """Stores changes, then the offset at which to resume, then acknowledges what was read. Raises WriteFailed.

        If it fails, or is cancelled, it is not known what has become durable. Then the partitions are given up: else
        the next flush would store an offset without the counters below it.
        """
        async with self._flushing:
            tenure = self._tenure
            try:
                await self._flush(tenure)
            except BaseException as error:
                if self._tenure == tenure:
                    self.lose()
                if isinstance(error, Exception):
                    self._failure = error
                raise

    async def tell_verdicts(self) -> None:
        """Writes the verdicts that are due. Raises WriteFailed."""
        now_ms = self._now_ms()
        writes = _Writes()
        for mine in list(self._mine.values()):
            if self._clocks.allows(DAY_MS):  # what is forgotten too early is counted again
                mine.forget(now_ms, round(FORGET_PER_S * TELL_S))
            for tenant, verdict in list(mine.verdicts(now_ms, self._agreement_of)):
                await writes.add(self._writers.verdict(tenant, encode_verdict(verdict)))
        await writes.done()
        self._measure()

    async def tell_history(self) -> None:
        """Writes the counts of hours and days that may have changed. Raises WriteFailed."""
        writes = _Writes()
        for mine in list(self._mine.values()):
            for counted in list(mine.take_counted()):
                key = history_key(counted.tenant, counted.span, counted.start_ms / 1000)
                await writes.add(self._writers.history(key, encode_counters(counters_of(counted.counts))))
        await writes.done()

    async def run(self) -> None:
        """Flushes and sends verdicts, until cancelled; a flush in progress then continues. Raises WriteFailed."""
        flush_s = tell_s = history_s = time.monotonic()
        while True:
            await asyncio.sleep(TICK_S)
            if self._failure is not None:
                raise self._failure
            if not self.has_partitions:
                continue
            now_s = time.monotonic()
            if now_s - flush_s >= self._flush_s:
                flush_s = now_s
                await asyncio.shield(self.flush())
            if now_s - tell_s >= TELL_S:
                tell_s = now_s
                await self._seek_stalled()
                await self.tell_verdicts()
            if now_s - history_s >= self._history_s:
                history_s = now_s
                await self.tell_history()

    async def _flush(self, tenure: int) -> None:
        pending, self._pending = self._pending, []
        upto = dict(self._next)
        writes = _Writes()
        for partition, mine in self._mine.items():
            for key, seen in mine.take_changed():
                await writes.add(self._store(partition, key.encode(), seen.encode() if seen is not None else None))
                if self._tenure != tenure:
                    return
        await writes.done()
        if self._tenure != tenure:
            return
        for partition, offset in upto.items():
            if self._next_stored.get(partition, 0) != offset:
                self._next_stored[partition] = offset
                await writes.add(self._store(partition, NEXT_KEY + b"%d" % partition, b"%d" % offset))
        await writes.done()
        if self._tenure == tenure:
            for record in pending:
                record.ack()

    def _store(self, partition: int, key: bytes, value: bytes | None) -> Awaitable[object]:
        if value is None:
            self._stored.pop(key, None)
        else:
            self._stored[key] = value
        return self._writers.store(partition, key, value)

    async def _is_next(self, record: ReadUsage) -> bool:
        """Returns true if the record is the next one to count; if it is a later one, the job goes back for the next."""
        partition, offset = record.partition, record.offset
        wanted = self._next[partition]
        if offset < wanted:
            end = self._reader.end_of(partition)
            if end is None or end >= wanted:
                record.ack()  # it is in the counters
                return False
            log.warning("the usage topic was made anew: it is read from its beginning", partition=partition)
            wanted = self._next[partition] = 0
        if offset == wanted:
            self._missing.pop(partition, None)
            return True
        tries, at_s = self._missing.get(partition, (0, 0.0))
        if time.monotonic() - at_s < GO_BACK_S:
            return False  # fetched before it was gone back
        tenure = self._tenure
        start = await self._reader.start_of(partition)
        there = await self._reader.first_from(partition, wanted) if tries >= GO_BACK_TRIES else None
        if self._tenure != tenure:
            return False  # divided anew in the meantime
        if wanted < start:
            log.warning("usage is gone before it was read", partition=partition, offsets=f"{wanted} to {start - 1}")
            wanted = self._next[partition] = start
        elif there is not None and there > wanted:
            wanted = self._next[partition] = there
        if offset == wanted:
            self._missing.pop(partition, None)
            return True
        self._missing[partition] = (tries + 1, time.monotonic())
        metrics.EVENTS.labels(metrics.GONE_BACK).inc()
        await self._reader.go_to(partition, wanted)
        return False

    async def _seek_stalled(self) -> None:
        now_s = time.monotonic()
        for partition, wanted in list(self._next.items()):
            end = self._reader.end_of(partition)
            if end is not None and end > wanted and now_s - self._came_s[partition] >= STALLED_S:
                self._came_s[partition] = now_s
                metrics.EVENTS.labels(metrics.GONE_BACK).inc()
                await self._reader.go_to(partition, wanted)

    def _count(self, mine: PartitionUsage, record: ReadUsage) -> None:
        try:
            if record.value is None:
                raise InvalidTenant("record: has no value")
            usage = parse_usage(record.value)
        except InvalidTenant as error:
            metrics.SET_ASIDE.labels("record").inc()
            _paced.log(
                "usage record set aside",
                level="warning",
                partition=record.partition,
                offset=record.offset,
                reason=str(error),
            )
            return
        now_ms = self._now_ms()
        self._clocks.heard("Kafka's clock, on usage records", record.timestamp_ms)
        for tenant, reason in mine.on_record(usage, record.timestamp_ms, now_ms):
            metrics.SET_ASIDE.labels(reason).inc()
            _paced.log(_WORDS[reason], level="warning", node=usage.node, tenant=tenant, partition=record.partition)

    def _partition(self, partition: int) -> PartitionUsage:
        return PartitionUsage(
            lambda tenant: usage_partition_of(tenant, self._partitions) == partition,
            lambda: sum(one.seen_count for one in self._mine.values()) < self._counters_max,
        )

    def _measure(self) -> None:
        metrics.PARTITIONS.set(len(self._mine))
        metrics.COUNTERS.set(sum(one.seen_count for one in self._mine.values()))
        ends = {partition: self._reader.end_of(partition) for partition in self._next}
        lags = (end - self._next[partition] for partition, end in ends.items() if end is not None)
        metrics.LAG_RECORDS.set(sum(max(lag, 0) for lag in lags))
        metrics.LAG_SECONDS.set(max((one.clock.behind_ms for one in self._mine.values()), default=0) / 1000)


class _Writes:
    """Records on their way, at most so many at a time."""

    def __init__(self) -> None:
        self._under_way: list[Awaitable[object]] = []

    async def add(self, write: Awaitable[object]) -> None:
        self._under_way.append(write)
        if len(self._under_way) >= WRITES_MAX:
            await self.done()

    async def done(self) -> None:
        writes, self._under_way = self._under_way, []
        if not writes:
            return
        try:
            async with asyncio.timeout(WRITE_TIMEOUT_S):
                await asyncio.gather(*writes)
        except TimeoutError:
            raise WriteFailed(f"Kafka did not take {len(writes)} records within {WRITE_TIMEOUT_S:.0f} s") from None
