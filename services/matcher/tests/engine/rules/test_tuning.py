"""An interval that tunes itself: within its bounds, longer under lag, back to the shortest without."""

import pytest
from coldnotify_matcher.engine.rules.tuning import CALM_MS, LAG_MS, WORTHWHILE_MS, Bounds, Tuning
from hypothesis import given
from hypothesis import strategies as st

BOUNDS = st.tuples(st.integers(0, 60_000), st.integers(1, 60_000)).map(lambda two: Bounds(min(two), max(two)))
EVENTS = st.lists(
    st.tuples(st.integers(-20_000, 20_000), st.none() | st.tuples(st.integers(0, 30_000), st.integers(0, 30_000))),
    max_size=60,
)
BEGIN_MS = 1_700_000_000_000
BEAT_MS = 5_000


def slowed(tuning: Tuning, times: int, now_ms: int) -> int:
    """The gateways lag for so many Beats, ever further; the time after that."""
    for _ in range(times):
        now_ms += BEAT_MS
        tuning.on_lag(LAG_MS + 1, 0, now_ms)
    return now_ms


def calm(tuning: Tuning, steps: int, now_ms: int) -> int:
    """Nothing lags, for so many steps; the time after that."""
    for _ in range(steps):
        now_ms += CALM_MS
        tuning.on_lag(0, 0, now_ms)
        tuning.on_tick(now_ms)
    return now_ms


@given(BOUNDS, EVENTS)
def test_it_stays_within_its_bounds(bounds: Bounds, events: list[tuple[int, tuple[int, int] | None]]) -> None:
    now_ms, tuning = BEGIN_MS, Tuning(bounds, BEGIN_MS)
    assert tuning.interval_ms == bounds.shortest_ms
    for ms, lag in events:
        before_ms = tuning.interval_ms
        now_ms += ms  # clocks are also set back
        if lag is None:
            tuning.on_tick(now_ms)
            assert tuning.interval_ms <= before_ms
        else:
            tuning.on_lag(*lag, now_ms)
            assert tuning.interval_ms >= before_ms
        assert bounds.shortest_ms <= tuning.interval_ms <= bounds.longest_ms


@given(BOUNDS)
def test_under_lag_it_doubles_up_to_the_longest_and_comes_back_to_the_shortest(bounds: Bounds) -> None:
    tuning = Tuning(bounds, BEGIN_MS)
    now_ms = BEGIN_MS
    while tuning.interval_ms < bounds.longest_ms:
        before_ms = tuning.interval_ms
        now_ms = slowed(tuning, 1, now_ms)
        assert tuning.interval_ms == min(bounds.longest_ms, 2 * max(before_ms, WORTHWHILE_MS))
    assert now_ms - BEGIN_MS <= 12 * BEAT_MS

    calm(tuning, bounds.longest_ms // WORTHWHILE_MS + 1, now_ms)

    assert tuning.interval_ms == bounds.shortest_ms


def test_the_rate_grows_by_the_rate_at_the_longest_interval() -> None:
    tuning = Tuning(Bounds(0, 1200), BEGIN_MS)
    now_ms = slowed(tuning, 10, BEGIN_MS)

    seen = [tuning.interval_ms]
    for _ in range(5):
        now_ms = calm(tuning, 1, now_ms)
        seen.append(tuning.interval_ms)

    assert seen == [1200, 600, 400, 300, 240, 200]


def test_that_nothing_is_heard_at_all_is_no_lag() -> None:
    tuning = Tuning(Bounds(), BEGIN_MS)
    now_ms = slowed(tuning, 10, BEGIN_MS)

    for second in range(60 * 6):
        tuning.on_tick(now_ms + 1000 * second)

    assert tuning.interval_ms == 0


@pytest.mark.parametrize(
    ("lag_ms", "before_ms", "grows"),
    [
        pytest.param(4_000, 0, True, id="made under this interval"),
        pytest.param(4_000, 4_000, True, id="and no less than before"),
        pytest.param(4_000, 4_001, False, id="it is catching up"),
        pytest.param(5_000, 0, False, id="made before the interval grew"),
        pytest.param(60_000, 0, False, id="long before"),
        pytest.param(LAG_MS, 0, False, id="as good as none"),
    ],
)
def test_only_what_the_present_interval_is_to_blame_for_makes_it_grow(lag_ms: int, before_ms: int, grows: bool) -> None:
    tuning = Tuning(Bounds(), BEGIN_MS)
    now_ms = slowed(tuning, 1, BEGIN_MS)
    assert tuning.interval_ms == 2 * WORTHWHILE_MS

    tuning.on_lag(lag_ms, before_ms, now_ms + BEAT_MS)

    assert tuning.interval_ms == (4 if grows else 2) * WORTHWHILE_MS


def test_while_any_gateway_lags_it_does_not_shrink() -> None:
    tuning = Tuning(Bounds(), BEGIN_MS)
    now_ms = slowed(tuning, 10, BEGIN_MS)
    for _ in range(10):
        now_ms += BEAT_MS
        tuning.on_lag(0, 0, now_ms)
        tuning.on_lag(20_000, 30_000, now_ms)
        tuning.on_tick(now_ms)

    assert tuning.interval_ms == 1000


def test_a_clock_that_is_set_back_does_not_stop_it() -> None:
    tuning = Tuning(Bounds(), BEGIN_MS)
    now_ms = slowed(tuning, 3, BEGIN_MS) - 3_600_000
    tuning.on_tick(now_ms)

    now_ms = slowed(tuning, 1, now_ms)
    assert tuning.interval_ms == 320
    tuning.on_tick(now_ms + CALM_MS)

    assert tuning.interval_ms < 320
