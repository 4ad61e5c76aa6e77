"""The pipeline at its limits: conflation of a fast publisher, and many publishes with one subscriber each."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from coldnotify_load.open_loop import PublishPlan
from coldnotify_load.population import Population

from coldnotify_loadtest.bench import READY_S, BenchRun, Experiment, Parameters, measure
from coldnotify_loadtest.servers import ColdNotify
from coldnotify_loadtest.tables import Shape

_INTERVAL = "coldnotify_matcher_conflation_interval_seconds"
_LOOK_EVERY_S = 0.5


@contextmanager
def watched(server: ColdNotify) -> Iterator[list[float]]:
    """Meanwhile asks the matcher for its interval of conflation; yields all its answers (s)."""
    seen: list[float] = []
    stop = threading.Event()

    def look() -> None:
        while not stop.wait(_LOOK_EVERY_S):
            with suppress(OSError):  # too busy to answer
                seen.append(server.metric("matcher-1", _INTERVAL))

    thread = threading.Thread(target=look, name="interval", daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        stop.set()
        thread.join()


def run_conflation(bench: BenchRun) -> None:
    """One object, many versions a second, many clients; how long after the last one all have the newest."""
    population = Population(fan_out=bench["clients"])
    for setting in bench["settings"]:
        bench.progress.step(f"conflation {setting}")
        with (
            ColdNotify(bench.new_directory(), settings={"matcher-conflation": setting}) as server,
            bench.load(server, population, bench["clients"]) as (swarm, publisher),
        ):
            server.warm_up(bench["warm_up_s"])
            with watched(server) as seen_s:
                row = measure(server, swarm, publisher, PublishPlan(bench["per_s"], bench["seconds"]), bench["clients"])
            intervals = {"interval_max_ms": 1000 * max(seen_s, default=0.0)}
            swarm.record()
            last = publisher.once()
            counts = swarm.wait(lambda counts: counts.reached >= swarm.devices, READY_S, "the newest at all")
            newest_s = round((counts.last_reached_ns - last.first_ns) / 1e9, 3)
            versions = row["deliveries"] / bench["clients"]
            row |= {"setting": setting, "versions_a_client": versions, "newest_at_all_s": newest_s, **intervals}
            bench.rows.append(row)


def run_matcher(bench: BenchRun) -> None:
    """Fan-out 1: as many objects as clients, over all partitions."""
    population = Population(fan_out=1, groups=bench["groups"])
    for repeat in range(bench["repeats"]):
        with (
            ColdNotify(bench.new_directory(), gateways=bench["gateways"]) as server,
            bench.load(server, population, bench["clients"]) as (swarm, publisher),
        ):
            server.warm_up(bench["warm_up_s"])
            for rate in bench["rates"]:
                bench.progress.step(f"fan-out 1, {rate} a second, repeat {repeat + 1}")
                plan = PublishPlan(rate, bench["seconds"], blocks=bench["clients"])
                bench.rows.append({"repeat": repeat, **measure(server, swarm, publisher, plan, 1)})


def conflation_seconds(parameters: Parameters) -> float:
    """About."""
    return float(len(parameters["settings"]) * (parameters["seconds"] + parameters["warm_up_s"] + 30))


def matcher_seconds(parameters: Parameters) -> float:
    """About."""
    a_repeat = 25 + parameters["warm_up_s"] + len(parameters["rates"]) * (parameters["seconds"] + 3)
    return float(parameters["repeats"] * a_repeat)


_CONFLATION_TABLES = (
    Shape(
        "One object published thousands of times a second",
        {"interval (ms)": "setting"},
        {
            "longest interval": "interval_max_ms",
            "published/s": "published_per_s",
            "versions a client got": "versions_a_client",
            "newest at all, s": "newest_at_all_s",
            "p99 ms": "p99_ms",
            "gateway CPU s": "used.gateway.cpu_s",
            "matcher CPU s": "used.matcher.cpu_s",
        },
    ),
)
CONFLATION = Experiment(
    "conflation",
    "a publisher of thousands of versions a second",
    {
        "clients": 1000,
        "per_s": 5000,
        "seconds": 30,
        "warm_up_s": 20,
        "receive_buffer_bytes": 16_384,
        "settings": ("*=0", "*=100", "*=1000", "*=auto"),
        "processes": 2,
    },
    {"clients": 20, "per_s": 200, "seconds": 2, "warm_up_s": 0, "settings": ("*=0", "*=200", "*=auto")},
    conflation_seconds,
    lambda parameters: len(parameters["settings"]),
    run_conflation,
    _CONFLATION_TABLES,
)
_MATCHER_TABLES = (
    Shape(
        "One subscriber a publish",
        {"publishes/s": "per_s"},
        {
            "sustained/s": "published_per_s",
            "median ms": "p50_ms",
            "p99": "p99_ms",
            "matcher CPU us a publish": "cpu_us_per_publish.matcher",
            "gateway": "cpu_us_per_publish.gateway",
            "broker": "cpu_us_per_publish.broker",
            "delivered": "deliveries",
            "of": "expected",
        },
    ),
)
MATCHER = Experiment(
    "matcher",
    "one subscriber a publish",
    {
        "clients": 1000,
        "groups": 64,
        "gateways": 1,
        "rates": (100, 1000, 5000, 10_000, 20_000),
        "seconds": 15,
        "warm_up_s": 20,
        "repeats": 5,
        "processes": 2,
    },
    {"clients": 24, "rates": (50, 500), "seconds": 2, "warm_up_s": 0, "repeats": 1},
    matcher_seconds,
    lambda parameters: int(parameters["repeats"]) * len(parameters["rates"]),
    run_matcher,
    _MATCHER_TABLES,
)
