"""The order of a step, and what becomes of partitions that fail, come and go: with a job of a few lines.

Stands for: actions, events, following, job, run
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import pytest
from coldnotify_streams.core import actions
from coldnotify_streams.core.actions import (
    Action,
    AskEnds,
    Commit,
    Doing,
    Drop,
    Flush,
    Follow,
    LoadsAnew,
    Offset,
    Pause,
    Read,
    Release,
    Say,
    Serve,
    TakeFollowed,
    TookOver,
    Unfollow,
    Write,
)
from coldnotify_streams.core.events import (
    Assigned,
    Began,
    Event,
    Failed,
    NotCommitted,
    Now,
    Record,
    Records,
    Revoked,
    Rewound,
    Takeover,
    Where,
)
from coldnotify_streams.core.job import At, Ends, JobPartition, Outputs, Phase, Produced, Refused, Topics
from coldnotify_streams.core.run import Limits, Run
from coldnotify_streams.errors import Failure, NewerFormat, TakenOver

REQUESTS, TABLE, STATE, ANSWERS = "requests", "table", "state", "answers"
TOPICS = Topics(requests=REQUESTS, table=TABLE, state=(STATE,))
CLAIM = b"@claim"
NEW = Takeover(requests_start=0, requests_committed=True, table_committed=0, table_in_epoch=True)


class Written(NamedTuple):
    """One record to produce."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp_ms: int | None = None


class Tally(JobPartition):
    """Collects the offsets of requests, by their key. What it has of a key is stored, then answered."""

    def __init__(self, number: int, owner: str) -> None:
        super().__init__(number, TOPICS)
        self.owner = owner
        self.sums: dict[str, list[int]] = {}
        self.handled: list[int] = []
        self.aside: list[Record] = []
        self.ticks = 0
        self._at: At = None
        self._position = 0
        self._claims: list[str] = []
        self._changed: set[str] = set()
        self._newer = False

    def on_load(self, takeover: Takeover) -> None:
        self.loaded_with = takeover

    @property
    def requests_topic_changed(self) -> bool:
        return False

    def claim(self) -> Written:
        if self._newer:
            raise NewerFormat("a record of a later release")
        self.phase = Phase.CLAIMING
        return Written(STATE, self.number, CLAIM, self.owner.encode())

    @property
    def claimed(self) -> bool:
        return self.phase is Phase.CLAIMING and self._claims[-1:] == [self.owner]

    @property
    def must_claim_again(self) -> bool:
        return False

    def own(self, now_ms: int, ends: Ends) -> None:
        self.phase = Phase.OWNED

    @property
    def about(self) -> dict[str, object]:
        return {"sums": len(self.sums)}

    @property
    def at(self) -> At:
        return self._at

    @property
    def position(self) -> int:
        return self._position

    @property
    def table_done(self) -> int:
        return self._position

    def on_record(self, record: Record, now_ms: int) -> None:
        if record.key == CLAIM:
            self._claims.append((record.value or b"").decode())
            if self.phase is Phase.OWNED and self._claims[-1] != self.owner:
                raise TakenOver(f"{self._claims[-1]} took it over")
        elif record.topic == TABLE:
            self._position = record.offset + 1
            if record.value == b"raise":
                raise ValueError("by design")
        else:
            self._newer = record.value == b"newer"
            if not self._newer and record.key and record.value:
                self.sums[record.key.decode()] = json.loads(record.value)
        self.note_progress(record.topic, record.offset + 1)

    def on_end(self, topic: str, offset: int) -> None:
        if topic == TABLE:
            self._position = max(self._position, offset)
        self.behind.discard(topic)
        self.note_progress(topic, offset)

    def skip(self, record: Record, reason: str) -> None:
        self.aside.append(record)
        if record.topic == TABLE:
            self._position = record.offset + 1

    def request_of(self, record: Record, now_ms: int) -> Any | None:
        return json.loads(record.value or b"") if record.value else None

    def needs_barrier(self, request: Any) -> bool:
        return bool(request.get("wait"))

    def on_requests(self, requests: Sequence[tuple[int, Any]], now_ms: int) -> None:
        for offset, request in requests:
            self._at = REQUESTS, offset
            if request.get("raise"):
                raise ValueError("by design")
            self.handled.append(offset)
            self.sums[request["key"]] = sorted({*self.sums.get(request["key"], ()), offset})
            self._changed.add(request["key"])
        self._at = None

    def flush(self, now_ms: int) -> None:
        pass

    def next_due_ms(self) -> int | None:
        return None

    def on_tick(self, now_ms: int) -> None:
        self.ticks += 1

    def take_step(self, now_ms: int) -> Outputs:
        changed, self._changed = sorted(self._changed), set()
        if any(key == "step-raises" for key in changed):
            raise ValueError("by design")
        state = [Written(STATE, self.number, key.encode(), json.dumps(self.sums[key]).encode()) for key in changed]
        return Outputs(
            state, [Written(ANSWERS, None, key.encode(), json.dumps(self.sums[key]).encode()) for key in changed]
        )

    def take_counts(self) -> dict[str, int]:
        return {}


