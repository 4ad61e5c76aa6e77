"""The publisher against a real Kafka: what it acknowledges is there, what it refuses is not."""

import asyncio
import concurrent.futures
import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, cast

import pytest
from coldnotify.publisher import (
    InvalidName,
    InvalidRecord,
    Published,
    Publisher,
    PublishError,
    PublishManyError,
    PublishTimeout,
    make_message,
    make_record,
)
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_kafka.broker.freezing import freeze, thaw
from coldnotify_schemas.channels import parse_message_headers
from coldnotify_schemas.flow.beginnings import KAFKA
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.topics import CHANNELS_1H, CHANNELS_30D, OBJECTS
from coldnotify_testkit.kafka import reset_topics
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

DOMAIN, GROUP = "animal.observer", "region-1"


def written(bootstrap: str) -> list[dict[str, Any]]:
    """Every record of the objects topic."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test", "enable.auto.commit": False})
    try:
        partitions = consumer.list_topics(OBJECTS, timeout=60).topics[OBJECTS].partitions
        ends = {p: end_offset(consumer, p) for p in partitions}
        consumer.assign([TopicPartition(OBJECTS, p, 0) for p in partitions])
        records: list[dict[str, Any]] = []
        deadline_s = time.monotonic() + 60
        while len(records) < sum(ends.values()):
            assert time.monotonic() < deadline_s
            for message in consumer.consume(1000, timeout=0.2):
                assert message.error() is None
                records.append(
                    {
                        "key": (message.key() or b"").decode(),
                        "value": json.loads(message.value() or b"null"),
                        "partition": message.partition(),
                        "offset": message.offset(),
                        "timestamp": message.timestamp()[1],
                    }
                )
        return sorted(records, key=lambda record: (record["partition"], record["offset"]))
    finally:
        consumer.close()


def end_offset(consumer: Consumer, partition: int) -> int:
    deadline_s = time.monotonic() + 60
    while True:
        try:
            return consumer.get_watermark_offsets(TopicPartition(OBJECTS, partition), timeout=60)[1]
        except KafkaException:  # a partition that was made just now may have no leader yet
            assert time.monotonic() < deadline_s


@pytest.fixture
def bootstrap(fresh_kafka: EmbeddedBroker) -> str:
    return fresh_kafka.bootstrap


@pytest.fixture
def publisher(bootstrap: str) -> Iterator[Publisher]:
    with Publisher(bootstrap, timeout_s=60) as publisher:
        yield publisher


@pytest.fixture
def silent_address() -> Iterator[str]:
    """Somebody listens there and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


# -- what is acknowledged is there -------------------------------------------------------------------------------------


@pytest.mark.kafka
def test_a_publish_is_in_its_groups_partition_when_it_returns(bootstrap: str, publisher: Publisher) -> None:
    published = publisher.publish(
        DOMAIN, GROUP, "cams/north", 42, {"fps": 5}, source="c-1", expires_at=9, deleted=True, incarnation=1
    )
    (record,) = written(bootstrap)
    partitions = len(AdminClient({"bootstrap.servers": bootstrap}).list_topics(OBJECTS).topics[OBJECTS].partitions)
    assert partitions > 1
    assert published == Published(42, partition_of(DOMAIN, GROUP, partitions), record["offset"])
    assert record["partition"] == published.partition
    assert record["key"] == "animal.observer/region-1/cams/north"
    assert record["value"] == {
        "version": 42,
        "payload": {"fps": 5},
        "source": "c-1",
        "expires_at": 9,
        "deleted": True,
        "incarnation": 1,
    }


