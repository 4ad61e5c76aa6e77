"""The clock of a job's process: what it learns from deliveries, when it asks, and what it says in the log."""

import time
from dataclasses import dataclass

import pytest
import structlog
from coldnotify_common.clocks import KAFKA, KAFKA_EVERY_S
from coldnotify_common.steady import steady_s
from coldnotify_streams import job_clock
from coldnotify_streams.job_clock import STAMP_EVERY_S, WARNED_EVERY_S, JobClock
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME

T0_S = 1_700_000_000


@dataclass
class Delivered:
    """A record as the producer hands it to its callback."""

    stamp_ms: int
    kind: int = TIMESTAMP_LOG_APPEND_TIME

    def timestamp(self) -> tuple[int, int]:
        return self.kind, self.stamp_ms

    def latency(self) -> float:
        return 0.01


class Faked:
    """Both clocks, as a test sets them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall_s, self.steady_s = float(T0_S), 100.0
        monkeypatch.setattr(job_clock, "steady_s", lambda: self.steady_s)
        monkeypatch.setattr(time, "time_ns", lambda: int(self.wall_s * 1e9))

    def run(self, seconds: float) -> None:
        self.wall_s += seconds
        self.steady_s += seconds


@pytest.fixture
def faked(monkeypatch: pytest.MonkeyPatch) -> Faked:
    return Faked(monkeypatch)


def deliver(clock: JobClock, stamp_s: float, kind: int = TIMESTAMP_LOG_APPEND_TIME) -> None:
    clock.on_delivered(Delivered(int(stamp_s * 1000), kind))  # type: ignore[arg-type]


def test_the_steady_clock_counts_suspended_time_and_never_goes_back() -> None:
    before_s = steady_s()
    assert before_s >= time.monotonic() - 1
    assert steady_s() >= before_s


def test_only_timestamps_of_kafka_itself_count(faked: Faked) -> None:
    clock = JobClock()
    clock.now_ms()
    deliver(clock, T0_S - 500, TIMESTAMP_CREATE_TIME)
    assert not clock.trust.knows_kafka
    deliver(clock, T0_S - 500)
    clock.now_ms()
    assert clock.trust.apart == {KAFKA: pytest.approx(-500_000, abs=100)}
    assert clock.stamp_ms() == pytest.approx((T0_S - 500) * 1000, abs=100), "what it writes is never ahead of Kafka's"


def test_one_delivery_a_second_is_checked_for_kafkas_time(faked: Faked) -> None:
    clock = JobClock()
    clock.now_ms()
    deliver(clock, T0_S)
    clock.now_ms()
    deliver(clock, T0_S - 500)
    clock.now_ms()
    assert clock.trust.apart == {}
    faked.run(STAMP_EVERY_S + 0.1)
    clock.now_ms()
    deliver(clock, T0_S - 500)
    clock.now_ms()
    assert set(clock.trust.apart) == {KAFKA}


def test_kafkas_time_is_asked_for_if_nothing_else_is_written(faked: Faked) -> None:
    clock = JobClock()
    clock.now_ms()
    assert clock.take_ask()
    assert not clock.take_ask(), "the answer is on its way"
    deliver(clock, T0_S)
    faked.run(KAFKA_EVERY_S - 1)
    clock.now_ms()
    assert not clock.take_ask()
    faked.run(2)
    clock.now_ms()
    assert clock.take_ask()


def test_it_warns_when_clocks_diverge_and_repeats_the_warning(faked: Faked) -> None:
    clock = JobClock()
    clock.now_ms()
    with structlog.testing.capture_logs() as logged:
        for _ in range(int(WARNED_EVERY_S) + 60):
            faked.run(1)
            clock.now_ms()
            deliver(clock, faked.wall_s - 500)
        assert [line["log_level"] for line in logged] == ["warning", "warning"]
        assert logged[0]["ahead_of_ours_s"] == {KAFKA: pytest.approx(-500, abs=1)}
        deliver(clock, faked.wall_s)
        faked.run(2)
        clock.now_ms()
        deliver(clock, faked.wall_s)
        clock.now_ms()
        assert logged[-1]["event"] == "all clocks agree again"
