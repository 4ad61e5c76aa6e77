"""The checker sees every planted bug by the promise that it breaks, and nothing where nothing is wrong.

Stands for: clients, topics, publishes, verdict, catching_up
"""

import pytest
from coldnotify_checker import judge
from coldnotify_checker.histories import (
    Connecting,
    Event,
    Fault,
    Healed,
    Publish,
    Published,
    Register,
    Sleep,
    Started,
    Told,
)
from coldnotify_checker.testing import BUGS, Double, play

SEEDS = 200


@pytest.mark.parametrize("incarnations_told", [True, False])
def test_a_service_without_a_bug_is_clean(incarnations_told: bool) -> None:
    for seed in range(SEEDS):
        verdict = judge(play(seed, incarnations_told=incarnations_told))
        assert verdict.clean, f"seed {seed}: {verdict}"
        assert verdict.not_judged == {}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_seen_by_its_promise(bug: str) -> None:
    planted = 0
    for seed in range(40):
        double = Double(seed, bug)
        verdict = judge(double.play())
        if double.planted:
            planted += 1
            assert verdict.counts[BUGS[bug]], f"seed {seed}: {verdict}"
            assert all(violation.evidence for violation in verdict.violations)
    assert planted >= 5, "the bug hardly ever came to bear"


@pytest.mark.parametrize("asleep", [False, True])
def test_catching_up_counts_for_who_is_awake_when_a_fault_ends(asleep: bool) -> None:
    client, object_ = "d/g/c", "d/g/o"

    def at(second: int) -> int:
        return second * 1_000_000

    history: list[Event] = [
        Started(t=at(0), client=client, life=0),
        Register(t=at(0), client=client, object=object_),
        Connecting(t=at(1), client=client),
        *([Sleep(t=at(2), client=client)] if asleep else []),
        Fault(t=at(3), kind="gateway_killed", target="gateway-1"),
        Publish(t=at(3), publisher="p", id=1, object=object_, version=1),
        Published(t=at(4), publisher="p", id=1, outcome="acknowledged"),
        Healed(t=at(5), kind="gateway_killed", target="gateway-1"),
        *([Connecting(t=at(60), client=client)] if asleep else []),
        Told(t=at(61) if asleep else at(7), client=client, object=object_, version=1),
    ]
    statistics = judge(history).statistics
    assert statistics.catch_up_s_max == (0.0 if asleep else 2.0)
    assert statistics.catch_ups_unfinished == 0
