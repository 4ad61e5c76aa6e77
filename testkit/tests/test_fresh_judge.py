"""The judge of P11 finds what is wrong, and nothing else."""

from typing import cast

import pytest
from coldnotify import Notify
from coldnotify_testkit.fresh_judge import FreshSample, JudgedClient

NO_CLIENT = cast(Notify, None)


def judged(*samples: FreshSample) -> list[str]:
    one = JudgedClient(NO_CLIENT, 15.0, lambda: 0, [(100.0, 1), (110.0, 2)])
    for sample in samples:
        one.judge(sample)
    return one.faults


@pytest.mark.parametrize(
    "said",
    [
        FreshSample(120.0, 112.0, True, 1),
        FreshSample(200.0, 112.0, False, 1),
        FreshSample(200.0, 112.0, True, 2),
        FreshSample(120.0, None, True, 2),
    ],
    ids=["version 2 lacks", "it lacks although it is stale", "caught up by what is old", "caught up by nothing"],
)
def test_a_client_that_says_too_much_is_found(said: FreshSample) -> None:
    assert judged(FreshSample(90.0, 88.0, True, 0), FreshSample(92.0, 91.0, True, 0), said)


def test_a_client_may_know_more_than_it_says_and_less_of_what_came_later() -> None:
    samples = (FreshSample(95.0, 94.0, True, 0), FreshSample(105.0, 99.0, True, 1), FreshSample(112.0, 109.0, True, 1))
    assert judged(FreshSample(93.0, 92.0, True, 0), *samples) == []


def test_nothing_is_owed_before_its_registration_is_settled() -> None:
    assert judged(FreshSample(120.0, 112.0, False, 0)) == []
