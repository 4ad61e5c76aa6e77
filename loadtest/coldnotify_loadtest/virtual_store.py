"""Stores in virtual time, by which controllers are compared where no real one disturbs: in memory, and as Kafka is.

A queue in front of servers: `servers` of them, each of which takes up to `batch` of those that wait, together, for
`fixed_s` and `each_s` more for each one. Producers want to publish all the time; each has a limit of its own.
"""

import heapq
import random
from collections import deque
from dataclasses import dataclass

from coldnotify.flow.flow_limit import FlowLimit
from coldnotify.flow.windows import Window

_JITTER = 0.5
"""The fixed part takes this share less to this share more, by chance."""


@dataclass(frozen=True)
class Store:
    """How quick it is."""

    name: str
    servers: int
    batch: int
    fixed_s: float
    each_s: float


IN_MEMORY = Store("in memory", 64, 1, 0.001, 0.0)
"""64,000 a second; the knee is at 64 in flight, and sharp."""
BATCHES = Store("batches", 1, 10_000, 0.001, 0.00001)
"""Nearly 100,000 a second; a half of that with 100 in flight, 90 % with 900."""
STORES = {one.name: one for one in (IN_MEMORY, BATCHES)}


@dataclass(frozen=True)
class Outcome:
    """What came of a run, after the time to settle."""

    per_s: float
    wait_s: float
    windows: tuple[tuple[Window, ...], ...]
    """By producer, all."""


def simulate(store: Store, limits: list[FlowLimit], seconds: float, *, settle_s: float = 0.0, seed: int = 1) -> Outcome:
    """One run, the same for the same seed."""
    chance = random.Random(seed)
    now_s = 0.0
    waiting: deque[tuple[int, float]] = deque()
    serving: list[tuple[float, int, list[tuple[int, float]]]] = []
    free, number = store.servers, 0
    windows: list[list[Window]] = [[] for _ in limits]
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
            if (window := limits[producer].acknowledged(now_s, taken_s)) is not None:
                windows[producer].append(window)
        if now_s >= settle_s:
            done += len(served)
            waits_s += sum(now_s - taken_s for _, taken_s in served)
        demand()
        begin()
    return Outcome(done / seconds, waits_s / max(done, 1), tuple(map(tuple, windows)))
