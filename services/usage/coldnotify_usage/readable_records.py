"""Makes Faust's Kafka client skip unreadable records: `install` patches aiokafka, once for the process.

aiokafka knows where a batch ends before it parses it. A batch that it cannot read (a header's name that is not UTF-8, a
broken compression, more than may be unpacked) raised in its consumer each time, and neither the usage nor the job's own
state was read any further. For a record that says an offset far behind its batch, Faust noted each offset between: 19
GiB, until the machine killed it. Here each unreadable record, to the end of its batch, comes as one without a value: it
is set aside as any empty one, and its offset counts as read. A batch comes from one producer.
"""

from collections.abc import Iterator
from typing import Any

import structlog
from aiokafka.consumer import fetcher
from aiokafka.record import default_records, legacy_records
from aiokafka.structs import ConsumerRecord
from coldnotify_common.paced import Paced

from coldnotify_usage import bounded_codecs

_paced = Paced(structlog.get_logger())
_CODECS = ("gzip_decode", "snappy_decode", "lz4_decode", "zstd_decode")
_CREATE_TIME = 0


def install() -> None:
    """Installs the patch. May be called again."""
    modules = [default_records, legacy_records]
    try:
        from aiokafka.record._crecords import default_records as compiled
        from aiokafka.record._crecords import legacy_records as compiled_legacy
    except ImportError:  # its Python code does the same
        pass
    else:
        modules += [compiled, compiled_legacy]
    for module in modules:
        for codec in _CODECS:
            if hasattr(module, codec):
                setattr(module, codec, getattr(bounded_codecs, codec))
    fetcher.PartitionRecords = ReadableRecords


class OffsetOutsideBatch(ValueError):
    """A record says an offset that its batch does not have."""


class _Noting:
    """Batches of one answer of Kafka's, and the one that is being read."""

    def __init__(self, records: Any) -> None:
        self._records = records
        self.batch: Any = None

    def has_next(self) -> bool:
        return bool(self._records.has_next())

    def next_batch(self) -> Any:
        self.batch = None
        self.batch = self._records.next_batch()
        return self.batch


class ReadableRecords(fetcher.PartitionRecords):  # type: ignore[misc]
    """aiokafka's records of one partition in one answer, with placeholders for those that it cannot read."""

    next_fetch_offset: int

    def __init__(self, tp: Any, records: Any, *args: Any) -> None:
        super().__init__(tp, _Noting(records), *args)

    def _unpack_records(self) -> Iterator[ConsumerRecord[Any, Any]]:
        while True:
            try:
                yield from super()._unpack_records()
            except Exception as error:
                batch = self._records.batch
                if batch is None:
                    raise  # not even its head can be read
                yield from self._stand_in(batch, error)
            else:
                return

    def _consumer_record(self, tp: Any, record: Any) -> ConsumerRecord[Any, Any]:
        if record.offset >= self._records.batch.next_offset:
            raise OffsetOutsideBatch(f"the record says the offset {record.offset}, which is not its own")
        return super()._consumer_record(tp, record)

    def _stand_in(self, batch: Any, error: Exception) -> Iterator[ConsumerRecord[Any, Any]]:
        tp, start, next_ = self._tp, max(self.next_fetch_offset, batch.base_offset), batch.next_offset
        _paced.log(
            "what cannot be read is skipped", level="warning", topic=tp.topic, partition=tp.partition,
            offsets=f"{start} to {next_ - 1}", reason=f"{type(error).__name__}: {error}",
        )  # fmt: skip
        for offset in range(start, next_):
            self.next_fetch_offset = offset + 1
            timestamp_ms = batch.max_timestamp
            yield ConsumerRecord(
                tp.topic, tp.partition, offset, timestamp_ms, _CREATE_TIME, b"", None, None, 0, -1, ()
            )  # fmt: skip
        self.next_fetch_offset = max(self.next_fetch_offset, next_)
