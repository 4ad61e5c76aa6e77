"""E2: a growing and a fixed number of clients with many registrations each, one publish a second meanwhile."""

import time

from coldnotify_load.open_loop import PublishPlan
from coldnotify_load.population import Population
from coldnotify_load.processes import Meter

from coldnotify_loadtest.bench import READY_S, BenchRun, Experiment, Parameters, identity, measure
from coldnotify_loadtest.servers import ColdNotify
from coldnotify_loadtest.tables import LATENCY, Shape


def run(bench: BenchRun) -> None:
    """Per repeat: all clients as fast as they can, then the same number at rest."""
    clients, groups = bench["clients"], bench["groups"]
    population = Population(-(-clients // groups), bench["registrations"], groups)
    for repeat in range(bench["repeats"]):
        with (
            ColdNotify(bench.new_directory()) as server,
            bench.load(server, population, clients, add=False) as (swarm, publisher),
        ):
            bench.progress.step(f"growing, repeat {repeat + 1}")
            meter = Meter(server.roles())
            publisher.begin(PublishPlan(1, bench["growing_publish_s"], poisson=False))
            begun_ns = time.monotonic_ns()
            swarm.record(begun_ns)
            swarm.add(clients, bench["clients_per_s"])
            counts = swarm.wait_ready(READY_S)
            took_s = (counts.last_ready_ns - begun_ns) / 1e9
            used = meter.read()
            latencies, to_ready = swarm.take()
            publisher.end()
            bench.rows.append(
                {
                    **identity(server),
                    "phase": "growing",
                    "repeat": repeat,
                    "clients": clients,
                    "registrations": clients * bench["registrations"],
                    "seconds": round(took_s, 3),
                    "registrations_per_s": round(clients * bench["registrations"] / took_s, 1),
                    "to_ready": to_ready.summary(),
                    "used": used,
                    **latencies.summary(),
                }
            )
            bench.progress.step(f"fixed, repeat {repeat + 1}")
            plan = PublishPlan(1, bench["seconds"], numbers=bench["registrations"], poisson=False)
            row = measure(server, swarm, publisher, plan, population.fan_out)
            bench.rows.append({**row, "phase": "fixed", "repeat": repeat, "clients": clients})


def seconds(parameters: Parameters) -> float:
    """About."""
    return float(parameters["repeats"] * (parameters["seconds"] + parameters["growing_publish_s"] + 20))


def steps(parameters: Parameters) -> int:
    """Two a repeat."""
    return 2 * int(parameters["repeats"])


_THESIS = "Thesis: 1,038 registrations/s while growing."
_TABLES = (
    Shape(
        "E2: while growing",
        {"server": "server", "clients": "clients"},
        {
            "seconds": "seconds",
            "registrations/s": "registrations_per_s",
            "connect to complete, median ms": "to_ready.p50_ms",
            "p99": "to_ready.p99_ms",
        },
        lambda row: row["phase"] == "growing",
    ),
    Shape(
        "E2: a fixed number, one publish a second",
        {"server": "server", "clients": "clients"},
        {**LATENCY, "memory MiB": "used.*.memory_mib"},
        lambda row: row["phase"] == "fixed",
    ),
)
E2 = Experiment(
    "E2",
    "growing and fixed numbers of clients",
    {
        "clients": 1000,
        "registrations": 50,
        "groups": 1,
        "clients_per_s": 0,
        "growing_publish_s": 10,
        "seconds": 30,
        "repeats": 5,
        "processes": 2,
    },
    {"clients": 48, "registrations": 5, "growing_publish_s": 2, "seconds": 3, "repeats": 1},
    seconds,
    steps,
    run,
    _TABLES,
    _THESIS,
)
