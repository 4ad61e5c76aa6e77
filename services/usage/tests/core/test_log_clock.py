"""The clock of what was read: behind while records wait, and unmoved by nodes whose clocks are wrong."""

import pytest
from coldnotify_usage.core.log_clock import LATE_MS_MAX, LogClock, time_of

BROKER_MS = 1_795_384_800_000


@pytest.mark.parametrize(
    ("at_ms", "time_ms"),
    [
        (BROKER_MS - 700, BROKER_MS - 700),
        (BROKER_MS + 1, BROKER_MS),
        (1 << 62, BROKER_MS),
        (0, BROKER_MS - LATE_MS_MAX),
    ],
)
def test_a_wrong_clock_counts_as_the_nearest_plausible_time(at_ms: int, time_ms: int) -> None:
    assert time_of(at_ms, BROKER_MS) == time_ms


def test_without_a_record_the_time_is_unknown() -> None:
    assert LogClock().read(BROKER_MS) is None


def test_at_the_end_of_the_log_the_clock_runs_by_itself() -> None:
    clock = LogClock()
    clock.on_record(BROKER_MS, BROKER_MS + 5)
    assert clock.read(BROKER_MS + 30_005) == BROKER_MS + 30_000


def test_while_records_wait_the_clock_shows_the_past() -> None:
    clock = LogClock()
    clock.on_record(BROKER_MS, BROKER_MS + 90_000)
    assert (clock.read(BROKER_MS + 90_100), clock.behind_ms) == (BROKER_MS + 100, 90_000)
    clock.on_record(BROKER_MS + 90_000, BROKER_MS + 90_200)
    assert clock.behind_ms == 200


def test_the_clock_never_goes_back() -> None:
    clock = LogClock()
    clock.on_record(BROKER_MS, BROKER_MS - 50)
    assert clock.read(BROKER_MS - 40) == BROKER_MS
