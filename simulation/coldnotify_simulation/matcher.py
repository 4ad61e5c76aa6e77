"""A matcher: the run and the job that ship, over the simulated Kafka.

The shell executes the actions of `coldnotify_streams.core.run.JobRun`, as the one over Kafka does, and has no order of
its own. It decides only what the world decides: when a question is answered, how much a reader has by then, which write
becomes durable before which, and whether the process is killed, stopped, or refused between any two of them.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from coldnotify_common.clocks import Clocks
from coldnotify_matcher.engine.rules.channel_bounds import ChannelBounds
from coldnotify_matcher.engine.rules.retention_rules import RetentionRules
from coldnotify_matcher.engine.rules.rules import Rules
from coldnotify_matcher.epoch import channels_epoch_of, epoch_of
from coldnotify_matcher.run_topics import ChannelsLog, Cluster, topics_of
from coldnotify_schemas.protocol import REGISTRATIONS_MAX
from coldnotify_schemas.topics import TopicNames
from coldnotify_streams.core import actions
from coldnotify_streams.core.actions import Action, Doing, Offset
from coldnotify_streams.core.events import (
    Assigned,
    EndsSeen,
    Event,
    LogStarts,
    NotCommitted,
    Now,
    PartitionsRevoked,
    ReaderFailed,
    Rewound,
    Takeover,
    Where,
)
from coldnotify_streams.core.job import JobProduced, RecordRefused
from coldnotify_streams.core.partition_turns import Spent
from coldnotify_streams.core.run import TICK_S, JobRun, RunLimits
from coldnotify_streams.errors import RunFailure

from coldnotify_simulation.clock import Clock, SimulatedProcess
from coldnotify_simulation.group import SESSION_TIMEOUT_S, Group
from coldnotify_simulation.kafka import INBOXES, PARTITIONS, Kafka
from coldnotify_simulation.matcher_readers import MatcherReaders
from coldnotify_simulation.poison import POISON_REFUSED, Planted, PoisonedJob
from coldnotify_simulation.trace import Trace

TOPICS = TopicNames()
JOB_TOPICS = topics_of(TOPICS)

_TICK_S = TICK_S + 0.001
"""A step that comes so long after the last tick ticks."""
_RESTART_S = 0.5
_WATCH_TOPICS_S = 5.0

Queues = dict[tuple[str, int], deque[JobProduced]]


class Matcher(SimulatedProcess):
    """One process. It joins the group when it starts, and again whenever a run has failed."""

    def __init__(self, name: str, clock: Clock, random: Random, kafka: Kafka, group: Group, trace: Trace) -> None:
        super().__init__(clock, name)
        self.random = random
        self.kafka = kafka
        self.group = group
        self.trace = trace
        self.epoch_counter = 0
        self.ahead_ms = 0
        """How far its clock is ahead of the true time."""
        self.clocks = Clocks()
        self.lag = 0.0
        """The probability that a look leaves a topic's records for the next look."""
        self.doom: tuple[int, str] | None = None
        """(writes, fate): after so many writes more it is killed or stopped, or Kafka does not take the next one."""
        self.commits_held = False
        """The group's coordinator takes no commits: a successor reads again what this one has done."""
        self.commits_held_of: frozenset[str] = frozenset()
        """It takes none of these topics."""
        self.short_turns = 0.2
        """The probability that a partition's turn ends before its work is done."""
        self.requests_at_once = 1000
        self.rules = Rules()
        self.limits = RunLimits()
        self.standby = False
        """It follows the partitions of the other one."""
        self.channels = False
        """True if it follows logs of channels; else it behaves as if Kafka had no topics for them. A world whose
        schedule sends messages sets it at all matchers before they start, appends to the logs (`Kafka.append` with
        headers and the clock's time) and has retention remove old messages (`PartitionLog.remove_below`).
        """
        self.shares = False
        """True if Kafka has the topic of shares for it; then `channels` is true, too."""
        self.run: SimulatedRun | None = None
        self.counts: Counter[str] = Counter()
        """Counters of its engines."""

    @property
    def now_ms(self) -> int:
        """The time that it goes by (Unix)."""
        return self.clocks.look(self.clock.now_ms + self.ahead_ms, self.clock.now_s)

    def start(self) -> None:
        """Begin to run."""
        self._born()
        self.clocks = Clocks()
        self._begin()

    def _begin(self) -> None:
        self.run = SimulatedRun(self)
        self.group.join(self.run)
        self.later(_TICK_S, self.run.tick)

    def kill(self) -> None:
        """SIGKILL: loses what it had not written. The group notices later."""
        if not self.alive:
            return
        self.trace(self.name, "killed")
        self._died()
        run, self.run = self.run, None
        if run is not None:
            self.clock.later(SESSION_TIMEOUT_S, lambda: self.group.leave(run))

    def stop(self) -> None:
        """SIGSTOP: it is out of the group after a while, and does not know."""
        if not self.alive or self.stopped:
            return
        super().stop()
        self.trace(self.name, "stopped")
        stops, run = self.stops, self.run

        def expire() -> None:
            if self.stopped and self.stops == stops and run is not None:
                self.group.leave(run)

        self.clock.later(SESSION_TIMEOUT_S, expire)

    def go_on(self) -> None:
        """SIGCONT. That it is out of the group it hears after whatever it had queued."""
        if not self.stopped:
            return
        super().go_on()
        self.trace(self.name, "goes on")
        if self.run is not None:
            self.later(self.random.uniform(0.1, 1.5), self.run.hear_of_the_group)

    def shut_down(self) -> None:
        """SIGTERM: all that is finished is committed."""
        if self.alive and not self.stopped and self.run is not None:
            self.trace(self.name, "shuts down")
            run = self.run
            run.end()
            self._died()
            self.run = None
            self.group.leave(run)

    def failed(self, run: "SimulatedRun", reason: str) -> None:
        """The run ended by itself: drops everything, and starts over."""
        if run is not self.run:
            return
        self.trace(self.name, "begins anew", reason)
        self.group.leave(run)
        self.life += 1  # whatever the run was about to do is not done
        self.run = None
        self.later(_RESTART_S, self._begin)

    def serve_shares(self, clock: Clock, bounds: ChannelBounds | None) -> None:
        """Before it starts: it has the topic of shares, and a clock of its own. `bounds`: of channels, if others."""
        self.channels = self.shares = True
        self.clock = clock
        if bounds is not None:
            self.rules = replace(self.rules, channel_bounds=bounds)

    def is_doomed(self, doom: tuple[int, str] | None) -> None:
        """Sets `doom`."""
        self.doom = doom

    def remove_no_more(self) -> None:
        """Retention keeps everything from here on."""
        self.rules = replace(self.rules, retention=RetentionRules())
        if self.run is not None:
            for partition in self.run.partitions.values():
                partition.engine.state.rules = replace(self.rules, clocks=self.clocks)

    def fate(self) -> str:
        """Returns what happens to it at the next write; "" for nothing."""
        if self.doom is None:
            return ""
        writes, fate = self.doom
        if writes > 0:
            self.doom = writes - 1, fate
            return ""
        self.doom = None
        return fate


