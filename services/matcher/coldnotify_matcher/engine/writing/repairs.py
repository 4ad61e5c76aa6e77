"""Repairs: newest versions and descriptions that compaction would remove are written again, after their key's last
record.

What was decided of conditional records is written likewise: with what is in force, whoever has won. Compaction keeps
that record, and not the conditional one. Behind a set that has won each of its members is written, and then a null
under the set's key; behind another one only that null.
"""

from collections.abc import Iterable, Iterator

from coldnotify_schemas.arrival_versions import checkpoint_header
from coldnotify_schemas.atomic_sets import DecidedSet, decided_set_header
from coldnotify_schemas.decisions import Decided, decided_header
from coldnotify_schemas.message_places import message_header
from coldnotify_schemas.mqtt.kept_properties import kept_headers
from coldnotify_schemas.records import encode_public_record, record_headers, since_header

from coldnotify_matcher.engine.objects.description_store import StoredDescription
from coldnotify_matcher.engine.objects.objects import UNKNOWN, Obj
from coldnotify_matcher.engine.outputs import ProducedRecord
from coldnotify_matcher.engine.partition_state import PartitionState
from coldnotify_matcher.engine.writing.outbox import EngineOutbox

DECIDED_PER_RECORD_MAX = 1_000
"""Decisions in the headers of one record, some 50 bytes each."""
_DECIDED_BYTES_MAX = 64 * 1024
"""Size of decisions in the headers of one record: one about a set has some KiB."""
_Headers = list[tuple[str, bytes]]


class Repairs:
    """The repairs of this step."""

    def __init__(self, state: PartitionState, outbox: EngineOutbox) -> None:
        self._state = state
        self._outbox = outbox
        self._due: dict[Obj, None] = {}
        self._decided: dict[Obj, _Headers] = {}
        """Decisions of this step, by the objects of their records."""
        self._decided_sets: dict[str, _Headers] = {}
        """Likewise, by the sets' keys."""
        self._due_descriptions: dict[str, StoredDescription] = {}
        """By the key of their records."""

    def look_at(self, obj: Obj) -> None:
        """Check an object after a record under its key."""
        if obj.needs_repair:
            self._due[obj] = None

    def decide(self, obj: Obj, decided: Decided) -> None:
        """Write down what was decided of a conditional record of this object."""
        self._decided.setdefault(obj, []).append(decided_header(self._state.epoch, decided))

    def decide_set(self, key: str, objects: Iterable[Obj], decided: DecidedSet) -> None:
        """Write down what was decided of the set with this key. `objects`: its members'."""
        header = decided_set_header(self._state.epoch, decided)
        self._decided_sets.setdefault(key, []).append(header)
        if decided.is_versions:
            for obj in objects:
                self._decided.setdefault(obj, []).append(header)

    def look_at_description(self, key: str, described: StoredDescription) -> None:
        """Check a description in the same way."""
        if described.needs_repair:
            self._due_descriptions[key] = described

    def write(self) -> None:
        """Write objects and descriptions again that still need it."""
        state = self._state
        topics = state.rules.topics
        for obj, decided in self._decided.items():
            for part in _in_parts(decided):
                self._write(obj, part)
        for key, decided in self._decided_sets.items():
            for part in _in_parts(decided):
                # It says that the members' records are durable.
                self._outbox.write_last(
                    ProducedRecord(topics.objects, state.partition, key.encode(), None, tuple(part))
                )
        for obj in self._due:
            if obj.needs_repair and obj not in self._decided:
                self._write(obj, [])
                state.count("repaired")
        self._due, self._decided, self._decided_sets = {}, {}, {}
        for key, described in self._due_descriptions.items():
            if described.needs_repair:
                state.at = topics.objects, described.kept_offset
                value, timestamp_ms = described.repair_record(), described.version
                said_before = state.patches.headers_of(key)
                self._outbox.write(
                    ProducedRecord(topics.objects, state.partition, key.encode(), value, said_before, timestamp_ms)
                )
                state.count("repaired")
        self._due_descriptions = {}

    def _write(self, obj: Obj, decided: _Headers) -> None:
        """Write down what is in force; a null, if nothing is."""
        state, value, headers = self._state, None, decided
        state.at = state.rules.topics.objects, max(obj.kept_offset, 0)
        if obj.version != UNKNOWN:
            said = obj.repair_record()
            headers = [
                since_header(state.epoch, obj.offset),
                *record_headers(said),
                *kept_headers(obj.properties),
                *message_header(obj.message),
                *decided,
            ]
            if obj.checkpoint_due:
                headers.append(checkpoint_header(state.epoch, state.position - 1))
            value = encode_public_record(said)
        self._outbox.write(
            ProducedRecord(state.rules.topics.objects, state.partition, obj.key.encode(), value, tuple(headers))
        )


def _in_parts(decided: _Headers) -> Iterator[_Headers]:
    """Yields the decisions, as many at a time as one record has."""
    part: _Headers = []
    size = 0
    for header in decided:
        if part and (len(part) >= DECIDED_PER_RECORD_MAX or size + len(header[1]) > _DECIDED_BYTES_MAX):
            yield part
            part, size = [], 0
        part.append(header)
        size += len(header[1])
    yield part
