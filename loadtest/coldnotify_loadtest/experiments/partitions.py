"""Partitions at rest: CPU of services with few and with many partitions, beside each other on one machine."""

import time
from contextlib import ExitStack

from coldnotify_load.population import Population
from coldnotify_load.processes import Meter

from coldnotify_loadtest.bench import BenchRun, Experiment, Parameters, identity
from coldnotify_loadtest.servers import ColdNotify
from coldnotify_loadtest.tables import Shape

_SETTLED_S = 15.0
"""Beats of all partitions leave in one round after two."""


def run(bench: BenchRun) -> None:
    """All servers at once, each with its connected clients in groups of all partitions; nobody publishes."""
    population = Population(-(-bench["clients"] // bench["groups"]), 1, bench["groups"])
    with ExitStack() as stack:
        servers = []
        for partitions in bench["partitions"]:
            bench.progress.step(f"{partitions} partitions: {bench['clients']} clients connect")
            server = stack.enter_context(ColdNotify(bench.new_directory(), partitions=partitions, as_up=True))
            server.warm_up(bench["warm_up_s"])
            stack.enter_context(bench.load(server, population, bench["clients"]))
            servers.append((partitions, server))
        time.sleep(_SETTLED_S)
        for repeat in range(bench["repeats"]):
            bench.progress.step(f"rest, repeat {repeat + 1}")
            meters = [Meter(server.roles()) for _, server in servers]
            time.sleep(bench["seconds"])
            for (partitions, server), meter in zip(servers, meters, strict=True):
                used = meter.read()
                percent = {role: round(100 * one["cpu_s"] / bench["seconds"], 2) for role, one in used.items()}
                row = {**identity(server), "partitions": partitions, "clients": bench["clients"], "repeat": repeat}
                bench.rows.append({**row, "percent": percent, "together": round(sum(percent.values()), 2)})


def seconds(parameters: Parameters) -> float:
    """About."""
    starts = len(tuple(parameters["partitions"])) * (20.0 + parameters["warm_up_s"])
    return float(starts + _SETTLED_S + parameters["repeats"] * parameters["seconds"])


_TABLES = (
    Shape(
        "Idle services, percent of a core",
        {"partitions": "partitions", "clients": "clients"},
        {
            "Kafka": "percent.broker",
            "matcher": "percent.matcher",
            "gateway": "percent.gateway",
            "HTTP": "percent.http",
            "together": "together",
        },
    ),
)
PARTITIONS = Experiment(
    "partitions",
    "few and many partitions at rest",
    {
        "partitions": (8, 32),
        "clients": 500,
        "groups": 100,
        "seconds": 60,
        "repeats": 3,
        "warm_up_s": 10.0,
        "processes": 1,
    },
    {"partitions": (2, 4), "clients": 8, "groups": 8, "seconds": 2, "repeats": 1, "warm_up_s": 0.0},
    seconds,
    lambda parameters: len(tuple(parameters["partitions"])) + int(parameters["repeats"]),
    run,
    _TABLES,
)
