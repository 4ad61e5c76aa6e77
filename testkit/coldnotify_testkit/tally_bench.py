"""A shell over lists that executes what a run of the tally job wants done."""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from coldnotify_streams.core import actions
from coldnotify_streams.core.actions import Action, Doing, Offset
from coldnotify_streams.core.events import (
    Assigned,
    Began,
    Event,
    JobRecord,
    LogBlock,
    LogsBegan,
    Now,
    Records,
    Rewound,
    Takeover,
    Where,
)
from coldnotify_streams.core.job import JobProduced, RecordRefused
from coldnotify_streams.core.partition_progress import JobTopics, OwningPhase
from coldnotify_streams.core.partition_turns import NextTurn, endless
from coldnotify_streams.core.run import JobRun, RunLimits

from coldnotify_testkit.tally_job import LOG, NEW, REQUESTS, TABLE, TOPICS, WITH_LOG, OffsetTally, TallyJob


@dataclass
class TallyBench:
    """A shell over lists. Records come with the step after the one that wrote them."""

    limits: RunLimits = field(default_factory=RunLimits)
    standby: bool = False
    now_s: float = 1000.0
    topics: JobTopics = TOPICS
    next_turn: NextTurn = endless

    def __post_init__(self) -> None:
        job = TallyJob(topics=self.topics)
        self.run = JobRun(job, standby=self.standby, limits=self.limits, next_turn=lambda: self.next_turn())
        self.log: dict[Where, list[JobRecord]] = defaultdict(list)
        self.done: list[Action] = []
        """All of it, in order."""
        self.assigned: set[int] = set()
        self.reading: set[int] = set()
        self.log_begins: dict[Where, int] = {}
        self.reading_logs: set[Where] = set()
        self.logs_began: list[Event] = []
        self.logs_held = False
        self.blocks_unreadable: set[int] = set()
        """Offsets from which on one record cannot be read."""
        self.serving: set[int] = set()
        self.read: dict[Where, int] = defaultdict(int)
        self.events: list[Event] = []
        self.held_back: set[int] = set()
        """Partitions whose compacted topics and logs are not read."""
        self.table_held: set[int] = set()
        """Partitions whose table is not read."""
        self.fails: dict[type[Action], Exception] = {}
        """Thrown at the next action of this kind."""
        self.fails_after = 0
        self.refused: list[RecordRefused] = []
        self.refuses: set[bytes] = set()
        """Keys of records that Kafka does not take."""
        self.followed: list[Event] = []
        self.stable: dict[Where, int] = {}
        self.committed: dict[Where, int] = {}

    def append(self, topic: str, number: int, key: bytes | None, value: bytes | None) -> int:
        log = self.log[topic, number]
        log.append(JobRecord(topic, number, len(log), end=False, key=key, value=value))
        return len(log) - 1

    def request(self, number: int = 0, key: str = "a", **about: Any) -> int:
        return self.append(REQUESTS, number, None, json.dumps({"key": key, **about}).encode())

    def assign(self, *numbers: int, takeover: Takeover = NEW) -> None:
        self.assigned |= set(numbers)
        for number in numbers:
            self.read[REQUESTS, number] = takeover.requests_start
        self.step(*(Assigned(number, takeover) for number in numbers))
        self.steps(3)

    def partition(self, number: int = 0) -> OffsetTally:
        found = self.run.partitions[number]
        assert isinstance(found, OffsetTally)
        return found

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.step()

    def step(self, *events: Event, seconds: float = 1.0) -> list[Action]:
        """Runs one step with everything that can be read, and returns the actions that it wanted."""
        self.now_s += seconds
        before = len(self.done)
        taken, self.events = [*self.events, *self.take(), *events], []
        self.drive(self.run.step(taken, Now(self.now_s, int(self.now_s * 1000)), self.assigned))
        return self.done[before:]

    def drive(self, step: Doing[None]) -> None:
        try:
            action = next(step)
            while True:
                self.done.append(action)
                error = None
                if type(action) in self.fails and not self.fails_after:
                    error = self.fails.pop(type(action))
                elif type(action) in self.fails:
                    self.fails_after -= 1
                action = step.send(self._do(action)) if error is None else step.throw(error)
        except StopIteration:
            return

    def take(self) -> list[Event]:
        held = {(TABLE, number) for number in self.table_held}
        reading = self.reading - self.held_back
        places = [w for n in reading for topic in TOPICS.compacted if (w := (topic, n)) not in held]
        places += [] if self.logs_held else [w for w in sorted(self.reading_logs) if w[1] not in self.held_back]
        places += [(REQUESTS, number) for number in self.serving]
        taken: list[Event] = []
        if not self.logs_held:
            taken, self.logs_began = self.logs_began, taken
        for where in places:
            records = self.log[where][self.read[where] :]
            self.read[where] = len(self.log[where])
            ends = [JobRecord(*where, self.read[where], end=True)] if where[0] != REQUESTS else []
            if records or ends:
                taken.append(Records([*records, *ends]))
        return taken

    def _do(self, action: Action) -> object:
        match action:
            case actions.AskBounds(places):
                starts = {where: self.log_begins.get(where, 0) for where in places}
                return starts, {where: len(self.log[where]) for where in places}
            case actions.AskTimes(times):
                return [ms // 1000 for _, ms in times]
            case actions.ReadLogs(number, offsets):
                for topic, offset in offsets.items():
                    self.reading_logs.add((topic, number))
                    self.read[topic, number] = offset
                self.logs_began.append(LogsBegan(number, offsets))
            case actions.ReadBlock(topic, number, start):
                records = self.log[topic, number][start : start + 3]
                unreadable = start in self.blocks_unreadable
                end = start + (1 if unreadable else len(records))
                self.events.append(
                    LogBlock(topic, number, start, end, 0, [] if unreadable else records, unreadable, 0.1)
                )
            case actions.AskEnds(places, uncommitted):
                ends = {where: len(self.log[where]) for where in places}
                return ends if uncommitted else ends | {w: self.stable[w] for w in places if w in self.stable}
            case actions.TakeFollowed():
                return self.followed.pop(0) if self.followed else None
            case actions.WriteRecords(records):
                for one in records:
                    if one.key in self.refuses:
                        self.refused.append(RecordRefused(one.topic, one.partition or 0, one.value, "too large"))
                        continue
                    self.append(one.topic, one.partition or 0, one.key, one.value)
            case actions.Flush():
                refused, self.refused = self.refused, []
                return refused
            case actions.Read(number, offsets):
                self.reading.add(number)
                for topic, offset in offsets.items():
                    self.read[topic, number] = offset
                self.events.append(Began(number))
            case actions.Drop(number):
                self.reading.discard(number)
                self.reading_logs = {where for where in self.reading_logs if where[1] != number}
            case actions.HoldBack(number):
                self.held_back.add(number)
            case actions.ReadOn(number):
                self.held_back.discard(number)
            case actions.Serve(number):
                self.serving.add(number)
            case actions.Pause(number):
                self.serving.discard(number)
            case actions.Rewind(number, offset):
                self.serving.discard(number)
                self.read[REQUESTS, number] = offset
                self.events.append(Rewound(number))
            case actions.Commit(offsets) | actions.Release(_, offsets):
                self.commit(offsets)
            case _:
                pass
        return None

    def commit(self, offsets: Sequence[Offset]) -> None:
        self.committed |= {(one.topic, one.partition): one.offset for one in offsets}


def kinds(done: Sequence[Action], *wanted: type[Action]) -> list[type[Action]]:
    """Returns the kinds of those actions that are of the wanted kinds, in order."""
    return [type(one) for one in done if isinstance(one, wanted)]


def topics_of(records: Sequence[JobProduced]) -> set[str]:
    """Returns the topics to which the records are written."""
    return {one.topic for one in records}


def bench(**more: Any) -> TallyBench:
    """One that serves both partitions."""
    one = TallyBench(**more)
    one.assign(0, 1)
    assert [p.phase for p in one.run.partitions.values()] == [OwningPhase.OWNED] * 2
    return one


def log_bench(records: int = 0, **more: Any) -> TallyBench:
    """One whose job has a log, of partition 0 with so many records; it is not assigned yet."""
    one = TallyBench(topics=WITH_LOG, **more)
    for _ in range(records):
        one.append(LOG, 0, b"x", b"1")
    return one
