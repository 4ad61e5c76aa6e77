"""bench-sub: many light clients connect to a running system, and say what they were told and how late."""

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from coldnotify_load.bench_topics import BenchTopics
from coldnotify_load.load_device import DeviceMaker
from coldnotify_load.loaded_processes import LoadedProcesses, by_number
from coldnotify_load.mark_tally import BenchVerdict, MarkedPublishes, judge, published_by
from coldnotify_load.processes import Meter
from coldnotify_load.published_file import PublishedFile
from coldnotify_load.swarm import Swarm
from coldnotify_load.swarm_process import Counts

_CONNECT_S = 120.0
"""Connections that are not complete by then, behind the last one's turn, will not be."""
_NOBODY_S = 30.0
"""Without another complete connection for so long, there will be none."""
_SAY_S = 5.0
_LOOK_S = 0.5
_SERIES_S = 1.0


class Stop(Protocol):
    """Says that the run is to end early."""

    def is_set(self) -> bool:
        """Returns true from then on."""

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits for it, at most so long; returns `is_set`."""


class BenchError(Exception):
    """The bench could not be run."""


@dataclass(frozen=True)
class SubPlan:
    """The options of bench-sub."""

    device: DeviceMaker
    topics: BenchTopics
    addresses: list[tuple[str, int]]
    connections: int
    connect_per_s: float
    """0: as fast as it goes."""
    processes: int
    sources: tuple[str, ...]
    warm_up_s: float
    seconds: float
    settle_s: float
    """Most time behind it until all that is owed has come."""
    histogram: Path | None = None
    series: Path | None = None
    published: Path | None = None


class SubRun:
    """One run."""

    def __init__(self, plan: SubPlan, stop: Stop, say: Callable[[str], None]) -> None:
        """`say`: is told how it goes, a line each."""
        self._plan, self._stop, self._say = plan, stop, say
        self._published = PublishedFile(plan.published) if plan.published is not None else None
        self._since = self._until = 0

    def run(self) -> dict[str, Any]:
        """Returns the report. Raises BenchError, SwarmError, OSError."""
        plan = self._plan
        with Swarm(
            plan.device,
            plan.topics,
            plan.connections,
            plan.addresses,
            processes=plan.processes,
            sources=plan.sources,
            survives=True,
        ) as swarm:
            swarm.add(plan.connections, plan.connect_per_s)
            self._connect(swarm)
            if plan.warm_up_s:
                self._say(f"warming up for {plan.warm_up_s:g} s")
                self._stop.wait(plan.warm_up_s)
            processes = LoadedProcesses(plan.addresses)
            # Where they are when all are there: at the end some may be gone.
            at = {"addresses": by_number(swarm.where()), "gateways": processes.connections()}
            meter = Meter({**processes.roles(), "bench-sub": [os.getpid(), *swarm.pids]})
            self._measure(swarm)
            used = meter.read()
            seconds = max(0.001, (self._until - self._since) / 1000)
            bits = swarm.counts().bytes_in * 8
            told = self._settle(swarm)
            return self._report(swarm, told, seconds, bits) | {
                "cpu_s": {role: one["cpu_s"] for role, one in used.items()},
                "connections_at": at,
            }

    def _connect(self, swarm: Swarm) -> None:
        plan = self._plan
        wanted = plan.connections
        until_s = time.monotonic() + _CONNECT_S + (wanted / plan.connect_per_s if plan.connect_per_s else 0.0)
        said_s = more_s = time.monotonic()
        ready = 0
        while (counts := swarm.counts()).ready < wanted:
            if swarm.gone:
                raise BenchError("a process of the clients has ended before all were connected")
            now_s = time.monotonic()
            why = f": {counts.closed[-1]}" if counts.closed else ""
            if counts.ready > ready:
                ready, more_s = counts.ready, now_s
            if now_s > until_s or now_s - more_s > _NOBODY_S or self._stop.is_set():
                raise BenchError(
                    f"{counts.ready:,} of {wanted:,} connections are complete, {counts.connected:,} are open, "
                    f"{counts.failed:,} attempts have failed{why}"
                )
            if now_s - said_s >= _SAY_S:
                said_s = now_s
                failed = f", {counts.failed:,} attempts have failed{why}" if counts.failed else ""
                self._say(f"{counts.ready:,} of {wanted:,} connections are complete{failed}")
            self._stop.wait(_LOOK_S / 5)
        self._say(f"all {wanted:,} connections are complete")

    def _measure(self, swarm: Swarm) -> None:
        plan = self._plan
        self._since = _now_ms()
        self._until = self._since + int(plan.seconds * 1000)
        swarm.measure(self._since, self._until)
        self._say(f"measuring for {plan.seconds:g} s")
        series = plan.series.open("w", encoding="utf-8") if plan.series is not None else None
        before, at_s = Counts(), time.monotonic()
        until_s = at_s + plan.seconds
        try:
            while not self._stop.is_set() and (left_s := until_s - time.monotonic()) > 0:
                self._stop.wait(min(left_s, _SERIES_S))
                if series is not None:
                    counts, now_s = swarm.counts(), time.monotonic()
                    series.write(json.dumps(_row(counts, before, self._since, now_s - at_s)) + "\n")
                    series.flush()
                    before, at_s = counts, now_s
        finally:
            if series is not None:
                series.close()
        if self._stop.is_set():
            self._until = min(self._until, _now_ms())
            swarm.end(self._until)

    def _settle(self, swarm: Swarm) -> BenchVerdict:
        """Waits until nothing is owed."""
        until_s = time.monotonic() + self._plan.settle_s
        while True:
            begun_s = time.monotonic()
            owed = self._owed(swarm)
            now_s = time.monotonic()
            if not owed.lost or now_s > until_s:
                return owed
            time.sleep(min(until_s - now_s + 0.01, max(_LOOK_S, now_s - begun_s)))

    def _owed(self, swarm: Swarm) -> BenchVerdict:
        tallies = swarm.tallies()
        self._sent, self._acknowledged = None, None
        if self._published is not None:
            self._published.read()
            self._sent, published = self._published.published(self._since, self._until)
            self._acknowledged = sum(one.number for one in published.values())
        else:
            published = published_by(tallies.values())
        self._topics = published
        return judge(self._plan.topics, tallies, swarm.sizes, published)

    _sent: int | None = None
    _acknowledged: int | None = None
    _topics: dict[int, MarkedPublishes] = {}  # noqa: RUF012

    def _report(self, swarm: Swarm, owed: BenchVerdict, seconds: float, bits: int) -> dict[str, Any]:
        plan = self._plan
        counts = swarm.counts()
        latencies, _ = swarm.take()
        if plan.histogram is not None:
            latencies.write(plan.histogram, self._since / 1000, seconds)
        return {
            "connections": plan.connections,
            "complete": counts.ready,
            "processes_gone": len(swarm.gone),
            "connections_lost": counts.lost,
            "closed": counts.closed,
            "seconds": round(seconds, 3),
            "sent": self._sent,
            "acknowledged": self._acknowledged,
            "topics_published": len(self._topics),
            "expected": owed.expected,
            "received": owed.received,
            "outdone": owed.outdone,
            "lost": owed.lost,
            "latency": latencies.summary(),
            "without_clock": counts.without_clock,
            "gbit_per_s": round(bits / seconds / 1e9, 6),
        }


def _row(counts: Counts, before: Counts, since: int, seconds: float) -> dict[str, Any]:
    seconds = max(seconds, 0.001)
    return {
        "at_s": round((_now_ms() - since) / 1000, 3),
        "complete": counts.ready,
        "connections_lost": counts.lost,
        "received": counts.deliveries,
        "received_per_s": round((counts.deliveries - before.deliveries) / seconds, 1),
        "gbit_per_s": round((counts.bytes_in - before.bytes_in) * 8 / seconds / 1e9, 6),
    }


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
