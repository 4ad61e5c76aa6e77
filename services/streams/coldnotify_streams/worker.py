"""Runs a `JobRun` over Kafka: its threads read, its producer writes, and its own thread executes the run's actions."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from coldnotify_common.errors import ServiceError
from coldnotify_common.kafka.kafka_clients import admin_config, consumer_config
from coldnotify_common.settings import ServiceSettings
from coldnotify_common.steady import steady_s
from coldnotify_common.stop import StopFlag
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from coldnotify_streams.block_reader import FETCHED_KIB_MAX as BLOCKS_FETCHED_KIB_MAX
from coldnotify_streams.block_reader import BlockReader
from coldnotify_streams.core import actions
from coldnotify_streams.core.actions import Action, Doing, Offset
from coldnotify_streams.core.events import Began, Event, LogsBegan, Now, Offsets
from coldnotify_streams.core.job import Job, JobPartition, JobProduced, RecordRefused
from coldnotify_streams.core.partition_progress import JobTopics, OwningPhase
from coldnotify_streams.core.partition_turns import timed
from coldnotify_streams.core.run import TICK_S, JobRun, RunLimits
from coldnotify_streams.ends_watch import EndsWatch
from coldnotify_streams.errors import RunFailure
from coldnotify_streams.garbage import Garbage
from coldnotify_streams.job_clock import JobClock
from coldnotify_streams.lag import Gauges, Lag
from coldnotify_streams.lanes import Lane, Lanes
from coldnotify_streams.log_ends import LogEnds, log_ends, log_starts
from coldnotify_streams.readers import (
    BATCH_RECORDS_MAX,
    QUEUE_BATCHES_MAX,
    LaneReader,
    ReadHeaders,
    RequestsReader,
    Revocation,
    begin_reading,
    hand_on,
    hold_back,
    stop_reading,
)
from coldnotify_streams.standby import Standby
from coldnotify_streams.step_bell import StepBell
from coldnotify_streams.topics_watch import JobTopicsWatch
from coldnotify_streams.writer import Writer

log = structlog.get_logger()

HUNG_AFTER_S = 120.0
"""A step that takes so long waits in vain: even its three flushes give up before."""
EVENTS_A_STEP_MAX = 64
LOG_EVENTS_A_STEP_MAX = 4
LOG_BATCH_RECORDS_MAX = 500
"""A step takes in at most 2,000 records of logs, some 30 ms: a publish waits so long for a log that grows fast."""
LOG_BATCHES_MAX = 2 * LOG_EVENTS_A_STEP_MAX
LANE_BYTES_MAX = 32 * 2**20
"""Limit for each lane on records that wait between the readers and this thread: a batch may have 64 MiB."""
LOGS_FETCHED_KIB_MAX = 8 * 1024
"""Limit on fetched records of logs that wait in their consumer."""
FETCH_WAIT_MS_MAX = 150
"""How long Kafka may wait for records before it answers a fetch with none. New records are answered at once. Partitions
that are added to a reader wait for that answer: a takeover by a member that serves others waits for two of them. An
empty answer costs Kafka 0.6 ms of CPU, so two idle readers take 0.8 % of a core.
"""
LOGS_FETCH_WAIT_MS_MAX = 500
"""The same for the reader of logs, for which no takeover waits. A request for a log of a partition just taken over
waits for one such answer, if this member serves others and all of their logs are quiet.
"""
BREATH_S = 0.0002
"""Pause between two steps while there is more to do: for the readers, which otherwise get the
interpreter every 5 ms.
"""
CLOSE_TIMEOUT_S = 5.0
"""Time for the consumers to commit and to close. Kafka may be away, and the process does not wait for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """This process, as a member of its consumer group."""

    settings: ServiceSettings
    group: str
    id: str
    session_timeout_ms: int
    standby: bool
    """True if it also follows the partitions of other members."""