@pytest.mark.kafka
async def test_a_description_is_a_record_beside_the_object_and_comes_before_the_version(
    bootstrap: str, publisher: Publisher
) -> None:
    begun_ms = int(time.time() * 1000)
    described = publisher.describe(DOMAIN, GROUP, "lamp", {"on": True, "Room": 410.0, "Kind": "lamp"})
    publisher.publish(DOMAIN, GROUP, "lamp", 7, description={"Room": 411})
    await publisher.publish_async(DOMAIN, GROUP, "lamp", 8, description={})
    await publisher.describe_async(DOMAIN, GROUP, "lamp", None)
    publisher.describe(DOMAIN, GROUP, "lamp", None)
    key, said = "animal.observer/region-1/lamp", written(bootstrap)
    assert [(record["key"].removesuffix(key), record["value"]) for record in said] == [
        ("describe:", {"description": {"Kind": "lamp", "Room": 410, "on": True}}),
        ("describe:", {"description": {"Room": 411}}),
        ("", {"version": 7}),
        ("describe:", {"description": {}}),
        ("", {"version": 8}),
        ("describe:", {"description": None}),
        ("describe:", {"description": None}),
    ]
    assert len({record["partition"] for record in said}) == 1
    versions = [record["timestamp"] for record in said if record["key"] != key]
    assert versions == sorted(set(versions)), "each above the one before"
    assert described == Published(versions[0], said[0]["partition"], said[0]["offset"])
    assert begun_ms <= described.version


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("description", "words"),
    [
        ({"9": 1}, "description: '9' is not a key"),
        ({"a": None}, "description: the value of 'a'"),
        ({"a": float("nan")}, "description: the value of 'a' is not a finite number"),
        ({1: 1}, "description: the key 1 is not text"),
        ([("a", 1)], "is not a mapping"),
    ],
)
def test_what_is_no_description_is_refused_before_anything_is_sent(
    bootstrap: str, publisher: Publisher, description: Any, words: str
) -> None:
    for say in (
        lambda: publisher.describe(DOMAIN, GROUP, "lamp", description),
        lambda: publisher.publish(DOMAIN, GROUP, "lamp", 1, description=description),
    ):
        with pytest.raises(InvalidRecord, match=re.escape(words)):
            say()
    with pytest.raises(InvalidName, match="group"):
        publisher.describe(DOMAIN, "a b", "lamp", {})
    assert written(bootstrap) == []


@pytest.mark.kafka
def test_without_a_version_the_records_timestamp_is_the_version(bootstrap: str, publisher: Publisher) -> None:
    before_ms = int(time.time() * 1000)
    published = publisher.publish_many(DOMAIN, GROUP, [("o", {})] * 20)
    records = written(bootstrap)
    assert [record["timestamp"] for record in records] == [p.version for p in published]
    assert all(record["value"] == {} for record in records)
    assert before_ms <= published[0].version <= int(time.time() * 1000)
    assert published == sorted(published)
    # Two in one millisecond would be one version, and the second never told.
    assert len({p.version for p in published}) == 20


@pytest.mark.kafka
def test_many_are_published_in_order(bootstrap: str, publisher: Publisher) -> None:
    published = publisher.publish_many(DOMAIN, GROUP, [("a", {"version": 1}), ("b", {}), ("a", {"version": 2})])
    assert [record["offset"] for record in written(bootstrap)] == [p.offset for p in published]
    assert [record["key"].rpartition("/")[2] for record in written(bootstrap)] == ["a", "b", "a"]
    assert published[2].version == 2


@pytest.mark.kafka
async def test_of_many_the_descriptions_come_first(bootstrap: str, publisher: Publisher) -> None:
    many: dict[str, dict[str, Any]] = {"a": {"version": 1, "description": {"Room": 410}}, "b": {"version": 1}}
    publisher.publish_many(DOMAIN, GROUP, many)
    await publisher.publish_many_async(DOMAIN, GROUP, {"c": {"version": 1, "description": {"on": True}}})
    records = await asyncio.to_thread(written, bootstrap)
    assert [record["key"].rpartition("/")[2] for record in records] == ["a", "a", "b", "c", "c"]
    described = [record["value"] for record in records if record["key"].startswith("describe:")]
    assert described == [{"description": {"Room": 410}}, {"description": {"on": True}}]
    with pytest.raises(InvalidRecord, match=r"^b: description: "):
        publisher.publish_many(DOMAIN, GROUP, {"a": {"description": {"x": 1}}, "b": {"description": {"1": 1}}})
    assert len(await asyncio.to_thread(written, bootstrap)) == 5


@pytest.mark.kafka
async def test_the_asyncio_form_does_the_same(bootstrap: str) -> None:
    async with Publisher(bootstrap, timeout_s=60) as publisher:
        many = await asyncio.gather(*(publisher.publish_async(DOMAIN, GROUP, f"o{i}", version=i) for i in range(50)))
        assert [p.version for p in many] == list(range(50))
        batch = await publisher.publish_many_async(DOMAIN, GROUP, [("x", {"version": 1}), ("y", {"payload": [1]})])
    offsets = {record["offset"] for record in await asyncio.to_thread(written, bootstrap)}
    assert offsets == {p.offset for p in [*many, *batch]}


