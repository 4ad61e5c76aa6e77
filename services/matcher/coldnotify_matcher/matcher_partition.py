"""A partition of the matcher's job: handles its records while it is loaded, claimed and owned, around its engine."""

from collections.abc import Callable, Iterable, Sequence

from coldnotify_schemas import internal_pb2
from coldnotify_streams.core.events import JobRecord, LogBlock, Takeover, UnreadableOffsets
from coldnotify_streams.core.job import NOT_UNDERSTOOD, RAISED, At, Ends, JobPartition, Outputs
from coldnotify_streams.core.partition_progress import OwningPhase
from coldnotify_streams.core.partition_turns import Spent

from coldnotify_matcher.channel_logs import ChannelLogs
from coldnotify_matcher.engine import Engine, ProducedRecord, Rules, Step
from coldnotify_matcher.engine.streams.end_history import EndHistory
from coldnotify_matcher.engine.tenants.use import Use
from coldnotify_matcher.epoch import requests_epoch_of
from coldnotify_matcher.generations import Generations
from coldnotify_matcher.record_headers import NOTHING_SAID, HeadedObjectRecord, SaidByHeaders
from coldnotify_matcher.request_records import parse_request
from coldnotify_matcher.run_topics import Cluster
from coldnotify_matcher.state_records import (
    UnreadableState,
)
from coldnotify_matcher.stored_state import StoredState

