"""For tests: the bytes of Kafka record batches from plain values, also what no Kafka library would write. Pure.

A `Batch` with its defaults is a right one. Each field that Kafka, or a reader, derives from others can be set to a lie:
lengths, counts, offsets, the checksum. The format is that of magic 2, as Kafka's documentation has it ("Record Batch").
"""

from collections.abc import Sequence
from enum import IntEnum
from struct import pack
from typing import NamedTuple

import cramjam
from aiokafka.record.util import calc_crc32c

_MIB = 1 << 20
_HEAD_BYTES = 12
"""Base offset and length, which the length does not count."""
_CRC_END = 21
"""The checksum covers everything from here on."""

LOG_APPEND = 1 << 3
TRANSACTIONAL = 1 << 4
CONTROL = 1 << 5
DELETE_HORIZON = 1 << 6

Header = tuple[bytes | None, bytes | None]
"""Name and value. No name: a length of -1, which Kafka refuses."""


class Codec(IntEnum):
    """How a batch is compressed, as encoded in its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class BatchRecord(NamedTuple):
    """One record. None for a derived field: the right value."""

    key: bytes | None = b"key"
    value: bytes | None = b"value"
    headers: Sequence[Header] = ()
    timestamp_delta_ms: int = 0
    """Milliseconds since the batch's base timestamp."""
    attributes: int = 0
    offset_delta: int | None = None
    length: int | None = None
    """The number of bytes after the length itself."""
    key_length: int | None = None
    value_length: int | None = None
    headers_count: int | None = None
    tail: bytes = b""
    """Behind the headers, within the length."""


class Batch(NamedTuple):
    """A batch. None for a derived field: the right value."""

    records: Sequence[BatchRecord] = (BatchRecord(),)
    codec: Codec = Codec.NONE
    base_timestamp_ms: int = 0
    max_timestamp_ms: int | None = None
    flags: int = 0
    """LOG_APPEND, TRANSACTIONAL, CONTROL, DELETE_HORIZON, or bits without a meaning: attributes beside the codec."""
    declared_codec: int | None = None
    """The codec in the attributes; 5 to 7 do not exist."""
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    base_offset: int = 0
    leader_epoch: int = -1
    magic: int = 2
    records_count: int | None = None
    last_offset_delta: int | None = None
    length: int | None = None
    """The number of bytes after the length itself."""
    crc: int | None = None
    packed: bytes | None = None
    """The records as they are, compressed already or no records at all."""


def encoded(batch: Batch) -> bytes:
    """The batch as a Produce request carries it. Raises struct.error for a number that its field cannot hold."""
    body = batch.packed if batch.packed is not None else compressed(batch.codec, packed_records(batch.records))
    count = len(batch.records)
    newest_ms = max((record.timestamp_delta_ms for record in batch.records), default=0) + batch.base_timestamp_ms
    attributes = (batch.codec if batch.declared_codec is None else batch.declared_codec) | batch.flags
    covered = pack(
        ">hiqqqhii",
        attributes,
        _or(batch.last_offset_delta, count - 1),
        batch.base_timestamp_ms,
        _or(batch.max_timestamp_ms, _wrapped(newest_ms)),
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        _or(batch.records_count, count),
    )
    covered += body
    length = _or(batch.length, _CRC_END - _HEAD_BYTES + len(covered))
    crc = _or(batch.crc, calc_crc32c(covered))
    return pack(">qiibI", batch.base_offset, length, batch.leader_epoch, batch.magic, crc) + covered


def packed_records(records: Sequence[BatchRecord]) -> bytes:
    """The records one behind the other, not compressed."""
    return b"".join(_packed(record, number) for number, record in enumerate(records))


def compressed(codec: Codec, plain: bytes) -> bytes:
    """Compresses as Kafka's clients do."""
    match codec:
        case Codec.GZIP:
            return bytes(cramjam.gzip.compress(plain))
        case Codec.SNAPPY:
            return bytes(cramjam.snappy.compress_raw(plain))
        case Codec.LZ4:
            # Kafka reads frames only of blocks that stand by themselves.
            frame = cramjam.lz4.Compressor(block_linked=False)
            frame.compress(plain)
            return bytes(frame.finish())
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(plain))
    return plain


def bomb(codec: Codec, mib: int, *, key: bytes | None = b"key", headers: Sequence[Header] = ()) -> Batch:
    """One record whose value is so many MiB of zeros, which compress to nearly nothing."""
    return Batch([BatchRecord(key, bytes(mib * _MIB), headers)], codec)


def varint(number: int) -> bytes:
    """A signed number as records have it: zigzag, seven bits a byte. Up to 64 bits."""
    left = (number << 1) ^ (number >> 63)
    left &= (1 << 64) - 1
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


def _packed(record: BatchRecord, number: int) -> bytes:
    body = pack(">b", record.attributes) + varint(record.timestamp_delta_ms)
    body += varint(_or(record.offset_delta, number))
    body += _sized(record.key, record.key_length) + _sized(record.value, record.value_length)
    body += varint(_or(record.headers_count, len(record.headers)))
    for name, value in record.headers:
        body += _sized(name) + _sized(value)
    body += record.tail
    return varint(_or(record.length, len(body))) + body


def _sized(value: bytes | None, length: int | None = None) -> bytes:
    """Bytes behind their length; null has -1."""
    return varint(_or(length, -1 if value is None else len(value))) + (value or b"")


def _wrapped(number: int) -> int:
    """Wraps a sum as 64-bit integers overflow."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def _or(said: int | None, right: int) -> int:
    return right if said is None else said
