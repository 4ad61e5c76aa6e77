"""One partition on its way to being served: follow or load the compacted topics, claim a generation, then own it."""

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Self, TypeVar

import msgspec
import structlog
from coldnotify_common.paced import Paced
from coldnotify_schemas import internal_pb2, topics
from coldnotify_schemas.state import FORMAT, GENERATION_KEY, GenerationRecord, RegistrationsRecord, SessionRecord

from coldnotify_matcher.engine import Engine, Write
from coldnotify_matcher.engine.rejected import rejected
from coldnotify_matcher.epoch import EPOCH_MARK, epoch_of
from coldnotify_matcher.readers import Record
from coldnotify_matcher.state_records import (
    NewerFormat,
    Unreadable,
    check_bucket_key,
    check_client_key,
    generation_of,
    is_generation_key,
    parse_generation,
    parse_registrations,
    parse_session,
)

_paced = Paced(structlog.get_logger())

COMPACTED = (topics.OBJECTS, topics.REGISTRATIONS, topics.SESSIONS)
"""The topics that a partition's state is loaded from."""
STATE = frozenset((topics.REGISTRATIONS, topics.SESSIONS))
NOT_UNDERSTOOD = "not_understood"
"""Why a record is set aside: its parser says what is wrong with it."""
RAISED = "raised"
"""Why a record is set aside: whatever handled it raised an exception."""
ASIDE_MAX = 1_000
"""Records that wait to be rejected until the partition is owned. What comes above it is only counted and logged."""
_NOTHING_IS_FRESH = 1 << 63
"""As the committed offset of objects: whatever is read, its owner is to reject and to move."""

R = TypeVar("R", RegistrationsRecord, SessionRecord)


class TakenOver(Exception):
    """Another matcher has claimed the partition: whatever this one still knows of it is stale."""


class Phase(Enum):
    """How far the partition is."""

    FOLLOWING = "following"
    """Another matcher's: what it writes is read, for the case that it goes."""
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
    state_topic_ids: tuple[str, ...] = ()
    """Of registrations and sessions: what was read from the ones of before is no longer what is durable."""

    @property
    def marks(self) -> dict[str, str]:
        """By topic, what offsets are committed with: its id, and the epoch behind it where an operator began another.

        Those of another topic do not count: a run commits until it notices that it was made anew. Those of another
        epoch do not say what was fanned out in this one: the first to take over in it may fail before it commits.
        """
        objects = self.objects_topic_id
        if self.epoch != epoch_of(objects, self.partitions, 0):
            objects += f"{EPOCH_MARK}{self.epoch:08x}"
        return {topics.REQUESTS: self.requests_topic_id, topics.OBJECTS: objects}


@dataclass(frozen=True, slots=True)
class Ends:
    """The offsets that the next records of a partition's inputs will get, as of a time after its claim came back."""

    requests: int
    objects: int


@dataclass(slots=True)
class PendingRequests:
    """Requests that wait until the objects topic has been read as far as it went when they came."""

    barrier: int
    requests: list[tuple[int, internal_pb2.Request]]
    since_s: float = field(default_factory=time.monotonic)