class SimulatedRun:
    """One run, from joining the group to the first failure."""

    def __init__(self, matcher: Matcher) -> None:
        self.matcher = matcher
        self.kafka = matcher.kafka
        self.random = matcher.random
        self.cluster = self._describe()
        job = PoisonedJob(
            self.cluster,
            f"{matcher.name}:{matcher.life}",
            rules=replace(matcher.rules, clocks=matcher.clocks),
            registrations_max=REGISTRATIONS_MAX,
        )
        self.core = JobRun(job, standby=matcher.standby, limits=matcher.limits, next_turn=self._next_turn)
        self._assigned: set[int] | None = None
        """The assignment that the requests reader knows."""
        self._events: list[Event] = []
        """Events from the readers for the next step, before any records."""
        self._revoked: list[PartitionsRevoked] = []
        self._readers = MatcherReaders(self.kafka, self.random, self.cluster.topics)
        self._log_starts: dict[Where, int] = {}
        """The log starts that the run was told."""
        self._step: Doing[None] | None = None
        self._queued: list[JobProduced] = []
        self._queues: Queues = {}
        self._refused: list[RecordRefused] = []
        self._look_due = False
        self._watched_at_s = matcher.clock.now_s
        self._adopted = matcher.clocks.adopted

    @property
    def partitions(self) -> Mapping[int, Any]:
        """The partitions that it serves, or is about to."""
        return self.core.partitions

    @property
    def steps(self) -> bool:
        """True in the middle of a step: some of what was handled may not be written."""
        return self._step is not None

    @property
    def responsive(self) -> bool:
        """True if the process answers the group."""
        return self.matcher.alive and not self.matcher.stopped and self.matcher.run is self

    def _describe(self) -> Cluster:
        objects, requests = self.kafka.topics[TOPICS.objects].id, self.kafka.topics[TOPICS.requests].id
        epoch = epoch_of(objects, PARTITIONS, self.matcher.epoch_counter)
        of_channels = (TOPICS.channels_state,) if self.matcher.channels else ()
        of_shares = (TOPICS.shares,) if self.matcher.shares else ()
        of_state = (*JOB_TOPICS.state, *of_channels, *of_shares)
        state = tuple(self.kafka.topics[topic].id for topic in of_state)
        logs = tuple(self._describe_logs()) if self.matcher.channels else ()
        return Cluster(PARTITIONS, INBOXES, objects, requests, epoch, state, logs, self.matcher.shares)

    def _describe_logs(self) -> Iterator[ChannelsLog]:
        for retention in self.matcher.rules.retentions.used:
            id_ = self.kafka.topics[retention.topic(TOPICS)].id
            epoch = channels_epoch_of(id_, PARTITIONS, self.matcher.epoch_counter, retention)
            yield ChannelsLog(retention, id_, epoch)

    # ---- the group

    def assign(self, partition: int) -> None:
        """The requests reader hears that it is to serve this partition."""
        if not self.responsive:
            return  # it hears of it when it goes on, or never
        self.matcher.trace(self.matcher.name, "is assigned", partition)
        if self._describe() != self.cluster:
            self.matcher.later(0.0, lambda: self.matcher.failed(self, "a topic was recreated"))
            return
        requests, table = self.kafka.log(TOPICS.requests, partition), self.kafka.log(TOPICS.objects, partition)
        start, _ = self.kafka.committed_offset(TOPICS.requests, partition)
        committed, mark = self.kafka.committed_offset(TOPICS.objects, partition)
        takeover = Takeover(
            requests_start=start if requests.start <= start <= requests.end else requests.start,
            requests_committed=start >= 0,
            table_committed=committed if 0 <= committed <= table.end else None,
            table_in_epoch=mark == self.cluster.marks[TOPICS.objects],
            logs_committed=self._logs_committed(partition),
        )
        self._readers.assign(partition, takeover.requests_start)
        self._assigned = (self._assigned or set()) | {partition}
        self._events.append(Assigned(partition, takeover))
        self.look_soon()

    def _logs_committed(self, partition: int) -> dict[str, int]:
        found = {topic: self.kafka.committed_offset(topic, partition) for topic in self.cluster.topics.logs}
        marks = self.cluster.marks
        return {topic: offset for topic, (offset, mark) in found.items() if offset >= 0 and mark == marks[topic]}

    def revoke(self, partition: int) -> None:
        """Another one is to serve it, once its work is committed."""
        self._give_up((partition,), lost=False)

    def _give_up(self, partitions: Iterable[int], *, lost: bool) -> None:
        self._revoked.append(PartitionsRevoked(tuple(partitions), lost))
        self.look_soon()

    def hear_of_the_group(self) -> None:
        """After a stop: partitions that are not ours any more are lost; those that came meanwhile are loaded."""
        if self.matcher.run is not self:
            return
        ours = self._assigned or set()
        for number, owner in self.matcher.group.owners.items():
            if owner is self and number not in ours:
                self.assign(number)
        gone = [number for number in ours if not self.group_has(number)]
        if not gone:
            self.matcher.group.join(self)  # it may be out of it without having lost anything
            return
        self.matcher.trace(self.matcher.name, "hears that it has lost", gone)
        if self.random.random() < 0.5:
            self._not_committed(fenced=True)
            return
        self._give_up(gone, lost=True)
        self.matcher.group.join(self)

    def group_has(self, partition: int) -> bool:
        """Returns true if the group assigns it to this run."""
        return self.matcher.group.owns(self, partition)

    def end(self) -> None:
        """SIGTERM: commits what is finished. A step in progress is not waited for."""
        if self._step is None:
            self._commit(self.core.last_offsets())

    # ---- steps

    def reads(self, partition: int) -> bool:
        """Returns true if it reads anything of this partition."""
        return self._readers.reads(partition)

    def unread_from(self, topic: str, partition: int) -> int:
        """Returns the first offset of a compacted topic that it has not read."""
        return self._readers.unread_from(topic, partition)

    def look_soon(self) -> None:
        """There may be something to read."""
        if not self._look_due and self._step is None:
            self._look_due = True
            self.matcher.later(self.random.uniform(0.001, 0.02), self._look)

    def tick(self) -> None:
        """A second has passed."""
        if self.matcher.run is not self:
            return
        self.matcher.later(_TICK_S, self.tick)
        now_s = self.matcher.clock.now_s
        if now_s - self._watched_at_s > _WATCH_TOPICS_S:
            self._watched_at_s = now_s
            if self._describe() != self.cluster:
                self.matcher.failed(self, "a topic was recreated")
                return
            self._tell_log_starts()
        self._look()

    def _look(self) -> None:
        self._look_due = False
        if self._step is not None or self.matcher.run is not self:
            return
        clock = self.matcher.clock
        if rest_s := self.core.rest_s(clock.now_s):
            self._look_due = True
            self.matcher.later(rest_s, self._look)
            return
        assigned = None if self._assigned is None else frozenset(self._assigned)
        now_ms = self.matcher.now_ms
        if self.matcher.clocks.adopted != self._adopted:
            self.matcher.failed(self, "the clock was set right")
            return
        self._ask_kafka_for_the_time()
        self._step = self.core.step(self._take_events(), Now(clock.now_s, now_ms), assigned)
        self._go_on(None)

    def _ask_kafka_for_the_time(self) -> None:
        """Learns Kafka's time, as from a record that Kafka stamps."""
        clocks = self.matcher.clocks
        if clocks.kafka_is_due and self.kafka.stamps:
            clocks.on_kafka(self.matcher.clock.now_ms + self.kafka.ahead_ms, 0.01)

    def _go_on(self, answer: object, error: Exception | None = None) -> None:
        """Do what the step wants, until it ends, waits, or the process does."""
        step = self._step
        assert step is not None
        try:
            action = step.send(answer) if error is None else step.throw(error)
            while True:
                if isinstance(action, actions.Flush):
                    self._flush()
                    return
                if isinstance(action, actions.AskBounds | actions.AskEnds) and self.random.random() < 0.1:
                    self._answer_later(action)
                    return
                done = self._do(action)
                if self.matcher.run is not self:
                    return
                action = step.send(done)
        except StopIteration:
            self._finish_step()
        except RunFailure as failure:
            self.matcher.failed(self, str(failure))

    def _answer_later(self, action: Action) -> None:
        """Kafka takes its time, and its answer is of then."""
        self.matcher.later(self.random.uniform(0.001, 0.3), lambda: self._go_on(self._do(action)))

    def _finish_step(self) -> None:
        self._step = None
        self.core.on_stepped(self.matcher.clock.now_s)
        for partition in self.core.partitions.values():
            self.matcher.counts.update(partition.take_counts())
        left = self._events or self._revoked or self.core.careful or self.core.unfinished
        if left or self._readers.is_behind(follows=self.core.all_owned):
            self.look_soon()
        if (block_s := self.core.blocks.due_in_s(self.matcher.clock.now_s)) is not None:
            self.matcher.later(max(0.001, block_s), self.look_soon)
        due_ms = self.core.next_due_ms()
        if due_ms is not None:
            self.matcher.later(max(0.001, (due_ms - self.matcher.now_ms) / 1000), self.look_soon)

    def _next_turn(self) -> Spent:
        """A turn is as long as the matcher's time allows: mostly it is enough, else it is over at some place."""
        left = self.random.choice((0, 1, 2, 5)) if self.random.random() < self.matcher.short_turns else 1 << 30

        def spent() -> bool:
            nonlocal left
            left -= 1
            return left < 0

        return spent

    def _take_events(self) -> list[Event]:
        read = list(self._readers.take(lag=self.matcher.lag, requests_max=self.matcher.requests_at_once))
        events, self._events = [*self._events, *read], []
        if read and isinstance(read[-1], ReaderFailed):
            return events
        revoked, self._revoked = self._revoked, []
        return [*events, *revoked]

    # ---- what the run wants

    def _do(self, action: Action) -> object:
        match action:
            case actions.AskBounds(places):
                starts = {where: self.kafka.log(*where).start for where in places}
                return starts, {where: self.kafka.log(*where).stable_end for where in places}
            case actions.AskEnds(places, uncommitted):
                logs = {where: self.kafka.log(*where) for where in places}
                return {where: log.end if uncommitted else log.stable_end for where, log in logs.items()}
            case actions.WriteRecords(records):
                self._queued += records
            case actions.AskTimes(times):
                return [self.kafka.log(*where).at_time(ms) for where, ms in times]
            case actions.TakeFollowed():
                return self._readers.take_followed(lag=self.matcher.lag)
            case actions.Read(number, offsets):
                self._events += self._readers.read(number, offsets)
            case actions.ReadLogs(number, offsets):
                self._events += self._readers.read_logs(number, offsets)
            case actions.ReadBlock(topic, number, start):
                self.matcher.later(self.random.uniform(0.001, 0.3), lambda: self._read_block(topic, number, start))
            case actions.LookAtEnds(places):
                self._look_at_ends(places)
            case actions.Drop(number):
                self._readers.drop(number)
            case actions.HoldBack(number):
                self._readers.hold_back(number, on=False)
            case actions.ReadOn(number):
                self._readers.hold_back(number, on=True)
            case actions.Serve(number, from_beginning):
                if number in (self._assigned or ()):
                    self._readers.serve(number, from_beginning=from_beginning)
            case actions.Pause(number):
                self._readers.pause(number)
            case actions.Rewind(number, offset):
                self._readers.rewind(number, offset)
                self._events.append(Rewound(number))
            case actions.Commit(offsets):
                if self.matcher.fate() == "kill":
                    self.matcher.kill()
                else:
                    self._commit(offsets)
            case actions.Release(revoked, offsets):
                self._release(revoked, offsets)
            case actions.Follow(number):
                self._readers.follow(number)
            case actions.Unfollow(number):
                self._readers.unfollow(number)
            case actions.TookOver(partition):
                about = "generation", partition.about["generation"], "followed" if partition.warm else ""
                self.matcher.trace(self.matcher.name, "owns", partition.number, *about)
            case actions.Say(level, words, about, error):
                if error is not None and not (isinstance(error, Planted) or "by design" in str(error)):
                    raise error
                if level != "info":
                    self.matcher.trace(self.matcher.name, "says:", words, dict(about))
            case _:
                pass  # for whoever looks on
        return None

    def _read_block(self, topic: str, number: int, start: int) -> None:
        """A part of a log, as it is by the time that it is read."""
        if self.matcher.run is self:
            self._events.append(self._readers.block(topic, number, start))
            self.look_soon()

    def _look_at_ends(self, places: Sequence[Where]) -> None:
        """Asks Kafka, which answers as of then; the answer takes a while, too."""
        at_s = self.matcher.clock.now_s

        def look() -> None:
            seen = EndsSeen(at_s, {where: self.kafka.log(*where).end for where in places})
            self.matcher.later(self.random.uniform(0.001, 0.3), lambda: tell(seen))

        def tell(seen: EndsSeen) -> None:
            if self.matcher.run is self:
                self._events.append(seen)
                self.look_soon()

        self.matcher.later(self.random.uniform(0.001, 0.3), look)

    def _tell_log_starts(self) -> None:
        """Tells the run where logs begin, if retention has removed something."""
        places = [(topic, number) for number in self.core.partitions for topic in self.cluster.topics.logs]
        starts = {where: self.kafka.log(*where).start for where in places}
        if starts != self._log_starts:
            self._log_starts = starts
            self._events.append(LogStarts(starts))

    def _release(self, revoked: PartitionsRevoked, offsets: Sequence[Offset]) -> None:
        self._commit(offsets)
        for number in revoked.partitions:
            self._readers.release(number)
            if self._assigned is not None:
                self._assigned.discard(number)
            self.matcher.group.release(self, number)

    # ---- writes

    def _flush(self) -> None:
        queued, self._queued = self._queued, []
        self._queues, self._refused = {}, []
        for write in queued:
            if write.key == POISON_REFUSED.encode():
                self._refused.append(RecordRefused(write.topic, write.partition or 0, write.value, "by design"))
                continue
            if write.topic in self.kafka.closed or self._is_too_far_ahead(write):
                refused = RecordRefused(write.topic, write.partition or 0, write.value, "refused by design")
                self._refused.append(refused)
                continue
            self._queues.setdefault((write.topic, write.partition or 0), deque()).append(write)
        self._write_on()

    def _write_on(self) -> None:
        """Write until all is written, or fate strikes, or time passes between two writes."""
        matcher, queues = self.matcher, self._queues
        while queues:
            fate = matcher.fate()
            if fate == "kill":
                matcher.kill()
                return
            target = self.random.choice(list(queues)) if len(queues) > 1 else next(iter(queues))
            write = queues[target].popleft()
            if not queues[target]:
                del queues[target]
            if fate == "fail":
                matcher.trace(matcher.name, "Kafka does not take a record of", *target)
                for others in queues.values():  # those behind it are taken, or not
                    for other in list(others):
                        if self.random.random() < 0.5:
                            self._append(other)
                self._go_on(None, RunFailure("a write failed"))
                return
            if fate == "stop":
                queues.setdefault(target, deque()).appendleft(write)
                matcher.later(0.0, self._write_on)
                matcher.stop()
                return
            self._append(write)
            if self.random.random() < 0.05:
                matcher.later(self.random.uniform(0.001, 0.05), self._write_on)
                return
        self._go_on(self._refused)

    def _is_too_far_ahead(self, write: JobProduced) -> bool:
        ahead_max_ms, kafka_ms = self.kafka.ahead_max_ms, self.matcher.clock.now_ms + self.kafka.ahead_ms
        return ahead_max_ms is not None and self._time_of(write) > kafka_ms + ahead_max_ms

    def _time_of(self, write: JobProduced) -> int:
        clocks = self.matcher.clocks
        return clocks.now_ms + clocks.earliest_ahead_ms if write.timestamp_ms is None else write.timestamp_ms

    def _append(self, write: JobProduced) -> None:
        timestamp_ms = self._time_of(write)
        self.kafka.append(write.topic, write.partition or 0, timestamp_ms, write.key, write.value, write.headers)

    # ---- commits

    def _commit(self, offsets: Sequence[Offset]) -> None:
        ours = [one for one in offsets if one.partition in (self._assigned or ())]
        if any(not self.group_has(one.partition) for one in ours):
            self._not_committed(fenced=True)
        elif ours and self.matcher.commits_held:
            self._not_committed(fenced=False)
        else:
            held = self.matcher.commits_held_of
            for one in ours:
                if one.topic not in held:
                    self.kafka.committed[one.topic, one.partition] = one.offset, one.mark
            if any(one.topic in held for one in ours):
                self._not_committed(fenced=False)

    def _not_committed(self, *, fenced: bool) -> None:
        self._events.append(NotCommitted("commit refused", fenced))
        if fenced:
            self.look_soon()
