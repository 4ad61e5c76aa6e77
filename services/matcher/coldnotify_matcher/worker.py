"""One run of the matcher: from joining the group until it is stopped or something fails.

The order of a step, which must not be changed: (1) state records, repaired, moved and rejected records are durable,
(2) then tombstones of moved strays and the gateways' inbox records, in the engine's order, are durable, (3) then the
offsets of both inputs may be committed, together. Any delivery failure ends the run: the next loads what is durable.
"""

import gc
import queue
import secrets
import threading
import time
from collections.abc import Iterable, Mapping

import structlog
from coldnotify_common.errors import ServiceError
from coldnotify_common.kafka import admin_config, consumer_config
from coldnotify_common.stop import StopFlag
from coldnotify_common.tracing import Attributes, Span, Tracer
from coldnotify_schemas import internal_pb2, topics
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from google.protobuf.message import DecodeError

from coldnotify_matcher import metrics
from coldnotify_matcher.commits import Commits
from coldnotify_matcher.engine import Step, Write
from coldnotify_matcher.errors import Failure
from coldnotify_matcher.log_ends import log_ends, log_starts
from coldnotify_matcher.partition import COMPACTED, Cluster, Partition, PendingRequests, Phase
from coldnotify_matcher.readers import (
    QUEUE_BATCHES_MAX,
    Assigned,
    Began,
    Event,
    Failed,
    Reader,
    Record,
    Records,
    RequestsReader,
    Revoked,
)
from coldnotify_matcher.settings import MatcherSettings
from coldnotify_matcher.standby import Standby
from coldnotify_matcher.topics_watch import TopicsWatch, check_topics, cluster_of
from coldnotify_matcher.writer import Writer

log = structlog.get_logger()

TICK_S = 1.0
HUNG_AFTER_S = 120.0
"""A step that takes so long waits for something that does not come: even its three flushes give up before."""
BARRIER_TIMEOUT_S = 60.0
"""A reader of the objects topic that does not get to where its end was so long ago is stuck."""
PENDING_REQUESTS_MAX = 20_000
"""Of a partition, that wait for the objects topic: a second's worth at a rate that a matcher is not made for. Above it
the reader leaves the further ones in Kafka until half are done, so that a stuck topic costs time and not memory."""
EVENTS_A_STEP_MAX = 64
GC_THRESHOLDS = (10_000, 20, 10)
"""Of Python's garbage collector. A batch is thousands of tuples, which go without it; the default of 700 has it look
through them several times a batch, and now and then through all clients: 0.2 s without a publish for 60,000 of them."""
CLOSE_TIMEOUT_S = 5.0
"""For the consumers to commit and to close. Kafka may be away, and the process does not wait for it."""

_NEED_BARRIER = frozenset(("open", "register", "sync", "catch_up"))
"""Requests whose answer promises the newest version."""

_Bounds = tuple[dict[tuple[str, int], int], dict[tuple[str, int], int]]
"""By (topic, partition): the oldest offsets, and the next ones."""


