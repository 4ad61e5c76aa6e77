"""What a worker does in which order, with Kafka played: nothing is acknowledged before it is stored, or skipped."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest
from coldnotify_common.clocks import Trust, Trusting
from coldnotify_schemas.tenant_usage import (
    TenantCounters,
    UsageRecord,
    encode_usage,
    parse_counters,
    parse_verdict,
    usage_partition_of,
)
from coldnotify_schemas.tenants import Agreement
from coldnotify_testkit.waiting import until
from coldnotify_usage import metrics, usage_job
from coldnotify_usage.usage_job import NEXT_KEY, UsageJob, WriteFailed

T = 1_795_384_800_000
PARTITIONS = 4
TENANT = "tenant-1"
PARTITION = usage_partition_of(TENANT, PARTITIONS)
OTHER = (PARTITION + 1) % PARTITIONS


@dataclass
class FakeKafka:
    """Writers and reader in one; what was done is in `done`, in order."""

    done: list[str] = field(default_factory=list)
    state: dict[bytes, bytes] = field(default_factory=dict)
    verdicts: dict[str, bytes] = field(default_factory=dict)
    told: dict[str, bytes] = field(default_factory=dict)
    end: int | None = None
    start: int = 0
    first: int | None = None
    """The first record that is there."""
    fails: bool = False
    taking: asyncio.Event | None = None
    """If there is one, nothing is durable before it is set."""

    def store(self, partition: int, key: bytes, value: bytes | None) -> Awaitable[object]:
        async def durable() -> None:
            if self.fails:
                raise TimeoutError
            if self.taking is not None:
                await self.taking.wait()
            assert value is not None
            self.state[key] = value
            self.done.append(f"stored {'next' if key.startswith(NEXT_KEY) else 'counter'} in {partition}")

        return durable()

    def verdict(self, tenant: str, value: bytes) -> Awaitable[object]:
        async def durable() -> None:
            self.verdicts[tenant] = value

        return durable()

    def history(self, key: str, value: bytes) -> Awaitable[object]:
        async def durable() -> None:
            self.told[key] = value

        return durable()

    def end_of(self, partition: int) -> int | None:
        return self.end

    async def start_of(self, partition: int) -> int:
        return self.start

    async def first_from(self, partition: int, offset: int) -> int | None:
        return self.first

    async def go_to(self, partition: int, offset: int) -> None:
        self.done.append(f"go to {offset} of {partition}")


@dataclass
class FakeRecord:
    """A record of the usage topic."""

    kafka: FakeKafka
    offset: int
    value: bytes | None
    partition: int = PARTITION
    timestamp_ms: int = T

    def ack(self) -> None:
        self.kafka.done.append(f"acknowledged {self.offset}")


@pytest.fixture
def kafka() -> FakeKafka:
    return FakeKafka()


def job(
    kafka: FakeKafka,
    agreement: Agreement | None = None,
    counters_max: int = 100,
    *,
    now_ms: Callable[[], int] = lambda: T,
    clocks: Trust | None = None,
) -> UsageJob:
    made = UsageJob(
        kafka,
        kafka,
        lambda _tenant: agreement,
        partitions=PARTITIONS,
        counters_max=counters_max,
        flush_s=0.01,
        history_s=0.01,
        now_ms=now_ms,
        clocks=clocks,
    )
    made.take_over([PARTITION], dict(kafka.state))
    return made


def record(kafka: FakeKafka, offset: int, publishes: int = 1, tenant: str = TENANT) -> FakeRecord:
    usage = UsageRecord(node="n", boot="b", at_ms=T, tenants={tenant: TenantCounters(publishes=publishes)})
    return FakeRecord(kafka, offset, encode_usage(usage))


def taken(kafka: FakeKafka) -> int:
    """How many publishes the history says."""
    return parse_counters(kafka.told[f"usage:{TENANT}:day:2026-11-22"]).publishes


@pytest.mark.parametrize("agree", [False, True])
async def test_counters_are_forgotten_only_by_clocks_that_agree(kafka: FakeKafka, agree: bool) -> None:
    """By a clock that is 200 days ahead each day is over; what was counted would be counted once more."""
    ahead_ms = 0
    heard: list[int] = []

    class Told(Trusting):
        def allows(self, _period_ms: int) -> bool:
            return agree

        def heard(self, name: str, stamp_ms: int) -> None:
            heard.append(stamp_ms)

    made = job(kafka, now_ms=lambda: T + ahead_ms, clocks=Told())
    await made.on_record(record(kafka, 0, 10))
    await made.flush()
    assert heard == [T]
    ahead_ms = 200 * 86_400_000
    for _ in range(4):
        await made.tell_verdicts()
    assert made._mine[PARTITION].seen_count == (0 if agree else 1)


async def test_before_an_acknowledgement_counters_and_the_next_offset_are_stored(kafka: FakeKafka) -> None:
    made = job(kafka)
    for offset in range(3):
        await made.on_record(record(kafka, offset, 10 * offset))
    assert kafka.done == []
    await made.flush()
    assert kafka.done == [
        f"stored counter in {PARTITION}",
        f"stored next in {PARTITION}",
        *(f"acknowledged {offset}" for offset in range(3)),
    ]
    assert kafka.state[NEXT_KEY + b"%d" % PARTITION] == b"3"


async def test_without_changes_nothing_is_written(kafka: FakeKafka) -> None:
    made = job(kafka)
    await made.on_record(record(kafka, 0))
    await made.flush()
    kafka.done.clear()
    await made.flush()
    assert kafka.done == []


async def test_a_takeover_resumes_at_the_stored_offset(kafka: FakeKafka) -> None:
    made = job(kafka)
    for offset in range(3):
        await made.on_record(record(kafka, offset, 10 * offset))
    await made.flush()
    await made.on_record(record(kafka, 3, 50))  # not stored
    successor = job(kafka)
    for offset, publishes in ((2, 20), (3, 50)):
        await successor.on_record(record(kafka, offset, publishes))
    await successor.tell_history()
    assert taken(kafka) == 50


async def test_a_record_that_comes_too_early_is_dropped_and_the_next_one_is_sought(kafka: FakeKafka) -> None:
    made = job(kafka)
    await made.on_record(record(kafka, 0, 1))
    gone_back = metrics.EVENTS.labels(metrics.GONE_BACK)
    before = gone_back._value.get()
    for offset in (5, 6, 7):  # fetched before partitions were divided anew
        await made.on_record(record(kafka, offset, 100))
    assert kafka.done == [f"go to 1 of {PARTITION}"]
    assert gone_back._value.get() == before + 1
    for offset in range(1, 8):
        await made.on_record(record(kafka, offset, 1 + offset))
    await made.flush()
    await made.tell_history()
    assert taken(kafka) == 8
    assert [line for line in kafka.done if line.startswith("ack")] == [f"acknowledged {offset}" for offset in range(8)]


async def test_records_that_retention_has_removed_are_not_waited_for(kafka: FakeKafka) -> None:
    made = job(kafka)
    kafka.start = 40
    await made.on_record(record(kafka, 40, 7))
    await made.tell_history()
    assert taken(kafka) == 7
    assert kafka.done == []


async def test_an_offset_that_holds_no_record_is_given_up_when_kafka_says_so(
    kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage_job, "GO_BACK_S", 0.0)
    made = job(kafka)
    kafka.first = 1
    for _ in range(usage_job.GO_BACK_TRIES + 1):
        await made.on_record(record(kafka, 1, 7))
    await made.tell_history()
    assert taken(kafka) == 7
    assert made.sought(PARTITION) is None


@pytest.mark.parametrize("said", [0, None])
async def test_an_existing_record_is_sought_as_long_as_later_ones_come(
    kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch, said: int | None
) -> None:
    """Also while Kafka does not say whether it is there."""
    monkeypatch.setattr(usage_job, "GO_BACK_S", 0.0)
    made = job(kafka)
    kafka.first = said
    later = range(1, 4 * usage_job.GO_BACK_TRIES)
    for offset in later:
        await made.on_record(record(kafka, offset, 100))
    assert kafka.done == [f"go to 0 of {PARTITION}"] * len(later)
    assert made.sought(PARTITION) == 0
    for offset in range(3):
        await made.on_record(record(kafka, offset, 1 + offset))
    assert made.sought(PARTITION) is None
    await made.tell_history()
    assert taken(kafka) == 3


async def test_after_an_offset_without_a_record_the_one_that_kafka_names_is_sought(
    kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage_job, "GO_BACK_S", 0.0)
    made = job(kafka)
    kafka.first = 2
    for offset in range(5, 6 + usage_job.GO_BACK_TRIES):
        await made.on_record(record(kafka, offset, 100))
    assert kafka.done[-1] == f"go to 2 of {PARTITION}"
    await made.on_record(record(kafka, 2, 7))
    await made.tell_history()
    assert taken(kafka) == 7


async def test_a_recreated_topic_is_read_from_its_beginning(kafka: FakeKafka) -> None:
    kafka.state[NEXT_KEY + b"%d" % PARTITION] = b"1000"
    made = job(kafka)
    kafka.end = 1
    await made.on_record(record(kafka, 0, 7))
    await made.tell_history()
    assert taken(kafka) == 7


async def test_records_that_never_come_are_sought(kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_job, "STALLED_S", 0.0)
    made = job(kafka)
    kafka.end = 0
    await made._seek_stalled()
    assert kafka.done == []
    kafka.end = 9
    await made._seek_stalled()
    assert kafka.done == [f"go to 0 of {PARTITION}"]


async def test_records_of_a_lost_partition_are_not_acknowledged(kafka: FakeKafka) -> None:
    made = job(kafka)
    await made.on_record(record(kafka, 0))
    flush = asyncio.ensure_future(made.flush())
    await asyncio.sleep(0)
    made.lose()
    await flush
    assert [line for line in kafka.done if line.startswith("ack")] == []
    await made.on_record(record(kafka, 1))
    await made.flush()
    assert not made.has_partitions
    assert [line for line in kafka.done if line.startswith("ack")] == []


async def test_hostile_records_are_set_aside_counted_and_stop_nothing(kafka: FakeKafka) -> None:
    made = job(kafka, counters_max=2)

    def set_aside(reason: str) -> float:
        return float(metrics.SET_ASIDE.labels(reason)._value.get())

    before = {reason: set_aside(reason) for reason in ("record", "partition", "room")}
    hostile = [
        None,
        b"",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"node":"n"}',
        b'{"node":"n","boot":"b","at_ms":-1,"tenants":{}}',
        b'{"node":"n","boot":"b","at_ms":1,"tenants":{"tenant-1":{"publishes":99999999999999999999}}}',
        b'{"node":"n/n","boot":"b","at_ms":1,"tenants":{"tenant-1":{"publishes":1}}}',
        b'{"node":"n","boot":"b","at_ms":1,"tenants":{"a b":{"publishes":1}}}',
    ]
    for offset, value in enumerate(hostile):
        await made.on_record(FakeRecord(kafka, offset, value))
    elsewhere = next(f"t-{n}" for n in range(99) if usage_partition_of(f"t-{n}", PARTITIONS) == OTHER)
    here = [f"t-{n}" for n in range(999) if usage_partition_of(f"t-{n}", PARTITIONS) == PARTITION][:4]
    for offset, tenant in enumerate([elsewhere, *here, TENANT], len(hostile)):
        await made.on_record(record(kafka, offset, 1, tenant))
    await made.flush()
    assert {reason: set_aside(reason) - count for reason, count in before.items()} == {
        "record": len(hostile),
        "partition": 1,
        "room": 3,
    }
    assert len([line for line in kafka.done if line.startswith("ack")]) == len(hostile) + 6


async def test_damaged_or_foreign_stored_counters_are_ignored(kafka: FakeKafka) -> None:
    other = next(f"t-{n}" for n in range(99) if usage_partition_of(f"t-{n}", PARTITIONS) == OTHER)
    stored = {
        f"{TENANT}/n/b".encode(): b"{",
        b"\xff": b"[]",
        f"{other}/n/b".encode(): b"[1,[],[],{},[],{}]",
        NEXT_KEY + b"%d" % OTHER: b"12",
        NEXT_KEY + b"%d" % PARTITION: b"4",
    }
    made = job(kafka)
    made.take_over([PARTITION], stored)
    assert f"{other}/n/b".encode() not in stored
    assert NEXT_KEY + b"%d" % OTHER not in stored
    await made.on_record(record(kafka, 4, 7))
    await made.tell_history()
    assert taken(kafka) == 7


async def test_verdicts_are_written_while_a_tenant_has_limits(kafka: FakeKafka) -> None:
    made = job(kafka, Agreement(objects_max=1))
    await made.on_record(record(kafka, 0))
    await made.tell_verdicts()
    verdict = parse_verdict(kafka.verdicts[TENANT])
    assert (verdict.until_ms, verdict.exceeded) == (T + 20_000, ())


async def test_a_kafka_that_stores_nothing_ends_the_job(kafka: FakeKafka) -> None:
    made = job(kafka)
    kafka.fails = True
    await made.on_record(record(kafka, 0))
    with pytest.raises(WriteFailed):
        await made.flush()
    kafka.fails = False
    await made.flush()  # the last one, as the process ends
    assert kafka.done == []


async def test_a_failed_flush_that_made_room_for_a_record_ends_the_job(
    kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Faust starts what has read the record anew."""
    monkeypatch.setattr(usage_job, "PENDING_MAX", 1)
    made = job(kafka)
    kafka.fails = True
    with pytest.raises(WriteFailed):
        await made.on_record(record(kafka, 0))
    with pytest.raises(WriteFailed):
        await asyncio.wait_for(made.run(), 60)


