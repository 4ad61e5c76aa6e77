"""The default stays at the knee of stores in virtual time: one in memory, one that batches as Kafka does.

A queue in front of servers: `servers` of them, each of which takes up to `batch` of those that wait, together, for
`fixed_s` and `each_s` more for each one. Producers want to publish all the time; each has a limit of its own.
"""

import heapq
import random
from collections import deque
from dataclasses import dataclass

import pytest
from coldnotify.flow.beginnings import KAFKA, STORE, Beginnings
from coldnotify.flow.flow_limit import FlowLimit

_JITTER = 0.5
"""The fixed part takes this share less to this share more, by chance."""


@dataclass(frozen=True)
class Store:
    """Servers, each with a batch size and its times."""

    name: str
    servers: int
    batch: int
    fixed_s: float
    each_s: float


IN_MEMORY = Store("in memory", 64, 1, 0.001, 0.0)
"""64,000 a second; the knee is at 64 in flight, and sharp."""
BATCHES = Store("batches", 1, 10_000, 0.001, 0.00001)
"""Nearly 100,000 a second; a half of that with 100 in flight, 90 % with 900."""


@dataclass(frozen=True)
class Outcome:
    """Throughput and mean wait of a run, after the time to settle."""

    per_s: float
    wait_s: float


def simulate(store: Store, limits: list[FlowLimit], seconds: float, *, settle_s: float = 0.0, seed: int = 1) -> Outcome:
    """One run, the same for the same seed."""
    chance = random.Random(seed)
    now_s = 0.0
    waiting: deque[tuple[int, float]] = deque()
    serving: list[tuple[float, int, list[tuple[int, float]]]] = []
    free, number = store.servers, 0
    done, waits_s = 0, 0.0

    def begin() -> None:
        nonlocal free, number
        while free and waiting:
            taken = [waiting.popleft() for _ in range(min(store.batch, len(waiting)))]
            took_s = store.fixed_s * chance.uniform(1 - _JITTER, 1 + _JITTER) + store.each_s * len(taken)
            number += 1
            heapq.heappush(serving, (now_s + took_s, number, taken))
            free -= 1

    def demand() -> None:
        # In turns: who is first would otherwise have all.
        left = True
        while left:
            left = False
            for producer, limit in enumerate(limits):
                if limit.take():
                    waiting.append((producer, now_s))
                    left = True

    demand()
    begin()
    while now_s < settle_s + seconds:
        now_s, _, served = heapq.heappop(serving)
        free += 1
        for producer, taken_s in served:
            limits[producer].acknowledged(now_s, taken_s)
        if now_s >= settle_s:
            done += len(served)
            waits_s += sum(now_s - taken_s for _, taken_s in served)
        demand()
        begin()
    return Outcome(done / seconds, waits_s / max(done, 1))


@pytest.mark.parametrize(
    ("store", "limit", "per_s"),
    [(IN_MEMORY, 10, 10_000), (IN_MEMORY, 500, 64_000), (BATCHES, 100, 50_000), (BATCHES, 900, 90_000)],
)
def test_a_store_is_as_quick_as_it_is_said_to_be(store: Store, limit: int, per_s: float) -> None:
    outcome = simulate(store, [FlowLimit.named("fixed", limit)], 0.5, settle_s=0.1)
    assert outcome.per_s == pytest.approx(per_s, rel=0.05)
    assert outcome.wait_s == pytest.approx(limit / per_s, rel=0.05)  # Little's law


@pytest.mark.parametrize("producers", [1, 2])
@pytest.mark.parametrize(
    ("store", "knee", "begin"), [(IN_MEMORY, 64, STORE), (BATCHES, 1900, KAFKA)], ids=["in memory", "batches"]
)
def test_the_default_stays_at_the_knee(store: Store, knee: int, begin: Beginnings, producers: int) -> None:
    best = simulate(store, [FlowLimit.named("fixed", knee)], 0.5, settle_s=0.1)
    # Windows with a twentieth of the completions, and of the time, as runs are short.
    short = begin._replace(completions=round(begin.completions / 20), seconds=begin.seconds / 20)
    limits = [FlowLimit.named("bottleneck", 10_000, short) for _ in range(producers)]
    outcome = simulate(store, limits, 1.0, settle_s=1.0)
    assert outcome.per_s >= 0.9 * best.per_s
    assert outcome.wait_s <= 2 * best.wait_s
