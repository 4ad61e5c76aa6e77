"""One partition on its way to being served: load the compacted topics, claim a generation, then own it."""

import time
from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

import msgspec
from coldnotify_schemas import internal_pb2, topics
from coldnotify_schemas.state import FORMAT, GENERATION_KEY, GenerationRecord, RegistrationsRecord, SessionRecord

from coldnotify_matcher.engine import Engine, Write
from coldnotify_matcher.readers import Record

R = TypeVar("R", RegistrationsRecord, SessionRecord)

_registrations = msgspec.json.Decoder(RegistrationsRecord)
_session = msgspec.json.Decoder(SessionRecord)
_generation = msgspec.json.Decoder(GenerationRecord)
_GENERATION_KEY = GENERATION_KEY.encode()


class TakenOver(Exception):
    """Another matcher has claimed the partition: whatever this one still knows of it is stale."""


class _AnyRecord(msgspec.Struct):
    generation: int


_any = msgspec.json.Decoder(_AnyRecord)


class Phase(Enum):
    """How far the partition is."""

    LOADING = "loading"
    """Reading the compacted topics up to where they ended at the start."""
    CLAIMING = "claiming"
    """The next generation is written; what stands before it in the log still counts."""
    OWNED = "owned"


@dataclass(frozen=True, slots=True)
class Cluster:
    """What must not change while a matcher runs: topics' ids and sizes."""

    partitions: int
    inboxes: int
    objects_topic_id: str
    requests_topic_id: str
    epoch: int


@dataclass(slots=True)
class PendingRequests:
    """Requests that wait until the objects topic has been read as far as it went when they came."""

    barrier: int
    requests: list[tuple[int, internal_pb2.Request]]
    since_s: float = field(default_factory=time.monotonic)


class Partition:
    """The state of one partition, from its assignment on. `owner` tells this matcher's run from all others."""

    def __init__(
        self,
        number: int,
        cluster: Cluster,
        owner: str,
        *,
        ends: dict[str, int],
        objects_committed: int | None,
        registrations_max: int,
    ) -> None:
        """`ends`: by compacted topic, the offset up to which it is read before a generation is claimed."""
        self.number = number
        self.phase = Phase.LOADING
        self.engine = Engine(number, cluster.partitions, cluster.epoch, registrations_max=registrations_max)
        self.requests_position: int | None = None
        """The next offset of the requests topic; None: nothing read yet."""
        self.pending: deque[PendingRequests] = deque()
        self.started_s = time.monotonic()
        self.load_objects_committed = objects_committed
        self._cluster = cluster
        self._owner = owner
        self._ends = {topic: end for topic, end in ends.items() if end > 0}
        self._generation = 0
        self._claimed = 0
        self._last_generation: GenerationRecord | None = None
        self._buckets: dict[str, RegistrationsRecord] = {}
        self._sessions: dict[str, SessionRecord] = {}
        self.engine.start_load(objects_committed)

    @property
    def requests_topic_changed(self) -> bool:
        """The predecessor's committed offsets and `applied` are of a requests topic that is no more."""
        last = self._last_generation
        return last is not None and last.requests_topic_id != self._cluster.requests_topic_id

    def on_end(self, topic: str, offset: int) -> None:
        """The reader is at the end of this topic's partition."""
        if topic == topics.OBJECTS:
            self.engine.on_objects_end(offset)
        self._note_progress(topic, offset)

    def on_record(self, record: Record, now_ms: int) -> None:
        """One record of a compacted topic. Raises TakenOver."""
        topic, key = record.topic, record.key
        if topic == topics.OBJECTS:
            self.engine.on_object(key, record.value, record.offset, record.timestamp_ms, now_ms, moved=record.moved)
        elif key == _GENERATION_KEY:
            self._on_generation(record.value)
        elif key is not None:
            self._on_state(topic, key.decode(), record.value)
        self._note_progress(topic, record.offset + 1)

    @property
    def loaded(self) -> bool:
        """Everything that was there at the start has been read: time to claim."""
        return self.phase is Phase.LOADING and not self._ends

    @property
    def claimed(self) -> bool:
        """The claim has come back from the log, and with it everything that stands before it."""
        return self.phase is Phase.CLAIMING and self._claimed > 0 and self._generation == self._claimed

    def claim(self) -> Write:
        """The record that claims the next generation."""
        self.phase = Phase.CLAIMING
        self._claimed = self._generation + 1
        record = GenerationRecord(
            FORMAT, self._claimed, self._owner, self._cluster.requests_topic_id, self._cluster.epoch
        )
        return Write(topics.SESSIONS, self.number, _GENERATION_KEY, msgspec.json.encode(record))

    @property
    def must_claim_again(self) -> bool:
        """Another matcher's claim came first."""
        return self.phase is Phase.CLAIMING and self._generation > self._claimed

    def own(self, now_ms: int) -> None:
        """Everything is loaded and claimed: build the state and take over."""
        applied_counts = not self.requests_topic_changed
        for key, bucket in self._buckets.items():
            self.engine.load_registrations(key, bucket, applied_counts=applied_counts)
        for key, session in self._sessions.items():
            self.engine.load_session(key, session, now_ms, applied_counts=applied_counts)
        self._buckets, self._sessions = {}, {}
        last = self._last_generation
        committed = self.load_objects_committed
        if last is not None and last.epoch != self._cluster.epoch:
            committed = None
        self.engine.finish_load(self._claimed, self._cluster.inboxes, now_ms, objects_committed=committed)
        self.phase = Phase.OWNED

    def _on_generation(self, value: bytes | None) -> None:
        if value is None:
            return
        record = _generation.decode(value)
        if self.phase is Phase.OWNED:
            if record.generation >= self._claimed and record.owner != self._owner:
                raise TakenOver(
                    f"partition {self.number}: {record.owner} took it over (generation {record.generation})"
                )
            return
        if record.owner == self._owner and record.generation == self._claimed > self._generation:
            self._generation = record.generation
            return
        if record.generation >= self._generation:
            # Another's claim of the same number, seen first, wins: ours counts as not made.
            self._generation = max(record.generation, self._claimed + 1 if self.phase is Phase.CLAIMING else 0)
            self._last_generation = record

    def _on_state(self, topic: str, key: str, value: bytes | None) -> None:
        if self.phase is Phase.OWNED:
            if value is None or _any.decode(value).generation < self._claimed:
                self.engine.rewrite(topic, key, was_null=value is None)
            return
        if topic == topics.REGISTRATIONS:
            _merge(self._buckets, key, None if value is None else _registrations.decode(value))
        else:
            _merge(self._sessions, key, None if value is None else _session.decode(value))

    def _note_progress(self, topic: str, position: int) -> None:
        end = self._ends.get(topic)
        if end is not None and position >= end:
            del self._ends[topic]


def _merge(records: dict[str, R], key: str, record: R | None) -> None:
    """Keep the record with the higher (generation, applied); a null ends them all."""
    if record is None:
        records.pop(key, None)
        return
    before = records.get(key)
    if before is None or (record.generation, record.applied) >= (before.generation, before.applied):
        records[key] = record
