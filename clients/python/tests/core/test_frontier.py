"""The cursor against the plain rule: the highest number said before the first hold that is left."""

from coldnotify._core.streams.frontier import Frontier, Hold
from hypothesis import given
from hypothesis import strategies as st


def test_a_number_counts_once_all_that_came_before_it_is_released():
    frontier = Frontier(None)
    first, second = frontier.hold(), frontier.hold()
    frontier.complete(7)
    frontier.release(second)
    assert frontier.cursor is None
    assert frontier.held
    frontier.release(first)
    assert frontier.cursor == 7
    assert not frontier.held


def test_a_number_between_two_holds_waits_for_the_first_only():
    frontier = Frontier(3)
    first = frontier.hold()
    frontier.complete(5)
    frontier.hold()
    frontier.complete(9)
    frontier.release(first)
    assert frontier.cursor == 5


def test_the_cursor_never_goes_down():
    frontier = Frontier(3)
    frontier.complete(2)
    assert frontier.cursor == 3


def test_a_new_epoch_voids_also_the_numbers_that_wait():
    frontier = Frontier(3)
    hold = frontier.hold()
    frontier.complete(9)
    frontier.void()
    frontier.release(hold)
    assert frontier.cursor is None
    frontier.complete(1)
    assert frontier.cursor == 1


@given(st.lists(st.one_of(st.just("hold"), st.integers(0, 50), st.tuples(st.just("release"), st.integers(0, 9)))))
def test_like_the_plain_rule(steps):
    frontier = Frontier(None)
    sequence: list[tuple[Hold | None, int | None]] = []
    released: set[Hold] = set()
    for step in steps:
        holds = [hold for hold, _ in sequence if hold is not None and hold not in released]
        if step == "hold":
            sequence.append((frontier.hold(), None))
        elif isinstance(step, int):
            frontier.complete(step)
            sequence.append((None, step))
        elif holds:
            hold = holds[step[1] % len(holds)]
            frontier.release(hold)
            released.add(hold)
        expected: list[int] = []
        for hold, complete in sequence:
            if hold is not None and hold not in released:
                break
            if complete is not None:
                expected.append(complete)
        assert frontier.cursor == max(expected, default=None)
