"""The supervisor with parts that are no processes: when it starts, restarts, gives up and stops them."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from coldnotify_cli import supervisor
from coldnotify_cli.supervisor import KeepsDying, NotReady, Part, Supervisor
from coldnotify_common.stop import StopFlag
from coldnotify_testkit.waiting import wait_for


class FakeProcess:
    """Ends when it is told to."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.status: int | None = None

    def poll(self) -> int | None:
        return self.status

    def stop(self, timeout: float) -> int | None:
        self.status = 0
        return 0


class FakePart:
    """A Part, and what it started."""

    def __init__(
        self,
        name: str = "part",
        *,
        unready: Callable[[], str | None] = lambda: None,
        needed: bool = True,
        awaited: bool = True,
        after_death: Callable[[], object] | None = None,
    ) -> None:
        self.started: list[FakeProcess] = []
        self.obstacle: Exception | None = None
        self.part = Part(
            name,
            self._start,
            unready,
            ready_timeout_s=30,
            needed=needed,
            awaited=awaited,
            after_death=after_death,
        )

    def _start(self) -> FakeProcess:
        if self.obstacle is not None:
            raise self.obstacle
        self.started.append(FakeProcess(len(self.started) + 1))
        return self.started[-1]

    def until_ready(self, now_s: float) -> None:
        def ready() -> bool:
            self.part.turn(now_s)
            return self.part.ready

        wait_for(ready)


