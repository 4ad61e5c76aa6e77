"""The checker sees every planted bug by the promise that it breaks, and nothing where nothing is wrong.

Stands for: clients, topics, publishes, verdict, catching_up
"""

import pytest
from coldnotify_checker import judge
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
