"""Runs of settled offsets are the shortest that say the same, whatever the order in which they came."""

from coldnotify_matcher.engine.shares.settled_runs import SettledRuns
from coldnotify_testkit.queries import PATIENT
from hypothesis import given
from hypothesis import strategies as st

OFFSETS = st.sets(st.integers(0, 30))


@PATIENT
@given(OFFSETS, st.data())
def test_runs_end_where_something_is_not_settled(there: set[int], data: st.DataObject) -> None:
    order = data.draw(st.permutations(sorted(data.draw(st.sets(st.sampled_from(sorted(there)))) if there else set())))
    base = data.draw(st.integers(-1, 30))
    left, runs = set(there), SettledRuns()
    for offset in order:
        left.discard(offset)
        runs.add(offset, offset, lambda after, before: not any(after < one < before for one in left))
    runs.drop_through(base)
    for offset in order:
        if offset > base:
            assert offset in runs
        else:
            assert offset not in runs
    assert not any(offset in runs for offset in left)
    flat = runs.flat()
    assert flat == sorted(flat)
    assert len(flat) == 2 * len(runs)
    assert runs.last == (flat[-1] if flat else 0)
    for last, first in zip(flat[1:-1:2], flat[2::2], strict=True):
        assert any(last < one < first for one in left)
    again = SettledRuns(flat)
    assert again.flat() == flat
    ends = zip(flat[::2], flat[1::2], strict=True)
    assert all(again.last_of(first) == again.last_of(last) == last for first, last in ends)


@PATIENT
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5))))
def test_stretches_may_overlap(stretches: list[tuple[int, int]]) -> None:
    runs, settled = SettledRuns(), set[int]()
    for first, length in stretches:
        runs.add(first, first + length, lambda after, before: before == after + 1)
        settled.update(range(first, first + length + 1))
    assert [offset for offset in range(40) if offset in runs] == sorted(settled)
    assert all(first - last > 1 for last, first in zip(runs.flat()[1:-1:2], runs.flat()[2::2], strict=True))
