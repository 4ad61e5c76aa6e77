"""Peers: the same swarm at the field's servers; fan-outs, storms of reconnects, what an idle connection weighs."""

import time

from coldnotify_load.open_loop import PublishPlan
from coldnotify_load.population import Population
from coldnotify_load.processes import Meter

from coldnotify_loadtest.bench import READY_S, BenchRun, Experiment, Parameters, chosen, identity, measure
from coldnotify_loadtest.servers import Server
from coldnotify_loadtest.tables import SERVER, Shape

_START_S = 8.0


def run(bench: BenchRun) -> None:
    """Per repeat and server: connect (memory), publish (latency, CPU), all connections cut and back (storm)."""
    clients = bench["clients"]
    for repeat in range(bench["repeats"]):
        for kind in bench.servers():
            for fan_out in _fan_outs(bench, kind):
                bench.progress.step(f"{kind.name}, fan-out {fan_out}, repeat {repeat + 1}")
                population = Population(fan_out, 1, min(bench["groups"], max(1, clients // fan_out)))
                with (
                    kind(bench.new_directory()) as server,
                    bench.load(server, population, clients, add=False) as (swarm, publisher),
                ):
                    server.warm_up(bench["warm_up_s"])
                    before = Meter(server.roles()).read()
                    swarm.add(clients)
                    swarm.wait_ready(READY_S)
                    after = Meter(server.roles()).read()
                    grown = {role: after[role]["memory_mib"] - before[role]["memory_mib"] for role in after}
                    plan = PublishPlan(bench["per_s"], bench["seconds"], blocks=max(1, clients // fan_out))
                    row = measure(server, swarm, publisher, plan, fan_out)
                    row["kib_a_connection"] = {role: round(mib * 1024 / clients, 2) for role, mib in grown.items()}
                    bench.rows.append({"case": "fan-out", "repeat": repeat, "clients": clients, **row})
                    swarm.drop()
                    time.sleep(bench["away_s"])
                    meter = Meter(server.roles())
                    begun_ns = time.monotonic_ns()
                    swarm.record(begun_ns)
                    swarm.come_back()
                    counts = swarm.wait_ready(READY_S)
                    _, to_ready = swarm.take()
                    bench.rows.append(
                        {
                            **identity(server),
                            "case": "storm",
                            "repeat": repeat,
                            "clients": clients,
                            "fan_out": fan_out,
                            "all_back_s": round((counts.last_ready_ns - begun_ns) / 1e9, 3),
                            "to_ready": to_ready.summary(),
                            "used": meter.read(),
                        }
                    )


def _fan_outs(parameters: Parameters | BenchRun, kind: type[Server]) -> list[int]:
    return [one for one in parameters["fan_outs"] if one == parameters["clients"] or not kind.tells_all]


def steps(parameters: Parameters) -> int:
    """Servers started."""
    return sum(len(_fan_outs(parameters, kind)) for kind in chosen(parameters)) * int(parameters["repeats"])


def seconds(parameters: Parameters) -> float:
    """About."""
    warm_up_s = len(parameters["fan_outs"]) * parameters["repeats"] * parameters["warm_up_s"]
    return float(steps(parameters) * (_START_S + parameters["seconds"] + parameters["away_s"]) + warm_up_s)


_TABLES = (
    Shape(
        "Peers: publishes to all subscribers",
        {**SERVER, "fan-out": "fan_out"},
        {
            "median ms": "p50_ms",
            "p99": "p99_ms",
            "CPU us a delivery": "cpu_us_per_delivery.*",
            "KiB a connection": "kib_a_connection.*",
            "delivered": "deliveries",
            "of": "expected",
        },
        lambda row: row["case"] == "fan-out",
    ),
    Shape(
        "Peers: all connections are cut and come back at once",
        {**SERVER, "fan-out": "fan_out"},
        {"all complete, s": "all_back_s", "median ms": "to_ready.p50_ms", "CPU s": "used.*.cpu_s"},
        lambda row: row["case"] == "storm",
    ),
)
PEERS = Experiment(
    "peers",
    "the field's servers beside",
    {
        "clients": 1000,
        "groups": 64,
        "fan_outs": (1, 10, 1000),
        "per_s": 100,
        "seconds": 10,
        "warm_up_s": 20,
        "away_s": 2,
        "repeats": 5,
        "processes": 2,
        "servers": "all",
    },
    {"clients": 20, "fan_outs": (1, 20), "per_s": 20, "seconds": 1, "warm_up_s": 0, "away_s": 0.5, "repeats": 1},
    seconds,
    steps,
    run,
    _TABLES,
)
