"""Arrivals of an open loop."""

from itertools import pairwise
from statistics import mean

import pytest
from coldnotify_load.open_loop import PublishPlan


def test_arrivals_keep_their_rate() -> None:
    even = list(PublishPlan(10, 2, poisson=False).arrivals_s())
    assert len(even) == 20
    assert even[:3] == pytest.approx([0, 0.1, 0.2])
    counts = [len(list(PublishPlan(100, 10, seed=seed).arrivals_s())) for seed in range(20)]
    assert abs(mean(counts) - 1000) < 50
    assert len(set(counts)) > 1
    gaps = [after - before for before, after in pairwise(PublishPlan(1, 9, gap_ms=(5.0, 50.0), count=30).arrivals_s())]
    assert len(gaps) == 29
    assert 0.005 <= min(gaps) < max(gaps) <= 0.050001
    assert list(PublishPlan(5, 3).arrivals_s()) == list(PublishPlan(5, 3).arrivals_s())
