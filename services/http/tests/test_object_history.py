"""An object's latest records on a real Kafka: found from behind, within bounds; what was not looked at is said."""

import pytest
from coldnotify_common.kafka.kafka_clients import KafkaUnavailable
from coldnotify_http.object_history import RECORDS, ReadingBounds, read_history
from coldnotify_http.settings import HttpSettings
from coldnotify_kafka.broker import EmbeddedBroker, free_port
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.record_batches import Batch, BatchRecord
from coldnotify_testkit.unreadable_batches import NO_UTF_8, loud, silent, write
from confluent_kafka import Producer

TOPICS = TopicNames()

pytestmark = pytest.mark.kafka

DOMAIN, GROUP = "history", "g"


def produce(kafka: str, *records: tuple[str, bytes | None]) -> list[int]:
    """Offsets of records, each (object, value), in the group's partition."""
    offsets: list[int] = []
    producer = Producer({"bootstrap.servers": kafka, "acks": "all", "partitioner": "murmur2_random"})
    for name, value in records:
        producer.produce(
            TOPICS.objects, value, f"{DOMAIN}/{GROUP}/{name}".encode(), partition=0, headers={"x": name},
            on_delivery=lambda _, message: offsets.append(message.offset() or 0),
        )  # fmt: skip
    assert producer.flush(60) == 0
    return offsets


@pytest.fixture
def bootstrap(fresh_kafka: EmbeddedBroker) -> str:
    return fresh_kafka.bootstrap


@pytest.fixture(autouse=True)
def in_partition_0(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coldnotify_http.object_history.partition_of", lambda *_: 0)


def test_the_latest_records_are_found_the_newest_first(bootstrap: str) -> None:
    settings = HttpSettings(kafka=bootstrap)
    mine = produce(bootstrap, ("a", b'{"version":1}'), ("other", b"{}"), ("a", b'{"version":2}'), ("a", None))

    history = read_history(settings, (DOMAIN, GROUP, "a"), newest_offset=None, records_max=2)

    assert [(one.offset, one.value) for one in history.records] == [(mine[3], None), (mine[2], b'{"version":2}')]
    assert history.records[0].headers == (("x", b"a"),)
    assert history.records[0].timestamp_ms > 1_700_000_000_000
    assert history.end > mine[3]
    whole = read_history(settings, (DOMAIN, GROUP, "a"), newest_offset=mine[2], records_max=1_000)
    assert [one.offset for one in whole.records] == [mine[3], mine[2], mine[0]]
    assert whole.complete
    assert whole.looked == [(whole.begin, whole.end)]


def test_if_the_newest_version_is_far_back_the_remaining_budget_is_read_there(bootstrap: str) -> None:
    settings = HttpSettings(kafka=bootstrap)
    (first, second) = produce(bootstrap, ("b", b'{"version":1}'), ("b", b'{"version":2}'))
    produce(bootstrap, *[("other", b"{}")] * 3_000)

    history = read_history(
        settings, (DOMAIN, GROUP, "b"), newest_offset=second, records_max=10, bounds=ReadingBounds(records=1_000)
    )

    assert [one.offset for one in history.records][:2] == [second, first]
    assert len(history.looked) == 2
    assert history.looked[0][1] == history.end
    assert history.looked[1][1] == second + 1
    assert not history.complete
    lost = read_history(
        settings, (DOMAIN, GROUP, "b"), newest_offset=None, records_max=10, bounds=ReadingBounds(records=1_000)
    )
    assert (lost.records, lost.stopped_by) == ([], RECORDS)
    assert sum(high - low for low, high in lost.looked) <= 1_000


def test_an_unreadable_batch_does_not_hide_other_records(bootstrap: str) -> None:
    settings = HttpSettings(kafka=bootstrap)
    key = f"{DOMAIN}/{GROUP}/a".encode()
    (before,) = produce(bootstrap, ("a", b"1"))
    unreadable = Batch([BatchRecord(key, b"2", [NO_UTF_8])])
    (named,) = write(bootstrap, TOPICS.objects, 0, [unreadable])
    write(bootstrap, TOPICS.objects, 0, [loud(3, key), silent(1, key)])
    (after,) = produce(bootstrap, ("a", b"3"))
    write(bootstrap, TOPICS.objects, 0, [loud(1, key)])

    history = read_history(
        settings, (DOMAIN, GROUP, "a"), newest_offset=None, records_max=10, bounds=ReadingBounds(seconds=60)
    )

    assert [(one.offset, one.value) for one in history.records] == [(after, b"3"), (named, b"2"), (before, b"1")]
    assert history.records[1].headers == ()
    assert history.complete


def test_bytes_have_a_bound_too(bootstrap: str) -> None:
    settings = HttpSettings(kafka=bootstrap)
    produce(bootstrap, *[("large", b"x" * 10_000)] * 100)
    history = read_history(
        settings, (DOMAIN, GROUP, "none"), newest_offset=None, records_max=10, bounds=ReadingBounds(bytes=100_000)
    )
    assert (history.stopped_by, history.looked, history.complete) == ("bytes", [], False)


def test_without_kafka_it_says_so_in_time() -> None:
    settings = HttpSettings(kafka=f"127.0.0.1:{free_port()}")
    with pytest.raises(KafkaUnavailable):
        read_history(
            settings, (DOMAIN, GROUP, "a"), newest_offset=None, records_max=1, bounds=ReadingBounds(seconds=0.5)
        )
