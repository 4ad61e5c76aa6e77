"""One run of the matcher: from joining the group until it is stopped or something fails.

The order of a step, which must not be changed: (1) state records, repaired, moved and rejected records are durable,
(2) then tombstones of moved strays and the gateways' inbox records, in the engine's order, are durable, (3) then the
offsets of both inputs may be committed, together. Any delivery failure ends the run: the next loads what is durable.

What a single record makes its handler raise ends nothing but the present load of its partition (faults.py).
"""

import gc
import queue
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter

import structlog
from coldnotify_common.errors import ServiceError
from coldnotify_common.kafka import admin_config, consumer_config
from coldnotify_common.stop import StopFlag
from coldnotify_common.tracing import Attributes, Span, Tracer
from coldnotify_schemas import internal_pb2, topics
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from coldnotify_matcher import metrics
from coldnotify_matcher.commits import Commits
from coldnotify_matcher.engine import Step, Write
from coldnotify_matcher.errors import Failure
from coldnotify_matcher.faults import NEWER_RETRY_S, Faults, Place
from coldnotify_matcher.log_ends import log_ends, log_starts
from coldnotify_matcher.partition import (
    COMPACTED,
    NOT_UNDERSTOOD,
    Cluster,
    Ends,
    Partition,
    PendingRequests,
    Phase,
    TakenOver,
)
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
    Rewound,
)
from coldnotify_matcher.request_records import parse_request
from coldnotify_matcher.settings import MatcherSettings
from coldnotify_matcher.standby import Standby
from coldnotify_matcher.state_records import NewerFormat, Unreadable
from coldnotify_matcher.step_bell import StepBell
from coldnotify_matcher.topics_watch import TopicsWatch, check_topics, cluster_of
from coldnotify_matcher.writer import Refused, Writer

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

CAREFUL_A_TURN_MAX = 20
"""Records of a partition that are steps of their own, between two turns: all others wait meanwhile."""
TAKEN_OVER_RETRY_S = 3.0
"""A partition that somebody else has claimed is claimed again after this, if the group still gives it to this matcher.
By then one that is out of the group has heard so: it asks once a second."""
_ENDS_THE_RUN = (Failure, ServiceError)

_NEED_BARRIER = frozenset(("open", "register", "sync", "catch_up"))
"""Requests whose answer promises the newest version."""

_Bounds = tuple[dict[tuple[str, int], int], dict[tuple[str, int], int]]
"""By (topic, partition): the oldest offsets, and the next ones."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A partition of this matcher that is to be loaded anew."""

    assigned: Assigned
    due_s: float


