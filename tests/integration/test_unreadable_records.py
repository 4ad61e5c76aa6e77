"""Bytes that Kafka takes and its client cannot read, in each topic: all behind them is told, also after a start."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from coldnotify import Notify
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.records import PLACE_HEADER
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.matcher_process import PARTITIONS, records_of
from coldnotify_testkit.raw_produce import RawProducer
from coldnotify_testkit.record_batches import Batch, BatchRecord, Codec, bomb, compressed, encoded, packed_records
from coldnotify_testkit.stack import Recorder, Up, notify, running
from coldnotify_testkit.waiting import wait_for

TOPICS = TopicNames()

pytestmark = [pytest.mark.kafka, pytest.mark.own_broker("writes batches that end the log cleaner of Kafka")]

DOMAIN = "animal.observer"
STRANGERS, BYSTANDERS = "region-1", "region-2"
HIT = partition_of(DOMAIN, STRANGERS, PARTITIONS)
assert partition_of(DOMAIN, BYSTANDERS, PARTITIONS) != HIT
KEY = f"{DOMAIN}/{STRANGERS}/strange".encode()
JUNK = compressed(Codec.LZ4, packed_records([BatchRecord(KEY)])) + b"more than the frame"


def hostile(now_ms: int) -> dict[str, bytes]:
    """Batches that Kafka takes, by what is wrong with them."""
    batches = {
        "a header's name is no UTF-8": Batch([BatchRecord(KEY, b"{}", [(b"\xff", b"x")])]),
        "two such headers": Batch([BatchRecord(KEY, b"{}", [(b"\xff\xfe", b"x"), (b"\xff", None), (b"fine", b"x")])]),
        "more than its compression says": Batch([BatchRecord(KEY)], Codec.LZ4, packed=JUNK),
        "lengths that Kafka takes for null": Batch([BatchRecord(KEY, None, value_length=-2)] * 3),
        "such a record behind a good one": Batch(
            [BatchRecord(KEY), BatchRecord(KEY, None, value_length=-2), BatchRecord(KEY)]
        ),
        "150 MiB of zeros in zstd": bomb(Codec.ZSTD, 150, key=KEY),
        "20 MiB of zeros in zstd": bomb(Codec.ZSTD, 20, key=KEY),
        "40 MiB of zeros in lz4": bomb(Codec.LZ4, 40, key=KEY),
    }
    return {what: encoded(batch._replace(base_timestamp_ms=now_ms)) for what, batch in batches.items()}


@contextmanager
def unit(up: Up, group: str) -> Iterator[Recorder]:
    """A client that is registered for x."""
    ou: Notify = notify(up, "ou", None, group=group)
    told = Recorder()
    ou.connect()
    ou.register("x").subscribe(told)
    try:
        yield told
    finally:
        ou.disconnect()


@pytest.mark.timeout(900)
def test_what_nobody_can_read_stops_nothing_behind_it_and_no_other_partition(tmp_path: Path) -> None:
    with running(tmp_path) as up:
        with up.publisher() as publisher, unit(up, STRANGERS) as hit, unit(up, BYSTANDERS) as other:
            version = 0

            def all_told(when: str) -> None:
                nonlocal version
                version += 1
                publisher.publish(DOMAIN, BYSTANDERS, "x", version=version)
                publisher.publish(DOMAIN, STRANGERS, "x", version=version)
                wait_for(other.reaches("x", version), f"another partition is told {when}")
                wait_for(hit.reaches("x", version), f"the partition itself is told {when}")

            all_told("at first")
            pids = up.report["pids"]
            written = write_everywhere(up.kafka, all_told)
            up.wait_ready()
            assert up.report["pids"] == pids, "no process has ended"
            assert not written - rejected(up.kafka), "of each place something was set aside"
        up.stop()
        up.start()
        with up.publisher() as publisher, unit(up, STRANGERS) as hit, unit(up, BYSTANDERS) as other:
            all_told("after a start")


def rejected(kafka: str) -> set[str]:
    """topic/partition of all records that were set aside."""
    places = [
        headers[PLACE_HEADER] for partition in (0, 1) for _, _, headers in records_of(kafka, TOPICS.rejected, partition)
    ]
    return {place.decode().partition("@")[0] for place in places}


def write_everywhere(kafka: str, all_told: Callable[[str], None]) -> set[str]:
    """Each hostile batch into each topic that our services read. Returns where something is to be set aside."""
    inboxes = range(16)
    places = [(topic, [HIT]) for topic in (TOPICS.objects, TOPICS.channels_1d, TOPICS.requests)]
    places += [(topic, [HIT]) for topic in (TOPICS.registrations, TOPICS.sessions, TOPICS.channels_state)]
    places += [(TOPICS.tenants, [0]), (TOPICS.verdicts, [0]), (TOPICS.notifications, list(inboxes))]
    with RawProducer(kafka) as producer:
        for what, batch in hostile(time.time_ns() // 1_000_000).items():
            for topic, partitions in places:
                for partition in partitions:
                    answer = producer.produce(topic, partition, batch)
                    assert answer.written, (what, topic, answer)
                all_told(f"behind {what} in {topic}")
    return {f"{topic}/{HIT}" for topic, partitions in places if partitions == [HIT]}