@contextmanager
def running(monkeypatch: pytest.MonkeyPatch, both: Supervisor) -> Iterator[None]:
    """It looks all the time, and is stopped at the end."""
    monkeypatch.setattr(supervisor, "LOOK_EVERY_S", 0.001)
    stop = StopFlag()
    thread = threading.Thread(target=both.run, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(30)
        stop.close()


def names_as_stopped(monkeypatch: pytest.MonkeyPatch, *fakes: FakePart) -> list[str]:
    """Which of them were stopped so far."""
    names: list[str] = []
    for fake in fakes:
        monkeypatch.setattr(fake.part, "stop", lambda _timeout_s, name=fake.part.name: names.append(name))
    return names


def test_a_part_that_dies_is_started_again_after_a_delay_that_grows() -> None:
    fake = FakePart()
    fake.until_ready(0)
    now_s = 0.0
    for deaths, delay_s in ((1, 0.1), (2, 0.2), (3, 0.4)):
        fake.started[-1].status = -9
        fake.part.turn(now_s)
        assert not fake.part.ready
        fake.part.turn(now_s + delay_s - 0.01)
        assert len(fake.started) == deaths
        now_s += delay_s + 0.01
        fake.until_ready(now_s)
        assert len(fake.started) == deaths + 1


def test_a_part_is_started_again_only_behind_its_follow_up() -> None:
    begun, done = threading.Event(), threading.Event()

    def follow_up() -> None:
        begun.set()
        assert done.wait(60)

    one = FakePart(after_death=follow_up)
    one.until_ready(0)
    assert not begun.is_set()
    one.started[0].status = -9
    one.part.turn(10)
    wait_for(begun.is_set)
    one.part.turn(20)
    assert len(one.started) == 1
    done.set()

    def started_again() -> bool:
        one.part.turn(20)
        return len(one.started) == 2

    wait_for(started_again)


def test_a_part_that_keeps_dying_is_given_up() -> None:
    fake = FakePart("matcher")

    def die_again_and_again() -> None:
        for now_s in range(20):
            fake.part.turn(float(now_s))
            if fake.part.process is not None:
                fake.started[-1].status = 3

    with pytest.raises(KeepsDying, match="matcher keeps dying: 5 times within 60 s, last with exit code 3"):
        die_again_and_again()
    assert len(fake.started) == 5


def test_its_last_words_are_said_then() -> None:
    fake = FakePart("broker")
    fake.part._last_words = lambda: "--- /data/broker.log ---\nERROR: no heap"
    for now_s in range(4):
        fake.until_ready(float(now_s))
        fake.started[-1].status = 3
        fake.part.turn(float(now_s))
    fake.until_ready(10.0)
    fake.started[-1].status = 3
    with pytest.raises(KeepsDying, match=r"exit code 3\. Its log ends:\n--- /data/broker\.log ---\nERROR: no heap$"):
        fake.part.turn(10.0)


def test_deaths_of_long_ago_do_not_count() -> None:
    fake = FakePart()
    for now_s in range(0, 1000, 20):
        fake.until_ready(float(now_s))
        fake.started[-1].status = -9
        fake.part.turn(float(now_s))
    assert len(fake.started) == 50


def test_a_part_that_is_not_ready_in_time_is_given_up_with_its_own_words() -> None:
    looked = threading.Event()

    def unready() -> str:
        looked.set()
        return "partitions [3] are being loaded"

    fake = FakePart("matcher", unready=unready)
    fake.part.turn(0)
    fake.part.turn(0)
    assert looked.wait(30)
    with pytest.raises(NotReady, match=r"matcher is not ready after 30 s: partitions \[3\] are being loaded"):
        wait_for(lambda: fake.part.turn(31.0))


def test_an_obstacle_raises_at_the_first_start_and_is_retried_later() -> None:
    fake = FakePart()
    fake.obstacle = OSError("port taken")
    with pytest.raises(OSError, match="port taken"):
        fake.part.turn(0)
    fake.obstacle = None
    fake.until_ready(0)
    fake.started[-1].status = -9
    fake.part.turn(1)
    fake.obstacle = OSError("port taken")
    fake.part.turn(2)
    fake.obstacle = None
    fake.until_ready(4)
    assert len(fake.started) == 2


def test_stages_start_one_after_the_other_and_stop_the_other_way_round(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, ready = threading.Event(), threading.Event()
    first = FakePart("first", unready=lambda: None if gate.is_set() else "closed")
    second = FakePart("second")
    both = Supervisor([[first.part], [second.part]], on_ready=ready.set)
    order = names_as_stopped(monkeypatch, first, second)
    with running(monkeypatch, both):
        wait_for(lambda: bool(first.started))
        assert not second.started
        gate.set()
        assert ready.wait(30)
        assert both.pids() == {"first": 1, "second": 1}
        ready.clear()
        first.started[-1].status = -9
        assert ready.wait(30), "it is said again when all are ready again"
        assert both.pids() == {"first": 2, "second": 1}
    assert order == ["second", "first"]


def test_one_that_is_not_awaited_does_not_hold_up_the_next_stage_and_is_stopped_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate, ready = threading.Event(), threading.Event()
    first = FakePart("first", unready=lambda: None if gate.is_set() else "closed", awaited=False)
    second = FakePart("second")
    both = Supervisor([[first.part], [second.part]], on_ready=ready.set)
    order = names_as_stopped(monkeypatch, first, second)
    with running(monkeypatch, both):
        wait_for(lambda: second.part.ready)
        assert not ready.is_set(), "it is needed all the same"
        gate.set()
        assert ready.wait(30)
    assert order == ["second", "first"]


def test_one_that_is_not_needed_is_started_again_however_often_it_dies() -> None:
    fake = FakePart("usage", needed=False)
    for now_s in range(0, 600, 6):  # the longest delay is 5 s
        fake.part.turn(float(now_s))
        assert fake.part.process is not None
        fake.started[-1].status = 1
        fake.part.turn(float(now_s))
    assert len(fake.started) == 100


def test_one_that_is_not_needed_may_take_as_long_as_it_likes_and_be_in_anybodys_way() -> None:
    fake = FakePart("usage", unready=lambda: "Kafka is slow", needed=False)
    fake.obstacle = OSError("no memory")
    fake.part.turn(0)
    fake.obstacle = None
    for now_s in range(1, 1000, 50):
        fake.part.turn(float(now_s))
    assert len(fake.started) == 1
    assert not fake.part.ready


def test_nobody_waits_for_one_that_is_not_needed_and_its_next_start_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    first, usage = FakePart("first"), FakePart("usage", unready=lambda: "not yet", needed=False)
    said: list[dict[str, int]] = []
    both = Supervisor([[first.part], [usage.part]], on_ready=lambda: said.append(both.pids()))
    with running(monkeypatch, both):
        wait_for(lambda: said)
        usage.started[-1].status = -9
        wait_for(lambda: len(said) == 2)
    assert said == [{"first": 1, "usage": 1}, {"first": 1, "usage": 2}]
