"""What came of publishers that take no heed: rates by tenths of a second, and when a whole rate was let in.

Stands for: askers
"""

import time
from collections import Counter

import pytest
from coldnotify_load.population import Population
from coldnotify_loadtest.askers import BIN_S, Ask, AskerOutcome, AskerPace, Askers, AskersError, accepted_per_s
from coldnotify_loadtest.experiments.isolation import whole_after_s


def accepted(*per_bin: int) -> AskerOutcome:
    return AskerOutcome(accepted=sum(per_bin), bins=Counter(dict(enumerate(per_bin))))


def test_a_rate_is_that_of_all_of_them_in_the_time_asked_for() -> None:
    both = [accepted(*[1] * 20), accepted(*[2] * 10, *[0] * 10)]
    assert accepted_per_s(both, 0, 1) == pytest.approx(30)
    assert accepted_per_s(both, 1, 2) == pytest.approx(10)
    assert accepted_per_s(both, 5, 6) == 0


def test_a_whole_rate_is_there_from_the_second_in_which_nearly_all_of_it_is_accepted() -> None:
    slow_then_whole = [accepted(*[3] * 15, *[10] * 25)]
    assert whole_after_s(slow_then_whole, 100.0, 4.0) == pytest.approx(1.5, abs=BIN_S)
    assert whole_after_s(slow_then_whole, 200.0, 4.0) is None
    assert whole_after_s([accepted(*[10] * 40)], 100.0, 4.0) == 0


def test_publishes_are_counted_at_the_time_of_acceptance() -> None:
    asked = AskerOutcome(begun_s=time.monotonic() - 100)
    asked.accept()
    ((number, count),) = asked.bins.items()
    assert number >= 100 / BIN_S
    assert (count, asked.accepted) == (1, 1)


def test_without_a_rate_nothing_waits_and_who_is_late_does_not_either() -> None:
    assert AskerPace(0.0, time.monotonic()).wait_s() == 0
    late = AskerPace(10.0, time.monotonic() - 100)
    assert [late.wait_s() for _ in range(3)] == [0, 0, 0]
    assert AskerPace(1.0, time.monotonic() + 100).wait_s() > 0


def test_nobody_there_is_said() -> None:
    ask = Ask("http", 1, Population(), 0, 1.0)
    with Askers([ask]) as askers, pytest.raises(AskersError, match="http at port 1: "):
        askers.run()
