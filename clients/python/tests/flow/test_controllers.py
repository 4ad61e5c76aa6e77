"""All controllers by name, and what holds of each: bounded, one resize at a time.

Stands for: controller, beginnings
"""

import pytest
from coldnotify.flow.beginnings import HTTP, KAFKA, STORE
from coldnotify.flow.controllers import DEFAULT, FIXED, NAMES, controller_named
from coldnotify.flow.flow_limit import FlowLimit
from coldnotify.flow.windows import Window
from hypothesis import given
from hypothesis import strategies as st


def test_each_name_is_one_and_others_are_told() -> None:
    assert len({type(controller_named(name, KAFKA)) for name in NAMES}) == len(NAMES)
    assert DEFAULT in NAMES
    with pytest.raises(ValueError, match="unknown controller 'reno', expected one of bottleneck"):
        controller_named("reno", KAFKA)


def test_the_fixed_one_stays() -> None:
    assert controller_named(FIXED, KAFKA).next_limit(Window(7, 0.0, 1.0, 1, 1, 9.0)) == 7
    assert FlowLimit.named(FIXED, 300).limit == 300


def test_the_prescribed_beginnings() -> None:
    assert (KAFKA.first, KAFKA.completions, KAFKA.delta) == (1_000, 50_000, 100)
    assert (HTTP.first, HTTP.completions, HTTP.delta) == (200, 25_000, 20)
    assert (STORE.first, STORE.completions, STORE.delta) == (200, 25_000, 20)


STEPS = st.lists(
    st.tuples(st.sampled_from(["take", "acknowledge", "fail"]), st.integers(1, 30), st.floats(0, 10)), max_size=200
)


@given(st.sampled_from(NAMES), st.integers(1, 60), st.integers(1, 5), st.integers(1, 20), STEPS)
def test_the_limit_is_within_bounds_permits_never_negative_and_resizes_one_at_a_time(
    name: str, highest: int, lowest: int, delta: int, steps: list[tuple[str, int, float]]
) -> None:
    begin = KAFKA._replace(first=20, completions=2, delta=delta, lowest=lowest, seconds=0.5)
    limit = FlowLimit.named(name, highest, begin)
    now_s, out, lowered = 0.0, [], None
    for step, count, passed_s in steps:
        now_s += passed_s
        before, resized = limit.limit, False
        if step == "take":
            if limit.take(count):
                assert limit.in_flight in (count, *range(highest + 1))
                out.append((now_s, count))
        elif out and step == "acknowledge":
            taken_s, given = out.pop(0)
            limit.acknowledged(now_s, taken_s, given)
            resized = limit.limit != before
        elif out:
            limit.failed(out.pop(0)[1])
        assert min(lowest, highest) <= limit.limit <= highest
        assert limit.free == max(0, limit.limit - limit.in_flight) >= 0
        assert limit.in_flight == sum(given for _, given in out)
        assert limit.limit == before or resized
        # A lower limit comes into force before the next one.
        assert not (resized and lowered is not None and limit.in_flight > lowered)
        lowered = limit.limit if limit.limit < before else lowered
        lowered = None if lowered is not None and limit.in_flight <= lowered else lowered
