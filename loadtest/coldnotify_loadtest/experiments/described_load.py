"""The common part of the parts of `queries`: devices with queries, publishers of descriptions, latencies of
differences.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from coldnotify_load.latencies import Latencies
from coldnotify_load.open_loop import PlanOutcome, PublisherHandle, PublishPlan
from coldnotify_load.swarm import Swarm

from coldnotify_loadtest.bench import READY_S, Row
from coldnotify_loadtest.described import DescribedLoad
from coldnotify_loadtest.devices import KINDS
from coldnotify_loadtest.devices.queries import HeldMembers
from coldnotify_loadtest.senders import told_by
from coldnotify_loadtest.servers import ColdNotify

KIND = "coldnotify-queries"
_LOADED_PER_S = 5000.0
_SILENCE_S = 3.0
"""Without a difference for so long, none comes any more."""
_LOOK_S = 0.05
SERIES_S = 0.5
"""The time of one point of a series."""


@contextmanager
def connected(server: ColdNotify, population: DescribedLoad, devices: int, processes: int = 1) -> Iterator[Swarm]:
    """Devices that are complete: those by name are of the same kind, so that their own cost is the same."""
    with Swarm(KINDS[KIND], population, devices, server.addresses(), processes=processes) as swarm:
        swarm.add(devices)
        swarm.wait_ready(READY_S)
        yield swarm


def describing(server: ColdNotify, population: DescribedLoad) -> PublisherHandle:
    """Returns a publisher whose plans send each object's next description."""
    return PublisherHandle(told_by(server.target(population), "coldnotify-descriptions"))


def describe_all(
    publisher: PublisherHandle, numbers: int, blocks: int = 1, per_s: float = _LOADED_PER_S
) -> PlanOutcome:
    """Each object's next description; by default as fast as nobody falls behind."""
    count = numbers * blocks
    plan = PublishPlan(per_s, count / per_s + 1, blocks, numbers, poisson=False, count=count)
    return publisher.publish(plan)


def publish_others(server: ColdNotify, population: DescribedLoad) -> None:
    """Something new of an object of the group that nobody is registered for."""
    with PublisherHandle(server.target(replace(population, things="other"))) as publisher:
        publisher.once()


class DescribedTurns:
    """Counts the descriptions of each object, which determine the sets."""

    def __init__(self, population: DescribedLoad, devices: int, numbers: int) -> None:
        self._population, self._devices, self._numbers = population, devices, numbers
        self._turns: Counter[int] = Counter()

    def add(self, sent: int) -> None:
        """Adds the descriptions that a plan has sent."""
        self._turns.update(number % self._numbers for number in range(sent))

    def wrong(self, swarm: Swarm, timeout_s: float) -> int:
        """Returns how many devices hold wrong sets, once none does, or after `timeout_s`."""
        loads = self._population.loads(self._turns)
        due = {device: self._population.held(device, loads) for device in range(self._devices)}
        until_s = time.monotonic() + timeout_s
        while True:
            held: dict[int, HeldMembers] = swarm.held()
            wrong = sum(one.digest != due[device] for device, one in held.items())
            if not wrong or time.monotonic() > until_s:
                return wrong
            time.sleep(_LOOK_S)


def differences(swarm: Swarm) -> list[tuple[int, int]]:
    """All that come, until none has come for some seconds."""
    told: list[tuple[int, int]] = []
    since_s = time.monotonic()
    while time.monotonic() - since_s < _SILENCE_S:
        if new := swarm.differences():
            told += new
            since_s = time.monotonic()
        time.sleep(_LOOK_S)
    return told


def summary(told: Sequence[tuple[int, int]], stamps: Mapping[int, int]) -> Row:
    """Returns the latencies from the record's writing to the device, for differences whose change is known."""
    latencies = Latencies()
    latencies.add_ns(at_ns - stamps[offset] for offset, at_ns in told if offset in stamps)
    return {"told": len(told), **latencies.summary()}


def series(told: Sequence[tuple[int, int]], stamps: Mapping[int, int], begun_ns: int) -> list[tuple[float, float, int]]:
    """Returns a point for each SERIES_S in which differences came to devices: seconds since `begun_ns`, their p95 in
    ms, their number.
    """
    bins: dict[int, Latencies] = {}
    for offset, at_ns in told:
        if offset in stamps:
            number = int((at_ns - begun_ns) / 1e9 / SERIES_S)
            bins.setdefault(number, Latencies()).add_ns([at_ns - stamps[offset]])
    return [(number * SERIES_S, bins[number].percentile_ms(95), bins[number].count) for number in sorted(bins)]
