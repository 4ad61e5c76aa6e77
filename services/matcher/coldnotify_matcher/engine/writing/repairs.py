"""Repairs: newest versions and descriptions that compaction would remove are written again, after their key's last
record."""

from coldnotify_schemas.arrival_versions import checkpoint_header
from coldnotify_schemas.message_places import message_header
from coldnotify_schemas.mqtt.kept_properties import kept_headers
from coldnotify_schemas.records import encode_public_record, record_headers, since_header

from coldnotify_matcher.engine.objects.description_store import StoredDescription
from coldnotify_matcher.engine.objects.objects import Obj
from coldnotify_matcher.engine.outputs import ProducedRecord
from coldnotify_matcher.engine.partition_state import PartitionState
from coldnotify_matcher.engine.writing.outbox import EngineOutbox


class Repairs:
    """The repairs of this step."""

    def __init__(self, state: PartitionState, outbox: EngineOutbox) -> None:
        self._state = state
        self._outbox = outbox
        self._due: dict[Obj, None] = {}
        self._due_descriptions: dict[str, StoredDescription] = {}
        """By the key of their records."""

    def look_at(self, obj: Obj) -> None:
        """Check an object after a record under its key."""
        if obj.needs_repair:
            self._due[obj] = None

    def look_at_description(self, key: str, described: StoredDescription) -> None:
        """Check a description in the same way."""
        if described.needs_repair:
            self._due_descriptions[key] = described

    def write(self) -> None:
        """Write objects and descriptions again that still need it."""
        state = self._state
        topics = state.rules.topics
        for obj in self._due:
            if obj.needs_repair:
                state.at = topics.objects, obj.kept_offset
                said = obj.repair_record()
                headers = [
                    since_header(state.epoch, obj.offset),
                    *record_headers(said),
                    *kept_headers(obj.properties),
                    *message_header(obj.message),
                ]
                if obj.checkpoint_due:
                    headers.append(checkpoint_header(state.epoch, state.position - 1))
                self._outbox.write(
                    ProducedRecord(
                        topics.objects, state.partition, obj.key.encode(), encode_public_record(said), tuple(headers)
                    )
                )
                state.count("repaired")
        self._due = {}
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
