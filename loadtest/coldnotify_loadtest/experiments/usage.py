"""usage: workers of the usage job are killed while nodes write, and what one of them carries.

The cases:

    kills    two workers; one is killed at a drawn time and started again, `soon` of the `kills` within 1 s of a
             takeover; at the end each count of an hour and a day is compared with a plain consumer's over the topic
    backlog  one worker begins with `backlog` records in the topic: how many it reads a second, and at which cost
"""

import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_load.processes import Meter
from coldnotify_testkit.kafka import broker, reset_topics
from coldnotify_testkit.usage_workers import PARTITIONS, Feeder, UsageProcess, counted_plainly, differences, told
from coldnotify_testkit.waiting import wait_for

from coldnotify_loadtest.bench import READY_S, BenchRun, Experiment, Parameters
from coldnotify_loadtest.tables import Shape

CASES = ("kills", "backlog")
_SOON_S = 1.0
_BETWEEN_S = 4.0
"""Up to so long a worker that was started again is left alone."""
_READ = 'coldnotify_usage_events_total{event="record"}'
_ROLE = "usage"


def run(bench: BenchRun) -> None:
    """Each case has its own broker. Raises AssertionError if counts differ."""
    if unknown := set(bench["cases"]) - set(CASES):
        raise ValueError(f"cases: unknown value {min(unknown)!r}, expected one of {', '.join(CASES)}")
    for case in bench["cases"]:
        bench.progress.step(case)
        directory = bench.new_directory()
        directory.mkdir()
        with broker() as running:
            reset_topics(running.bootstrap)
            (_kills if case == "kills" else _backlog)(bench, running, directory)


class _Workers:
    """Two workers, each started again when it ends by itself, as a supervisor would."""

    def __init__(self, kafka: str, directory: Path) -> None:
        self._kafka, self._directory, self._made = kafka, directory, 0
        self.both = [self._new(), self._new()]
        self.ended = 0
        """How often a process ended that was not killed."""

    def again(self, number: int) -> None:
        """This one is started, after its end."""
        self.both[number] = self._new()

    def share(self) -> None:
        """Until they have all partitions among them."""
        _wait(lambda: self._look() and sum(one.partitions for one in self.both) == PARTITIONS)

    def log_lines(self) -> int:
        """Returns the number of log lines of all that were started."""
        return sum(len(path.read_text().splitlines()) for path in self._directory.glob("*.log"))

    def _look(self) -> bool:
        for number, one in enumerate(self.both):
            if not one.running:
                self.ended += 1
                self.again(number)
        return all(one.ready and one.partitions for one in self.both)

    def _new(self) -> UsageProcess:
        self._made += 1
        return UsageProcess(self._kafka, self._directory / f"worker-{self._made}.log")


def _kills(bench: BenchRun, running: EmbeddedBroker, directory: Path) -> None:
    draw = random.Random(bench["seed"])
    kafka, kills = running.bootstrap, bench["kills"]
    soon = set(draw.sample(range(kills), min(bench["soon"], kills)))
    workers = _Workers(kafka, directory)
    pauses_s: list[float] = []
    feeder = Feeder(kafka, bench["per_s"], seed=bench["seed"])
    try:
        with feeder.feeding():
            workers.share()
            for kill in range(kills):
                bench.progress.step(f"kill {kill + 1}")
                if kill in soon:
                    victim = _just_given_partitions(workers)
                    time.sleep(draw.uniform(0, _SOON_S))
                else:
                    time.sleep(draw.uniform(0, _BETWEEN_S))
                    victim = draw.randrange(2)
                left = workers.both[1 - victim]
                before, killed_s = left.takeovers, time.monotonic()
                workers.both[victim].kill()
                _wait(partial(_has_all, left, before))
                if left.running:
                    pauses_s.append(time.monotonic() - killed_s)
                workers.again(victim)
                workers.share()
        workers.share()
        wanted = counted_plainly(kafka)
        _wait(lambda: not differences(told(kafka), wanted))
        bench.rows.append(
            {
                "case": "kills",
                "workers": 2,
                "records": feeder.written,
                "per_s": bench["per_s"],
                "kills": kills,
                "soon": len(soon),
                "ended": workers.ended,
                "counts": len(wanted),
                "counts_that_differ": len(differences(told(kafka), wanted)),
                "pause_median_s": round(median(pauses_s), 2),
                "pause_max_s": round(max(pauses_s), 2),
                "log_lines": workers.log_lines(),
            }
        )
    finally:
        for worker in workers.both:
            worker.kill()


def _just_given_partitions(workers: _Workers) -> int:
    """One is stopped and started again; the number of the other one, which was given partitions just now."""
    other = workers.both[1]
    workers.both[0].stop()
    before = other.takeovers
    workers.again(0)
    _wait(lambda: other.takeovers > before or not other.running)
    return 1


def _has_all(worker: UsageProcess, takeovers: int) -> bool:
    return not worker.running or (worker.takeovers > takeovers and worker.partitions == PARTITIONS)


def _backlog(bench: BenchRun, running: EmbeddedBroker, directory: Path) -> None:
    feeder = Feeder(running.bootstrap, 0, tenants=bench["tenants"])
    for _ in range(bench["backlog"]):
        feeder.write()
    feeder.flush()
    worker = UsageProcess(running.bootstrap, directory / "worker.log")
    try:
        _wait(lambda: worker.metric(_READ) > 0)
        meter, begun_s = Meter({_ROLE: [worker.process.pid]}), time.monotonic()
        had = worker.metric(_READ)
        _wait(lambda: worker.metric(_READ) >= feeder.written)
        passed_s, used = time.monotonic() - begun_s, meter.read()[_ROLE]
        read = feeder.written - had
        bench.rows.append(
            {
                "case": "backlog",
                "workers": 1,
                "records": feeder.written,
                "per_s": round(read / passed_s),
                "per_core_s": round(read / used["cpu_s"]) if used["cpu_s"] else None,
                "counters": worker.metric("coldnotify_usage_counters"),
                "memory_mib": used["memory_mib"],
            }
        )
    finally:
        worker.kill()


def _wait(condition: Callable[[], object]) -> None:
    wait_for(condition, timeout_s=READY_S)


def seconds(parameters: Parameters) -> float:
    """About."""
    return float(parameters["kills"] * 13 + parameters["backlog"] / 2000 + 30)


_TABLES = (
    Shape(
        "Workers of the usage job are killed",
        {"workers": "workers", "records/s": "per_s"},
        {
            "kills": "kills",
            "within 1 s of a takeover": "soon",
            "ended by themselves": "ended",
            "records": "records",
            "counts compared": "counts",
            "that differ": "counts_that_differ",
            "pause, median s": "pause_median_s",
            "longest": "pause_max_s",
            "log lines": "log_lines",
        },
        lambda row: row["case"] == "kills",
    ),
    Shape(
        "What one worker carries",
        {"workers": "workers", "records": "records"},
        {
            "records/s": "per_s",
            "records a second of CPU": "per_core_s",
            "counters": "counters",
            "memory MiB": "memory_mib",
        },
        lambda row: row["case"] == "backlog",
    ),
)
USAGE = Experiment(
    "usage",
    "workers of the usage job are killed; what one carries",
    {"cases": CASES, "per_s": 500, "kills": 20, "soon": 5, "backlog": 60_000, "tenants": 400, "seed": 1},
    {"kills": 2, "soon": 1, "backlog": 2000},
    seconds,
    lambda parameters: len(parameters["cases"]) + int(parameters["kills"]),
    run,
    _TABLES,
)