class Worker:
    """Serves the partitions that the group assigns to this matcher."""

    def __init__(self, settings: MatcherSettings, stop: StopFlag, tracer: Tracer | None = None) -> None:
        self._tracer = tracer
        self._spans: list[Span] = []
        """Of the publishes that this step handles."""
        self.lock = threading.RLock()
        """Held while partitions change: looking in from another thread takes it."""
        self.bell = StepBell()
        """Rings in each step once its records are taken in."""
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
        self._faults: dict[int, Faults] = {}
        """By partition, where there have been any in this run."""
        self._waiting: dict[int, _Waiting] = {}
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
        # What waits is told by an alert: this process serves all that it can, and a new one could do no more.
        loading = sorted(assigned - owned - set(self._waiting))
        if loading:
            return f"partitions {loading} are being loaded"
        self.was_ready = True
        return None

    def run(self) -> None:
        """Serve until `stop` is set. Raises Failure, KafkaException, ServiceError.

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
                    self._load(event, bounds)
                elif isinstance(event, Records):
                    touched |= self._on_records(event.records, now_ms)
                elif isinstance(event, Began):
                    if event.partition in self.partitions:
                        self.partitions[event.partition].reading = True
                elif isinstance(event, Rewound):
                    if event.partition in self.partitions:
                        self.partitions[event.partition].requests_reading = True
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
            ends = self._ends_of([partition for partition in concerned if partition.claimed])
            for partition in concerned:
                with self._fault_of(partition):
                    self._advance(partition, now_ms, ends, tick=tick)
            self.bell.ring()
            owned = [p for p in concerned if self._serves(p)]
            self._make_durable(owned, now_ms)
            self._load_what_waited()
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
        touched |= {n for n, faults in self._faults.items() if faults.careful}
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
        if any(faults.careful and number in self.partitions for number, faults in self._faults.items()):
            return 0.001
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

    def _load_what_waited(self) -> None:
        """Begin to load anew what has waited long enough."""
        now_s, ours = time.monotonic(), self._requests.assigned or ()
        due = [one.assigned for n, one in self._waiting.items() if one.due_s <= now_s and n in ours]
        bounds = self._bounds(event.partition for event in due)
        for event in due:
            self._load(event, bounds)
        metrics.PARTITIONS_WAITING.set(len(self._waiting))

    def _load(self, event: Assigned, bounds: _Bounds) -> None:
        assert self._cluster is not None
        number = event.partition
        again = self._waiting.pop(number, None) is not None
        starts, ends = ({topic: offsets[topic, number] for topic in COMPACTED} for offsets in bounds)
        partition = None if self._standby is None else self._standby.take(number)
        if partition is None or not partition.can_load_on(starts, ends, event.objects_committed):
            partition = Partition.following(
                number, self._cluster, self._owner, registrations_max=self._settings.registrations_max
            )
        offsets = partition.load(starts, ends, event.objects_committed)
        partition.requests_start, partition.requests_committed = event.requests_start, event.requests_committed
        partition.committed_in_epoch = event.committed_in_epoch
        partition.requests_reading = not again
        # Offsets that this run has noted are of the topic as it is, whatever a claim says that a stranger has made.
        partition.requests_topic_known = self._commits.noted(topics.REQUESTS, number) is not None
        if number in self._faults:
            partition.clients_aside = frozenset(self._faults[number].clients)
        self.partitions[number] = partition
        if again:
            metrics.PARTITION_RELOADS.inc()
            self._requests.rewind(number, event.requests_start)
        beginnings = [TopicPartition(topic, number, offset) for topic, offset in offsets.items()]

        def begin(consumer: Consumer) -> None:
            consumer.incremental_assign(beginnings)
            self._compacted.put(Began(number))

        self._compacted.do(begin)
        records = sum(ends.values()) - sum(offsets.values())
        log.info("partition assigned", partition=number, followed=partition.warm, records_to_load_max=records)

    def _on_revoked(self, event: Revoked) -> None:
        gone = [number for number in event.partitions if number in self.partitions or number in self._waiting]
        for number in gone:
            self.partitions.pop(number, None)
            self._waiting.pop(number, None)
            self._faults.pop(number, None)
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
            if record.topic == topics.REQUESTS and not partition.requests_reading:
                continue  # it comes again, from where the partition is loaded anew
            touched.add(number)
            try:
                if record.end:
                    partition.on_end(record.topic, record.offset)
                elif self._faults and self._is_set_aside(partition, record):
                    continue
                elif record.topic == topics.REQUESTS:
                    self._on_request(partition, record, requests, now_ms)
                else:
                    if record.traceparent and partition.phase is Phase.OWNED:
                        record = self._traced(record)
                    partition.on_record(record, now_ms)
                    if self._faults and record.topic == topics.OBJECTS:
                        self._be_careful(partition, (record.topic, record.offset), now_ms)
            except _ENDS_THE_RUN:
                raise
            except Exception as error:
                self._on_fault(partition, error, sure=(record.topic, record.offset))
            if self.partitions.get(number) is not partition:
                requests.pop(number, None)
        self._wait_for_objects(requests)
        return touched

    def _on_request(
        self,
        partition: Partition,
        record: Record,
        requests: dict[int, list[tuple[int, internal_pb2.Request]]],
        now_ms: int,
    ) -> None:
        cluster = self._cluster
        assert cluster is not None
        partition.requests_position = record.offset + 1
        try:
            request = parse_request(
                record.value or b"",
                partition=partition.number,
                partitions=cluster.partitions,
                inboxes=cluster.inboxes,
                now_ms=now_ms,
            )
        except Unreadable as error:
            partition.set_aside(record, str(error), NOT_UNDERSTOOD)
            return
        requests.setdefault(partition.number, []).append((record.offset, request))

    def _wait_for_objects(self, requests: Mapping[int, list[tuple[int, internal_pb2.Request]]]) -> None:
        """They are handled once the objects topic is read as far as it goes now."""
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
        claims = []
        for partition in loaded:
            with self._fault_of(partition):
                claims.append(partition.claim())
        if claims:
            self._writer.write(claims)
            self._writer.flush()

    def _tick_due(self) -> bool:
        now_s = time.monotonic()
        if now_s - self._ticked_at_s < TICK_S:
            return False
        self._ticked_at_s = now_s
        return True

    def _advance(self, partition: Partition, now_ms: int, ends: Mapping[int, Ends], *, tick: bool) -> None:
        """Whatever the partition can do with what it has."""
        if partition.number in ends:
            self._take_over(partition, now_ms, ends[partition.number])
        if partition.phase is not Phase.OWNED:
            return
        engine = partition.engine
        engine.flush(now_ms)
        while partition.pending and engine.position >= partition.pending[0].barrier:
            if partition.number in self._faults and self._faults[partition.number].careful:
                if not self._handle_carefully(partition, now_ms):
                    return
                break
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

    def _take_over(self, partition: Partition, now_ms: int, ends: Ends) -> None:
        partition.engine.rules = self._rules
        partition.own(now_ms, ends)
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

    # ---- faults --------------------------------------------------------------------------------------------------

    def _serves(self, partition: Partition) -> bool:
        return partition.phase is Phase.OWNED and self.partitions.get(partition.number) is partition

    @contextmanager
    def _fault_of(self, partition: Partition, single: Place | None = None) -> Iterator[None]:
        """What is raised in here is a fault of this partition, but for what ends the run."""
        try:
            yield
        except _ENDS_THE_RUN:
            raise
        except Exception as error:
            at = partition.engine.at
            request = at if isinstance(at, tuple) and at[0] == topics.REQUESTS else None
            self._on_fault(partition, error, sure=single or request)

    def _on_fault(self, partition: Partition, error: Exception, *, sure: Place | None) -> None:
        """The partition is to be loaded anew, without what is to blame."""
        number = partition.number
        if self.partitions.get(number) is not partition:
            return  # it is already
        if isinstance(error, TakenOver):
            wait_s = TAKEN_OVER_RETRY_S
            log.warning("partition dropped", partition=number, reason=str(error), again_in_s=wait_s)
        elif isinstance(error, NewerFormat):
            wait_s = NEWER_RETRY_S
            log.error("partition not served", partition=number, reason=str(error), retry_in_s=wait_s)
        else:
            faults = self._faults.setdefault(number, Faults())
            suspect, positions = partition.engine.at, _positions(partition)
            wait_s = faults.note(error, sure=sure, suspect=suspect, positions=positions, now_s=time.monotonic())
            log.error(
                "partition is loaded anew", partition=number, at=sure or suspect, in_s=wait_s, exc_info=error,
            )  # fmt: skip
        del self.partitions[number]
        compacted = [TopicPartition(topic, number) for topic in COMPACTED]
        self._compacted.do(lambda consumer: consumer.incremental_unassign(compacted))
        self._requests.hold_back(number)
        requests = noted = self._commits.noted(topics.REQUESTS, number)
        objects = self._commits.noted(topics.OBJECTS, number)
        if requests is None:
            requests = 0 if partition.requests_topic_changed else partition.requests_start
        assigned = Assigned(
            number,
            requests,
            partition.load_objects_committed if objects is None else objects,
            partition.requests_committed or noted is not None,
            partition.committed_in_epoch or objects is not None,
        )
        self._waiting[number] = _Waiting(assigned, time.monotonic() + wait_s)

    def _on_refused(self, refused: Refused, single: Place | None) -> None:
        number = refused.partition
        if refused.topic == topics.NOTIFICATIONS:
            number = internal_pb2.Inbox.FromString(refused.value or b"").partition
        partition = self.partitions.get(number)
        if refused.topic == topics.REJECTED or partition is None:
            log.error("a record is lost that Kafka does not take", topic=refused.topic, error=refused.error)
            return
        self._on_fault(partition, ValueError(f"{refused.topic} does not take a record: {refused.error}"), sure=single)

    def _is_set_aside(self, partition: Partition, record: Record) -> bool:
        faults = self._faults.get(partition.number)
        reason = None if faults is None else faults.records.get((record.topic, record.offset))
        if reason is None:
            return False
        partition.skip(record, reason)
        return True

    def _be_careful(self, partition: Partition, record: Place, now_ms: int) -> None:
        """After a record of the objects topic: where it may be one that a step failed of, it is a step of its own."""
        faults = self._faults.get(partition.number)
        if faults is not None and faults.careful and partition.phase is Phase.OWNED:
            self._write_steps([partition], now_ms, record)

    def _handle_carefully(self, partition: Partition, now_ms: int) -> bool:
        """Some of its requests, each as a step of its own. False: one has failed."""
        self._write_steps([partition], now_ms, None)  # so that what follows is to blame for what it says alone
        for _ in range(CAREFUL_A_TURN_MAX):
            if not partition.pending or partition.engine.position < partition.pending[0].barrier:
                break
            batch = partition.pending[0].requests
            offset, request = batch.pop(0)
            if not batch:
                partition.pending.popleft()
            with self._fault_of(partition, (topics.REQUESTS, offset)):
                partition.engine.on_requests([(offset, request)], now_ms)
                self._write_steps([partition], now_ms, (topics.REQUESTS, offset))
            if not self._serves(partition):
                return False
        return True

    def _ends_of(self, claimed: list[Partition]) -> dict[int, Ends]:
        """Where the inputs of these partitions end now; what a predecessor wrote is below that."""
        if not claimed:
            return {}
        asked = [(topic, p.number) for p in claimed for topic in (topics.REQUESTS, topics.OBJECTS)]
        ends = log_ends(self._admin, asked, uncommitted=True)
        return {p.number: Ends(ends[topics.REQUESTS, p.number], ends[topics.OBJECTS, p.number]) for p in claimed}

    # ---- output --------------------------------------------------------------------------------------------------

    def _make_durable(self, owned: list[Partition], now_ms: int) -> None:
        """Take their steps, and have all of them written: what they have handled may be committed then."""
        for partition in self._write_steps(owned, now_ms, None):
            self._commits.note(partition)
            if self._faults and partition.number in self._faults:
                self._faults[partition.number].reached(_positions(partition))

    def _write_steps(self, owned: list[Partition], now_ms: int, single: Place | None) -> list[Partition]:
        """Returns those whose step is durable. `single`: the only record that the steps come from."""
        taken: list[_Step] = []
        for partition in owned:
            with self._fault_of(partition, single):
                step = partition.engine.take_step(now_ms)
                rest = [*step.tombstones, *_inbox_writes(step)]
                taken.append(_Step(partition, [*step.state, *partition.take_repairs()], rest))
        taken = self._write(taken, attrgetter("state"), single)
        taken = self._write(taken, attrgetter("rest"), single)
        for one in taken:
            _count(one.partition)
        return [one.partition for one in taken]

    def _write(
        self, steps: list["_Step"], part: Callable[["_Step"], list[Write]], single: Place | None
    ) -> list["_Step"]:
        """Write one part of each step. Returns the steps whose part is durable."""
        if not any(part(step) for step in steps):
            return steps
        for step in steps:
            with self._fault_of(step.partition, single):
                self._writer.write(part(step))
        self._writer.flush()
        for refused in self._writer.take_refused():
            self._on_refused(refused, single)
        return [step for step in steps if self._serves(step.partition)]

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
        metrics.PARTITIONS_WAITING.set(0)
        self._writer.close()


@dataclass(frozen=True, slots=True)
class _Step:
    """One partition's, in the order in which it must become durable."""

    partition: Partition
    state: list[Write]
    rest: list[Write]
    """Tombstones, then inbox records."""


def _inbox_writes(step: Step) -> Iterable[Write]:
    return (Write(topics.NOTIFICATIONS, inbox, None, record.SerializeToString()) for inbox, record in step.inboxes)


def _positions(partition: Partition) -> dict[str, int]:
    """By topic, up to which offset the inputs have been handled, or are being handled."""
    requests = partition.requests_start if partition.requests_position is None else partition.requests_position
    return {topics.REQUESTS: requests, topics.OBJECTS: partition.engine.position}


def _count(partition: Partition) -> None:
    counts, partition.engine.counts = partition.engine.counts, {}
    for name, by in counts.items():
        metrics.count(name, by)
