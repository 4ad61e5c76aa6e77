"""The ways in which a hostile batch departs from what a Kafka library writes: KINDS, each made of a drawn record."""

from collections.abc import Callable
from random import Random
from typing import Any

from coldnotify_testkit.hostile_records.records import DrawnRecord
from coldnotify_testkit.record_batches import (
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND,
    TRANSACTIONAL,
    Batch,
    BatchRecord,
    Codec,
    bomb,
    compressed,
    packed_records,
)

AS_DRAWN = "as_drawn"
"""A right batch, in any codec."""
MANY = 500
MANY_HEADERS = 5_000
LONG_BYTES = 500_000
_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1
_NO_TEXT = (b"\xff", b"\xff\xfe", b"\x80", b"\xc3\x28", b"\xed\xa0\x80", b"x-\xff")
_COUNTS = (-1, 0, 2, 3, 1 << 20, (1 << 31) - 1, -(1 << 31))
_LENGTHS = (-2, -1, 0, 1, 62, 1 << 20, (1 << 31) - 1, -(1 << 31))


def right(drawn: DrawnRecord, now_ms: int, codec: Codec = Codec.NONE) -> Batch:
    """Returns a batch as a Kafka library writes it."""
    return Batch([_record(drawn)], codec, drawn.timestamp_ms or now_ms)


def of_kind(kind: str, random: Random, drawn: DrawnRecord, now_ms: int) -> Batch:
    """A batch of this kind, with the record in it as far as the kind leaves it."""
    if kind == AS_DRAWN:
        return right(drawn, now_ms, random.choice(list(Codec)))
    return KINDS[kind](random, drawn, now_ms)


def _record(drawn: DrawnRecord) -> BatchRecord:
    return BatchRecord(drawn.key, drawn.value, drawn.headers)


def _bomb(codec: Codec, mib: int) -> Callable[[Random, DrawnRecord, int], Batch]:
    def made(_random: Random, drawn: DrawnRecord, now_ms: int) -> Batch:
        return bomb(codec, mib, key=drawn.key)._replace(base_timestamp_ms=now_ms)

    return made


def _with_headers(draw: Callable[[Random], list[tuple[bytes | None, bytes | None]]]) -> "Maker":
    def made(random: Random, drawn: DrawnRecord, now_ms: int) -> Batch:
        headers = [*drawn.headers, *draw(random)]
        random.shuffle(headers)
        return right(drawn._replace(headers=headers), now_ms, random.choice(list(Codec)))

    return made


def _changed(**fields: Any) -> "Maker":
    """A right batch but for these fields; a tuple is drawn from."""

    def made(random: Random, drawn: DrawnRecord, now_ms: int) -> Batch:
        return right(drawn, now_ms)._replace(**_chosen(random, fields))

    return made


def _changed_record(**fields: Any) -> "Maker":
    """A right batch but for these fields of its record; a tuple is drawn from."""

    def made(random: Random, drawn: DrawnRecord, now_ms: int) -> Batch:
        batch = right(drawn, now_ms)
        return batch._replace(records=[batch.records[0]._replace(**_chosen(random, fields))])

    return made


def _chosen(random: Random, fields: dict[str, Any]) -> dict[str, Any]:
    return {name: random.choice(value) if isinstance(value, tuple) else value for name, value in fields.items()}


def _codec(codec: Codec) -> "Maker":
    return lambda _random, drawn, now_ms: right(drawn, now_ms, codec)


def _codec_that_is_another(random: Random, drawn: DrawnRecord, now_ms: int) -> Batch:
    codec = random.choice(list(Codec))
    said = random.choice([number for number in range(8) if number != codec])
    return right(drawn, now_ms, codec)._replace(declared_codec=said)


def _packed_garbage(random: Random, drawn: DrawnRecord, now_ms: int) -> Batch:
    packed = random.randbytes(random.choice((0, 1, 7, 100, 5_000)))
    return right(drawn, now_ms, random.choice(list(Codec)))._replace(packed=packed)


def _packed_cut(random: Random, drawn: DrawnRecord, now_ms: int) -> Batch:
    batch = right(drawn, now_ms, random.choice(list(Codec)[1:]))
    packed = compressed(batch.codec, packed_records(batch.records))
    return batch._replace(packed=packed[: random.randrange(len(packed))])


def _many(random: Random, drawn: DrawnRecord, now_ms: int) -> Batch:
    return right(drawn, now_ms, random.choice(list(Codec)))._replace(records=[_record(drawn)] * MANY)


def _no_records(_random: Random, drawn: DrawnRecord, now_ms: int) -> Batch:
    return right(drawn, now_ms)._replace(records=[])


