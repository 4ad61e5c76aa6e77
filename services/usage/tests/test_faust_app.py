"""Workers of the usage job as processes, over a real Kafka: killed, given nonsense, started before there are topics.

Stands for: app, faust_app, usage_look
"""

import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from coldnotify_kafka import topic_plan, topics
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.tenant_usage import (
    TenantCounters,
    UsageRecord,
    Verdict,
    encode_usage,
    parse_verdict,
    usage_partition_of,
)
from coldnotify_schemas.tenants import Agreement, Tenant, encode_tenant
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.kafka import broker, committed, reset_topics
from coldnotify_testkit.record_batches import Batch, BatchRecord, Codec, bomb
from coldnotify_testkit.unreadable_batches import NO_UTF_8, loud, silent, write
from coldnotify_testkit.usage_workers import (
    PARTITIONS,
    Feeder,
    UsageProcess,
    counted_plainly,
    differences,
    read_all,
    told,
)
from coldnotify_testkit.waiting import wait_for
from coldnotify_usage.app import STOP_S
from coldnotify_usage.settings import UsageSettings
from coldnotify_usage.usage_look import first_from
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

TOPICS = TopicNames()

SETTINGS = {"usage_session_timeout_s": 2, "usage_history_s": 0.5}
READ = 'coldnotify_usage_events_total{event="record"}'
PER_S = 300
MANY = 2_000
_SHOWN = 3_000
Start = Callable[[], UsageProcess]


@pytest.fixture
def start(fresh_kafka: EmbeddedBroker, tmp_path: Path) -> Iterator[Start]:
    """Starts a worker; each is stopped at the end, if it still runs. A test that fails shows what they wrote."""
    with ExitStack() as stack:
        workers: list[UsageProcess] = []

        def started() -> UsageProcess:
            log = tmp_path / f"usage-{len(workers)}.log"
            workers.append(stack.enter_context(UsageProcess(fresh_kafka.bootstrap, log, **SETTINGS)))
            return workers[-1]

        yield started
        for worker in workers:
            sys.stdout.write(f"{worker.output_file}, ended with {worker.process.poll()}\n{worker.output[-_SHOWN:]}\n")


def share(*workers: UsageProcess) -> None:
    """Until they have all partitions among them. One that has given up a division of them is started anew."""

    def shared() -> bool:
        for one in workers:
            one.keep()
        return all(one.ready for one in workers) and sum(one.partitions for one in workers) == PARTITIONS

    wait_for(shared, "all partitions are shared out")


def is_given_more(worker: UsageProcess) -> Callable[[], bool]:
    """Whether partitions were divided anew, from now on. A worker that has given a division up is started anew."""
    before = worker.takeovers

    def given() -> bool:
        nonlocal before
        if worker.keep():
            before = 0
        return worker.takeovers > before

    return given


def all_is_committed(kafka: str) -> Callable[[], bool]:
    """Whether the consumer group is to read on behind all records that there are now."""
    group = UsageSettings(kafka=kafka).group
    ends = {
        message.partition() or 0: (message.offset() or 0) + 1 for message in read_all(kafka, TOPICS.usage, PARTITIONS)
    }
    return lambda: all(committed(kafka, TOPICS.usage, number, group)[0] == end for number, end in ends.items())


def wait_for_the_same_counts(kafka: str) -> None:
    wanted = counted_plainly(kafka)
    wait_for(lambda: not differences(told(kafka), wanted), "the counts of a plain consumer")


def test_two_workers_that_are_killed_count_to_the_record(
    fresh_kafka: EmbeddedBroker, start: Start, record_property: Callable[[str, object], None]
) -> None:
    """Once at any time, and once both: one just after it was given partitions, so that nothing of them is stored."""
    seed = random.SystemRandom().randrange(1 << 16)
    record_property("seed", seed)
    draw, kafka = random.Random(seed), fresh_kafka.bootstrap
    feeder = Feeder(kafka, PER_S, seed=seed)
    with feeder.feeding():
        first, second = start(), start()
        share(first, second)
        enough = feeder.written + draw.randrange(2 * PER_S)
        wait_for(lambda: feeder.written >= enough, "records")
        taken_over = is_given_more(second)
        first.kill()
        third = start()
        wait_for(taken_over, "taken over")
        second.kill()
        fourth = start()
        share(third, fourth)
    assert feeder.written > PER_S
    wait_for_the_same_counts(kafka)
    assert third.stop() == fourth.stop() == 0


