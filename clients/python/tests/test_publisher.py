"""The publisher against a real Kafka: what it acknowledges is there, what it refuses is not."""

import asyncio
import subprocess
import sys
import time
from typing import Any

import pytest
from coldnotify.publisher import InvalidName, InvalidRecord, Published, Publisher, PublishError, make_record
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.object_records import written
from confluent_kafka.admin import AdminClient

TOPICS = TopicNames()

DOMAIN, GROUP = "animal.observer", "region-1"


# -- what is acknowledged is there -------------------------------------------------------------------------------------


@pytest.mark.kafka
def test_a_publish_is_in_its_groups_partition_when_it_returns(bootstrap: str, publisher: Publisher) -> None:
    published = publisher.publish(
        DOMAIN, GROUP, "cams/north", {"fps": 5}, version=42, source="c-1", expires_at=9, deleted=True, incarnation=1
    )
    (record,) = written(bootstrap)
    partitions = len(
        AdminClient({"bootstrap.servers": bootstrap}).list_topics(TOPICS.objects).topics[TOPICS.objects].partitions
    )
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
        waits = [asyncio.ensure_future(publisher.publish_async(DOMAIN, GROUP, f"o{i}", version=i)) for i in range(10)]
        await asyncio.sleep(0)
        for wait in waits[::2]:
            wait.cancel()
        outcomes = await asyncio.gather(*waits, return_exceptions=True)
        assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes[::2])
        assert [outcome.version for outcome in outcomes[1::2] if isinstance(outcome, Published)] == [1, 3, 5, 7, 9]
        assert (await publisher.publish_async(DOMAIN, GROUP, "last", version=1)).version == 1


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
        ({"incarnation": 1 << 63}, "incarnation"),
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


def test_the_limit_on_payloads_is_the_services(silent_address: str) -> None:
    with Publisher(silent_address, timeout_s=60, object_payload_bytes_max=5000) as publisher:
        for payload in (b"\xff" * 5001, "x" * 4999):
            with pytest.raises(InvalidRecord, match=r"^payload: has 5001 bytes \(at most 5000"):
                publisher.publish(DOMAIN, GROUP, "o", payload)
            with pytest.raises(InvalidRecord, match=r"^o: payload: has 5001 bytes \(at most 5000"):
                publisher.publish_many(DOMAIN, GROUP, {"o": {"payload": payload}})
        assert publisher.flush(0) == 0
    for wrong in (4095, 65_537):
        with pytest.raises(ValueError, match=f"^object_payload_bytes_max: {wrong} is not from 4096 to 65536"):
            Publisher(silent_address, object_payload_bytes_max=wrong)


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


def test_an_invalid_librdkafka_option_is_named() -> None:
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
