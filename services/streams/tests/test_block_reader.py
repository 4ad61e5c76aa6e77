"""Blocks of a log, read from a real Kafka: what there is, where it begins, what is damaged."""

import queue
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from coldnotify_common.kafka.kafka_clients import consumer_config
from coldnotify_common.settings import ServiceSettings
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.topics import TopicNames
from coldnotify_streams import block_reader as module
from coldnotify_streams.block_reader import BlockReader
from coldnotify_streams.core.actions import ReadBlock
from coldnotify_streams.core.events import Event, LogBlock
from coldnotify_streams.log_ends import log_ends
from coldnotify_testkit.waiting import WAIT_S, wait_for
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

TOPICS = TopicNames()

pytestmark = pytest.mark.kafka
LOG = TOPICS.channels_1d
Read = Callable[[int], LogBlock]


@pytest.fixture
def read(bootstrap: str) -> Iterator[Read]:
    """Reads the block that begins at an offset of partition 1."""
    events: queue.Queue[Event] = queue.Queue()
    config = consumer_config(ServiceSettings(kafka=bootstrap), "blocks")
    reader = BlockReader(config, events, read_headers=lambda topic, headers: (topic, headers))
    reader.start()

    def read(start: int) -> LogBlock:
        reader.read(ReadBlock(LOG, 1, start))
        block = events.get(timeout=WAIT_S)
        assert isinstance(block, LogBlock), block
        return block

    yield read
    reader.stop()
    reader.join(WAIT_S)
    assert not reader.is_alive()


def produce(bootstrap: str, values: list[bytes], *, apart: bool = False) -> None:
    """`apart`: each in a batch of its own."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(LOG, value, b"d/g/c", partition=1, headers=[("id", b"1")])
        assert not apart or producer.flush(WAIT_S) == 0
    assert producer.flush(WAIT_S) == 0


def offsets(block: LogBlock) -> list[int]:
    return [record.offset for record in block.records]


def whole(read: Read, start: int, end: int) -> list[LogBlock]:
    """All blocks from an offset to another; a block may be short, as it comes."""
    blocks = []
    while start < end:
        blocks.append(read(start))
        assert blocks[-1].next > start
        start = blocks[-1].next
    return blocks


def test_blocks_return_every_record_exactly_once(bootstrap: str, read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_RECORDS_MAX", 100)
    produce(bootstrap, [b"%d" % n for n in range(450)])
    blocks = whole(read, 20, 450)
    assert [one for block in blocks for one in offsets(block)] == list(range(20, 450))
    assert all(len(block.records) <= 100 for block in blocks)
    assert {block.log_start for block in blocks} == {0}
    first = blocks[0].records[0]
    assert (first.key, first.value, first.said) == (b"d/g/c", b"20", (LOG, [("id", b"1")]))
    assert first.timestamp_ms > 0
    assert offsets(read(7))[0] == 7, "and back"


def test_the_bytes_of_a_block_are_limited(bootstrap: str, read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_BYTES_MAX", 2000)
    produce(bootstrap, [b"x" * 900] * 12)
    blocks = whole(read, 0, 12)
    assert [one for block in blocks for one in offsets(block)] == list(range(12))
    assert all(len(block.records) <= 3 for block in blocks)


def test_a_block_skips_records_that_retention_has_removed(bootstrap: str, read: Read) -> None:
    produce(bootstrap, [b"%d" % n for n in range(30)])
    assert offsets(read(0))[0] == 0
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for answer in admin.delete_records([TopicPartition(LOG, 1, 12)]).values():
        answer.result(WAIT_S)
    blocks = whole(read, 3, 30)
    assert blocks[0].start == 3
    assert blocks[0].log_start == 12
    assert [one for block in blocks for one in offsets(block)] == list(range(12, 30))


def test_a_gap_at_the_end_of_the_log_is_read_past(bootstrap: str, read: Read) -> None:
    """The record that says that a transaction is over takes an offset, and nobody is given it."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "a-back-end"})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    for _ in range(3):
        producer.produce(LOG, b"x", b"d/g/c", partition=1)
    assert producer.flush(WAIT_S) == 0, "in Kafka: what is not is dropped with the transaction"
    producer.abort_transaction(WAIT_S)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wait_for(lambda: log_ends(admin, [(LOG, 1)]) == {(LOG, 1): 4}, "the record that says it")
    blocks = whole(read, 0, 4)
    assert [offsets(block) for block in blocks] == [[]] * len(blocks)


def test_a_block_is_empty_while_kafka_does_not_answer(
    bootstrap: str, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GIVE_UP_S", 0.0)
    produce(bootstrap, [b"1"])
    block = read(0)
    assert (block.next, block.unreadable, offsets(block)) == (0, False, [])


@pytest.mark.parametrize("damaged", [[3], [3, 4], [0], [8, 9]], ids=["one", "two", "the first", "the last"])
def test_damaged_records_are_reported_and_all_others_are_read(
    fresh_kafka: EmbeddedBroker, read: Read, damaged: list[int]
) -> None:
    produce(fresh_kafka.bootstrap, [b"a value of number %d, unlike all others" % n for n in range(10)], apart=True)
    # Of exactly this directory: others, of topics that are made anew, go while one looks.
    (file,) = (Path(fresh_kafka.config.data_dir) / "records" / f"{LOG}-1").glob("*.log")
    with file.open("r+b") as log:
        text = log.read()
        for number in damaged:
            log.seek(text.index(b"number %d," % number))
            log.write(b"NUMBER")
    blocks = whole(read, 0, 10)
    assert [one for block in blocks for one in offsets(block)] == [n for n in range(10) if n not in damaged]
    unreadable = [(block.start, block.next) for block in blocks if block.unreadable]
    assert unreadable[0][0] == damaged[0]
    assert unreadable[-1][1] == damaged[-1] + 1
    assert not any(block.records for block in blocks if block.unreadable)
