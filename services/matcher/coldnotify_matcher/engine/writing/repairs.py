"""Repairs: newest versions and descriptions that compaction would remove are written again, after their key's last
record.

What was decided of conditional records is written likewise: with what is in force, whoever has won. Compaction keeps
that record, and not the conditional one.
"""

from coldnotify_schemas.arrival_versions import checkpoint_header
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
_Headers = list[tuple[str, bytes]]


class Repairs:
    """The repairs of this step."""

    def __init__(self, state: PartitionState, outbox: EngineOutbox) -> None:
        self._state = state
        self._outbox = outbox
        self._due: dict[Obj, None] = {}
        self._decided: dict[Obj, _Headers] = {}
        """Decisions of this step, by the objects of their records."""
        self._due_descriptions: dict[str, StoredDescription] = {}
        """By the key of their records."""

    def look_at(self, obj: Obj) -> None:
        """Check an object after a record under its key."""
        if obj.needs_repair:
            self._due[obj] = None

    def decide(self, obj: Obj, decided: Decided) -> None:
        """Write down what was decided of a conditional record of this object."""
        self._decided.setdefault(obj, []).append(decided_header(self._state.epoch, decided))

    def look_at_description(self, key: str, described: StoredDescription) -> None:
        """Check a description in the same way."""
        if described.needs_repair:
            self._due_descriptions[key] = described

    def write(self) -> None:
        """Write objects and descriptions again that still need it."""
        state = self._state
        topics = state.rules.topics
        for obj, decided in self._decided.items():
            for begin in range(0, len(decided), DECIDED_PER_RECORD_MAX):
                self._write(obj, decided[begin : begin + DECIDED_PER_RECORD_MAX])
        for obj in self._due:
            if obj.needs_repair and obj not in self._decided:
                self._write(obj, [])
                state.count("repaired")
        self._due, self._decided = {}, {}
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
