"""The common part of experiments: parameters, a directory, a progress bar, and the measurement of one plan of
publishes.
"""

import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coldnotify_load.open_loop import PublisherHandle, PublishPlan
from coldnotify_load.population import Population
from coldnotify_load.processes import Meter, per_delivery_us
from coldnotify_load.swarm import Swarm
from coldnotify_load.swarm_process import Counts

from coldnotify_loadtest.devices import KINDS
from coldnotify_loadtest.servers import OWN_SERVERS, PEER_SERVERS, Server
from coldnotify_loadtest.tables import Shape

SERVERS: tuple[type[Server], ...] = (*OWN_SERVERS, *PEER_SERVERS)
READY_S = 300.0
_SETTLE_S = 2.0
"""After so long without a delivery, missing ones will not come: they were replaced by newer versions."""
_BAR = 30

Row = dict[str, Any]
Parameters = Mapping[str, Any]


class Progress:
    """A bar on stderr, where that is a terminal; elsewhere a line for each step."""

    def __init__(self, steps: int, title: str) -> None:
        self._steps, self._title, self._done, self._begun_s = max(steps, 1), title, 0, time.monotonic()

    def step(self, what: str) -> None:
        """The next one begins."""
        self._done += 1
        passed_s = time.monotonic() - self._begun_s
        share = min(1.0, (self._done - 1) / self._steps)
        left = f", {math.ceil(passed_s / share - passed_s)} s left" if share > 0 else ""
        if sys.stderr.isatty():
            full = round(_BAR * share)
            bar = "#" * full + "." * (_BAR - full)
            sys.stderr.write(f"\r\x1b[K{self._title} [{bar}] {share:4.0%} {passed_s:.0f} s{left}: {what}")
        else:
            sys.stderr.write(f"{self._title} {self._done}/{self._steps} {passed_s:.0f} s{left}: {what}\n")
        sys.stderr.flush()

    def end(self) -> None:
        """All is done."""
        if sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K")


@dataclass
class BenchRun:
    """One run of one experiment."""

    parameters: Parameters
    directory: Path
    progress: Progress
    rows: list[Row] = field(default_factory=list)
    _servers: int = 0

    def __getitem__(self, name: str) -> Any:
        return self.parameters[name]

    def new_directory(self) -> Path:
        """For the next server."""
        self._servers += 1
        return self.directory / f"server-{self._servers}"

    def servers(self) -> list[type[Server]]:
        """Those of the parameter `servers` that are installed."""
        return [kind for kind in chosen(self.parameters) if not kind.missing()]

    @contextmanager
    def load(
        self, server: Server, population: Population, devices: int, *, add: bool = True
    ) -> Iterator[tuple[Swarm, PublisherHandle]]:
        """A swarm whose devices are complete (unless not `add`), and a publisher."""
        with (
            Swarm(
                KINDS[server.kind],
                population,
                devices,
                server.addresses(),
                processes=self["processes"],
                receive_buffer_bytes=self.parameters.get("receive_buffer_bytes", 0),
            ) as swarm,
            PublisherHandle(server.target(population)) as publisher,
        ):
            if add:
                swarm.add(devices)
                swarm.wait_ready(READY_S)
            yield swarm, publisher


def chosen(parameters: Parameters) -> list[type[Server]]:
    """Returns the servers of the parameter `servers`, "all" or names with commas."""
    known: dict[str, type[Server]] = {kind.name: kind for kind in SERVERS}
    wanted = str(parameters["servers"])
    names = list(known) if wanted == "all" else [name.strip() for name in wanted.split(",")]
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"servers: {unknown[0]!r} is unknown, expected one of {', '.join(known)}")
    return [known[name] for name in names]


def identity(server: Server) -> Row:
    """The fields of every row that name its server."""
    return {"server": server.name, "durability": server.durability}


def measure(server: Server, swarm: Swarm, publisher: PublisherHandle, plan: PublishPlan, fan_out: int) -> Row:
    """Publishes by plan; latencies, CPU by role and memory until the last delivery."""
    swarm.record()
    swarm_cpu_s = swarm.counts().cpu_s
    meter = Meter(server.roles())
    published = publisher.publish(plan)
    expected = published.sent * fan_out
    counts = settle(swarm, expected)
    used = meter.read()
    latencies, _ = swarm.take()
    settled_s = max(0, counts.last_delivery_ns - published.last_ns) / 1e9
    return {
        **identity(server),
        "fan_out": fan_out,
        "per_s": plan.per_s,
        "published": published.sent,
        "failed": published.failed,
        "published_per_s": round(published.sent / max((published.last_ns - published.first_ns) / 1e9, 1e-9), 1),
        "late_p99_ms": round(published.late_p99_ms, 3),
        "deliveries": counts.deliveries,
        "expected": expected,
        **latencies.summary(),
        "settled_s": round(settled_s, 3),
        "used": used,
        "cpu_us_per_delivery": per_delivery_us(used, counts.deliveries),
        "cpu_us_per_publish": per_delivery_us(used, published.sent),
        "swarm_cpu_us_per_delivery": round((swarm.counts().cpu_s - swarm_cpu_s) / max(counts.deliveries, 1) * 1e6, 2),
        "lost": counts.lost,
    }


def settle(swarm: Swarm, expected: int, timeout_s: float = READY_S) -> Counts:
    """Waits until all deliveries are there, or none has come for two seconds; the counts."""
    until_s = time.monotonic() + timeout_s
    had, since_s = -1, time.monotonic()
    while True:
        counts = swarm.counts()
        now_s = time.monotonic()
        if counts.deliveries != had:
            had, since_s = counts.deliveries, now_s
        if had >= expected or now_s - since_s > _SETTLE_S or now_s > until_s:
            return counts
        time.sleep(0.02)


@dataclass(frozen=True)
class Experiment:
    """One thing to find out."""

    name: str
    title: str
    parameters: Parameters
    """Those of the run that counts."""
    quick: Parameters
    """Parameters that differ for a tiny run."""
    seconds: Callable[[Parameters], float]
    """About how long it takes."""
    steps: Callable[[Parameters], int]
    run: Callable[[BenchRun], None]
    """Fills `rows`."""
    tables: tuple[Shape, ...]
    """Tables of the rows."""
    note: str = ""
    """Below each table."""
