"""Stores in virtual time: as quick as they are said to be, and which controller stays at the knee.

Stands for: virtual_store, flow
"""

import pytest
from coldnotify.flow.beginnings import KAFKA, STORE
from coldnotify.flow.flow_limit import FlowLimit
from coldnotify_loadtest.experiments.flow import knee_of, shortened
from coldnotify_loadtest.virtual_store import BATCHES, IN_MEMORY, Store, simulate


@pytest.mark.parametrize(
    ("store", "limit", "per_s"),
    [(IN_MEMORY, 10, 10_000), (IN_MEMORY, 500, 64_000), (BATCHES, 100, 50_000), (BATCHES, 900, 90_000)],
)
def test_a_store_is_as_quick_as_it_is_said_to_be(store: Store, limit: int, per_s: float) -> None:
    outcome = simulate(store, [FlowLimit.named("fixed", limit)], 0.5, settle_s=0.1)
    assert outcome.per_s == pytest.approx(per_s, rel=0.05)
    assert outcome.wait_s == pytest.approx(limit / per_s, rel=0.05)  # Little's law


def test_two_runs_with_one_seed_are_the_same() -> None:
    one, other = (simulate(BATCHES, [FlowLimit.named("fixed", 100)], 0.1, seed=3) for _ in range(2))
    assert one == other


@pytest.mark.parametrize("producers", [1, 2])
@pytest.mark.parametrize(("store", "knee"), [(IN_MEMORY, 64), (BATCHES, 1900)], ids=["in memory", "batches"])
def test_the_default_stays_at_the_knee_with_one_producer_and_with_two(store: Store, knee: int, producers: int) -> None:
    best = simulate(store, [FlowLimit.named("fixed", knee)], 0.5, settle_s=0.1)
    begin = shortened(STORE if store is IN_MEMORY else KAFKA, 20)
    limits = [FlowLimit.named("bottleneck", 10_000, begin) for _ in range(producers)]
    outcome = simulate(store, limits, 1.0, settle_s=1.0)
    assert outcome.per_s >= 0.9 * best.per_s
    assert outcome.wait_s <= 2 * best.wait_s


def test_the_knee_is_the_lowest_limit_with_nearly_all_of_the_throughput() -> None:
    rows = [{"limit_fixed": limit, "per_s": per_s} for limit, per_s in ((1, 10), (10, 94), (50, 96), (100, 100))]
    assert knee_of(rows)["limit_fixed"] == 50
    once_more = [{"limit_fixed": limit, "per_s": per_s} for limit, per_s in ((10, 97), (50, 92), (100, 100))]
    assert knee_of(rows + once_more)["limit_fixed"] == 10, "by the means 95.5, 94 and 100"