class TallyJob:
    """Two partitions of it."""

    topics = TOPICS
    partitions = 2
    marks: Mapping[str, str] = {REQUESTS: "requests-id", TABLE: "table-id"}
    puts_off = False

    def __init__(self, owner: str = "me") -> None:
        self.owner = owner

    def partition(self, number: int) -> Tally:
        return Tally(number, self.owner)

    def owner_of(self, refused: Refused) -> int | None:
        return refused.partition if refused.topic == STATE else None


@dataclass
class Bench:
    """A shell over lists. Records come with the step after the one that wrote them."""

    limits: Limits = field(default_factory=Limits)
    standby: bool = False
    now_s: float = 1000.0

    def __post_init__(self) -> None:
        self.run = Run(TallyJob(), standby=self.standby, limits=self.limits)
        self.log: dict[Where, list[Record]] = defaultdict(list)
        self.done: list[Action] = []
        """All of it, in order."""
        self.assigned: set[int] = set()
        self.reading: set[int] = set()
        self.serving: set[int] = set()
        self.read: dict[Where, int] = defaultdict(int)
        self.events: list[Event] = []
        self.table_held: set[int] = set()
        """Partitions of which the table is not read."""
        self.fails: dict[type[Action], Exception] = {}
        """Thrown at the next action of this kind."""
        self.fails_after = 0
        self.refused: list[Refused] = []
        self.followed: list[Event] = []
        self.stable: dict[Where, int] = {}
        self.committed: dict[Where, int] = {}

    def append(self, topic: str, number: int, key: bytes | None, value: bytes | None) -> int:
        log = self.log[topic, number]
        log.append(Record(topic, number, len(log), end=False, key=key, value=value))
        return len(log) - 1

    def request(self, number: int = 0, key: str = "a", **about: Any) -> int:
        return self.append(REQUESTS, number, None, json.dumps({"key": key, **about}).encode())

    def assign(self, *numbers: int, takeover: Takeover = NEW) -> None:
        self.assigned |= set(numbers)
        for number in numbers:
            self.read[REQUESTS, number] = takeover.requests_start
        self.step(*(Assigned(number, takeover) for number in numbers))
        self.steps(3)

    def partition(self, number: int = 0) -> Tally:
        found = self.run.partitions[number]
        assert isinstance(found, Tally)
        return found

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.step()

    def step(self, *events: Event, seconds: float = 1.0) -> list[Action]:
        """One step, with all that there is to be read: what it wanted done."""
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
        places = [w for n in self.reading for topic in TOPICS.compacted if (w := (topic, n)) not in held]
        places += [(REQUESTS, number) for number in self.serving]
        taken: list[Event] = []
        for where in places:
            records = self.log[where][self.read[where] :]
            self.read[where] = len(self.log[where])
            ends = [Record(*where, self.read[where], end=True)] if where[0] != REQUESTS else []
            if records or ends:
                taken.append(Records([*records, *ends]))
        return taken

    def _do(self, action: Action) -> object:
        match action:
            case actions.AskBounds(places):
                return dict.fromkeys(places, 0), {where: len(self.log[where]) for where in places}
            case actions.AskEnds(places, uncommitted):
                ends = {where: len(self.log[where]) for where in places}
                return ends if uncommitted else ends | {w: self.stable[w] for w in places if w in self.stable}
            case actions.TakeFollowed():
                return self.followed.pop(0) if self.followed else None
            case actions.Write(records):
                for one in records:
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
    """What was wanted, of these kinds."""
    return [type(one) for one in done if isinstance(one, wanted)]


def topics_of(records: Sequence[Produced]) -> set[str]:
    """Where to."""
    return {one.topic for one in records}


def bench(**more: Any) -> Bench:
    """One that serves both partitions."""
    one = Bench(**more)
    one.assign(0, 1)
    assert [p.phase for p in one.run.partitions.values()] == [Phase.OWNED] * 2
    return one


# --- the order of a step