def _control(random: Random, drawn: DrawnRecord, now_ms: int) -> Batch:
    key = random.choice((b"\0\0\0\0", b"\0\0\0\1", b"\0\0\0\5", drawn.key))
    return right(drawn._replace(key=key), now_ms)._replace(flags=random.choice((CONTROL, CONTROL | TRANSACTIONAL)))


Maker = Callable[[Random, DrawnRecord, int], Batch]
HEADER_NO_TEXT = "header_no_text"
BOMBS: dict[str, Maker] = {
    "bomb_zstd": _bomb(Codec.ZSTD, 80),
    "bomb_gzip": _bomb(Codec.GZIP, 80),
    "bomb_lz4": _bomb(Codec.LZ4, 150),
    "bomb_snappy": _bomb(Codec.SNAPPY, 12),
}
"""Batches that unpack to more than a Kafka library reads, or than anybody should accept. Snappy compresses only to a
twentieth.
"""
KINDS: dict[str, Maker] = {
    HEADER_NO_TEXT: _with_headers(lambda random: [(random.choice(_NO_TEXT), random.choice((b"", b"\xff", None)))]),
    **BOMBS,
    "header_without_name": _with_headers(lambda random: [(random.choice((None, b"", b"\0")), None)]),
    "headers_many": _with_headers(lambda random: [(b"%d" % i, b"") for i in range(MANY_HEADERS)]),
    "header_twice": _with_headers(lambda random: [(b"id", b"1"), (b"id", b"2"), (b"id", None)]),
    "header_long": _with_headers(lambda random: [random.choice(((b"x" * LONG_BYTES, b""), (b"x", b"x" * LONG_BYTES)))]),
    "null_key": lambda _random, drawn, now_ms: right(drawn._replace(key=None), now_ms),
    "null_value": lambda _random, drawn, now_ms: right(drawn._replace(value=None), now_ms),
    "null_both": lambda _random, drawn, now_ms: right(drawn._replace(key=None, value=None), now_ms),
    "empty_both": lambda _random, drawn, now_ms: right(drawn._replace(key=b"", value=b""), now_ms),
    "gzip": _codec(Codec.GZIP),
    "snappy": _codec(Codec.SNAPPY),
    "lz4": _codec(Codec.LZ4),
    "zstd": _codec(Codec.ZSTD),
    "many_records": _many,
    "timestamp": _changed(base_timestamp_ms=(_INT64_MIN, -2, -1, 0, 1, 1 << 53, _INT64_MAX)),
    "timestamp_max": _changed(max_timestamp_ms=(_INT64_MIN, -1, 0, _INT64_MAX)),
    "timestamp_delta": _changed_record(timestamp_delta_ms=(_INT64_MIN, -(10**12), 10**12, _INT64_MAX)),
    "control": _control,
    "transactional": _changed(
        flags=TRANSACTIONAL, producer_id=(-1, 7, 1 << 40), producer_epoch=(-1, 0), base_sequence=0
    ),
    "sequence": _changed(
        producer_id=(*range(20), _INT64_MAX), producer_epoch=(-1, 0, 32_767), base_sequence=(-1, 0, 5, (1 << 31) - 1)
    ),
    "attributes": _changed(flags=(LOG_APPEND, DELETE_HORIZON, 1 << 7, 1 << 14, LOG_APPEND | DELETE_HORIZON)),
    "record_attributes": _changed_record(attributes=(1, 127, -128)),
    "record_tail": _changed_record(tail=(b"\0", b"more behind the headers")),
    "crc": _changed(crc=(0, 1, (1 << 32) - 1)),
    "length": _changed(length=_LENGTHS),
    "magic": _changed(magic=(-1, 0, 1, 3, 127)),
    "records_count": _changed(records_count=_COUNTS),
    "last_offset": _changed(last_offset_delta=(-1, 1, 5, 1 << 20, (1 << 31) - 1, -(1 << 31))),
    "base_offset": _changed(base_offset=(-1, 1, 1 << 40, _INT64_MAX), leader_epoch=(-1, 0, (1 << 31) - 1)),
    "record_offset": _changed_record(offset_delta=(-1, 1, 5, (1 << 31) - 1)),
    "record_length": _changed_record(length=_LENGTHS),
    "key_length": _changed_record(key_length=_LENGTHS),
    "value_length": _changed_record(value_length=_LENGTHS),
    "headers_count": _changed_record(headers_count=_COUNTS),
    "codec_another": _codec_that_is_another,
    "packed_garbage": _packed_garbage,
    "packed_cut": _packed_cut,
    "no_records": _no_records,
}
"""Makers by name; `of_kind` calls one. Kafka refuses some of these batches, which is not our doing."""
