"""aiokafka's records of an answer of Kafka's: what it cannot read comes without a value, the rest as it is."""

import pytest
from aiokafka.consumer import fetcher
from aiokafka.consumer.fetcher import READ_COMMITTED
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import TopicPartition
from coldnotify_testkit.record_batches import Batch, BatchRecord, Codec, bomb, encoded
from coldnotify_testkit.unreadable_batches import NO_UTF_8, loud
from coldnotify_usage.readable_records import ReadableRecords, install

TP = TopicPartition("coldnotify.usage", 3)
GOOD = Batch([BatchRecord(b"k", b"1"), BatchRecord(b"k", b"2")])
FAR_OFF = Batch([BatchRecord(b"k", b"1"), BatchRecord(b"k", b"2", offset_delta=(1 << 31) - 1)])
BAD_NAME = Batch([BatchRecord(b"k", b"1"), BatchRecord(b"k", b"2", [NO_UTF_8]), BatchRecord(b"k", b"3")])


def read(*batches: Batch, start: int = 0) -> tuple[list[tuple[int, bytes | None]], int]:
    """(offset, value) of what comes, and from where it would go on."""
    install()
    answer, base = b"", 0
    for batch in batches:
        answer += encoded(batch._replace(base_offset=base))
        base += len(batch.records)
    records = fetcher.PartitionRecords(TP, MemoryRecords(answer), None, start, None, None, True, READ_COMMITTED)
    assert isinstance(records, ReadableRecords)
    return [(record.offset, record.value) for record in records], records.next_fetch_offset


def test_readable_records_are_returned_unchanged() -> None:
    assert read(GOOD, GOOD) == ([(0, b"1"), (1, b"2"), (2, b"1"), (3, b"2")], 4)
    assert read(GOOD, start=1) == ([(1, b"2")], 2)


@pytest.mark.parametrize(
    ("bad", "stands"),
    [
        (BAD_NAME, [(0, b"1"), (1, None), (2, None)]),
        (FAR_OFF, [(0, b"1"), (1, None)]),
        (loud(2), [(0, None), (1, None)]),
        (bomb(Codec.ZSTD, 20), [(0, None)]),
        (bomb(Codec.GZIP, 20), [(0, None)]),
        (bomb(Codec.LZ4, 20), [(0, None)]),
        (bomb(Codec.SNAPPY, 20), [(0, None)]),
        (Batch([BatchRecord()], declared_codec=7), [(0, None)]),
        (Batch([BatchRecord()], crc=1), [(0, None)]),
    ],
)
def test_unreadable_records_have_placeholders_and_later_ones_are_read(
    bad: Batch, stands: list[tuple[int, bytes | None]]
) -> None:
    end = len(bad.records)
    assert read(bad, GOOD) == ([*stands, (end, b"1"), (end + 1, b"2")], end + 2)
    assert read(bad) == (stands, end)
    assert read(bad, start=end - 1) == (stands[-1:], end), "fetched from its middle"


def test_it_may_be_installed_again() -> None:
    install()
    install()
    assert fetcher.PartitionRecords is ReadableRecords
    assert read(GOOD)[1] == 2
