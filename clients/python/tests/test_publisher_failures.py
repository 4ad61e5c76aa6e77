"""A publisher whose Kafka is away, falls silent, refuses or changes: what it says of what was sent."""

import asyncio
import gc
import threading
import time
from concurrent.futures import Future
from typing import Any

import pytest
from coldnotify.publisher import Publisher, PublishError, PublishManyError, PublishTimeout
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_kafka.broker.freezing import freeze, thaw
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.object_records import written
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions, TopicDescription

TOPICS = TopicNames()

DOMAIN, GROUP = "animal.observer", "region-1"


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


async def test_a_lookup_that_fails_once_nobody_waits_is_no_error_of_the_loop(
    silent_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: said.append(context))
    lookups = [Future[TopicDescription]()]
    async with Publisher(silent_address, timeout_s=0.2) as publisher:
        monkeypatch.setattr(publisher._sender, "lookup_needed", lambda: lookups[0])
        with pytest.raises(PublishTimeout):
            await publisher.publish_async(DOMAIN, GROUP, "o")
        lookups.pop().set_exception(KafkaException(KafkaError(KafkaError._TRANSPORT)))
        for _ in range(3):
            await asyncio.sleep(0)
        gc.collect()  # that nobody has taken an exception is said when it goes
    assert not said


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
@pytest.mark.own_broker("suspends Kafka")
def test_when_kafka_falls_silent_in_the_middle_the_outcome_is_indeterminate(own_kafka: EmbeddedBroker) -> None:
    with Publisher(own_kafka.bootstrap, timeout_s=2) as publisher:
        deadline_s = time.monotonic() + 60
        while True:  # the first one may need longer than 2 s on a busy machine
            try:
                publisher.publish(DOMAIN, GROUP, "o", version=1)
                break
            except PublishTimeout:
                assert time.monotonic() < deadline_s
        freeze(own_kafka.pid)
        try:
            with pytest.raises(PublishTimeout, match="indeterminate") as caught:
                publisher.publish(DOMAIN, GROUP, "o", version=2)
            assert caught.value.indeterminate
            assert publisher.flush(0) <= 1
        finally:
            thaw(own_kafka.pid)
        # It carries on with the same publisher; the same version again is safe.
        deadline_s = time.monotonic() + 60
        while True:
            try:
                assert publisher.publish(DOMAIN, GROUP, "o", version=2).version == 2
                break
            except PublishTimeout:
                assert time.monotonic() < deadline_s
    assert written(own_kafka.bootstrap)[-1]["value"] == {"version": 2}


@pytest.mark.kafka
def test_a_topic_that_is_missing_is_named(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([TOPICS.objects])[TOPICS.objects].result(60)
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
    before = len(admin.list_topics(TOPICS.objects).topics[TOPICS.objects].partitions)
    after = 2 * before + 1
    group = next(
        f"g{i}" for i in range(100) if partition_of(DOMAIN, f"g{i}", before) != partition_of(DOMAIN, f"g{i}", after)
    )
    with Publisher(bootstrap, timeout_s=60) as publisher:
        assert publisher.publish(DOMAIN, group, "o").partition == partition_of(DOMAIN, group, before)
        admin.create_partitions([NewPartitions(TOPICS.objects, after)])[TOPICS.objects].result(60)
        deadline_s = time.monotonic() + 60
        while publisher.publish(DOMAIN, group, "o").partition != partition_of(DOMAIN, group, after):
            assert time.monotonic() < deadline_s
