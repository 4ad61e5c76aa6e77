"""Nobody is forgotten, nobody is looked at twice, and nobody too early."""

from dataclasses import dataclass

from coldnotify_gateway.core.timers import LOOK_AHEAD_S, NEVER_S, Timers
from hypothesis import given
from hypothesis import strategies as st


@dataclass(eq=False)
class One:
    at_s: float = NEVER_S
    wake_s: float = NEVER_S

    def deadline_s(self) -> float:
        return self.at_s


times = st.floats(0, 30) | st.floats(0, 3 * LOOK_AHEAD_S)


@given(
    st.lists(
        st.tuples(st.integers(0, 3), times | st.just(NEVER_S), st.floats(0, 5) | st.just(LOOK_AHEAD_S)), max_size=60
    )
)
def test_whoever_is_due_is_found_within_a_bucket(moves):
    """Deadlines are moved nearer and further at random, as time passes."""
    timers: Timers[One] = Timers()
    everybody = [One() for _ in range(4)]
    now_s = 0.0
    for which, in_s, passes_s in moves:
        one = everybody[which]
        one.at_s = now_s + in_s
        timers.look_at(one, now_s)
        now_s += passes_s
        due = list(timers.due(now_s))
        assert len(due) == len({id(found) for found in due})
        for found in due:
            assert found.at_s <= now_s
            found.at_s = NEVER_S
        assert all(bucket <= now_s + LOOK_AHEAD_S for bucket in timers._buckets)
        assert all(other.at_s > now_s - 2 for other in everybody), "somebody was forgotten"


def test_who_is_gone_is_let_go_of_at_once():
    timers: Timers[One] = Timers()
    one, other = One(at_s=100_000.0), One(at_s=100_000.0)
    for each in (one, other):
        timers.look_at(each, 0.0)
    timers.forget(one)
    timers.forget(one)
    assert [list(bucket) for bucket in timers._buckets.values()] == [[other]]
    timers.look_at(other, 0.0)
    other.at_s = 3.0
    timers.look_at(other, 0.0)
    assert len(timers._buckets) == 1, "it is nowhere twice"
    timers.forget(other)
    assert timers._buckets == {}
    assert list(timers.due(LOOK_AHEAD_S + 2)) == []


def test_who_goes_while_others_are_handled_is_not_handled():
    timers: Timers[One] = Timers()
    both = [One(at_s=1.0), One(at_s=1.0)]
    for each in both:
        timers.look_at(each, 0.0)
    found = timers.due(5.0)
    first = next(found)
    timers.forget(both[1 - both.index(first)])
    assert list(found) == []
