"""How far a gateway lags, by its Beats."""

from coldnotify_matcher.engine.gateways.inbox_lag import MARK_EVERY_MS, MARKS_MAX, InboxLag
from hypothesis import given
from hypothesis import strategies as st

STEPS = st.lists(st.tuples(st.integers(0, 300), st.booleans(), st.floats(0, 1)), max_size=80)


@given(STEPS)
def test_the_lag_is_the_age_of_the_oldest_unread_record(steps: list[tuple[int, bool, float]]) -> None:
    unread, now_ms, read = InboxLag(), 1_700_000_000_000, 0
    made: list[int] = []
    for ms, more, fraction in steps:
        now_ms += ms
        if more:
            made.append(now_ms)
            unread.made(len(made), now_ms)
            continue
        read += int(fraction * (len(made) - read))
        lag_ms = unread.read(read, len(made), now_ms)

        exact_ms = now_ms - made[read] if read < len(made) else 0
        assert exact_ms <= lag_ms < exact_ms + MARK_EVERY_MS
        assert lag_ms == unread.lag_ms


def test_of_nothing_noted_there_is_no_lag() -> None:
    assert InboxLag().read(1, 5, 1000) == 0


def test_what_is_noted_is_bounded_and_covers_the_whole_time() -> None:
    unread = InboxLag()
    for number in range(1, 100 * MARKS_MAX):
        unread.made(number, number * MARK_EVERY_MS)

    assert len(unread._marks) <= MARKS_MAX
    assert unread.read(0, number, number * MARK_EVERY_MS) == (number - 1) * MARK_EVERY_MS


def test_a_clock_that_is_set_back_makes_no_lag_and_is_followed() -> None:
    unread = InboxLag()
    unread.made(1, 3_600_000)
    unread.made(2, 1000)

    assert unread.read(0, 2, 1500) == 0
    assert unread.read(1, 2, 1500) == 500