def test_state_is_durable_before_what_promises_it_and_both_before_anything_is_committed() -> None:
    one = bench()
    one.request(0)
    one.request(1)
    done = one.step()
    order = kinds(done, Write, Flush, Commit)
    assert order == [Write, Write, Flush, Write, Write, Flush, Commit]
    written = [topics_of(action.records) for action in done if isinstance(action, Write)]
    assert written == [{STATE}, {STATE}, {ANSWERS}, {ANSWERS}]
    assert one.committed[REQUESTS, 0] == one.committed[REQUESTS, 1] == 1


@pytest.mark.parametrize("flushes", [0, 1], ids=["state", "what promises it"])
def test_a_delivery_that_fails_ends_the_run_and_nothing_of_the_step_is_committed(flushes: int) -> None:
    one = bench()
    before = dict(one.committed)
    one.request(0)
    one.fails[Flush] = Failure("not delivered")
    one.fails_after = flushes
    with pytest.raises(Failure, match="not delivered"):
        one.step()
    one.commit(one.run.last_offsets())
    assert one.committed.get((REQUESTS, 0), 0) == before.get((REQUESTS, 0), 0) == 0


def test_no_step_begins_before_the_one_before_has_ended() -> None:
    one = bench()
    one.request(0)
    under_way = one.run.step(one.take(), Now(one.now_s, 0), one.assigned)
    next(under_way)
    with pytest.raises(AssertionError, match="has not ended"):
        next(one.run.step((), Now(one.now_s, 0), one.assigned))


# --- rests


def test_a_step_that_answered_requests_is_followed_by_a_rest_and_others_are_not() -> None:
    one = bench(limits=Limits(rest_share=2.0, rest_max_s=0.5))
    one.request(0)
    one.step()
    one.run.on_stepped(one.now_s + 0.1)
    assert one.run.rest_s(one.now_s + 0.1) == pytest.approx(0.2)
    assert one.run.rest_s(one.now_s + 0.3) == 0
    one.append(TABLE, 0, b"x", b"1")
    one.step()
    one.run.on_stepped(one.now_s + 0.1)
    assert one.run.rest_s(one.now_s + 0.1) == 0, "a publish is to be fanned out soon"


def test_a_rest_has_a_bound() -> None:
    one = bench(limits=Limits(rest_share=2.0, rest_max_s=0.5))
    one.request(0)
    one.step()
    one.run.on_stepped(one.now_s + 20)
    assert one.run.rest_s(one.now_s + 20) == pytest.approx(0.5)


def test_a_run_that_is_careful_does_not_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    one = bench(limits=Limits(rest_share=2.0, rest_max_s=0.5))
    one.request(0)
    one.step()
    one.run.on_stepped(one.now_s + 0.1)
    assert one.run.rest_s(one.now_s + 0.1) > 0
    monkeypatch.setattr(Run, "careful", True)
    assert one.run.rest_s(one.now_s + 0.1) == 0


def test_what_is_handled_and_not_stored_is_not_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    one = bench()
    one.request(0)
    one.request(0)
    monkeypatch.setattr(Tally, "first_not_stored", property(lambda self: 1))
    one.steps(2)
    assert one.partition().handled == [0, 1]
    assert one.committed[REQUESTS, 0] == 1
    monkeypatch.setattr(Tally, "first_not_stored", property(lambda self: None))
    one.steps(2)
    assert one.committed[REQUESTS, 0] == 2


# --- the barrier


def test_a_request_that_promises_what_stands_last_waits_until_the_table_is_read_so_far() -> None:
    one = bench()
    one.table_held.add(0)
    one.append(TABLE, 0, b"x", b"1")
    one.request(0, wait=True)
    one.steps(3)
    assert one.partition().handled == []
    assert one.committed.get((REQUESTS, 0), 0) == 0, "what waits is not handled"
    one.table_held.clear()
    one.step()
    assert one.partition().handled == [0]


def test_nobody_is_answered_from_a_table_that_was_made_anew() -> None:
    """Until it is noticed that its id is another one, seconds may pass."""
    one = bench()
    one.append(TABLE, 0, b"x", b"1")
    one.step()
    one.log[TABLE, 0].clear()
    one.read[TABLE, 0] = 0
    one.table_held.add(0)
    one.request(0, wait=True)
    with pytest.raises(Failure, match="made anew"):
        one.step()