@pytest.mark.kafka
def test_a_small_queue_makes_publishers_wait_and_loses_nothing(bootstrap: str) -> None:
    with Publisher(bootstrap, timeout_s=60, queue_max=3) as publisher:
        published = publisher.publish_many(DOMAIN, GROUP, {f"o{i}": {"version": i} for i in range(200)})
        assert len({p.offset for p in published}) == 200
    assert len(written(bootstrap)) == 200


@pytest.mark.kafka
async def test_a_small_queue_makes_asyncio_publishers_wait_and_loses_nothing(bootstrap: str) -> None:
    async with Publisher(bootstrap, timeout_s=60, queue_max=3) as publisher:
        await asyncio.gather(*(publisher.publish_async(DOMAIN, GROUP, f"o{i}", version=i) for i in range(100)))
    assert len(await asyncio.to_thread(written, bootstrap)) == 100


@pytest.mark.kafka
async def test_a_cancelled_wait_harms_nobody(bootstrap: str) -> None:
    async with Publisher(bootstrap, timeout_s=60) as publisher:
        waits = [asyncio.ensure_future(publisher.publish_async(DOMAIN, GROUP, f"o{i}", i)) for i in range(10)]
        await asyncio.sleep(0)
        for wait in waits[::2]:
            wait.cancel()
        outcomes = await asyncio.gather(*waits, return_exceptions=True)
        assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes[::2])
        assert [outcome.version for outcome in outcomes[1::2] if isinstance(outcome, Published)] == [1, 3, 5, 7, 9]
        assert (await publisher.publish_async(DOMAIN, GROUP, "last", 1)).version == 1


# -- known repeats -----------------------------------------------------------------------------------------------------


@pytest.mark.kafka
def test_an_exact_repeat_is_not_written_again(bootstrap: str, publisher: Publisher) -> None:
    first = publisher.publish(DOMAIN, GROUP, "o", 7, {"a": 1}, incarnation=0)
    again = publisher.publish(DOMAIN, GROUP, "o", 7, {"a": 1}, incarnation=0)
    assert (again, first.written, again.written) == (first, True, False)
    assert len(written(bootstrap)) == 1


@pytest.mark.kafka
def test_what_only_looks_like_a_repeat_is_written(bootstrap: str, publisher: Publisher) -> None:
    for version, payload, incarnation in [
        (7, 1, 0),
        (7, 2, 0),  # another payload
        (7, 1, 0),  # the first again, but not the last any more
        (7, 1, 1),  # another incarnation
        (7, 1, None),  # the one in force, which others may have changed
        (7, 1, None),
        (None, 1, 1),  # each time another version
        (None, 1, 1),
    ]:
        publisher.publish(DOMAIN, GROUP, "o", version, payload, incarnation=incarnation)
    assert len(written(bootstrap)) == 8


@pytest.mark.kafka
def test_a_sole_publishers_repeats_need_no_incarnation(bootstrap: str) -> None:
    with Publisher(bootstrap, timeout_s=60, sole_publisher=True) as publisher:
        first = publisher.publish(DOMAIN, GROUP, "o", 7)
        assert publisher.publish(DOMAIN, GROUP, "o", 7) == first
        assert publisher.publish(DOMAIN, GROUP, "p", 7) != first
        publisher.publish(DOMAIN, GROUP, "o", 1, incarnation=1)
        publisher.publish(DOMAIN, GROUP, "o", 7)
    assert len(written(bootstrap)) == 4