class Worker:
    """Serves the partitions that the group assigns to this matcher."""

    def __init__(self, settings: MatcherSettings, stop: StopFlag, tracer: Tracer | None = None) -> None:
        self._tracer = tracer
        self._spans: list[Span] = []
        """Of the publishes that this step handles."""
        self.lock = threading.RLock()
        """Held while partitions change: looking in from another thread takes it."""
        self.partitions: dict[int, Partition] = {}
        self.was_ready = False
        """Whether this run ever served all it had."""
        self._settings = settings
        self._rules = settings.rules()
        self._owner = f"{settings.matcher_id}:{secrets.token_hex(4)}"
        self._admin = AdminClient(admin_config(settings))
        self._writer = Writer(settings, stop)
        self._commits = Commits()
        self._events: queue.Queue[Event] = queue.Queue(QUEUE_BATCHES_MAX)
        self._requests = RequestsReader(
            consumer_config(
                settings,
                settings.matcher_group,
                name="requests-reader",
                group_instance_id=settings.matcher_id,
                session_timeout_ms=settings.matcher_session_timeout_ms,
                heartbeat_interval_ms=max(300, settings.matcher_session_timeout_ms // 6),
                partition_assignment_strategy="cooperative-sticky",
                fetch_wait_max_ms=100,
                on_commit=self._commits.on_commit,
            ),
            self._events,
            self._admin,
            self._check_topics,
        )
        self._compacted = Reader(
            "compacted-reader",
            consumer_config(
                settings,
                f"{settings.matcher_group}-state",
                name="compacted-reader",
                enable_partition_eof=True,
                fetch_wait_max_ms=100,
            ),
            self._events,
        )
        self._cluster: Cluster | None = None
        self._standby: Standby | None = None
        self._ticked_at_s = 0.0
        self._stepped_s = time.monotonic()
        """When the last step began."""
        self._stop = stop
        self._watch: TopicsWatch | None = None
        self._closing = False

    @property
    def followed(self) -> Mapping[int, Partition]:
        """The partitions of others that the warm standby follows."""
        return {} if self._standby is None else self._standby.partitions

    def readiness(self) -> str | None:
        """None when all assigned partitions are served, else what is missing."""
        if self._closing:
            return "stopping, or about to load anew"
        if self._watch is None:
            return "the topics are not known yet"
        if self._watch.kafka_away is not None:
            return self._watch.kafka_away
        still_s = time.monotonic() - self._stepped_s
        if still_s > HUNG_AFTER_S:
            return f"nothing has been done for {still_s:.0f} s"
        assigned = self._requests.assigned
        if assigned is None:
            return "the consumer group has assigned no partition yet"
        owned = {p.number for p in list(self.partitions.values()) if p.phase is Phase.OWNED}
        loading = sorted(assigned - owned)
        if loading:
            return f"partitions {loading} are being loaded"
        self.was_ready = True
        return None

    def run(self) -> None:
        """Serve until `stop` is set. Raises Failure, KafkaException, TakenOver, NewerFormat, ServiceError.

        Then all state is to be dropped.
        """
        gc.set_threshold(*GC_THRESHOLDS)
        self._writer.connect_soon()
        self._cluster = cluster_of(self._admin, self._settings.epoch_counter)
        metrics.PARTITIONS.set(self._cluster.partitions)
        if self._settings.matcher_standby:
            self._standby = Standby(self._settings, self._cluster, self._owner)
        self._watch = TopicsWatch(
            self._settings, self._admin, self._cluster, self._stop, self._requests, self.partitions, self.followed
        )
        self._requests.marks = self._commits.marks = self._cluster.marks
        self._requests.start()
        self._compacted.start()
        self._watch.start()
        clean = False
        try:
            while not self._stop.is_set():
                self._stepped_s = time.monotonic()
                self._turn()
            clean = True
        finally:
            self._close(commit=clean)

    def _check_topics(self) -> None:
        """Called by the requests reader's thread. Raises Failure."""
        assert self._cluster is not None
        try:
            check_topics(self._admin, self._settings.epoch_counter, self._cluster)
        except ServiceError as error:
            log.warning("topics cannot be looked at", error=str(error))  # the watch tries again

    def _turn(self) -> None:
        """Take what the readers have, handle it, make the outcome durable."""
        events = self._take_events()
        with self.lock:
            started_s = time.monotonic()
            now_ms = time.time_ns() // 1_000_000
            revoked = []
            touched: set[int] = set()
            bounds = self._bounds(event.partition for event in events if isinstance(event, Assigned))
            for event in events:
                if isinstance(event, Assigned):
                    self._on_assigned(event, bounds)
                elif isinstance(event, Records):
                    touched |= self._on_records(event.records, now_ms)
                elif isinstance(event, Began):
                    if event.partition in self.partitions:
                        self.partitions[event.partition].reading = True
                elif isinstance(event, Failed):
                    raise Failure(f"reading from Kafka: {event.error}") from event.error
                else:
                    revoked.append(event)
            self._claim()
            tick = self._tick_due()
            if tick:
                self._writer.poll()
            look_at_all = tick or not self._all_owned
            concerned = list(self.partitions.values()) if look_at_all else self._concerned(touched)
            for partition in concerned:
                self._advance(partition, now_ms, tick=tick)
            owned = [p for p in concerned if p.phase is Phase.OWNED]
            self._make_durable(owned, now_ms)
            if self._spans:
                self._end_spans()
            if look_at_all:
                metrics.PARTITIONS_OWNED.set(len(owned))
            if tick:
                self._show_intervals(owned)
            if events:
                metrics.STEP_SECONDS.observe(time.monotonic() - started_s)
            if due := self._commits.take_due():
                self._requests.commit_soon(due)
            for event in revoked:
                self._on_revoked(event)
            if self._standby is not None and self._cluster is not None and self._all_owned:
                if tick and self._requests.assigned is not None:
                    others = set(range(self._cluster.partitions)) - self.partitions.keys()
                    self._standby.follow(others - self._requests.assigned)
                self._standby.turn(now_ms)
        self._commits.check()

    def _concerned(self, touched: set[int]) -> list[Partition]:
        """Those that have something to do between two ticks. Looking at all eight took as long as a publish."""
        if self._rules.conflation.holds:
            touched |= {n for n, p in self.partitions.items() if p.engine.next_due_ms() is not None}
        return [self.partitions[number] for number in sorted(touched) if number in self.partitions]

    @property
    def _all_owned(self) -> bool:
        return all(partition.phase is Phase.OWNED for partition in self.partitions.values())

    def _take_events(self) -> list[Event]:
        followed_waits = self._standby is not None and self._standby.waiting and self._all_owned
        try:
            events = [self._events.get_nowait() if followed_waits else self._events.get(timeout=self._wait_s())]
        except queue.Empty:
            return []
        while len(events) < EVENTS_A_STEP_MAX and not isinstance(events[-1], Revoked):
            try:
                events.append(self._events.get_nowait())
            except queue.Empty:
                break
        return events

    def _wait_s(self) -> float:
        """Until a tick may be due, or a publish that is held back."""
        if not self._rules.conflation.holds:
            return TICK_S / 4
        due_ms = [d for p in self.partitions.values() if (d := p.engine.next_due_ms()) is not None]
        return min(TICK_S / 4, max(0.001, min(due_ms) / 1000 - time.time())) if due_ms else TICK_S / 4

    # ---- assignment ----------------------------------------------------------------------------------------------

    def _bounds(self, assigned: Iterable[int]) -> _Bounds:
        """Where the compacted topics of partitions that are assigned begin and end."""
        compacted = [(topic, number) for number in assigned for topic in COMPACTED]
        if not compacted:
            return {}, {}
        # Where they begin is asked for, too: told "at the beginning" librdkafka waits half a second before it asks.
        return log_starts(self._admin, compacted), log_ends(self._admin, compacted)

    def _on_assigned(self, event: Assigned, bounds: _Bounds) -> None:
        assert self._cluster is not None
        number = event.partition
        starts, ends = ({topic: offsets[topic, number] for topic in COMPACTED} for offsets in bounds)
        partition = None if self._standby is None else self._standby.take(number)
        if partition is None or not partition.can_load_on(starts, ends, event.objects_committed):
            partition = Partition.following(
                number, self._cluster, self._owner, registrations_max=self._settings.registrations_max
            )
        offsets = partition.load(starts, ends, event.objects_committed)
        partition.requests_start, partition.requests_committed = event.requests_start, event.requests_committed
        partition.committed_in_epoch = event.committed_in_epoch
        self.partitions[number] = partition
        beginnings = [TopicPartition(topic, number, offset) for topic, offset in offsets.items()]

        def begin(consumer: Consumer) -> None:
            consumer.incremental_assign(beginnings)
            self._compacted.put(Began(number))

        self._compacted.do(begin)
        records = sum(ends.values()) - sum(offsets.values())
        log.info("partition assigned", partition=number, followed=partition.warm, records_to_load_max=records)

    def _on_revoked(self, event: Revoked) -> None:
        gone = [number for number in event.partitions if self.partitions.pop(number, None) is not None]
        if not event.lost:
            event.offsets.extend(self._commits.last_of(gone))
        self._commits.forget(gone)
        compacted = [TopicPartition(topic, number) for number in gone for topic in COMPACTED]
        if compacted:
            self._compacted.do(lambda consumer: consumer.incremental_unassign(compacted))
        log.info("partitions given up", partitions=event.partitions, lost=event.lost)
        event.done.set()

    # ---- input ---------------------------------------------------------------------------------------------------

    def _on_records(self, records: Iterable[Record], now_ms: int) -> set[int]:
        """The numbers of the partitions that they are of."""
        touched: set[int] = set()
        requests: dict[int, list[tuple[int, internal_pb2.Request]]] = {}
        for record in records:
            number = record.partition
            partition = self.partitions.get(number)
            if partition is None:
                continue  # given up meanwhile
            if record.topic != topics.REQUESTS and not partition.reading:
                continue  # of an earlier assignment: what this one loads begins at the beginning
            touched.add(number)
            if record.end:
                partition.on_end(record.topic, record.offset)
            elif record.topic == topics.REQUESTS:
                request = _parse(record.value or b"")
                if request is not None:
                    requests.setdefault(number, []).append((record.offset, request))
                else:
                    log.warning("request not understood", partition=number, offset=record.offset)
                partition.requests_position = record.offset + 1
            else:
                if record.traceparent and partition.phase is Phase.OWNED:
                    record = self._traced(record)
                partition.on_record(record, now_ms)
        need = [n for n, batch in requests.items() if any(r.WhichOneof("body") in _NEED_BARRIER for _, r in batch)]
        # Of the log, also behind a transaction that is still open: what was acknowledged behind it is owed, too.
        asked = [(topics.OBJECTS, number) for number in need]
        barriers = log_ends(self._admin, asked, uncommitted=True) if need else {}
        for (_, number), end in barriers.items():
            if end < self.partitions[number].engine.position:
                # Answered from what was read of the old one, a wake would miss what the new one has by now.
                raise Failure("the objects topic ends below what was read of it: it was made anew")
        for number, batch in requests.items():
            barrier = barriers.get((topics.OBJECTS, number), 0)
            self.partitions[number].pending.append(PendingRequests(barrier, batch))
        return touched

    def _traced(self, record: Record) -> Record:
        """What the record leads to belongs to its span."""
        if self._tracer is None:
            return record
        about: Attributes = {
            "coldnotify.object": (record.key or b"").decode(errors="replace"),
            "coldnotify.partition": record.partition,
            "coldnotify.offset": record.offset,
        }
        span = self._tracer.begin("match", record.traceparent, about)
        self._spans.append(span)
        return record._replace(traceparent=span.traceparent)

    def _end_spans(self) -> None:
        spans, self._spans = self._spans, []
        for span in spans:
            span.end()

    def _claim(self) -> None:
        loaded = [p for p in self.partitions.values() if p.loaded or p.must_claim_again]
        if loaded:
            self._writer.write([partition.claim() for partition in loaded])
            self._writer.flush()

    def _tick_due(self) -> bool:
        now_s = time.monotonic()
        if now_s - self._ticked_at_s < TICK_S:
            return False
        self._ticked_at_s = now_s
        return True

    def _advance(self, partition: Partition, now_ms: int, *, tick: bool) -> None:
        """Whatever the partition can do with what it has."""
        if partition.claimed:
            self._take_over(partition, now_ms)
        if partition.phase is not Phase.OWNED:
            return
        engine = partition.engine
        engine.flush(now_ms)
        while partition.pending and engine.position >= partition.pending[0].barrier:
            engine.on_requests(partition.pending.popleft().requests, now_ms)
        if partition.pending and time.monotonic() - partition.pending[0].since_s > BARRIER_TIMEOUT_S:
            self._on_barrier_late(partition)
        self._bound_pending(partition)
        if tick:
            engine.on_tick(now_ms)

    def _on_barrier_late(self, partition: Partition) -> None:
        where = (topics.OBJECTS, partition.number)
        if partition.engine.position < log_ends(self._admin, [where])[where]:
            raise Failure(f"partition {partition.number}: the objects topic is not read any further")
        log.warning("requests wait for a transaction that is open on the objects topic", partition=partition.number)
        partition.pending[0].since_s = time.monotonic()

    def _bound_pending(self, partition: Partition) -> None:
        pending = partition.requests_pending
        if not partition.held_back and pending > PENDING_REQUESTS_MAX:
            partition.held_back = True
            self._requests.hold_back(partition.number)
            log.warning("requests held back, the objects topic is behind", partition=partition.number, pending=pending)
        elif partition.held_back and pending <= PENDING_REQUESTS_MAX // 2:
            partition.held_back = False
            self._requests.serve(partition.number, from_beginning=False)

    def _take_over(self, partition: Partition, now_ms: int) -> None:
        partition.engine.rules = self._rules
        partition.own(now_ms)
        seconds = time.monotonic() - partition.started_s
        metrics.TAKEOVER_SECONDS.labels("followed" if partition.warm else "loaded").observe(seconds)
        self._requests.serve(partition.number, from_beginning=partition.requests_topic_changed)
        log.info(
            "partition taken over",
            partition=partition.number,
            generation=partition.engine.generation,
            objects=len(partition.engine.objects),
            clients=len(partition.engine.clients),
            followed=partition.warm,
            seconds=round(seconds, 3),
        )

    # ---- output --------------------------------------------------------------------------------------------------

    def _make_durable(self, owned: list[Partition], now_ms: int) -> None:
        steps = [(partition, partition.engine.take_step(now_ms)) for partition in owned]
        state = [write for partition, step in steps for write in (*step.state, *partition.take_repairs())]
        if state:
            self._writer.write(state)
            self._writer.flush()
        if any(step.tombstones or step.inboxes for _, step in steps):
            for _, step in steps:
                self._writer.write(step.tombstones)
                self._writer.write(_inbox_writes(step))
            self._writer.flush()
        for partition, _ in steps:
            self._commits.note(partition)
            _count(partition)

    def _show_intervals(self, owned: list[Partition]) -> None:
        for domain in self._rules.conflation.entries:  # of the setting, so they stay few
            longest_ms = max((p.engine.conflation_interval_ms(domain) for p in owned), default=0)
            metrics.CONFLATION_INTERVAL_SECONDS.labels(domain).set(longest_ms / 1000)

    def _close(self, *, commit: bool) -> None:
        self._closing = True
        if commit:
            self._requests.final_offsets = self._commits.last_of(self.partitions)
        readers: list[Reader | Standby] = [self._requests, self._compacted]
        if self._standby is not None:
            readers.append(self._standby)
        for reader in readers:
            reader.stop()
        until_s = time.monotonic() + CLOSE_TIMEOUT_S
        for reader in readers:
            reader.join(max(0.0, until_s - time.monotonic()))
        with self.lock:
            self.partitions.clear()
        metrics.PARTITIONS_OWNED.set(0)
        self._writer.close()


def _parse(value: bytes) -> internal_pb2.Request | None:
    try:
        request = internal_pb2.Request.FromString(value)
    except DecodeError:
        return None
    return request if request.format == 1 and request.WhichOneof("body") is not None else None


def _inbox_writes(step: Step) -> Iterable[Write]:
    return (Write(topics.NOTIFICATIONS, inbox, None, record.SerializeToString()) for inbox, record in step.inboxes)


def _count(partition: Partition) -> None:
    counts, partition.engine.counts = partition.engine.counts, {}
    for name, by in counts.items():
        metrics.count(name, by)
