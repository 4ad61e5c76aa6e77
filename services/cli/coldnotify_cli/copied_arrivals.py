"""The versions that records by arrival got, as they are written under another prefix: said in the record.

They count on the records before them, and on places in the old log. So they are read as their owner reads them, from
the beginning of their partition. What an object's newest version is, is known for sure once all was read.
"""

from collections.abc import Iterator

from coldnotify_matcher.engine import Engine
from coldnotify_matcher.record_headers import HeadedObjectRecord, read_headers
from coldnotify_schemas.arrival_versions import arrival_of, checkpoint_epoch
from coldnotify_schemas.descriptions import KEY_PREFIX
from coldnotify_schemas.mqtt.kept_properties import kept_headers
from coldnotify_schemas.records import encode_public_record, record_headers

from coldnotify_cli.copied_records import Headers, SourceRecord

_DESCRIBE = KEY_PREFIX.encode()
_OWNS_NOTHING = 1 << 63
"""Offset from which on it rejects and moves records, as their owner does."""


class CopiedArrivals:
    """The partitions of the objects topic that have such records."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._engines: dict[int, Engine] = {}
        self._by_arrival: dict[int, dict[str, int]] = {}
        """By partition: objects whose newest version is to be written, with the offset of the first such record."""

    def begins(self, record: SourceRecord) -> bool:
        """Returns true if it came by arrival, and its partition has to be read from the beginning for it."""
        return record.partition not in self._engines and arrival_of(record.headers or ()) is not None

    def begin(self, partition: int) -> None:
        """Read this partition from its beginning."""
        engine = self._engines[partition] = Engine(partition, self._partitions, 0)
        engine.loading.start(_OWNS_NOTHING)
        self._by_arrival[partition] = {}

    def read(self, record: SourceRecord) -> None:
        """Read a record of the objects topic. Descriptions, and partitions without such records, are passed over."""
        engine = self._engines.get(record.partition)
        if engine is None or record.headers is None or record.key is None or record.key.startswith(_DESCRIBE):
            return
        said = read_headers(record.headers)
        if said.arrival:
            # This topic is the only one that there is.
            epoch = checkpoint_epoch(said.arrival)
            engine.state.epoch = engine.state.epoch if epoch is None else epoch
        elif said.decided or said.decided_sets:
            epoch = checkpoint_epoch((*said.decided, *said.decided_sets)[0])
            engine.state.epoch = engine.state.epoch if epoch is None else epoch
        elif said.arrival is not None:
            name = record.key.decode(errors="replace")
            self._by_arrival[record.partition].setdefault(name, record.offset)
        key, value, time_ms = record.key, record.value, record.timestamp_ms
        engine.on_object(HeadedObjectRecord(key, value, record.offset, time_ms, *said), time_ms)

    def first_unwritten(self, partition: int) -> int | None:
        """Returns the offset of the first record whose version is not written yet."""
        return min(self._by_arrival.get(partition, {}).values(), default=None)

    def newest(self, topic: str) -> Iterator[SourceRecord]:
        """Yields the newest versions of objects that were published by arrival since the last time."""
        for partition, names in self._by_arrival.items():
            engine = self._engines[partition]
            engine.intake.decide_rest(0)
            objects = engine.state.objects
            for name, offset in names.items():
                obj = objects.get(name)
                if obj is not None and obj.version >= 0:
                    said, time_ms = obj.repair_record(), obj.published_ms
                    value = encode_public_record(said)
                    headers: Headers = [*record_headers(said), *kept_headers(obj.properties)]
                    yield SourceRecord(topic, partition, offset, name.encode(), value, headers, time_ms)
            names.clear()