def test_a_table_that_is_not_read_any_further_ends_the_run_and_an_open_transaction_does_not() -> None:
    one = bench(limits=Limits(barrier_timeout_s=5.0))
    one.table_held.add(0)
    one.append(TABLE, 0, b"x", b"1")
    one.request(0, wait=True)
    one.stable[TABLE, 0] = 0
    one.steps(5)
    said = [action.words for _ in range(4) for action in one.step() if isinstance(action, Say)]
    assert said == [f"requests wait for a transaction that is open on {TABLE}"]
    del one.stable[TABLE, 0]
    with pytest.raises(Failure, match="not read any further"):
        one.steps(10)


def test_of_requests_that_wait_only_so_many_are_read() -> None:
    one = bench(limits=Limits(pending_requests_max=4))
    one.table_held.add(0)
    one.append(TABLE, 0, b"x", b"1")
    for _ in range(4):
        one.request(0, wait=True)
    assert kinds(one.step(), Pause, Serve) == []
    one.request(0, wait=True)
    assert kinds(one.step(), Pause, Serve) == [Pause]
    one.request(0, wait=True)
    assert kinds(one.step(), Pause, Serve) == [], "once is enough"
    assert one.run.partitions[0].requests_pending == 5
    one.table_held.clear()
    assert kinds(one.step(), Pause, Serve) == [Serve]
    one.steps(2)
    assert one.partition().handled == list(range(6))


# --- who serves what


def test_a_takeover_is_one_value_and_is_handed_on_whole() -> None:
    one = Bench()
    takeover = replace(NEW, requests_start=3, table_committed=7, table_in_epoch=False)
    one.assign(0, takeover=takeover)
    assert one.partition().takeover == takeover


def test_what_was_read_for_an_earlier_load_counts_for_nothing() -> None:
    one = Bench()
    one.append(STATE, 0, b"a", b"[5]")
    one.assigned.add(0)
    one.step(Assigned(0, NEW), Records([Record(STATE, 0, 0, end=False, key=b"ghost", value=b"[1]")]))
    one.steps(3)
    assert one.partition().sums == {"a": [5]}


def test_another_ones_claim_drops_that_partition_alone_which_is_claimed_again_later() -> None:
    one = bench()
    one.request(0)
    one.step()
    other = one.partition(1)
    one.append(STATE, 0, CLAIM, b"another")
    assert Drop in kinds(one.step(), Drop)
    assert one.run.partitions == {1: other}
    one.request(0)
    one.steps(2)
    assert one.run.partitions == {1: other}
    one.steps(4)
    again = one.partition(0)
    assert again.phase is Phase.OWNED
    assert again.takeover is not None
    assert (again.takeover.requests_start, again.takeover.requests_known) == (1, True)
    assert again.sums == {"a": [0, 1]}


def test_a_dropped_partition_that_the_group_has_given_away_is_not_claimed_again() -> None:
    one = bench()
    one.append(STATE, 0, CLAIM, b"another")
    one.step()
    one.assigned.discard(0)
    one.steps(10)
    assert 0 not in one.run.partitions


def test_a_record_of_a_later_release_parks_its_partition_alone() -> None:
    one = Bench()
    one.append(STATE, 0, b"a", b"newer")
    one.assign(0, 1)
    assert set(one.run.partitions) == {1}
    assert set(one.run.waiting) == {0}
    assert [r.key for r in one.log[STATE, 0]] == [b"a"], "nothing is written there"
    one.append(STATE, 0, b"a", b"[1]")
    one.steps(40)
    assert one.partition(0).phase is Phase.OWNED


def test_what_is_revoked_is_let_go_with_what_is_durable() -> None:
    one = bench()
    one.step(seconds=0.1)
    one.request(0)
    done = one.step(Revoked((0,), lost=False), seconds=0.1)
    (release,) = [action for action in done if isinstance(action, Release)]
    assert {(o.topic, o.offset, o.mark) for o in release.offsets} == {
        (REQUESTS, 1, "requests-id"),
        (TABLE, 0, "table-id"),
    }
    assert set(one.run.partitions) == {1}
    (lost,) = [a for a in one.step(Revoked((1,), lost=True)) if isinstance(a, Release)]
    assert lost.offsets == []


def test_a_refused_commit_is_tried_again_and_a_fenced_one_ends_the_run() -> None:
    one = bench()
    one.request(0)
    one.step()
    one.committed.clear()
    one.step(NotCommitted("timed out", fenced=False))
    one.step()
    assert one.committed[REQUESTS, 0] == 1
    with pytest.raises(Failure, match="committing: fenced"):
        one.step(NotCommitted("fenced", fenced=True))


def test_a_reader_that_fails_ends_the_run() -> None:
    with pytest.raises(Failure, match="reading from Kafka: gone"):
        bench().step(Failed(OSError("gone")))


