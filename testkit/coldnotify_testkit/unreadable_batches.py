"""For tests: record batches that Kafka takes and its client cannot read, and a way to write them."""

import time
from collections.abc import Iterable

from coldnotify_testkit.raw_produce import RawProducer
from coldnotify_testkit.record_batches import Batch, BatchRecord, Codec, Header, compressed, encoded, packed_records

NO_UTF_8: Header = (b"\xff\xfe", b"x")
"""A header whose name is not valid UTF-8."""


def loud(records: int = 1, key: bytes | None = b"key") -> Batch:
    """Returns a batch with bytes after the end of its compressed frame: the client reports an error."""
    several = [BatchRecord(key)] * records
    packed = compressed(Codec.LZ4, packed_records(several)) + b"and more"
    return Batch(several, Codec.LZ4, packed=packed)


def silent(records: int = 1, key: bytes | None = b"key") -> Batch:
    """Returns a batch with a length that Kafka takes for null: the client reports nothing at all."""
    return Batch([BatchRecord(key, None, value_length=-2)] * records)


def misplaced(by: int, key: bytes | None = b"key") -> Batch:
    """Returns a batch with a record whose offset is so far ahead of its own: the client believes it, and continues from
    there.
    """
    return Batch([BatchRecord(key, b"misplaced", offset_delta=by)])


def write(kafka: str, topic: str, partition: int, batches: Iterable[Batch]) -> list[int]:
    """Their first offsets; each is as of now."""
    now_ms = time.time_ns() // 1_000_000
    offsets = []
    with RawProducer(kafka) as producer:
        for batch in batches:
            answer = producer.produce(topic, partition, encoded(batch._replace(base_timestamp_ms=now_ms)))
            assert answer.written, answer
            offsets.append(answer.offset)
    return offsets
