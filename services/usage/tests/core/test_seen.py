"""The counters of one tenant, node and start: what rises, at which rate, and that nothing is lost by storing it."""

import msgspec
import pytest
from coldnotify_schemas.tenant_usage import CUMULATIVE, TenantCounters
from coldnotify_usage.core.seen import DAY_MS, HOUR_MS, SeenCounts
from hypothesis import given
from hypothesis import strategies as st

HOUR = 1_795_384_800_000
"""The start of one."""


def publishes(count: int, **others: int) -> TenantCounters:
    return TenantCounters(publishes=count, **others)


def test_a_rise_is_reported_once() -> None:
    seen = SeenCounts()
    assert seen.add(HOUR, publishes(4), None, HOUR)[0][0] == 4
    assert seen.add(HOUR + 1000, publishes(9), 1000, HOUR + 1000)[0][0] == 5
    assert seen.add(HOUR + 1000, publishes(9), None, HOUR + 1000) == ((0,) * len(CUMULATIVE), False)
    assert seen.rate is not None
    assert seen.rate[0] == 5


def test_an_old_record_does_not_bring_back_old_gauges() -> None:
    seen = SeenCounts()
    seen.add(HOUR + 2000, publishes(4, objects=7), 1000, HOUR + 2000)
    seen.add(HOUR + 1000, publishes(2, objects=3), 1000, HOUR + 2001)
    assert (seen.gauges[0], seen.at_ms, seen.rate_at_ms) == (7, HOUR + 2000, HOUR + 2000)


def test_a_new_hour_is_a_change_even_without_a_rise() -> None:
    seen = SeenCounts()
    assert seen.add(HOUR, publishes(4), None, HOUR)[1]
    assert not seen.add(HOUR + 1, publishes(4), 1000, HOUR)[1]
    assert seen.add(HOUR + HOUR_MS, publishes(4), 1000, HOUR)[1]
    assert seen.add(HOUR + HOUR_MS, publishes(4, clients=1), 1000, HOUR)[1]


@given(
    st.lists(st.tuples(st.integers(0, 4 * DAY_MS), st.integers(0, (1 << 63) - 1), st.integers(0, 1 << 40)), max_size=20)
)
def test_the_stored_form_is_complete(records: list[tuple[int, int, int]]) -> None:
    seen = SeenCounts()
    for after_ms, count, objects in records:
        seen.add(HOUR + after_ms, publishes(count, objects=objects), 1000, HOUR)
    again = SeenCounts.decode(seen.encode())
    assert again.encode() == seen.encode()
    assert (again.top, again.at_ms, again.gauges) == (seen.top, seen.at_ms, seen.gauges)
    for window in {(HOUR + after_ms) // HOUR_MS for after_ms, _, _ in records}:
        assert again.hours.counted(window) == seen.hours.counted(window)


def test_a_release_with_fewer_counters_and_one_with_more_can_be_read() -> None:
    stored = [HOUR, [1, 2, 3], [4], {str(HOUR // HOUR_MS): [5] * 20}, [], {}]
    seen = SeenCounts.decode(msgspec.json.encode(stored))
    assert seen.hours.before == (4, *[0] * (len(CUMULATIVE) - 1))
    assert seen.top == (5,) * len(CUMULATIVE)


@pytest.mark.parametrize("value", [b"", b"{}", b"[1]", b"[1,[],[],{},[],3]", b"\xff"])
def test_an_invalid_counter_is_an_error(value: bytes) -> None:
    with pytest.raises(ValueError):
        SeenCounts.decode(value)


@pytest.mark.parametrize(
    "stored",
    [
        [1 << 62, [], [], {}, [], {}],
        [HOUR, [], [], {str((1 << 62) // HOUR_MS): [1]}, [], {}],
        [HOUR, [], [], {}, [], {str((1 << 62) // DAY_MS): [1]}],
    ],
    ids=["at_ms", "hour", "day"],
)
def test_a_time_beyond_the_calendar_is_an_error(stored: list[object]) -> None:
    """Else the job could not name the hour in the usage history, and ended, again and again."""
    with pytest.raises(ValueError, match="out of range"):
        SeenCounts.decode(msgspec.json.encode(stored))