# --- faults


@pytest.mark.parametrize("about", [{"raise": True}, {"key": "step-raises"}], ids=["handling it", "its step"])
def test_a_request_that_raises_is_set_aside_and_its_partition_goes_on(about: dict[str, Any]) -> None:
    one = bench()
    other = one.partition(1)
    one.request(0)
    bad = one.request(0, **about)
    one.request(0)
    one.steps(12)
    assert [(r.topic, r.offset) for r in one.partition(0).aside] == [(REQUESTS, bad)]
    assert one.partition(0).sums == {"a": [0, 2]}
    assert one.partition(1) is other
    assert one.committed[REQUESTS, 0] == 3


def test_a_record_of_the_table_that_raises_is_set_aside() -> None:
    one = bench()
    bad = one.append(TABLE, 0, b"x", b"raise")
    one.request(0, wait=True)
    one.steps(6)
    assert [(r.topic, r.offset) for r in one.partition(0).aside] == [(TABLE, bad)]
    assert one.partition(0).handled == [0]


def test_what_kafka_refuses_is_a_fault_of_its_partition_or_of_nobody() -> None:
    one = bench()
    one.request(0)
    one.refused = [Refused(ANSWERS, 0, b"", "too large")]
    assert "a record is lost that Kafka does not take" in [a.words for a in one.step() if isinstance(a, Say)]
    assert set(one.run.partitions) == {0, 1}
    one.request(0)
    one.refused = [Refused(STATE, 0, b"", "too large")]
    other = one.partition(1)
    assert [action.partition for action in one.step() if isinstance(action, LoadsAnew)] == [0]
    assert one.partition(1) is other


def test_what_is_not_the_shells_to_decide_is_thrown_where_it_was_asked() -> None:
    """A record that the producer does not take is a fault of its partition: no other one notices."""
    one = bench()
    one.request(0)
    other = one.partition(1)
    one.fails[Write] = OverflowError("no C integer")
    assert [action.partition for action in one.step() if isinstance(action, LoadsAnew)] == [0]
    one.steps(8)
    assert one.partition(0).sums == {"a": [0]}
    assert one.partition(1) is other


# --- the standby


def test_what_was_followed_is_not_loaded_again() -> None:
    one = Bench(standby=True)
    one.append(STATE, 0, b"a", b"[5]")
    assert kinds(one.step(), Follow, TakeFollowed) == [Follow, Follow, TakeFollowed]
    one.followed += [
        Began(0),
        Records([Record(STATE, 0, 0, end=False, key=b"a", value=b"[5]"), Record(STATE, 0, 1, end=True)]),
        Records([Record(TABLE, 0, 0, end=True)]),
    ]
    one.steps(3)
    assert one.run.followed[0].positions == {STATE: 1, TABLE: 0}
    one.assigned.add(0)
    done = one.step(Assigned(0, NEW))
    assert kinds(done, Unfollow, Read) == [Unfollow, Read]
    assert [action.offsets for action in done if isinstance(action, Read)] == [{STATE: 1, TABLE: 0}]
    done = [action for _ in range(3) for action in one.step()]
    assert [action.partition.warm for action in done if isinstance(action, TookOver)] == [True]


def test_what_cannot_be_followed_harms_nobody() -> None:
    one = Bench(standby=True)
    one.assign(1)
    one.followed += [Began(0), Records([Record(TABLE, 0, 0, end=False, key=b"x", value=b"raise")])]
    one.steps(2)
    assert one.run.followed == {}
    one.steps(2)
    assert one.run.followed == {}, "nor later"
    assert one.partition(1).phase is Phase.OWNED


def test_nothing_is_followed_while_what_is_owned_is_loaded() -> None:
    one = Bench(standby=True)
    one.assigned.add(1)
    assert TakeFollowed not in kinds(one.step(Assigned(1, NEW)), TakeFollowed)


# --- time


def test_each_partition_ticks_once_a_second() -> None:
    one = bench()
    before = one.partition().ticks
    for _ in range(40):
        one.step(seconds=0.1)
    assert 3 <= one.partition().ticks - before <= 4


def test_a_look_at_the_ends_is_asked_for_once_for_all_that_is_claimed() -> None:
    one = Bench()
    one.assigned |= {0, 1}
    one.step(Assigned(0, NEW), Assigned(1, NEW))
    asked = [action for _ in range(3) for action in one.step() if isinstance(action, AskEnds)]
    assert [len(action.places) for action in asked] == [4]
    assert all(action.uncommitted for action in asked)
