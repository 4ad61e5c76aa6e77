"""A matcher: the real engine and the real takeover, stepped as the worker does, over the simulated Kafka.

A step's writes go out one by one: state first, then what rests on it, then the commit. Between any two of them the
process may be killed, stopped, or Kafka may not take one. Writes to different partitions overtake each other.
"""

from collections import deque
from collections.abc import Iterable
from random import Random

from coldnotify_matcher import worker
from coldnotify_matcher.engine import Write
from coldnotify_matcher.engine.rules import Rules
from coldnotify_matcher.epoch import epoch_of
from coldnotify_matcher.partition import NOT_UNDERSTOOD, Cluster, Ends, Partition, PendingRequests, Phase, TakenOver
from coldnotify_matcher.readers import Record
from coldnotify_matcher.record_headers import read_headers
from coldnotify_matcher.request_records import parse_request
from coldnotify_matcher.state_records import Unreadable
from coldnotify_schemas import topics
from coldnotify_schemas.names import REGISTRATIONS_MAX

from coldnotify_simulation.clock import Clock, Process
from coldnotify_simulation.group import SESSION_TIMEOUT_S, Group
from coldnotify_simulation.kafka import INBOXES, PARTITIONS, Kafka, PartitionLog
from coldnotify_simulation.trace import Trace

_COMPACTED = (topics.OBJECTS, topics.REGISTRATIONS, topics.SESSIONS)
_TICK_S = 1.0
_RESTART_S = 0.5
_COMMIT_EVERY_S = 1.0
_WATCH_TOPICS_S = 5.0

Queues = dict[tuple[str, int], deque[Write]]


class Failure(Exception):
    """The run cannot go on; the next loads what is durable."""


class Matcher(Process):
    """One process. It joins the group when it starts, and again whenever a run has failed."""

    def __init__(self, name: str, clock: Clock, random: Random, kafka: Kafka, group: Group, trace: Trace) -> None:
        super().__init__(clock, name)
        self.random = random
        self.kafka = kafka
        self.group = group
        self.trace = trace
        self.epoch_counter = 0
        self.lag = 0.0
        """How likely a look leaves what there is of a topic for the next look."""
        self.doom: tuple[int, str] | None = None
        """(writes, fate): after so many writes more it is killed or stopped, or Kafka does not take the next one."""
        self.commits_held = False
        """The group's coordinator takes no commits: a successor reads again what this one has done."""
        self.requests_at_once = 1000
        self.rules = Rules()
        self.run: Run | None = None

    def start(self) -> None:
        """Begin to run."""
        self._born()
        self._begin()

    def _begin(self) -> None:
        self.run = Run(self)
        self.group.join(self.run)
        self.later(_TICK_S, self.run.tick)

    def kill(self) -> None:
        """SIGKILL: what it had not written is lost. The group notices later."""
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
            for number in list(run.partitions):
                run.give_up(number)
            self._died()
            self.run = None
            self.group.leave(run)

    def failed(self, run: "Run", reason: str) -> None:
        """The run ended by itself: drop everything, begin anew."""
        if run is not self.run:
            return
        self.trace(self.name, "begins anew", reason)
        run.partitions.clear()
        self.group.leave(run)
        self.life += 1  # whatever the run was about to do is not done
        self.run = None
        self.later(_RESTART_S, self._begin)