def test_records_below_the_groups_commit_are_counted(fresh_kafka: EmbeddedBroker, start: Start) -> None:
    """The state is lost. They are sought while Faust hands over what comes later."""
    kafka = fresh_kafka.bootstrap
    feeder = Feeder(kafka, PER_S)

    def write(count: int) -> None:
        for _ in range(count):
            feeder.write()
        feeder.flush()

    write(MANY)
    worker = start()
    wait_for_the_same_counts(kafka)
    wait_for(all_is_committed(kafka), "all is committed")
    assert worker.stop() == 0
    producer = Producer({"bootstrap.servers": kafka})
    for message in list(read_all(kafka, TOPICS.usage_state, PARTITIONS)):
        producer.produce(TOPICS.usage_state, None, message.key(), partition=message.partition() or 0)
    assert producer.flush(60) == 0
    write(4 * MANY)
    worker = start()
    wait_for_the_same_counts(kafka)
    assert worker.metric('coldnotify_usage_events_total{event="gone_back"}') >= 1
    assert worker.stop() == 0


def test_the_end_of_a_transaction_is_passed_over(fresh_kafka: EmbeddedBroker, start: Start) -> None:
    """It takes an offset, and no record is there."""
    kafka, partition = fresh_kafka.bootstrap, usage_partition_of("acme", PARTITIONS)
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": "t"})
    producer.init_transactions(60)
    for publishes in (3, 5):
        usage = UsageRecord(
            node="n", boot="b", at_ms=time.time_ns() // 1_000_000, tenants={"acme": TenantCounters(publishes=publishes)}
        )
        producer.begin_transaction()
        producer.produce(TOPICS.usage, encode_usage(usage), partition=partition)
        producer.commit_transaction(60)
    settings = UsageSettings(kafka=kafka)
    assert [first_from(settings, partition, offset) for offset in range(3)] == [0, 2, 2]
    start()
    wait_for_the_same_counts(kafka)


def test_nonsense_is_set_aside_and_stops_nothing(fresh_kafka: EmbeddedBroker, start: Start) -> None:
    kafka = fresh_kafka.bootstrap
    worker, feeder = start(), Feeder(kafka, PER_S)
    draw = random.Random(4)
    for number in range(200):
        feeder.write()
        feeder.send(draw.randrange(PARTITIONS), draw.randbytes(draw.randrange(300)) if number % 4 else None)
    compressed = Producer({"bootstrap.servers": kafka, "compression.type": "zstd"})
    compressed.produce(TOPICS.usage, b"[" * 90_000, partition=0)
    assert compressed.flush(60) == 0
    feeder.flush()
    wait_for_the_same_counts(kafka)
    wait_for(lambda: worker.metric(READ) == 401, "all is read")
    assert worker.metric('coldnotify_usage_set_aside_total{reason="record"}') == 201
    assert worker.ready
    assert len([event for event in worker.events if event["event"] == "usage record set aside"]) < 20
    assert worker.stop() == 0


def test_unreadable_or_exploding_batches_stop_neither_kafka_nor_the_job(
    fresh_kafka: EmbeddedBroker, start: Start
) -> None:
    """In the usage, and in the job's own state, before it starts and while it counts."""
    kafka = fresh_kafka.bootstrap
    feeder = Feeder(kafka, PER_S)
    key = b"tenant-1/node-1/0"
    bombs = [bomb(codec, 150, key=key) for codec in (Codec.ZSTD, Codec.GZIP, Codec.LZ4)]
    several = Batch([BatchRecord(key, b"x", [NO_UTF_8])] * 3)
    hostile = [Batch([BatchRecord(key, b"x", [NO_UTF_8])]), several, loud(2, key), silent(1, key), *bombs]
    damaged = [(b"next/x", b"1"), (b"next/0", b"x"), (b"next/1", b"-5"), (b"next/2", b"9" * 400), (key, b"[1]")]
    state = [*hostile, Batch([BatchRecord(*one) for one in damaged])]

    def write_all() -> None:
        for partition in (0, 3):
            write(kafka, TOPICS.usage, partition, hostile)
            write(kafka, TOPICS.usage_state, partition, state)
        for _ in range(100):
            feeder.write()
        feeder.flush()

    write_all()
    worker = start().wait_ready()
    wait_for_the_same_counts(kafka)
    assert worker.metric('coldnotify_usage_set_aside_total{reason="state"}') == len(damaged)
    write_all()
    wait_for_the_same_counts(kafka)
    set_aside = 2 * 2 * sum(len(one.records) for one in hostile)
    wait_for(lambda: worker.metric('coldnotify_usage_set_aside_total{reason="record"}') == set_aside, "all are counted")
    assert worker.running
    assert worker.stop() == 0
    start().wait_ready()
    wait_for_the_same_counts(kafka)
    assert fresh_kafka.poll() is None, "Kafka has not ended"