@pytest.mark.kafka
def test_a_repeat_is_written_again_where_the_topic_is_a_new_one(
    bootstrap: str, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coldnotify._publishing.sender.REPEAT_TRUST_S", 0.2)
    publisher.publish(DOMAIN, GROUP, "o", 7, {"a": 1}, incarnation=0)
    reset_topics(bootstrap)
    time.sleep(0.2)
    publisher.publish(DOMAIN, GROUP, "o", 7, {"a": 1}, incarnation=0)
    assert len(written(bootstrap)) == 1


# -- failures ----------------------------------------------------------------------------------------------------------


def test_it_publishes_on_after_a_poll_of_the_kafka_library_failed(
    publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = threading.Event()
    sender = publisher._sender
    producer = sender._producer

    class Failing:
        def poll(self, timeout_s: float) -> int:
            monkeypatch.setattr(sender, "_producer", producer)
            failed.set()
            raise SystemError("of the library's own")

    monkeypatch.setattr(sender, "_producer", Failing())
    assert failed.wait(60)
    publisher.publish(DOMAIN, GROUP, "o", version=1)


def test_a_kafka_that_is_away_is_told_in_time_and_nothing_was_sent(silent_address: str) -> None:
    with Publisher(silent_address, timeout_s=0.5) as publisher:
        with pytest.raises(PublishTimeout, match="nothing was sent") as caught:
            publisher.publish(DOMAIN, GROUP, "o")
        assert not caught.value.indeterminate
        assert silent_address in str(caught.value)


async def test_the_asyncio_form_tells_it_too_without_stopping_the_loop(silent_address: str) -> None:
    async with Publisher(silent_address, timeout_s=0.5) as publisher:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        ticking = asyncio.ensure_future(tick())
        with pytest.raises(PublishManyError) as caught:
            await publisher.publish_many_async(DOMAIN, GROUP, {"a": {}, "b": {}})
        ticking.cancel()
        assert len(caught.value.outcomes) == 2
        assert not caught.value.indeterminate
        assert ticks > 2


@pytest.mark.kafka
def test_when_kafka_falls_silent_in_the_middle_the_outcome_is_indeterminate(fresh_kafka: EmbeddedBroker) -> None:
    with Publisher(fresh_kafka.bootstrap, timeout_s=2) as publisher:
        deadline_s = time.monotonic() + 60
        while True:  # the first one may need longer than 2 s on a busy machine
            try:
                publisher.publish(DOMAIN, GROUP, "o", 1)
                break
            except PublishTimeout:
                assert time.monotonic() < deadline_s
        freeze(fresh_kafka.pid)
        try:
            with pytest.raises(PublishTimeout, match="indeterminate") as caught:
                publisher.publish(DOMAIN, GROUP, "o", 2)
            assert caught.value.indeterminate
            assert publisher.flush(0) <= 1
        finally:
            thaw(fresh_kafka.pid)
        # It carries on with the same publisher; the same version again is safe.
        deadline_s = time.monotonic() + 60
        while True:
            try:
                assert publisher.publish(DOMAIN, GROUP, "o", 2).version == 2
                break
            except PublishTimeout:
                assert time.monotonic() < deadline_s
    assert written(fresh_kafka.bootstrap)[-1]["value"] == {"version": 2}


@pytest.mark.kafka
def test_a_topic_that_is_missing_is_named(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([OBJECTS])[OBJECTS].result(60)
    with (
        Publisher(bootstrap, timeout_s=60) as publisher,
        pytest.raises(PublishError, match=r"topic coldnotify\.objects does not exist"),
    ):
        publisher.publish(DOMAIN, GROUP, "o")


@pytest.mark.kafka
def test_a_refused_record_is_certainly_not_there(bootstrap: str) -> None:
    with Publisher(bootstrap, timeout_s=60, kafka_config={"message.max.bytes": 1000}) as publisher:
        with pytest.raises(PublishError) as caught:
            publisher.publish(DOMAIN, GROUP, "o", payload="x" * 2000)
        assert not caught.value.indeterminate
        publisher.publish(DOMAIN, GROUP, "o")
    assert len(written(bootstrap)) == 1


@pytest.mark.kafka
def test_more_partitions_are_noticed(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coldnotify._publishing.sender.PARTITIONS_REFRESH_S", 0)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    before = len(admin.list_topics(OBJECTS).topics[OBJECTS].partitions)
    after = 2 * before + 1
    group = next(
        f"g{i}" for i in range(100) if partition_of(DOMAIN, f"g{i}", before) != partition_of(DOMAIN, f"g{i}", after)
    )
    with Publisher(bootstrap, timeout_s=60) as publisher:
        assert publisher.publish(DOMAIN, group, "o").partition == partition_of(DOMAIN, group, before)
        admin.create_partitions([NewPartitions(OBJECTS, after)])[OBJECTS].result(60)
        deadline_s = time.monotonic() + 60
        while publisher.publish(DOMAIN, group, "o").partition != partition_of(DOMAIN, group, after):
            assert time.monotonic() < deadline_s


# -- wrong use ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"version": -1}, "version"),
        ({"version": 1 << 63}, "version"),
        ({"version": 1 << 80}, "version"),
        ({"version": True}, "version"),
        ({"version": "7"}, "version"),
        ({"expires_at": 1.5}, "expires_at"),
        ({"incarnation": -1}, "incarnation"),
        ({"incarnation": 1 << 31}, "incarnation"),
        ({"deleted": 1}, "deleted"),
        ({"source": "a b"}, "source"),
        ({"source": 5}, "source"),
        ({"payload": object()}, "payload"),
        ({"payload": "x" * 4096}, "payload"),
    ],
)
def test_a_bad_field_is_named(arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRecord if field != "source" else ValueError, match=f"^{field}: "):
        make_record(**arguments)


@pytest.mark.parametrize(
    ("names", "field"),
    [
        (("a b", "g", "o"), "domain"),
        (("d", "", "o"), "group"),
        (("d", "g", ""), "object"),
        (("d", "g", "x" * 256), "object"),
        (("d", 5, "o"), "group"),
    ],
)
def test_a_bad_name_is_named_before_anything_is_sent(silent_address: str, names: Any, field: str) -> None:
    with Publisher(silent_address, timeout_s=60) as publisher:
        with pytest.raises(InvalidName, match=f"^{field}: "):
            publisher.publish(*names)
        assert publisher.flush(0) == 0


@pytest.mark.kafka
def test_one_bad_record_among_many_means_that_none_is_sent(bootstrap: str, publisher: Publisher) -> None:
    for bad, words in (({"version": -1}, "b: version: "), ({"verison": 1}, "b: verison: no record has this field")):
        with pytest.raises(InvalidRecord, match=f"^{words}"):
            publisher.publish_many(DOMAIN, GROUP, {"a": {"version": 1}, "b": bad})
    assert written(bootstrap) == []


def test_what_librdkafka_does_not_take_is_named() -> None:
    with pytest.raises(ValueError, match=r"kafka_config: .*no\.such\.option"):
        Publisher(kafka_config={"no.such.option": 1})
    with pytest.raises(ValueError, match=r"^timeout_s: "):
        Publisher(timeout_s=0)
    with pytest.raises(ValueError, match=r"^queue_max: "):
        Publisher(queue_max=0)


def test_a_closed_publisher_takes_nothing(silent_address: str) -> None:
    publisher = Publisher(silent_address, timeout_s=60)
    publisher.close()
    publisher.close()
    with pytest.raises(PublishError, match="closed"):
        publisher.publish(DOMAIN, GROUP, "o")


def test_importing_the_client_does_not_import_what_only_publishers_need() -> None:
    script = "import coldnotify, sys; print([m for m in ('confluent_kafka', 'msgspec') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "[]\n"


# -- whether clients have it -------------------------------------------------------------------------------------------


# -- what it has changed -----------------------------------------------------------------------------------------------


# -- flow control ------------------------------------------------------------------------------------------------------


def test_a_controller_that_there_is_not_is_told() -> None:
    with pytest.raises(ValueError, match=r"^flow: 'reno' is none of bottleneck, "):
        Publisher(flow="reno")


@pytest.mark.kafka
async def test_more_publishes_than_may_be_on_their_way_wait_and_none_is_lost(bootstrap: str) -> None:
    async with Publisher(bootstrap, timeout_s=60, flow="fixed", queue_max=5) as publisher:
        most = 0
        tasks = [asyncio.ensure_future(publisher.publish_async(DOMAIN, GROUP, f"o{i}", i)) for i in range(300)]
        while not all(task.done() for task in tasks):
            most = max(most, publisher.flow.in_flight)
            await asyncio.sleep(0)
        assert 1 <= most <= 5
        assert publisher.flow[:3] == (5, 0, 0)
    assert len({task.result().offset for task in tasks}) == 300


@pytest.mark.kafka
def test_whoever_has_its_result_finds_its_room_free(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    set_result = concurrent.futures.Future.set_result

    def set_it_and_linger(future: "concurrent.futures.Future[Any]", result: Any) -> None:
        set_result(future, result)
        time.sleep(0.05)  # the other threads come first

    with Publisher(bootstrap, timeout_s=60, flow="fixed", queue_max=1) as publisher:
        publisher.publish(DOMAIN, GROUP, "o", 0)
        monkeypatch.setattr(concurrent.futures.Future, "set_result", set_it_and_linger)
        for version in range(1, 4):
            publisher.publish(DOMAIN, GROUP, "o", version)
            assert publisher.flow.in_flight == 0


@pytest.mark.kafka
async def test_who_gives_up_waiting_keeps_no_room_from_others(bootstrap: str) -> None:
    async with Publisher(bootstrap, timeout_s=60, flow="fixed", queue_max=1) as publisher:
        await publisher.publish_async(DOMAIN, GROUP, "first", 1)
        tasks = [asyncio.ensure_future(publisher.publish_async(DOMAIN, GROUP, f"o{i}", i)) for i in range(60)]
        while not publisher.flow.waiting:  # noqa: ASYNC110  (nobody tells)
            await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert sum(isinstance(one, Published) for one in done) >= 30
        # What a cancelled one had handed over may still be on its way.
        assert await asyncio.to_thread(publisher.flush, 60) == 0
        assert publisher.flow.in_flight == 0
        assert (await publisher.publish_async(DOMAIN, GROUP, "last", 1)).version == 1


def test_what_waits_longer_than_it_may_is_a_timeout_and_was_not_sent(silent_address: str) -> None:
    """Kafka acknowledges nothing: the first record holds the only permit."""
    with Publisher(silent_address, timeout_s=0.3, flow="fixed", queue_max=1) as publisher:
        publisher._sender._partitions, publisher._sender._partitions_at_s = 8, time.monotonic()
        with pytest.raises(PublishManyError) as caught:
            publisher.publish_many(DOMAIN, GROUP, {"a": {}, "b": {}})
        first, second = caught.value.outcomes
        assert isinstance(first, PublishTimeout)
        assert isinstance(second, PublishTimeout)
        assert "as many records are on their way" in str(second)
        assert (first.indeterminate, second.indeterminate) == (True, False)


@pytest.mark.kafka
def test_the_limit_moves_by_what_acknowledgements_take(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coldnotify._publishing.sender.KAFKA", KAFKA._replace(first=20, completions=50, seconds=0.05))
    with Publisher(bootstrap, timeout_s=60) as publisher:
        limits: set[int] = set()
        until_s = time.monotonic() + 60
        while len(limits) < 3 and time.monotonic() < until_s:
            publisher.publish_many(DOMAIN, GROUP, {f"o{i}": {} for i in range(500)})
            limits.add(publisher.flow.limit)
        assert len(limits) >= 3
        window = publisher.flow.window
        assert window is not None
        assert window.completions_per_s > 0
        assert window.wait_s > 0


def test_messages_are_in_their_domains_topic_in_order(fresh_kafka: EmbeddedBroker) -> None:
    with Publisher(fresh_kafka.bootstrap, channel_retentions="lamps=30d,*=1h") as publisher:
        sent = [publisher.send(DOMAIN, GROUP, "tasks", {"n": n}, to=["camera"], id=f"m-{n}") for n in range(3)]
        binary = asyncio.run(publisher.send_async("lamps", GROUP, "tasks", b"\xff", expires_at=9, source="ops"))
    assert [one.offset for one in sent] == [0, 1, 2]
    for topic, where, count in ((CHANNELS_1H, sent[0], 3), (CHANNELS_30D, binary, 1)):
        consumer = Consumer({"bootstrap.servers": fresh_kafka.bootstrap, "group.id": "test"})
        try:
            consumer.assign([TopicPartition(topic, where.partition, 0)])
            found = consumer.consume(count, timeout=60)
        finally:
            consumer.close()
        assert len(found) == count
        headers = parse_message_headers(cast(Any, found[0].headers()))
        if topic == CHANNELS_1H:
            assert [json.loads(one.value() or b"") for one in found] == [{"n": 0}, {"n": 1}, {"n": 2}]
            assert (headers.id, headers.to, found[0].key()) == ("m-0", ("camera",), b"animal.observer/region-1/tasks")
            assert abs((headers.time_ms or 0) - time.time() * 1000) < 60_000
        else:
            assert (found[0].value(), headers.id, headers.expires_at, headers.source) == (b"\xff", binary.id, 9, "ops")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"payload": object()}, "payload: cannot"),
        ({"payload": b"x" * 65537}, "payload: has 65537"),
        ({"payload": 1, "id": "x" * 65}, "id: has 65"),
        ({"payload": 1, "id": 5}, "id: 5 is not text"),
        ({"payload": 1, "to": "camera"}, "to: 'camera' is text"),
        ({"payload": 1, "to": [1]}, "to: 1 is not text"),
        ({"payload": 1, "expires_at": 1.5}, "expires_at: 1.5"),
        ({"payload": 1, "expires_at": -1}, "expires_at: -1"),
        ({"payload": 1, "source": "a b"}, "source: 'a b'"),
    ],
)
def test_a_wrong_message_names_the_field(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        make_message(**wrong)


def test_wrong_retentions_and_channels_are_named() -> None:
    with pytest.raises(ValueError, match=r"channel_retentions: .*2d"):
        Publisher("127.0.0.1:1", channel_retentions="*=2d")
    with Publisher("127.0.0.1:1", timeout_s=0.1) as publisher, pytest.raises(InvalidName, match="channel"):
        publisher.send(DOMAIN, GROUP, "", 1)
