"""A partition of the matcher's job: handles its records while it is loaded, claimed and owned, around its engine."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
import structlog
from coldnotify_common.paced import Paced
from coldnotify_schemas import internal_pb2
from coldnotify_schemas.matcher_state import (
    FORMAT,
    FORMAT_WITH_CHANNELS,
    ChannelsRecord,
    RegistrationsRecord,
    SessionRecord,
)
from coldnotify_streams.core.events import JobRecord, LogBlock, Takeover, UnreadableOffsets
from coldnotify_streams.core.job import NOT_UNDERSTOOD, RAISED, At, Ends, JobPartition, Outputs
from coldnotify_streams.core.partition_progress import OwningPhase
from coldnotify_streams.errors import NewerFormat

from coldnotify_matcher.channel_logs import ChannelLogs
from coldnotify_matcher.engine import Engine, ProducedRecord, Rules, Step
from coldnotify_matcher.engine.tenants.use import Use
from coldnotify_matcher.engine.writing.rejected import rejected
from coldnotify_matcher.generations import Generations
from coldnotify_matcher.merged_records import Merged
from coldnotify_matcher.record_headers import NOTHING_SAID, EndedByHeaders, HeadedObjectRecord
from coldnotify_matcher.request_records import parse_request
from coldnotify_matcher.run_topics import Cluster
from coldnotify_matcher.state_records import (
    UnreadableState,
    check_bucket_key,
    check_channels_key,
    check_client_key,
    check_generation,
    generation_of,
    is_generation_key,
    parse_channels,
    parse_registrations,
    parse_session,
)

_paced = Paced(structlog.get_logger())

ASIDE_MAX = 1_000
"""Records that wait to be rejected until the partition is owned. Further ones are only counted and logged."""
_NOTHING_IS_FRESH = 1 << 63
"""Committed offset of objects until this matcher loads the partition: its owner rejects and moves records, not this
one."""
_NEED_BARRIER = frozenset(("open", "register", "sync", "catch_up", "is_there", "ask_outcome"))
"""Requests whose answer promises the newest version, or that nothing was published, or a record's outcome."""


