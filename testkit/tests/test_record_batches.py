"""Batches made by hand: others read the right ones as they were meant, and a lie is only where it is said."""

from collections.abc import Callable, Mapping
from struct import unpack_from

import cramjam
import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from coldnotify_testkit.record_batches import (
    CONTROL,
    LOG_APPEND,
    TRANSACTIONAL,
    Batch,
    BatchRecord,
    Codec,
    bomb,
    encoded,
    packed_records,
    varint,
)

UNPACKED: Mapping[Codec, Callable[[bytes], bytes]] = {
    Codec.NONE: bytes,
    Codec.GZIP: lambda packed: bytes(cramjam.gzip.decompress(packed)),
    Codec.SNAPPY: lambda packed: bytes(cramjam.snappy.decompress_raw(packed)),
    Codec.LZ4: lambda packed: bytes(cramjam.lz4.decompress(packed)),
    Codec.ZSTD: lambda packed: bytes(cramjam.zstd.decompress(packed)),
}
LENGTH_AT, EPOCH_AT, MAGIC_AT, CRC_AT, ATTRIBUTES_AT = 8, 12, 16, 17, 21


def test_a_right_batch_is_what_another_writer_makes() -> None:
    builder = DefaultRecordBatchBuilder(
        2, 0, is_transactional=0, producer_id=-1, producer_epoch=-1, base_sequence=-1, batch_size=10_000
    )
    builder.append(0, 1_000, b"a", b"x" * 100, [("name", b"value"), ("null", None)])
    builder.append(1, 1_007, None, None, [])
    records = [BatchRecord(b"a", b"x" * 100, [(b"name", b"value"), (b"null", None)]), BatchRecord(None, None, (), 7)]
    ours = encoded(Batch(records, base_timestamp_ms=1_000))
    theirs = bytes(builder.build())
    assert ours[:EPOCH_AT] == theirs[:EPOCH_AT]
    assert ours[ATTRIBUTES_AT:] == theirs[ATTRIBUTES_AT:]  # the epoch, which the broker sets, is not checksummed
    assert ours[MAGIC_AT:] == theirs[MAGIC_AT:]


def test_a_batch_that_no_library_would_write_is_read_as_intended() -> None:
    record = BatchRecord(b"", None, [(b"\xff", b"\xfe"), (b"", None)], timestamp_delta_ms=-5)
    batch = Batch([record], base_timestamp_ms=(1 << 63) - 1, max_timestamp_ms=-1, flags=TRANSACTIONAL | CONTROL)
    read = DefaultRecordBatch(encoded(batch._replace(producer_id=7, producer_epoch=3, base_sequence=9)))
    assert read.validate_crc()
    assert (read.is_transactional, read.is_control_batch) == (True, True)
    assert (read.producer_id, read.producer_epoch, read.base_sequence) == (7, 3, 9)
    assert (read.first_timestamp, read.max_timestamp) == ((1 << 63) - 1, -1)
    assert b"\x02\xff\x02\xfe" in encoded(batch)
    assert DefaultRecordBatch(encoded(Batch(flags=LOG_APPEND))).timestamp_type == 1


@pytest.mark.parametrize(
    ("lie", "at", "shape", "read"),
    [
        (Batch(crc=1), CRC_AT, ">I", 1),
        (Batch(length=-7), LENGTH_AT, ">i", -7),
        (Batch(magic=3), MAGIC_AT, ">b", 3),
        (Batch(declared_codec=7), ATTRIBUTES_AT, ">h", 7),
        (Batch(last_offset_delta=(1 << 31) - 1), 23, ">i", (1 << 31) - 1),
        (Batch(records_count=-1), 57, ">i", -1),
    ],
)
def test_a_lie_of_the_batch_is_in_its_field(lie: Batch, at: int, shape: str, read: int) -> None:
    assert unpack_from(shape, encoded(lie), at) == (read,)


def test_a_lie_of_a_record_is_in_its_field() -> None:
    right = packed_records([BatchRecord(b"k", b"v")])
    assert right == bytes([16, 0, 0, 0, 2, ord("k"), 2, ord("v"), 0])
    assert packed_records([BatchRecord(b"k", b"v", length=-1)]) == bytes([1]) + right[1:]
    assert packed_records([BatchRecord(b"k", b"v", key_length=-3)])[4] == 5
    assert packed_records([BatchRecord(b"k", b"v", value_length=63)])[6] == 126
    assert packed_records([BatchRecord(b"k", b"v", headers_count=1)])[8] == 2
    assert packed_records([BatchRecord(b"k", b"v", offset_delta=5, tail=b"!")])[3::6] == bytes([10, ord("!")])
    assert packed_records([BatchRecord(headers=[(None, None)])])[-2:] == bytes([1, 1])


@pytest.mark.parametrize("codec", Codec)
def test_every_codec_unpacks_to_the_same(codec: Codec) -> None:
    batch = Batch([BatchRecord(b"a", b"x" * 5_000), BatchRecord(b"b", None)], codec)
    plain = packed_records(batch.records)
    packed = encoded(batch)[61:]
    assert UNPACKED[codec](packed) == plain


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_a_bomb_is_small(codec: Codec) -> None:
    assert len(encoded(bomb(codec, 8))) < 8 << 13


def test_numbers_are_written_in_zigzag() -> None:
    for number, written in [(0, b"\0"), (-1, b"\1"), (1, b"\2"), (300, b"\xd8\x04"), (-(1 << 63), b"\xff" * 9 + b"\1")]:
        assert varint(number) == written
