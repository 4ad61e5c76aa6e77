"""Memory is given back once many connections have gone, and not more often than is of use."""

from coldnotify_common.memory import FALL_MIN, Ebb, malloc_trim


def test_it_is_given_back_when_many_have_gone_and_no_more_are_going() -> None:
    given_back: list[None] = []
    ebb = Ebb(lambda: given_back.append(None))
    connections = [0, 5000, 4000, 4000 - FALL_MIN, 100, 100, 100, 100 + FALL_MIN, 101, 101]
    assert [ebb.tick(count, 100.0 + n, count) for n, count in enumerate(connections)] == [False] * 5 + [True] + [
        False
    ] * 4
    assert ebb.tick(50, 200.0, 50) is False
    assert ebb.tick(50, 201.0, 50) is True
    assert ebb.tick(0, 300.0, 0) is ebb.tick(0, 400.0, 0) is False
    assert len(given_back) == 2


def test_a_flood_that_comes_and_goes_between_two_looks_is_known_by_its_peak() -> None:
    given_back: list[None] = []
    ebb = Ebb(lambda: given_back.append(None))
    assert not ebb.tick(10, now_s=100.0, peak=10)
    assert ebb.tick(10, now_s=101.0, peak=10 + FALL_MIN)
    assert not ebb.tick(10, now_s=200.0, peak=10)
    assert len(given_back) == 1


def test_the_systems_own_way_is_taken_where_it_has_one() -> None:
    malloc_trim()
    malloc_trim()
