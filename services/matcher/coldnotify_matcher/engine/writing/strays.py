"""Strays: records in a partition that is not their key's, by their producer's mistake. They are moved, once.

Kafka's default partitioner puts most records into wrong partitions.
"""

from coldnotify_schemas.arrival_versions import arrival_header
from coldnotify_schemas.mqtt.kept_properties import kept_headers
from coldnotify_schemas.priority import priority_header
from coldnotify_schemas.records import MOVED_HEADER, payload_header
from coldnotify_schemas.traceparent import TRACEPARENT_HEADER

from coldnotify_matcher.engine.objects.object_records import ObjectRecord
from coldnotify_matcher.engine.outputs import ProducedRecord
from coldnotify_matcher.engine.partition_state import PartitionState
from coldnotify_matcher.engine.writing.outbox import EngineOutbox


class Strays:
    """The strays of this step."""

    def __init__(self, state: PartitionState, outbox: EngineOutbox) -> None:
        self._state = state
        self._outbox = outbox
        self._moves: dict[bytes, list[tuple[int, ProducedRecord]]] = {}
        """By key: (offset, the move)."""

    def add(self, key: bytes, record: ObjectRecord, right: int) -> None:
        """Move a record to the partition `right`. It can be understood, and was not moved before."""
        headers = [(MOVED_HEADER, f"{self._state.partition}@{record.offset}".encode())]
        if record.traceparent:
            headers.append((TRACEPARENT_HEADER, record.traceparent.encode()))
        if record.urgent:
            headers.append(priority_header())
        if record.arrival is not None:
            headers.append(arrival_header())
        if record.raw:
            headers.append(payload_header())
        headers.extend(kept_headers(record.properties))
        timestamp_ms = record.timestamp_ms if record.timestamp_ms >= 0 else None
        write = ProducedRecord(self._state.rules.topics.objects, right, key, record.value, tuple(headers), timestamp_ms)
        self._moves.setdefault(key, []).append((record.offset, write))

    def on_null(self, key: bytes) -> None:
        """Drop moves before our own tombstone of a stray that was moved, or a null without meaning here.

        Records that an earlier owner had not handled may precede the tombstone of an earlier stray: they are moved all
        the same.
        """
        self._keep(key, [move for move in self._moves.get(key, ()) if move[0] >= self._state.replay_from])

    def start_load(self) -> None:
        """Drop moves at or above `replay_from`, which are read again."""
        for key, moves in list(self._moves.items()):
            self._keep(key, [move for move in moves if move[0] < self._state.replay_from])

    def write(self) -> None:
        """Move them, with a tombstone after all of one key."""
        for key, moves in self._moves.items():
            for _, write in moves:
                self._outbox.write(write)
            self._outbox.write_last(ProducedRecord(self._state.rules.topics.objects, self._state.partition, key, None))
            self._state.count("moved", len(moves))
        self._moves = {}

    def _keep(self, key: bytes, moves: list[tuple[int, ProducedRecord]]) -> None:
        if moves:
            self._moves[key] = moves
        else:
            self._moves.pop(key, None)