class Partition:
    """The state of one partition. `owner` tells this matcher's run from all others.

    It begins with its assignment, or before that, while another matcher serves it (`following`). What is read then has
    no outputs. What the predecessor may not have rejected or moved stands at or above the objects offset it committed,
    which is known at the assignment only: from there on the objects are read once more (`load`).
    """

    def __init__(
        self,
        number: int,
        cluster: Cluster,
        owner: str,
        *,
        ends: Mapping[str, int] | None,
        objects_committed: int | None,
        registrations_max: int,
    ) -> None:
        """`ends`: by compacted topic, the offset up to which it is read before a generation is claimed.

        None: it is not this matcher's yet.
        """
        self.number = number
        self.phase = Phase.FOLLOWING
        self.warm = False
        """It was followed before it was assigned."""
        self.engine = Engine(number, cluster.partitions, cluster.epoch, registrations_max=registrations_max)
        self.requests_position: int | None = None
        """The next offset of the requests topic; None: nothing read yet."""
        self.pending: deque[PendingRequests] = deque()
        self.held_back = False
        """So many requests are pending that the reader leaves the others in Kafka."""
        self.started_s = time.monotonic()
        self.reading = False
        """What comes of the compacted topics is of this assignment, not of an earlier one."""
        self.load_objects_committed: int | None = None
        self.committed_in_epoch = True
        """Whether that was in today's epoch: only then it says what has been fanned out to today's sessions."""
        self.positions: dict[str, int] = {}
        """By compacted topic, the offset up to which it has been read."""
        self.behind: set[str] = set(COMPACTED)
        """The compacted topics of which the reader has not been at the end so far."""
        self.requests_start = 0
        """From where the requests are handled, as the group says."""
        self.requests_committed = True
        """Whether that was committed."""
        self.requests_topic_known = False
        """The run has handled requests of the present topic already."""
        self.requests_reading = True
        """What comes of the requests topic is of this load, not of an earlier one."""
        self._cluster = cluster
        self._owner = owner
        self._ends: dict[str, int] = {}
        self._generation = 0
        self._claimed = 0
        self._last_generation: GenerationRecord | None = None
        self._buckets: dict[str, RegistrationsRecord] = {}
        self._sessions: dict[str, SessionRecord] = {}
        self._to_rewrite: dict[tuple[str, str], None] = {}
        """(topic, key) of what stands last under its key and is no state, or an outdone one, which would be all that
        compaction leaves. It is overwritten once the partition is owned."""
        self._claimed_higher = False
        self._strange_keys: dict[tuple[str, bytes], None] = {}
        self._aside: dict[tuple[str, bytes | None], tuple[Write, str]] = {}
        """By (topic, key): what goes to the rejected topic with the next step that it owns, and why. A record that
        follows under its key takes it back while it is loaded: what is outdone was rejected by a predecessor."""
        self._newer: dict[tuple[str, bytes], NewerFormat] = {}
        """By (topic, key): records of a later release that stand last under their key. It is theirs then."""
        self.clients_aside: frozenset[str] = frozenset()
        """Keys of clients whose stored state is set aside: they are loaded as if they had none."""
        self._claim_lost = False
        if ends is None:
            self.engine.start_load(_NOTHING_IS_FRESH)
        else:
            self.load(dict.fromkeys(ends, 0), ends, objects_committed)

    @classmethod
    def following(cls, number: int, cluster: Cluster, owner: str, *, registrations_max: int) -> Self:
        """One that another matcher owns."""
        return cls(number, cluster, owner, ends=None, objects_committed=None, registrations_max=registrations_max)

    def can_load_on(self, starts: Mapping[str, int], ends: Mapping[str, int], objects_committed: int | None) -> bool:
        """Whether what was followed is worth something: else all is to be loaded from the beginning."""
        return objects_committed is not None and all(
            starts[topic] <= self.positions.get(topic, -1) <= ends[topic] for topic in COMPACTED
        )

    def load(self, starts: Mapping[str, int], ends: Mapping[str, int], objects_committed: int | None) -> dict[str, int]:
        """It is assigned to this matcher: read on up to `ends`, then claim.

        Returns, by topic, the offset from which it is to be read: where it starts, or how far it was followed.
        """
        self.phase = Phase.LOADING
        self.started_s = time.monotonic()
        self.reading = False
        self.warm = bool(self.positions)
        self.load_objects_committed = objects_committed
        self.engine.start_load(objects_committed)
        begin = {topic: self.positions.get(topic, start) for topic, start in starts.items()}
        if self.warm and objects_committed is not None:
            begin[topics.OBJECTS] = max(starts[topics.OBJECTS], min(begin[topics.OBJECTS], objects_committed))
        self._ends = {topic: end for topic, end in ends.items() if end > begin[topic]}
        return begin

    @property
    def requests_handled(self) -> int:
        """The requests topic has been handled up to this offset: what waits for its barrier has not."""
        waiting = next(iter(self.pending), None)
        if waiting is not None:
            return waiting.requests[0][0]
        return self.requests_start if self.requests_position is None else self.requests_position

    @property
    def requests_pending(self) -> int:
        """How many requests wait for the objects topic."""
        return sum(len(batch.requests) for batch in self.pending)

    @property
    def clients(self) -> int:
        """How many are known."""
        return len(self.engine.clients) or len(self._sessions)

    @property
    def requests_topic_changed(self) -> bool:
        """The predecessor's committed offsets are of a requests topic that is no more."""
        if self.requests_topic_known:
            return False
        last = self._last_generation
        if last is None:  # the claims are lost, or there never were any
            return not self.requests_committed
        return last.requests_topic_id != self._cluster.requests_topic_id

    @property
    def _requests_since(self) -> int:
        """The first generation under the present requests topic; `applied` of older records is of one that is no more.

        A claim says so for its successors: whoever made it may have failed before it wrote any record anew.
        """
        if self.requests_topic_changed:
            return self._claimed
        return self._last_generation.requests_since if self._last_generation is not None else 0

    def on_end(self, topic: str, offset: int) -> None:
        """The reader is at the end of this topic's partition."""
        if topic == topics.OBJECTS:
            self.engine.on_objects_end(offset)
        self.behind.discard(topic)
        self._note_progress(topic, offset)

    def on_record(self, record: Record, now_ms: int) -> None:
        """One record of a compacted topic. Raises TakenOver, or what a handler raises over it."""
        if record.topic == topics.OBJECTS:
            self.engine.on_object(record, now_ms)
        elif record.key is not None:
            self._on_state_record(record.topic, record.key, record.value, record.offset, now_ms)
        self._note_progress(record.topic, record.offset + 1)

    def skip(self, record: Record, reason: str) -> None:
        """One record that is set aside: it counts as read, and as nothing else."""
        if record.topic == topics.REQUESTS:
            self.requests_position = record.offset + 1
        elif record.topic == topics.OBJECTS:
            self.engine.skip_object(record.key, record.offset)
        elif record.key is not None and not is_generation_key(record.key):
            self._overwrite(record.topic, record.key)
        self.set_aside(record, reason, RAISED)
        self._note_progress(record.topic, record.offset + 1)

    def set_aside(self, record: Record, reason: str, why: str) -> None:
        """The record goes to the rejected topic with the next step. `why`: NOT_UNDERSTOOD or RAISED."""
        about = (record.topic, record.key if record.topic in STATE else b"%d" % record.offset)
        if self.phase is not Phase.OWNED and len(self._aside) >= ASIDE_MAX and about not in self._aside:
            _paced.log("not even rejected: too much is", level="warning", topic=record.topic, reason=reason)
            self.engine.count(_set_aside(record.topic, why))
            return
        write = rejected(record.topic, self.number, record.offset, record.key, record.value, reason)
        self._aside[about] = write, why
        _paced.log(
            "record set aside", level="warning", topic=record.topic, partition=self.number, offset=record.offset,
            reason=reason, why=why,
        )  # fmt: skip

    @property
    def loaded(self) -> bool:
        """Everything that was there at the start has been read: time to claim."""
        return self.phase is Phase.LOADING and not self._ends

    @property
    def claimed(self) -> bool:
        """The claim has come back from the log, and with it everything that stands before it."""
        return self.phase is Phase.CLAIMING and self._claimed > 0 and self._generation == self._claimed

    def claim(self) -> Write:
        """The record that claims the next generation. Raises NewerFormat."""
        for error in self._newer.values():
            raise error
        self.phase = Phase.CLAIMING
        self._claimed = self._generation + 1
        return self._claim_record(self._claimed)

    def take_repairs(self) -> list[Write]:
        """What is owed to the topics beside the engine's step.

        That is what was set aside, tombstones of what stands under no client's key, and the claim once more if
        something was written over it.
        """
        if self.phase is not Phase.OWNED:
            return []
        repairs = [write for write, _ in self._aside.values()]
        for (topic, _), (_, why) in self._aside.items():
            self.engine.count(_set_aside(topic, why))
        self._aside.clear()
        repairs += [Write(topic, self.number, key, None) for topic, key in self._strange_keys]
        if self._claim_lost:
            repairs.append(self._claim_record(self._claimed))
        if self.engine.outdone and not self._claimed_higher:
            # The claims were lost, with their topic. Reading this one back, the matcher loads anew, and above it.
            self._claimed_higher = True
            repairs.append(self._claim_record(self.engine.generation_heard))
        self._strange_keys.clear()
        self._claim_lost = False
        return repairs

    def _claim_record(self, generation: int) -> Write:
        topic_id, epoch = self._cluster.requests_topic_id, self._cluster.epoch
        record = GenerationRecord(FORMAT, generation, self._owner, topic_id, epoch, self._requests_since)
        return Write(topics.SESSIONS, self.number, GENERATION_KEY.encode(), msgspec.json.encode(record))

    @property
    def must_claim_again(self) -> bool:
        """Another matcher's claim came first."""
        return self.phase is Phase.CLAIMING and self._generation > self._claimed

    def own(self, now_ms: int, ends: Ends) -> None:
        """Everything is loaded and claimed: build the state and take over."""
        since = self._requests_since
        for key, bucket in self._buckets.items():
            self.engine.at = key.rpartition("/")[0]
            counts = bucket.generation >= since
            if self._is_believed(topics.REGISTRATIONS, key, bucket, ends, applied_counts=counts):
                self.engine.load_registrations(key, bucket, applied_counts=counts)
        for key, session in self._sessions.items():
            self.engine.at = key
            counts = session.generation >= since
            if self._is_believed(topics.SESSIONS, key, session, ends, applied_counts=counts):
                self.engine.load_session(key, session, now_ms, applied_counts=counts)
        self._buckets, self._sessions = {}, {}
        committed = self.load_objects_committed if self.committed_in_epoch else None
        self.engine.finish_load(self._claimed, self._cluster.inboxes, now_ms, objects_committed=committed)
        self.phase = Phase.OWNED
        for topic, key in self._to_rewrite:
            self.engine.rewrite(topic, key, was_null=False)
        self._to_rewrite.clear()

    def _is_believed(
        self, topic: str, key: str, record: RegistrationsRecord | SessionRecord, ends: Ends, *, applied_counts: bool
    ) -> bool:
        """Whether its offsets are of requests and objects that there have been; else it is set aside, and written over.

        They are known only now: a predecessor may have gone on writing until this matcher's claim.
        """
        client = key if topic == topics.SESSIONS else key.rpartition("/")[0]
        if client in self.clients_aside:
            words, why = "what is stored of this client cannot be handled", RAISED
        elif applied_counts and record.applied >= ends.requests:
            words, why = f"applied: is {record.applied}, and the requests end at {ends.requests}", NOT_UNDERSTOOD
        elif isinstance(record, SessionRecord) and self._is_beyond(record, ends):
            words, why = f"cursor: is {record.cursor}, and the objects end at {ends.objects}", NOT_UNDERSTOOD
        else:
            return True
        write = rejected(topic, self.number, None, key.encode(), msgspec.json.encode(record), words)
        self._aside[topic, key.encode()] = write, why
        self._to_rewrite[topic, key] = None
        return False

    def _is_beyond(self, record: SessionRecord, ends: Ends) -> bool:
        return record.epoch == self._cluster.epoch and record.cursor >= ends.objects

    def _on_state_record(self, topic: str, key: bytes, value: bytes | None, offset: int, now_ms: int) -> None:
        if self.phase in (Phase.FOLLOWING, Phase.LOADING):
            self._aside.pop((topic, key), None)
            self._newer.pop((topic, key), None)
        try:
            self._on_key_of_state(Record(topic, self.number, offset, end=False, key=key, value=value), now_ms)
        except NewerFormat as error:
            if self.phase is Phase.OWNED:
                raise
            self._newer[topic, key] = error

    def _on_key_of_state(self, record: Record, now_ms: int) -> None:
        topic, key, value = record.topic, record.key or b"", record.value
        if topic == topics.SESSIONS and is_generation_key(key):
            try:
                self._on_generation(value, now_ms)
            except Unreadable as error:
                self.set_aside(record, str(error), NOT_UNDERSTOOD)
                self._claim_lost = True
            return
        try:
            text = check_client_key(key) if topic == topics.SESSIONS else check_bucket_key(key)
        except Unreadable as error:
            self._strange_keys.pop((topic, key), None)
            if value is not None:
                self.set_aside(record, str(error), NOT_UNDERSTOOD)
                self._strange_keys[topic, key] = None
            return
        try:
            self._on_state(topic, text, value, now_ms)
        except Unreadable as error:
            self.set_aside(record, str(error), NOT_UNDERSTOOD)
            self._overwrite(topic, key)

    def _overwrite(self, topic: str, key: bytes) -> None:
        """What stands last under this key of a state topic is no state: ours, or a null, is written behind it."""
        try:
            text = check_client_key(key) if topic == topics.SESSIONS else check_bucket_key(key)
        except Unreadable:
            self._strange_keys[topic, key] = None
            return
        if self.phase is Phase.OWNED:
            self.engine.rewrite(topic, text, was_null=False)
        else:
            self._to_rewrite[topic, text] = None

    def _on_generation(self, value: bytes | None, now_ms: int) -> None:
        if value is None:
            self._claim_lost = True
            return
        record = parse_generation(value, now_ms)
        if self.phase is Phase.OWNED:
            if record.generation > self._claimed and record.owner == self._owner:
                raise TakenOver(f"partition {self.number}: claims were lost, gateways go by a higher generation")
            if record.generation >= self._claimed and record.owner != self._owner:
                raise TakenOver(
                    f"partition {self.number}: {record.owner} took it over (generation {record.generation})"
                )
            self._claim_lost = record.owner != self._owner
            return
        self._claim_lost = False
        if record.owner == self._owner and record.generation == self._claimed > self._generation:
            self._generation = record.generation
            return
        if record.generation >= self._generation:
            # Another's claim of the same number, seen first, wins: ours counts as not made.
            self._generation = max(record.generation, self._claimed + 1 if self.phase is Phase.CLAIMING else 0)
            self._last_generation = record

    def _on_state(self, topic: str, key: str, value: bytes | None, now_ms: int) -> None:
        if self.phase is Phase.OWNED:
            if value is None or generation_of(value, now_ms) < self._claimed:
                self.engine.rewrite(topic, key, was_null=value is None)
            return
        record: RegistrationsRecord | SessionRecord | None
        if topic == topics.REGISTRATIONS:
            record = None if value is None else parse_registrations(value, now_ms)
            newest = _merge(self._buckets, key, record)
        else:
            record = None if value is None else parse_session(value, now_ms, inboxes=self._cluster.inboxes)
            newest = _merge(self._sessions, key, record)
        if newest:
            self._to_rewrite.pop((topic, key), None)
        else:
            self._to_rewrite[topic, key] = None
        if record is not None and self.phase is not Phase.CLAIMING:
            # Should the claims themselves be lost: gateways would drop whatever a lower generation says.
            self._generation = max(self._generation, record.generation)

    def _note_progress(self, topic: str, position: int) -> None:
        self.positions[topic] = position
        end = self._ends.get(topic)
        if end is not None and position >= end:
            del self._ends[topic]


def _set_aside(topic: str, why: str) -> str:
    """The engine's name of the event, for `metrics.count`."""
    return f"set_aside:{topic}:{why}"


def _merge(records: dict[str, R], key: str, record: R | None) -> bool:
    """Keep the record with the higher (generation, applied); a null ends them all. False: this one is outdone."""
    if record is None:
        records.pop(key, None)
        return True
    before = records.get(key)
    if before is not None and (record.generation, record.applied) < (before.generation, before.applied):
        return False
    records[key] = record
    return True