async def test_after_a_cancelled_flush_no_offset_is_stored(kafka: FakeKafka) -> None:
    made = job(kafka)
    kafka.taking = asyncio.Event()
    await made.on_record(record(kafka, 0))
    flush = asyncio.ensure_future(made.flush())
    await asyncio.sleep(0)
    flush.cancel()
    with pytest.raises(asyncio.CancelledError):
        await flush
    kafka.taking.set()
    await made.flush()
    assert kafka.done == []


async def test_a_flush_in_progress_is_completed_when_the_job_stops(kafka: FakeKafka) -> None:
    made = job(kafka)
    kafka.taking = asyncio.Event()
    await made.on_record(record(kafka, 0))
    running = asyncio.ensure_future(made.run())
    await until(made._flushing.locked, "it flushes")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await made.on_record(record(kafka, 1, 7))
    last = asyncio.ensure_future(made.flush())
    kafka.taking.set()
    await last
    assert kafka.done == [
        *(f"stored {what} in {PARTITION}" for what in ("counter", "next")),
        "acknowledged 0",
        *(f"stored {what} in {PARTITION}" for what in ("counter", "next")),
        "acknowledged 1",
    ]


async def test_run_flushes_and_sends_verdicts_at_intervals(kafka: FakeKafka) -> None:
    made = job(kafka)
    await made.on_record(record(kafka, 0))
    running = asyncio.ensure_future(made.run())
    await until(lambda: kafka.state and kafka.told and kafka.verdicts, "all is told")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_cancellation_stops_it_even_while_kafka_confirms_a_record(kafka: FakeKafka) -> None:
    made = job(kafka)
    await made.on_record(record(kafka, 0))
    loop = asyncio.get_running_loop()

    def store(partition: int, key: bytes, value: bytes | None) -> Awaitable[object]:
        async def durable() -> None:
            # When the write is done, and the job has not seen it.
            loop.call_soon(lambda: loop.call_soon(running.cancel))

        return durable()

    kafka.store = store  # type: ignore[method-assign]
    running = asyncio.ensure_future(made.run())
    await until(running.done, "it stops")
    assert running.cancelled()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"next/x", b"1"),
        (b"next/", b"1"),
        (b"next/%d" % PARTITION, b"x"),
        (b"next/%d" % PARTITION, b"-1"),
        (b"next/%d" % PARTITION, b"9" * 5_000),
        (b"next/" + b"9" * 5_000, b"1"),
        (b"\xff/node/boot", b"[]"),
        (f"{TENANT}/node/boot".encode(), b"[" * 90_000),
        (f"{TENANT}/node/boot".encode(), b"[1,[],[-5],{},[],{}]"),
        (f"{TENANT}/node/boot".encode(), b"[1,[],[1],{},[],{}]".replace(b"[1]", b"[%d]" % 10**30)),
        (b"", b""),
    ],
)
async def test_stored_state_that_the_job_has_not_written_is_set_aside(
    kafka: FakeKafka, key: bytes, value: bytes
) -> None:
    before = metrics.SET_ASIDE.labels("state")._value.get()
    stored = {key: value}
    made = job(kafka)
    made.take_over([PARTITION], stored)
    assert made.has_partitions
    assert stored == {}
    assert metrics.SET_ASIDE.labels("state")._value.get() == before + 1
    await made.on_record(FakeRecord(kafka, 0, None))
    await made.flush()
    assert kafka.state == {b"next/%d" % PARTITION: b"1"}, "it is written over"