class Run:
    """From joining the group to the first failure."""

    def __init__(self, matcher: Matcher) -> None:
        self.matcher = matcher
        self.kafka = matcher.kafka
        self.random = matcher.random
        self.partitions: dict[int, Partition] = {}
        self.cluster = self._describe()
        self.owner = f"{matcher.name}:{matcher.life}"
        self._topic_ids: dict[tuple[str, int], str] = {}
        self._read: dict[tuple[str, int], int] = {}
        self._serving: set[int] = set()
        self._queues: list[Queues] = []
        self._busy = False
        self._look_due = False
        self._committed_at_s = matcher.clock.now_s
        self._watched_at_s = matcher.clock.now_s

    @property
    def responsive(self) -> bool:
        """Whether the process answers the group."""
        return self.matcher.alive and not self.matcher.stopped and self.matcher.run is self

    def _describe(self) -> Cluster:
        objects, requests = self.kafka.topics[topics.OBJECTS].id, self.kafka.topics[topics.REQUESTS].id
        epoch = epoch_of(objects, PARTITIONS, self.matcher.epoch_counter)
        state = tuple(self.kafka.topics[topic].id for topic in (topics.REGISTRATIONS, topics.SESSIONS))
        return Cluster(PARTITIONS, INBOXES, objects, requests, epoch, state)

    # ---- the group

    def assign(self, partition: int) -> None:
        """Load it, from the beginning of the compacted topics."""
        if not self.responsive:
            return  # it hears of it when it goes on, or never
        self.matcher.trace(self.matcher.name, "is assigned", partition)
        if self._describe() != self.cluster:
            self.matcher.later(0.0, lambda: self.matcher.failed(self, "a topic was recreated"))
            return
        ends = {topic: self.kafka.log(topic, partition).end for topic in _COMPACTED}
        for topic in (*_COMPACTED, topics.REQUESTS):
            self._topic_ids[topic, partition] = self.kafka.topics[topic].id
            self._read[topic, partition] = 0
        requests, objects = self.kafka.log(topics.REQUESTS, partition), self.kafka.log(topics.OBJECTS, partition)
        start, _ = self.kafka.committed_offset(topics.REQUESTS, partition)
        self._read[topics.REQUESTS, partition] = start if requests.start <= start <= requests.end else requests.start
        committed, mark = self.kafka.committed_offset(topics.OBJECTS, partition)
        self.partitions[partition] = Partition(
            partition,
            self.cluster,
            self.owner,
            ends=ends,
            objects_committed=committed if 0 <= committed <= objects.end else None,
            registrations_max=REGISTRATIONS_MAX,
        )
        self.partitions[partition].requests_start = self._read[topics.REQUESTS, partition]
        self.partitions[partition].requests_committed = start >= 0
        self.partitions[partition].committed_in_epoch = mark == self.cluster.marks[topics.OBJECTS]
        self._serving.discard(partition)
        self.look_soon()

    def give_up(self, partition: int) -> bool:
        """Another one is to serve it."""
        if self._busy:
            return False
        if partition in self.partitions:
            self._commit_one(partition)  # which may find out that the run is over
            self.partitions.pop(partition, None)
        return True

    def hear_of_the_group(self) -> None:
        """After a stop: partitions that are not ours any more are dropped; those that came meanwhile are loaded."""
        if self.matcher.run is not self:
            return
        for number, owner in self.matcher.group.owners.items():
            if owner is self and number not in self.partitions:
                self.assign(number)
        gone = [number for number in self.partitions if not self.group_has(number)]
        if not gone:
            self.matcher.group.join(self)  # it may be out of it without having lost anything
            return
        self.matcher.trace(self.matcher.name, "hears that it has lost", gone)
        if self.random.random() < 0.5:
            self.matcher.failed(self, "commit refused")
            return
        for number in gone:
            del self.partitions[number]
        self.matcher.group.join(self)

    def _on_taken_over(self, number: int, reason: str) -> None:
        """Somebody has claimed it. If the group still gives it to this run after a while, it claims it again."""
        self.matcher.trace(self.matcher.name, "drops", number, reason)
        del self.partitions[number]
        self._serving.discard(number)

        def load_again() -> None:
            if self.matcher.run is self and number not in self.partitions and self.group_has(number):
                self.assign(number)

        self.matcher.later(worker.TAKEN_OVER_RETRY_S, load_again)

    def group_has(self, partition: int) -> bool:
        """Whether the group gives it to this run."""
        return self.matcher.group.owns(self, partition)

    # ---- a step

    def look_soon(self) -> None:
        """There may be something to read."""
        if not self._look_due and not self._busy:
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
        if self._busy:
            return
        for partition in self.partitions.values():
            if partition.phase is Phase.OWNED:
                partition.engine.on_tick(self.matcher.clock.now_ms)
        self._look()

    def _look(self) -> None:
        self._look_due = False
        if self._busy or self.matcher.run is not self:
            return
        now_ms = self.matcher.clock.now_ms
        try:
            left = False
            for number, partition in list(self.partitions.items()):
                try:
                    left |= self._take(number, partition, now_ms)
                except TakenOver as error:
                    self._on_taken_over(number, str(error))
            claims = [p.claim() for p in self.partitions.values() if p.loaded or p.must_claim_again]
            if claims:
                self._write([self._queued(claims)])
                return
            for partition in self.partitions.values():
                self._advance(partition, now_ms)
        except Failure as error:
            self.matcher.failed(self, str(error))
            return
        owned = [p for p in self.partitions.values() if p.phase is Phase.OWNED]
        steps = [partition.engine.take_step(now_ms) for partition in owned]
        state = [write for step in steps for write in step.state]
        state += [write for partition in owned for write in partition.take_repairs()]
        rest = [write for step in steps for write in (*step.tombstones, *worker._inbox_writes(step))]
        if state or rest:
            self._write([self._queued(state), self._queued(rest)])
        else:
            self._finish_step()
        if left:
            self.look_soon()

    def _take(self, number: int, partition: Partition, now_ms: int) -> bool:
        """Read what there is of the partition's topics. Whether something was left."""
        left = False
        for topic in _COMPACTED:
            log = self._checked_log(topic, number)
            position = self._read[topic, number]
            if position < log.end and self.random.random() < self.matcher.lag:
                left = True
                continue
            for entry in log.read(position, log.end - position):
                said = read_headers(entry.headers)
                record = Record(
                    topic,
                    number,
                    entry.offset,
                    end=False,
                    key=entry.key,
                    value=entry.value,
                    timestamp_ms=entry.timestamp_ms,
                    moved=said.moved,
                    since=said.since,
                )
                partition.on_record(record, now_ms)
            self._read[topic, number] = log.end
            partition.on_end(topic, log.end)
        if number in self._serving:
            self._take_requests(number, partition)
        return left

    def _take_requests(self, number: int, partition: Partition) -> None:
        log = self._checked_log(topics.REQUESTS, number)
        entries = log.read(self._read[topics.REQUESTS, number], self.matcher.requests_at_once)
        if not entries:
            return
        batch = []
        now_ms = self.matcher.clock.now_ms
        for entry in entries:
            value = entry.value or b""
            try:
                request = parse_request(value, partition=number, partitions=PARTITIONS, inboxes=INBOXES, now_ms=now_ms)
            except Unreadable as error:
                record = Record(topics.REQUESTS, number, entry.offset, end=False, key=entry.key, value=value)
                partition.set_aside(record, str(error), NOT_UNDERSTOOD)
                continue
            batch.append((entry.offset, request))
        self._read[topics.REQUESTS, number] = partition.requests_position = entries[-1].offset + 1
        if not batch:
            return
        need = any(request.WhichOneof("body") in worker._NEED_BARRIER for _, request in batch)
        barrier = self.kafka.log(topics.OBJECTS, number).end if need else 0
        partition.pending.append(PendingRequests(barrier, batch))

    def _checked_log(self, topic: str, number: int) -> PartitionLog:
        log = self.kafka.log(topic, number)
        recreated = self.kafka.topics[topic].id != self._topic_ids[topic, number] and self._read[topic, number] > 0
        if recreated or self._read[topic, number] > log.end:
            raise Failure(f"{topic}: the offset that was to be read next does not exist")
        return log

    def _advance(self, partition: Partition, now_ms: int) -> None:
        number, engine = partition.number, partition.engine
        if partition.claimed:
            engine.rules = self.matcher.rules
            ends = (self.kafka.log(topic, number).end for topic in (topics.REQUESTS, topics.OBJECTS))
            partition.own(now_ms, Ends(*ends))
            self.matcher.trace(self.matcher.name, "owns", number, "generation", engine.generation)
            if partition.requests_topic_changed:
                self._read[topics.REQUESTS, number] = 0
            self._serving.add(number)
            self._take_requests(number, partition)
        if partition.phase is Phase.OWNED:
            engine.flush(now_ms)
            while partition.pending and engine.position >= partition.pending[0].barrier:
                engine.on_requests(partition.pending.popleft().requests, now_ms)

    # ---- writes

    def _queued(self, writes: Iterable[Write]) -> Queues:
        queues: Queues = {}
        for write in writes:
            queues.setdefault((write.topic, write.partition or 0), deque()).append(write)
        return queues

    def _write(self, phases: list[Queues]) -> None:
        self._busy = True
        self._queues = phases
        self._write_on()

    def _write_on(self) -> None:
        """Write until all is written, or fate strikes, or time passes between two writes."""
        matcher = self.matcher
        while self._queues:
            queues = self._queues[0]
            if not queues:
                self._queues.pop(0)
                continue
            fate = self._fate()
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
                matcher.failed(self, "a write failed")
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
        self._finish_step()

    def _fate(self) -> str:
        matcher = self.matcher
        if matcher.doom is None:
            return ""
        writes, fate = matcher.doom
        if writes > 0:
            matcher.doom = writes - 1, fate
            return ""
        matcher.doom = None
        return fate

    def _append(self, write: Write) -> None:
        timestamp_ms = self.matcher.clock.now_ms if write.timestamp_ms is None else write.timestamp_ms
        self.kafka.append(write.topic, write.partition or 0, timestamp_ms, write.key, write.value, write.headers)

    def _finish_step(self) -> None:
        self._busy = False
        now_s = self.matcher.clock.now_s
        if now_s - self._committed_at_s >= _COMMIT_EVERY_S:
            self._committed_at_s = now_s
            if self._fate() == "kill":
                self.matcher.kill()
                return
            for number in list(self.partitions):
                if self.matcher.run is self:
                    self._commit_one(number)
        if any(self._behind(number) for number in self.partitions):
            self.look_soon()
        due_ms = [due for p in self.partitions.values() if (due := p.engine.next_due_ms()) is not None]
        if due_ms:
            self.matcher.later(max(0.001, (min(due_ms) - self.matcher.clock.now_ms) / 1000), self.look_soon)

    def _behind(self, number: int) -> bool:
        seen = (*_COMPACTED, topics.REQUESTS) if number in self._serving else _COMPACTED
        return any(self._read[topic, number] < self.kafka.log(topic, number).end for topic in seen)

    def _commit_one(self, number: int) -> None:
        partition = self.partitions[number]
        if partition.phase is not Phase.OWNED:
            return
        if not self.group_has(number):
            self.matcher.failed(self, "commit refused")
            return
        if self.matcher.commits_held:
            return
        if partition.requests_position is not None:
            self._commit_offset(topics.REQUESTS, number, partition.requests_handled)
        self._commit_offset(topics.OBJECTS, number, partition.engine.objects_done)

    def _commit_offset(self, topic: str, number: int, offset: int) -> None:
        self.kafka.committed[topic, number] = offset, self.cluster.marks[topic]