class MatcherPartition(JobPartition):
    """The state of one partition. `owner` tells this matcher's run from all others."""

    def __init__(
        self,
        number: int,
        cluster: Cluster,
        owner: str,
        *,
        registrations_max: int,
        rules: Rules | None = None,
        traced: Callable[[JobRecord, str], str] | None = None,
        unfinished: set[int] | None = None,
    ) -> None:
        """`traced`: begins the span of a record that has this traceparent, and returns the span's own.

        `unfinished`: contains the numbers of the partitions that compute sets of queries, or make pages of channels.
        """
        super().__init__(number, cluster.topics)
        self.engine = Engine(number, cluster.partitions, cluster.epoch, registrations_max=registrations_max)
        if rules is not None:
            self.engine.rules = rules
        self._names = names = self.engine.rules.topics
        self._objects = names.objects
        self._check_key: Mapping[str, Callable[[bytes], str]] = {
            names.registrations: check_bucket_key,
            names.sessions: check_client_key,
            names.channels_state: check_channels_key,
        }
        """The key checks of the state topics."""
        self._logs = ChannelLogs(self.engine, cluster.logs)
        self._traced = traced
        self._unfinished = set() if unfinished is None else unfinished
        self._unfinished.discard(number)
        self._cluster = cluster
        self._generations = Generations(number, names.sessions, cluster, owner)
        self._buckets: Merged[RegistrationsRecord] = Merged()
        self._sessions: Merged[SessionRecord] = Merged()
        self._to_rewrite: dict[tuple[str, str], None] = {}
        """Keys whose newest record is unreadable or superseded, as (topic, key). Compaction would keep only that
        record, so it is overwritten once the partition is owned."""
        self._strange_keys: dict[tuple[str, bytes], None] = {}
        self._aside: dict[tuple[str, bytes | None], tuple[ProducedRecord, str]] = {}
        """By (topic, key): records that go to the rejected topic with the next step that it owns, and the reason. A
        later record under the key takes it back while the partition is loaded: a predecessor has rejected superseded
        records."""
        self._newer: dict[tuple[str, bytes], NewerFormat] = {}
        """By (topic, key): records of a later release that are the newest of their key. The key is theirs then."""
        self.engine.start_load(_NOTHING_IS_FRESH)

    def on_load(self, takeover: Takeover) -> None:
        """Begin to load: this matcher rejects and moves objects from the committed offset on."""
        self.engine.start_load(takeover.table_committed)

    @property
    def at(self) -> At:
        """The record or client that the engine is handling."""
        return self.engine.state.at

    @property
    def position(self) -> int:
        """The next offset of the objects topic."""
        return self.engine.position

    @property
    def table_done(self) -> int:
        """The offset of the objects topic up to which all is fanned out."""
        return self.engine.objects_done

    @property
    def first_not_stored(self) -> int | None:
        """Offset of the first request that a successor has to handle again: its session's record waits."""
        return self.engine.state.brief.first_offset

    @property
    def clients(self) -> int:
        """Number of known clients."""
        return len(self.engine.clients) or len(self._sessions.winners)

    @property
    def about(self) -> dict[str, object]:
        """Its generation, and its numbers of objects and clients."""
        engine = self.engine
        return {"generation": engine.generation, "objects": len(engine.objects), "clients": len(engine.clients)}

    @property
    def requests_topic_changed(self) -> bool:
        """True if the predecessor's committed offsets refer to a former requests topic."""
        takeover = self.takeover
        if takeover is not None and takeover.requests_known:
            return False
        last = self._generations.last
        if last is None:  # the claims are lost, or there never were any
            return takeover is not None and not takeover.requests_committed
        return last.requests_topic_id != self._cluster.requests_topic_id

    def on_end(self, topic: str, offset: int) -> None:
        """Note that the reader is at the end of this topic's partition."""
        if topic == self._objects:
            self.engine.on_objects_end(offset)
        elif topic in self._logs:
            self._logs.on_end(topic, offset)
        self.behind.discard(topic)
        self.note_progress(topic, offset)

    def on_record(self, record: JobRecord, now_ms: int) -> None:
        """Handle one record of a compacted topic, or of a log. Raises TakenOver, or the exception of a handler."""
        topic, _, offset, _, key, value, timestamp_ms, said = record
        if topic == self._objects:
            rejected_for, said = (said, None) if said.__class__ is str else ("", said)
            moved, traceparent, since, removes, urgent = said or NOTHING_SAID
            if traceparent and self._traced is not None and self.phase is OwningPhase.OWNED:
                traceparent = self._traced(record, traceparent)
            # Each is made here, a hundred thousand after a long log: through its class it would take three times as
            # long.
            fields = (key, value, offset, timestamp_ms, moved, traceparent, since, removes, urgent)
            if rejected_for:
                self.engine.reject_object(tuple.__new__(HeadedObjectRecord, fields), rejected_for)
            else:
                self.engine.on_object(tuple.__new__(HeadedObjectRecord, fields), now_ms)
        elif topic in self._logs:
            self._logs.on_record(record, now_ms)
        elif key is not None:
            self._on_state_record(record, key, now_ms)
        self.note_progress(topic, offset + 1)

    def prepare(self, record: JobRecord) -> bool:
        """Returns true if all queries are evaluated for the change by a record of the objects topic."""
        if record.topic != self._objects or not self.engine.state.members.sets.any_dear:
            return True
        return self.engine.prepare_object(record.key, record.value, record.timestamp_ms, self.turn)

    def skip(self, record: JobRecord, reason: str) -> None:
        """Skip one record that is set aside: it counts as read, and has no other effect."""
        if record.topic == self._objects:
            self.engine.skip_object(record.key, record.offset)
        elif record.topic in self._logs:
            self._logs.skip(record)
        elif record.topic in self._check_key and record.key is not None and not is_generation_key(record.key):
            self._overwrite(record.topic, record.key)
        self.set_aside(record, reason, RAISED)
        self.note_progress(record.topic, record.offset + 1)

    def on_unreadable(self, gap: UnreadableOffsets) -> None:
        """Skip offsets that cannot be read: the first of them is named in the rejected topic, unless a predecessor has
        done so."""
        topic, told = gap.topic, True
        if topic == self._objects:
            told = gap.start >= self.engine.state.replay_from
            self.engine.on_objects_end(gap.next)
        elif topic in self._logs:
            told = gap.start >= self._logs.replay_from(topic)
            self._logs.on_end(topic, gap.next)
        if told:
            words = (
                gap.reason if gap.next == gap.start + 1 else f"{gap.next - gap.start} offsets from here: {gap.reason}"
            )
            self.set_aside(JobRecord(topic, self.number, gap.start, end=False), words, NOT_UNDERSTOOD)
        if topic != self.topics.requests:
            self.note_progress(topic, gap.next)

    def set_aside(self, record: JobRecord, reason: str, why: str) -> None:
        """Write the record to the rejected topic with the next step. `why`: NOT_UNDERSTOOD or RAISED."""
        by_key = record.topic in self._check_key and record.key is not None
        about = (record.topic, record.key if by_key else b"%d" % record.offset)
        if self.phase is not OwningPhase.OWNED and len(self._aside) >= ASIDE_MAX and about not in self._aside:
            _paced.log("not even rejected: too much is", level="warning", topic=record.topic, reason=reason)
            self.engine.state.count(_set_aside(record.topic, why))
            return
        write = rejected(self._names, record.topic, self.number, record.offset, record.key, record.value, reason)
        self._aside[about] = write, why
        _paced.log(
            "record set aside", level="warning", topic=record.topic, partition=self.number, offset=record.offset,
            reason=reason, why=why,
        )  # fmt: skip

    def request_of(self, record: JobRecord, now_ms: int) -> internal_pb2.Request | None:
        """Returns the request in a record of the requests topic; None: the record is invalid, and set aside."""
        cluster = self._cluster
        try:
            request = parse_request(
                record.value or b"",
                partition=self.number,
                partitions=cluster.partitions,
                inboxes=cluster.inboxes,
                now_ms=now_ms,
            )
        except UnreadableState as error:
            self.set_aside(record, str(error), NOT_UNDERSTOOD)
            return None
        if request.WhichOneof("body") == "beat" and record.timestamp_ms > 0:
            self.engine.rules.clocks.heard(f"gateway {request.gateway:016x}", record.timestamp_ms)
        return request

    def needs_barrier(self, request: internal_pb2.Request) -> bool:
        """Returns true if its answer promises the newest version."""
        return request.WhichOneof("body") in _NEED_BARRIER

    def needs_log(self, request: internal_pb2.Request) -> str | None:
        """Returns the log of channels that its answer promises to have been read."""
        return self._logs.needed(request)

    def times_of(self, request: internal_pb2.Request) -> Sequence[tuple[str, int]]:
        """Returns the times from which on channels are to be sent."""
        return self._logs.times_of(request)

    def at_offsets(self, request: internal_pb2.Request, offsets: Sequence[int]) -> internal_pb2.Request:
        """Returns the same request, with offsets in place of times."""
        return self._logs.at_offsets(request, offsets)

    def log_done(self, topic: str) -> int:
        """Returns the offset of a log of channels up to which all is sent, and stored."""
        return self._logs.done(topic)

    def on_log_start(self, topic: str, log_start: int) -> None:
        """Note that retention has removed all below."""
        self._logs.on_log_start(topic, log_start)

    def wanted_blocks(self) -> Sequence[tuple[str, int]]:
        """Returns the blocks that sessions that are behind in channels wait for."""
        return self._logs.wanted() if self.topics.logs else ()

    def on_block(self, block: LogBlock, now_ms: int) -> None:
        """Hand on a block that was read."""
        self._logs.on_block(block, now_ms)

    def on_requests(self, requests: Sequence[tuple[int, internal_pb2.Request]], now_ms: int) -> int:
        """Handle a batch of (offset, request), in order, for as long as the turn lasts. Returns the number of handled
        ones."""
        handled = self.engine.on_requests(requests, now_ms, self.turn)
        self._note_unfinished()
        return handled

    def flush(self, now_ms: int) -> None:
        """Fan out publishes that were held back until now."""
        self.engine.flush(now_ms, self.turn)
        self._note_unfinished()

    def _note_unfinished(self) -> None:
        if self.engine.unfinished:
            self._unfinished.add(self.number)
        else:
            self._unfinished.discard(self.number)

    def next_due_ms(self) -> int | None:
        """Returns the time at which a held publish is to be fanned out (Unix time); None: none is held."""
        return self.engine.next_due_ms()

    def on_tick(self, now_ms: int) -> None:
        """Tell the engine that about a second has passed."""
        self.engine.on_tick(now_ms)

    def take_step(self, now_ms: int) -> Outputs:
        """Returns the engine's step and repairs; then tombstones and inbox records."""
        step = self.engine.take_step(now_ms)
        rest = [*step.tombstones, *_inbox_writes(self._names.notifications, step)]
        return Outputs([*step.state, *self.take_repairs()], rest)

    def take_counts(self) -> dict[str, int]:
        """Returns the engine's events since the last call."""
        counts, self.engine.counts = self.engine.counts, {}
        return counts

    def take_use(self) -> dict[str, Use]:
        """Returns the use by domains since the last call."""
        use, self.engine.state.use = self.engine.state.use, {}
        return use

    @property
    def claimed(self) -> bool:
        """True if the claim has come back from the log, and with it all records before it."""
        return self.phase is OwningPhase.CLAIMING and self._generations.is_read_back

    def claim(self) -> ProducedRecord:
        """Returns the record that claims the next generation. Raises NewerFormat."""
        for error in self._newer.values():
            raise error
        self.phase = OwningPhase.CLAIMING
        return self._generations.claim(self.requests_topic_changed)

    def take_repairs(self) -> list[ProducedRecord]:
        """Returns records for the topics beside the engine's step.

        These are the records that were set aside, tombstones of invalid keys, and the claim again if it was
        overwritten.
        """
        if self.phase is not OwningPhase.OWNED:
            return []
        repairs = [write for write, _ in self._aside.values()]
        for (topic, _), (_, why) in self._aside.items():
            self.engine.state.count(_set_aside(topic, why))
        self._aside.clear()
        repairs += [ProducedRecord(topic, self.number, key, None) for topic, key in self._strange_keys]
        self._strange_keys.clear()
        heard = self.engine.state.generation_heard if self.engine.state.outdone else None
        return repairs + self._generations.take_repairs(heard, self.requests_topic_changed)

    @property
    def must_claim_again(self) -> bool:
        """True if another matcher's claim came first."""
        return self.phase is OwningPhase.CLAIMING and self._generations.is_outdone

    def own(self, now_ms: int, ends: Ends) -> None:
        """Build the state and take over: everything is loaded and claimed."""
        since = self._generations.requests_since(self.requests_topic_changed)
        for key, stored in self._logs.stored():
            self.engine.state.at = key
            if (words := self._logs.beyond(key, stored, ends.logs)) is None:
                self.engine.channels.load(key, stored)
            else:
                self._disbelieve(self._names.channels_state, key, stored, words, NOT_UNDERSTOOD)
        if ends.logs:
            self._logs.start(ends.logs)
        for key, bucket in self._buckets.winners.items():
            self.engine.state.at = key.rpartition("/")[0]
            counts = bucket.generation >= since
            if self._is_believed(self._names.registrations, key, bucket, ends, applied_counts=counts):
                self.engine.load_registrations(key, bucket, applied_counts=counts)
        for key, session in self._sessions.winners.items():
            self.engine.state.at = key
            counts = session.generation >= since
            if self._is_believed(self._names.sessions, key, session, ends, applied_counts=counts):
                self.engine.load_session(key, session, now_ms, applied_counts=counts)
        self._buckets, self._sessions = Merged(), Merged()
        self._logs.forget_stored()
        takeover = self.takeover
        committed = None if takeover is None or not takeover.table_in_epoch else takeover.table_committed
        self.engine.finish_load(
            self._generations.claimed,
            self._cluster.inboxes,
            now_ms,
            objects_committed=committed,
            requests_start=None if takeover is None else takeover.requests_start,
        )
        self.phase = OwningPhase.OWNED
        for topic, key in self._to_rewrite:
            self.engine.rewrite(topic, key, was_null=False)
        self._to_rewrite.clear()

    def _is_believed(
        self, topic: str, key: str, record: RegistrationsRecord | SessionRecord, ends: Ends, *, applied_counts: bool
    ) -> bool:
        """Returns true if its offsets refer to existing requests and objects; else it is set aside, and overwritten.

        The ends are known only now: a predecessor may have gone on writing until this matcher's claim.
        """
        client = key if topic == self._names.sessions else key.rpartition("/")[0]
        if self.takeover is not None and client in self.takeover.aside:
            words, why = "what is stored of this client cannot be handled", RAISED
        elif applied_counts and record.applied >= ends.requests:
            words, why = f"applied: is {record.applied}, and the requests end at {ends.requests}", NOT_UNDERSTOOD
        elif isinstance(record, SessionRecord) and self._is_beyond(record, ends):
            words, why = f"cursor: is {record.cursor}, and the objects end at {ends.table}", NOT_UNDERSTOOD
        elif isinstance(record, SessionRecord) and self._logs.is_beyond(key, record, ends.logs):
            words, why = f"channels_cursor: is {record.channels_cursor}, behind the end of the log", NOT_UNDERSTOOD
        else:
            return True
        self._disbelieve(topic, key, record, words, why)
        return False

    def _disbelieve(self, topic: str, key: str, record: msgspec.Struct, words: str, why: str) -> None:
        write = rejected(self._names, topic, self.number, None, key.encode(), msgspec.json.encode(record), words)
        self._aside[topic, key.encode()] = write, why
        self._to_rewrite[topic, key] = None

    def _is_beyond(self, record: SessionRecord, ends: Ends) -> bool:
        return record.epoch == self._cluster.epoch and record.cursor >= ends.table

    def _on_state_record(self, record: JobRecord, key: bytes, now_ms: int) -> None:
        topic = record.topic
        # Later records are not outdone by a load any more, and the claim has checked the earlier ones.
        loading = self.phase in (OwningPhase.FOLLOWING, OwningPhase.LOADING)
        if loading:
            self._aside.pop((topic, key), None)
            self._newer.pop((topic, key), None)
        try:
            self._on_key_of_state(record, now_ms)
        except NewerFormat as error:
            if not loading:
                raise
            self._newer[topic, key] = error

    def _on_key_of_state(self, record: JobRecord, now_ms: int) -> None:
        topic, key, value = record.topic, record.key or b"", record.value
        if topic == self._names.sessions and is_generation_key(key):
            try:
                self._generations.on_record(value, now_ms, self.phase)
            except UnreadableState as error:
                self.set_aside(record, str(error), NOT_UNDERSTOOD)
            return
        try:
            text = self._check_key[topic](key)
        except UnreadableState as error:
            self._strange_keys.pop((topic, key), None)
            if value is not None:
                self.set_aside(record, str(error), NOT_UNDERSTOOD)
                self._strange_keys[topic, key] = None
            return
        try:
            self._on_state(topic, text, value, record.said, now_ms)
        except UnreadableState as error:
            self.set_aside(record, str(error), NOT_UNDERSTOOD)
            self._overwrite(topic, key)

    def _overwrite(self, topic: str, key: bytes) -> None:
        """Overwrite a state topic's key whose newest record is invalid: our record, or a null, is written after it."""
        try:
            text = self._check_key[topic](key)
        except UnreadableState:
            self._strange_keys[topic, key] = None
            return
        if self.phase is OwningPhase.OWNED:
            self.engine.rewrite(topic, text, was_null=False)
        else:
            self._to_rewrite[topic, text] = None

    def _on_state(self, topic: str, key: str, value: bytes | None, said: object, now_ms: int) -> None:
        if self.phase is OwningPhase.OWNED:
            newest_format = FORMAT_WITH_CHANNELS if topic == self._names.registrations else FORMAT
            if value is None or generation_of(value, now_ms, newest_format=newest_format) < self._generations.claimed:
                self.engine.rewrite(topic, key, was_null=value is None)
            return
        record: RegistrationsRecord | SessionRecord | ChannelsRecord | None
        ended_by = said.by if value is None and isinstance(said, EndedByHeaders) else 0
        check_generation(ended_by, now_ms)
        if topic == self._names.registrations:
            record = None if value is None else parse_registrations(value, now_ms)
            newest = self._buckets.merge(key, record, ended_by)
        elif topic == self._names.channels_state:
            record = None if value is None else parse_channels(value, now_ms)
            newest = self._logs.merge(key, record)
        else:
            record = None if value is None else parse_session(value, now_ms, inboxes=self._cluster.inboxes)
            newest = self._sessions.merge(key, record, ended_by)
        if newest:
            self._to_rewrite.pop((topic, key), None)
        else:
            self._to_rewrite[topic, key] = None
        if self.phase is not OwningPhase.CLAIMING:
            self._generations.saw(ended_by if record is None else record.generation)


def _set_aside(topic: str, why: str) -> str:
    """Returns the engine's name of the event, for `metrics.count`."""
    return f"set_aside:{topic}:{why}"


def _inbox_writes(notifications: str, step: Step) -> Iterable[ProducedRecord]:
    return (ProducedRecord(notifications, inbox, None, record.SerializeToString()) for inbox, record in step.inboxes)