class JobWorker(ABC):
    """Serves the partitions that the group assigns to this member. A job's subclass supplies what the worker cannot
    know.
    """

    limits = RunLimits()

    def __init__(
        self,
        member: GroupMember,
        topics: JobTopics,
        stop: StopFlag,
        gauges: Gauges,
        *,
        read_headers: ReadHeaders | None,
        clock: JobClock | None = None,
    ) -> None:
        """`clock`: the process's clock, which outlasts its workers; None: a new one."""
        self.lock = threading.RLock()
        """Held while partitions change: other threads take it to read them."""
        self.bell = StepBell()
        """Rings in each step once its records are taken in."""
        self.was_ready = False
        """True once this run has served all its partitions."""
        self.admin = AdminClient(admin_config(member.settings))
        self._member = member
        self._topics = topics
        self._stop = stop
        self._gauges = gauges
        self._read_headers = read_headers
        self.clock = JobClock() if clock is None else clock
        self._adopted = self.clock.trust.adopted
        self._read: dict[int, list[str]] = {}
        """The compacted topics that are being read, by partition."""
        self._logs_read: dict[int, list[str]] = {}
        """The logs that are being read, by partition."""
        self._writer = Writer(member.settings, stop, self.clock)
        self._log_ends = LogEnds(member.settings, f"{member.group}-ends", self.admin)
        self._events = Lanes(QUEUE_BATCHES_MAX, LOG_BATCHES_MAX, LANE_BYTES_MAX)
        self._ends_watch = EndsWatch(
            lambda: LogEnds(member.settings, f"{member.group}-ends-watch", self.admin), self._events.main
        )
        self._requests = RequestsReader(
            consumer_config(
                member.settings,
                member.group,
                name="requests-reader",
                group_instance_id=member.id,
                session_timeout_ms=member.session_timeout_ms,
                # By its answer a member hears that another one is gone.
                heartbeat_interval_ms=max(300, member.session_timeout_ms // 20),
                partition_assignment_strategy="cooperative-sticky",
                fetch_wait_max_ms=FETCH_WAIT_MS_MAX,
            ),
            self._events.main,
            self.admin,
            topics,
            self._check_topics,
        )
        self._compacted = self._new_reader("compacted-reader", "state", self._events.main)
        self._logs: LaneReader | None = None
        """None if the job has no logs."""
        self._blocks = BlockReader(
            consumer_config(
                member.settings,
                f"{member.group}-blocks",
                # By this name Kafka's quotas know it. It has no statistics: whoever has them must poll all the time.
                client_id=member.settings.topics.group("block-reader"),
                queued_max_messages_kbytes=BLOCKS_FETCHED_KIB_MAX,
            ),
            self._events.main,
            read_headers=read_headers,
        )
        self._standby = Standby(member.settings, member.group, topics, read_headers) if member.standby else None
        self._run: JobRun | None = None
        self._stepped_s = steady_s()
        """When the last step began."""
        self._polled_s = 0.0
        self._garbage = Garbage(self._stepped_s)
        self._watch: JobTopicsWatch | None = None
        self._closing = False
        self._doing: dict[type[Action], Callable[[Any], object]] = {
            actions.AskBounds: self._ask_bounds,
            actions.AskEnds: self._ask_ends,
            actions.AskTimes: lambda action: self._log_ends.at_times(action.times),
            actions.WriteRecords: lambda action: self._writer.write(action.records),
            actions.Flush: self._flush,
            actions.TakeFollowed: lambda _: None if self._standby is None else self._standby.take(),
            actions.Read: self._begin_reading,
            actions.ReadLogs: self._read_logs,
            actions.ReadBlock: lambda action: self._blocks.read(action),
            actions.LookAtEnds: lambda action: self._ends_watch.look(action),
            actions.Drop: self._drop,
            actions.HoldBack: lambda action: self._hold_back(action.partition, on=False),
            actions.ReadOn: lambda action: self._hold_back(action.partition, on=True),
            actions.Serve: lambda action: self._requests.serve(action.partition, from_beginning=action.from_beginning),
            actions.Pause: lambda action: self._requests.hold_back(action.partition),
            actions.Rewind: lambda action: self._requests.rewind(action.partition, action.offset),
            actions.Commit: lambda action: self._requests.commit_soon(committable(action.offsets)),
            actions.Release: self._release,
            actions.Follow: self._follow,
            actions.Unfollow: self._unfollow,
            actions.Say: _say,
            actions.TakenIn: lambda _: self.bell.ring(),
            actions.Durable: lambda action: self.on_durable(action.partitions),
            actions.TookOver: self._took_over,
            actions.LoadsAnew: lambda _: self.on_loads_anew(),
            actions.LookedAtPartitions: self.on_looked,
        }

    # ---- what the job's worker says ------------------------------------------------------------------------------

    @abstractmethod
    def begin(self) -> Job:
        """Checks the topics, and creates the run's job. Raises Failure, ServiceError."""

    @abstractmethod
    def check_topics(self) -> None:
        """Raises Failure if the topics are not those that the run began with, ServiceError if they are not known."""

    @abstractmethod
    def on_durable(self, partitions: Sequence[JobPartition]) -> None:
        """Called when everything that these partitions have handled is durable."""

    @abstractmethod
    def on_took_over(self, partition: JobPartition, seconds: float) -> None:
        """Called when a partition is served, so many seconds after it was assigned."""

    @abstractmethod
    def on_loads_anew(self) -> None:
        """Called when a partition that had failed is reloaded."""

    @abstractmethod
    def on_looked(self, looked: actions.LookedAtPartitions) -> None:
        """Called at intervals with what is served and what waits."""

    @abstractmethod
    def on_stepped(self, seconds: float) -> None:
        """Called after a step that had something to do, with its duration."""

    def clock_probe(self) -> JobProduced | None:
        """Returns a record without a meaning, for a topic that Kafka stamps with its own time; None if there is no such
        topic.
        """
        return None

    # ---- for others ----------------------------------------------------------------------------------------------

    @property
    def owned(self) -> Mapping[int, JobPartition]:
        """The partitions of this member that can be served."""
        return {} if self._run is None else self._run.partitions

    @property
    def others(self) -> Mapping[int, JobPartition]:
        """The partitions of others that the warm standby follows."""
        return {} if self._run is None else self._run.followed

    def readiness(self) -> str | None:
        """Returns None if all assigned partitions are served, else what is missing."""
        if self._closing:
            return "stopping, or about to load anew"
        if self._watch is None or self._run is None:
            return "the topics are not known yet"
        if self._watch.kafka_away is not None:
            return self._watch.kafka_away
        still_s = steady_s() - self._stepped_s
        if still_s > HUNG_AFTER_S:
            return f"nothing has been done for {still_s:.0f} s"
        assigned = self._requests.assigned
        if assigned is None:
            return "the consumer group has assigned no partition yet"
        if refused := sorted(self._run.claims.refused.copy()):
            return f"Kafka does not take the claims of partitions {refused}"
        owned = {p.number for p in list(self._run.partitions.values()) if p.phase is OwningPhase.OWNED}
        # What waits is told by an alert: this process serves all that it can, and a new one could do no more.
        loading = sorted(assigned - owned - set(self._run.waiting))
        if loading:
            return f"partitions {loading} are being loaded"
        self.was_ready = True
        return None

    def run(self) -> None:
        """Serves until `stop` is set. Raises Failure, KafkaException, ServiceError.

        After it has raised, all state must be dropped.
        """
        self._garbage.begin()
        self._writer.connect_soon()
        job = self.begin()
        # Which logs there are depends on the topics that there are, and on what the operator says.
        topics = self._topics = self._requests.topics = job.topics
        if self._standby is not None:
            self._standby.topics = topics
        run = JobRun(job, standby=self._standby is not None, limits=self.limits, next_turn=timed(steady_s))
        self._run = run
        self._events.main.is_urgent = run.ends_rest
        self._watch = JobTopicsWatch(
            self.admin,
            self._stop,
            self._requests.is_alive,
            check_topics=self.check_topics,
            hand_on=lambda event: hand_on(self._events.main, event, self._requests.stopped),
            lag=Lag(topics, self._gauges),
            owned=run.partitions,
            followed=lambda: run.followed,
            member=(self._member.group, self._requests.join_again, job.partitions),
            logs=topics.logs,
        )
        self._requests.marks = job.marks
        self._requests.start()
        self._compacted.start()
        if topics.logs:
            self._logs = self._new_reader(
                "logs-reader",
                "logs",
                self._events.logs,
                fetch_wait_ms_max=LOGS_FETCH_WAIT_MS_MAX,
                batch_records_max=LOG_BATCH_RECORDS_MAX,
                queued_max_messages_kbytes=LOGS_FETCHED_KIB_MAX,
            )
            self._logs.start()
        self._blocks.start()
        self._ends_watch.start()
        self._watch.start()
        clean = False
        try:
            while not self._stop.is_set():
                self._stepped_s = steady_s()
                self._turn(run)
            clean = True
        finally:
            self._close(run, commit=clean)

    # ---- steps ---------------------------------------------------------------------------------------------------

    def _check_topics(self) -> None:
        """Called by the requests reader's thread. Raises Failure."""
        try:
            self.check_topics()
        except ServiceError as error:
            log.warning("cannot check the topics", error=str(error))  # the watch tries again

    def _turn(self, run: JobRun) -> None:
        events = self._take_events(run)
        with self.lock:
            started_s = steady_s()
            self._drive(run.step(events, Now(started_s, self._now_ms()), self._requests.assigned))
            run.on_stepped(steady_s())
            if events:
                self.on_stepped(steady_s() - started_s)
        if started_s - self._polled_s >= TICK_S:
            self._polled_s = started_s
            self._writer.poll()
        self._ask_kafka_for_the_time()
        if self._garbage.is_due(started_s):
            self._garbage.look(steady_s)

    def _now_ms(self) -> int:
        """Raises Failure once the clock was set right: what lasts was measured by another time."""
        now_ms = self.clock.now_ms()
        if self.clock.trust.adopted != self._adopted:
            raise RunFailure("the clock was set right, and all others agree")
        return now_ms

    def _ask_kafka_for_the_time(self) -> None:
        if not self.clock.take_ask():
            return
        probe = self.clock_probe()
        if probe is not None:
            self._writer.write([probe])

    def _drive(self, step: Doing[None]) -> None:
        """Executes a step's actions, to its end. An error is thrown into the step where it had asked."""
        try:
            action = next(step)
            while True:
                try:
                    answer = self._doing[type(action)](action)
                except ServiceError as error:
                    action = step.throw(RunFailure(str(error)))
                except Exception as error:
                    action = step.throw(error)
                else:
                    action = step.send(answer)
        except StopIteration:
            return

    def _take_events(self, run: JobRun) -> list[Event]:
        followed_waits = self._standby is not None and self._standby.waiting and run.all_owned
        if not self._events.wait(0 if followed_waits else _wait_s(run, self.clock.now_ms())):
            return []
        if rest_s := run.rest_s(steady_s()):
            self._events.rest(rest_s)  # at most `Limits.rest_max_s`: a stop need not cut it short
        return self._events.take(EVENTS_A_STEP_MAX, LOG_EVENTS_A_STEP_MAX)

    def _ask_bounds(self, action: actions.AskBounds) -> tuple[Offsets, Offsets]:
        return log_starts(self.admin, action.places), log_ends(self.admin, action.places)

    def _ask_ends(self, action: actions.AskEnds) -> Offsets:
        return self._log_ends.uncommitted(action.places) if action.uncommitted else log_ends(self.admin, action.places)

    def _begin_reading(self, action: actions.Read) -> None:
        self._read[action.partition] = list(action.offsets)
        begin_reading(self._compacted, action.partition, action.offsets, Began(action.partition))

    def _new_reader(
        self,
        name: str,
        group: str,
        lane: Lane,
        *,
        fetch_wait_ms_max: int = FETCH_WAIT_MS_MAX,
        batch_records_max: int = BATCH_RECORDS_MAX,
        **extra: object,
    ) -> LaneReader:
        """`extra`: further options of its consumer, whose group has this suffix."""
        member = self._member
        config = consumer_config(
            member.settings,
            f"{member.group}-{group}",
            name=name,
            enable_partition_eof=True,
            fetch_wait_max_ms=fetch_wait_ms_max,
            **extra,
        )
        return LaneReader(name, config, lane, read_headers=self._read_headers, batch_records_max=batch_records_max)

    def _read_logs(self, action: actions.ReadLogs) -> None:
        self._logs_read[action.partition] = list(action.offsets)
        said = LogsBegan(action.partition, action.offsets)
        assert self._logs is not None
        begin_reading(self._logs, action.partition, action.offsets, said)

    def _hold_back(self, number: int, *, on: bool) -> None:
        """Leaves further records of a partition in Kafka; with `on`, reads them again."""
        hold_back(self._compacted, number, self._read.get(number, ()), on=on)
        if self._logs is not None:
            hold_back(self._logs, number, self._logs_read.get(number, ()), on=on)

    def _drop(self, action: actions.Drop) -> None:
        self._garbage.on_dropped()
        self._hold_back(action.partition, on=True)
        stop_reading(self._compacted, action.partition, self._read.pop(action.partition, ()))
        if self._logs is not None:
            stop_reading(self._logs, action.partition, self._logs_read.pop(action.partition, ()))

    def _flush(self, _: actions.Flush) -> list[RecordRefused]:
        self._writer.flush()
        return self._writer.take_refused()

    def _release(self, action: actions.Release) -> None:
        assert isinstance(action.revoked, Revocation)
        action.revoked.let_go(committable(action.offsets))

    def _follow(self, action: actions.Follow) -> None:
        assert self._standby is not None
        self._standby.begin(action.partition)

    def _unfollow(self, action: actions.Unfollow) -> None:
        assert self._standby is not None
        self._standby.drop(action.partition)

    def _took_over(self, action: actions.TookOver) -> None:
        partition, seconds = action.partition, steady_s() - action.since_s
        self.on_took_over(partition, seconds)
        log.info(
            "partition taken over",
            partition=partition.number,
            **partition.about,
            followed=partition.warm,
            seconds=round(seconds, 3),
        )

    def _close(self, run: JobRun, *, commit: bool) -> None:
        self._closing = True
        if commit:
            self._requests.final_offsets = committable(run.last_offsets())
        readers: list[LaneReader | BlockReader | EndsWatch | Standby]
        readers = [self._requests, self._compacted, self._blocks, self._ends_watch]
        readers += [reader for reader in (self._logs, self._standby) if reader is not None]
        for reader in readers:
            reader.stop()
        until_s = steady_s() + CLOSE_TIMEOUT_S
        for reader in readers:
            reader.join(max(0.0, until_s - steady_s()))
        with self.lock:
            run.partitions.clear()
            if run.following is not None:
                run.following.partitions.clear()
        self.on_looked(actions.LookedAtPartitions((), 0, tick=False))
        self._writer.close()
        self._log_ends.close()


def committable(offsets: Iterable[Offset]) -> list[TopicPartition]:
    """Returns offsets in the form in which the consumer commits them."""
    return [TopicPartition(one.topic, one.partition, one.offset, metadata=one.mark) for one in offsets]


def _wait_s(run: JobRun, now_ms: int) -> float:
    """Returns the seconds until a tick, postponed work, or the next block of a log may be due."""
    if run.careful:
        return 0.001
    due_ms = run.next_due_ms()
    if due_ms == 0 or run.unfinished:
        return BREATH_S
    wait_s = TICK_S / 4 if due_ms is None else min(TICK_S / 4, max(0.001, (due_ms - now_ms) / 1000))
    block_s = run.blocks.due_in_s(steady_s())
    return wait_s if block_s is None else min(wait_s, max(0.001, block_s))


def _say(action: actions.Say) -> None:
    about = dict(action.about) if action.error is None else {**action.about, "exc_info": action.error}
    getattr(log, action.level)(action.words, **about)
