"""Which times of other machines' clocks cannot be."""

import pytest
from coldnotify_schemas.wrong_clocks import clock_fault, expiry_here, time_words

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("clock_ms", "words"),
    [
        (NOW_MS + 3_600_000, None),
        (NOW_MS + 3_600_001, "far ahead"),
        (2**63 - 1, "far ahead"),
        (NOW_MS - 5 * 365 * 86_400_000, None),  # a unit may have been offline for years
        (1_577_836_799_999, "never set"),
        (0, "never set"),
    ],
)
def test_a_time_an_hour_ahead_or_before_2020_is_impossible(clock_ms: int, words: str | None) -> None:
    fault = clock_fault(clock_ms, NOW_MS)
    assert fault is None if words is None else fault is not None and words in fault


def test_a_service_with_an_unset_clock_accepts_all_others() -> None:
    assert clock_fault(5000, 9000) is None


TEN_YEARS_MS = 10 * 365 * 86_400_000


@pytest.mark.parametrize(
    ("expires_at_ms", "clock_ms", "here_ms"),
    [
        (NOW_MS + TEN_YEARS_MS + 60_000, NOW_MS + TEN_YEARS_MS, NOW_MS + 60_000),
        (NOW_MS + 60_000, NOW_MS + TEN_YEARS_MS, NOW_MS + 60_000),  # it came from elsewhere
        (65_000, 5_000, NOW_MS + 60_000),
        (NOW_MS + 60_000, 5_000, NOW_MS + 60_000),
        (4_000, 5_000, NOW_MS - 1_000),
        (0, 2**63 - 1, 0),
    ],
)
def test_an_expiry_counts_by_the_clock_that_it_is_nearer_to(expires_at_ms: int, clock_ms: int, here_ms: int) -> None:
    assert expiry_here(expires_at_ms, clock_ms, NOW_MS) == here_ms


def test_times_in_words() -> None:
    assert time_words(0) == "1970-01-01 00:00:00+00:00"
    assert time_words(2**63 - 1) == "9223372036854775807 ms"