def test_usage_that_was_removed_unread_is_not_waited_for(fresh_kafka: EmbeddedBroker, start: Start) -> None:
    kafka = fresh_kafka.bootstrap
    feeder = Feeder(kafka, PER_S)

    def write(count: int) -> None:
        for _ in range(count):
            feeder.write()
        feeder.flush()

    write(100)
    worker = start()
    wait_for_the_same_counts(kafka)
    assert worker.stop() == 0
    before = told(kafka)
    write(100)
    ends = [TopicPartition(TOPICS.usage, number, -1) for number in range(PARTITIONS)]
    admin = AdminClient({"bootstrap.servers": kafka})
    for done in admin.delete_records(ends).values():
        done.result(60)
    write(100)
    worker = start()
    wait_for(lambda: worker.metric(READ) == 100, "what is left is read")
    after = told(kafka)
    assert all(after[key][name] >= count for key, counts in before.items() for name, count in counts.items())


def test_a_tenant_is_held_to_its_agreement(fresh_kafka: EmbeddedBroker, start: Start) -> None:
    kafka = fresh_kafka.bootstrap
    producer = Producer({"bootstrap.servers": kafka})
    producer.produce(TOPICS.tenants, encode_tenant(Tenant("acme", ("d",), Agreement(in_per_s=100))), "acme")
    worker = start().wait_ready()
    assert worker.ready
    seconds = iter(range(1, 1000))

    def verdict_of(per_s: int) -> Verdict | None:
        second = next(seconds)
        counters = {"m": TenantCounters(publishes=per_s * second), "http-1": TenantCounters(admitted=per_s * second)}
        counters["http-2"] = TenantCounters(admitted=1)
        for node, counted in counters.items():
            usage = UsageRecord(
                node=node, boot=str(per_s), at_ms=time.time_ns() // 1_000_000, tenants={"acme": counted}
            )
            producer.produce(TOPICS.usage, encode_usage(usage), partition=usage_partition_of("acme", PARTITIONS))
        assert producer.flush(60) == 0
        time.sleep(0.3)  # the nodes' pace: a rate is what rises from one record to the next
        found = [message.value() for message in read_all(kafka, TOPICS.verdicts, 1) if message.key() == b"acme"]
        return parse_verdict(found[-1] or b"") if found else None

    def exceeds(verdict: Verdict | None) -> bool:
        return verdict is not None and verdict.exceeded == ("in_per_s",) and verdict.shares.get("http-1", 0) > 0.8

    wait_for(lambda: exceeds(verdict_of(500)), "the verdict that it exceeds its agreement, and at which node")
    wait_for(lambda: (verdict := verdict_of(0)) is not None and verdict.exceeded == (), "that it no longer does")


def test_it_waits_for_its_topics_and_says_so(fresh_kafka: EmbeddedBroker, start: Start) -> None:
    kafka = fresh_kafka.bootstrap
    admin = AdminClient({"bootstrap.servers": kafka})
    for done in admin.delete_topics([TOPICS.usage_state]).values():
        done.result(60)
    worker = start()
    wait_for(lambda: "coldnotify topics apply" in worker.get("/readyz")[1], "what is missing is said")
    assert worker.get("/healthz")[0] == 200
    topic_plan.apply(admin, topics.load(topics.EMBEDDED_PARTITIONS))
    worker.wait_ready()
    assert worker.stop() == 0


@pytest.mark.own_broker("stops Kafka")
def test_it_stops_in_time_without_kafka(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever stops it kills it after 20 s. It leaves nothing behind, however it ends."""
    (temporary := tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    with broker() as own, ExitStack() as stack:
        reset_topics(own.bootstrap)
        worker = stack.enter_context(UsageProcess(own.bootstrap, tmp_path / "usage.log", **SETTINGS)).wait_ready()
        feeder = Feeder(own.bootstrap, PER_S)
        feeder.write()
        feeder.flush()
        wait_for(lambda: worker.metric(READ) == 1, "it reads")
        own.stop()
        waiting = stack.enter_context(UsageProcess(own.bootstrap, tmp_path / "waiting.log", **SETTINGS))
        waiting.event("usage job started")
        for one in (worker, waiting):
            code, seconds = one.stop_timed()
            assert (code, seconds < 3 * STOP_S) == (0, True)
    assert [path.name for path in temporary.iterdir() if "usage" in path.name] == []