_NOTHING_IS_FRESH = 1 << 63
"""Committed offset of objects until this matcher loads the partition: its owner rejects and moves records, not this
one."""
_NEED_BARRIER = frozenset(("open", "register", "sync", "catch_up", "is_there", "ask_outcome", "receive", "describe"))
"""Requests whose answer promises the newest version, or one behind it, or that nothing was published, or a record's
outcome."""


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

        `unfinished`: contains the numbers of the partitions with work for further turns.
        """
        super().__init__(number, cluster.topics)
        self.engine = Engine(number, cluster.partitions, cluster.epoch, registrations_max=registrations_max)
        if rules is not None:
            self.engine.state.rules = rules
        self.engine.state.descriptions.follow_requests(requests_epoch_of(cluster.requests_topic_id))
        self._names = names = self.engine.state.rules.topics
        self._objects = names.objects
        self._logs = ChannelLogs(self.engine, cluster.logs)
        self._traced = traced
        self._unfinished = set() if unfinished is None else unfinished
        self._unfinished.discard(number)
        self._cluster = cluster
        self._generations = Generations(number, names.sessions, cluster, owner)
        self._stored = StoredState(number, cluster, self.engine, self._logs, self._generations)
        self.engine.loading.start(_NOTHING_IS_FRESH)
        self._takeover_told = False
        """True if the step that tells gateways of the takeover was taken."""
        self._marked = not cluster.shares
        """True if this matcher has written its marker to the topic of shares, or there is none."""
        self.engine.state.shares.offered = cluster.shares
        self._requests_ends = EndHistory()
        self._requests_end = 0
        """The end of the requests at the takeover."""

    @property
    def waits(self) -> bool:
        """True until it has read back a marker that it wrote to the topic of shares behind its takeover.

        What a predecessor has sent to gateways before they heard of the takeover was durable before, and is in front of
        the marker: with that, the shares are whole. What it sends later no gateway passes on.
        """
        return self._cluster.shares and not self.engine.state.shares.served

    def on_load(self, takeover: Takeover) -> None:
        """Begin to load: this matcher rejects and moves objects from the committed offset on."""
        self.engine.loading.start(takeover.table_committed)

    @property
    def at(self) -> At:
        """The record or client that the engine is handling."""
        return self.engine.state.at

    @property
    def position(self) -> int:
        """The next offset of the objects topic."""
        return self.engine.state.position

    @property
    def table_done(self) -> int:
        """The offset of the objects topic up to which all is fanned out."""
        return self.engine.objects_done

    @property
    def first_not_stored(self) -> int | None:
        """Offset of the first request that a successor has to handle again: its session's record waits, or a kept
        cursor that it has moved, or a patch."""
        state = self.engine.state
        waiting = (state.brief.first_offset, state.kept_cursors.first_offset, state.patches.first_offset)
        return min((offset for offset in waiting if offset is not None), default=None)

    @property
    def clients(self) -> int:
        """Number of known clients."""
        return len(self.engine.state.clients) or self._stored.clients

    @property
    def about(self) -> dict[str, object]:
        """Its generation, and its numbers of objects and clients."""
        state = self.engine.state
        return {"generation": state.generation, "objects": len(state.objects), "clients": len(state.clients)}

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
            self.engine.intake.on_end(offset)
        elif topic in self._logs:
            self._logs.on_end(topic, offset)
        self.behind.discard(topic)
        self.note_progress(topic, offset)

    def on_record(self, record: JobRecord, now_ms: int) -> None:
        """Handle one record of a compacted topic, or of a log. Raises TakenOver, or the exception of a handler."""
        topic, _, offset, _, key, value, timestamp_ms, said = record
        if topic == self._objects:
            rejected_for, said = (said, None) if said.__class__ is str else ("", said)
            moved, traceparent, *others = said or NOTHING_SAID
            if traceparent and self._traced is not None and self.phase is OwningPhase.OWNED:
                traceparent = self._traced(record, traceparent)
            # Each is made here, a hundred thousand after a long log: through its class it would take three times as
            # long.
            fields = (key, value, offset, timestamp_ms, moved, traceparent, *others)
            if rejected_for:
                self.engine.intake.reject_object(tuple.__new__(HeadedObjectRecord, fields), rejected_for)
            else:
                self.engine.on_object(tuple.__new__(HeadedObjectRecord, fields), now_ms)
        elif topic in self._logs:
            self._logs.on_record(record, now_ms)
        elif key is not None:
            self._stored.on_record(record, key, now_ms, self.phase)
        self.note_progress(topic, offset + 1)

    def prepare(self, record: JobRecord) -> bool:
        """Returns true if everything is evaluated for the change by a record of the objects topic."""
        if record.topic != self._objects or not self.engine.state.members.sets.any_dear:
            return True
        raw = isinstance(record.said, SaidByHeaders) and record.said.raw
        return self.engine.ahead.prepare(record.key, record.value, record.timestamp_ms, self.turn, raw=raw)

    def skip(self, record: JobRecord, reason: str) -> None:
        """Skip one record that is set aside: it counts as read, and has no other effect."""
        if record.topic == self._objects:
            self.engine.intake.skip_object(record.key, record.offset)
        elif record.topic in self._logs:
            self._logs.skip(record)
        else:
            self._stored.skip(record, self.phase)
        self.set_aside(record, reason, RAISED)
        self.note_progress(record.topic, record.offset + 1)

    def on_unreadable(self, gap: UnreadableOffsets) -> None:
        """Skip offsets that cannot be read: the first of them is named in the rejected topic, unless a predecessor has
        done so."""
        topic, told = gap.topic, True
        if topic == self._objects:
            told = gap.start >= self.engine.state.replay_from
            self.engine.intake.on_end(gap.next)
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
        self._stored.aside.add(record, reason, why, owned=self.phase is OwningPhase.OWNED)

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
            self.engine.state.rules.clocks.heard(f"gateway {request.gateway:016x}", record.timestamp_ms)
        return request

    def needs_barrier(self, request: internal_pb2.Request) -> bool:
        """Returns true if its answer promises the newest version, or if a will follows what its client published."""
        kind = request.WhichOneof("body")
        return kind in _NEED_BARRIER or (kind == "leave" and request.leave.will == internal_pb2.WILL_PUBLISH)

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

    @property
    def wants_ends(self) -> bool:
        """True if gateways have sessions here, which are told how fresh they are."""
        return any(gateway.sessions for gateway in self.engine.state.gateways.values())

    @property
    def wants_ends_of_requests(self) -> bool:
        """True if there are shares: a lease ends as of a time up to which all requests are handled."""
        return bool(self.engine.state.shares.by_key)

    def on_end_seen(self, topic: str, at_s: float, end: int) -> None:
        """Note where a topic ended at a time."""
        if topic == self.topics.requests:
            self._requests_ends.seen(at_s, end)
            return
        ends = self.engine.state.ends if topic == self._objects else self._logs.ends(topic)
        ends.seen(at_s, end)

    def on_requests(self, requests: Sequence[tuple[int, internal_pb2.Request]], now_ms: int) -> int:
        """Handle a batch of (offset, request), in order, for as long as the turn lasts. Returns the number of handled
        ones."""
        handled = self.engine.on_requests(requests, now_ms, self.turn)
        self._note_unfinished()
        return handled

    def begin_turn(self, turn: Spent, now_s: float) -> None:
        """Begin a turn at a time (monotonic), which `turn` says to be over."""
        super().begin_turn(turn, now_s)
        state = self.engine.state
        state.now_s = now_s
        if self.waits and self._stored.marker_is_read:
            self._stored.serve_shares(
                self.takeover,
                max(self._requests_end, self._requests_ends.newest, self.requests_read),
                topic_changed=self.requests_topic_changed,
            )

    def flush(self, now_ms: int) -> None:
        """Fan out publishes that were held back until now."""
        self.engine.flush(now_ms, self.turn)
        self._note_unfinished()

    def _note_unfinished(self) -> None:
        if self.engine.unfinished or self.engine.steps_on or self._has_to_mark:
            self._unfinished.add(self.number)
        else:
            self._unfinished.discard(self.number)

    def next_due_ms(self) -> int | None:
        """Returns the time at which a held publish is to be fanned out (Unix time); None: none is held."""
        return 0 if self._has_to_mark else self.engine.next_due_ms()

    @property
    def _has_to_mark(self) -> bool:
        return self._takeover_told and not self._marked

    def on_tick(self, now_ms: int) -> None:
        """Tell the engine that about a second has passed."""
        self.engine.on_tick(now_ms)

    def take_step(self, now_ms: int) -> Outputs:
        """Returns the engine's step and repairs; then seals; then tombstones and inbox records."""
        age_ms = self._requests_ends.age_ms(self.requests_tried, self.engine.state.now_s)
        if age_ms is not None:
            self.engine.state.shares.as_of_ms = self.engine.state.steady_ms - age_ms
        step = self.engine.take_step(now_ms)
        if self._has_to_mark:
            step.state.append(self._generations.marker(self._names.shares, self.requests_topic_changed))
            self._marked = True
        self._takeover_told = True
        self._note_unfinished()
        rest = [*step.tombstones, *_inbox_writes(self._names.notifications, step)]
        seals = [*step.seals, *([self.claim_again()] if step.fence else [])]
        return Outputs([*step.state, *self.take_repairs()], rest, seals)

    def claim_again(self) -> ProducedRecord:
        """Returns the record that states the claim again."""
        return self._generations.claim_again(self.requests_topic_changed)

    def take_counts(self) -> dict[str, int]:
        """Returns the engine's events since the last call."""
        counts, self.engine.state.counts = self.engine.state.counts, {}
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
        self._stored.refuse_newer()
        self.phase = OwningPhase.CLAIMING
        return self._generations.claim(self.requests_topic_changed)

    def take_repairs(self) -> list[ProducedRecord]:
        """Returns records for the topics beside the engine's step.

        These are the records that were set aside, tombstones of invalid keys, and the claim again if it was
        overwritten.
        """
        if self.phase is not OwningPhase.OWNED:
            return []
        heard = self.engine.state.generation_heard if self.engine.state.outdone else None
        return self._stored.take_repairs() + self._generations.take_repairs(heard, self.requests_topic_changed)

    @property
    def must_claim_again(self) -> bool:
        """True if another matcher's claim came first."""
        return self.phase is OwningPhase.CLAIMING and self._generations.is_outdone

    def own(self, now_ms: int, ends: Ends) -> None:
        """Build the state and take over: everything is loaded and claimed."""
        self._requests_end = ends.requests
        self._stored.load(ends, self.takeover, now_ms, topic_changed=self.requests_topic_changed)
        takeover = self.takeover
        committed = None if takeover is None or not takeover.table_in_epoch else takeover.table_committed
        self.engine.state.descriptions.begin_requests(ends.requests)
        self.engine.finish_load(
            self._generations.claimed,
            self._cluster.inboxes,
            now_ms,
            objects_committed=committed,
            requests_start=None if takeover is None else takeover.requests_start,
        )
        self.phase = OwningPhase.OWNED
        self._stored.rewrite()


def _inbox_writes(notifications: str, step: Step) -> Iterable[ProducedRecord]:
    return (ProducedRecord(notifications, inbox, None, record.SerializeToString()) for inbox, record in step.inboxes)
