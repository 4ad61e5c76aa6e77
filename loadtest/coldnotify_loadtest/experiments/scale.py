"""Scale: idle connections, over several gateways or at a peer, what each weighs, and one publish to all of them."""

import time

from coldnotify_load.population import Population
from coldnotify_load.processes import Meter

from coldnotify_loadtest.bench import READY_S, BenchRun, Experiment, Parameters, identity
from coldnotify_loadtest.servers import ColdNotify, Server
from coldnotify_loadtest.tables import SERVER, Shape

_CONNECT_S = 1800.0


def run(bench: BenchRun) -> None:
    """Memory is of the own pages of the processes that hold connections: after all are complete, minus before."""
    for kind in bench.servers():
        directory = bench.new_directory()
        if issubclass(kind, ColdNotify):
            _measure(bench, kind(directory, gateways=bench["gateways"]))
        else:
            _measure(bench, kind(directory))


def _measure(bench: BenchRun, one: Server) -> None:
    clients = bench["clients"]
    population = Population(fan_out=clients, registrations=bench["registrations"])
    with (
        one as server,
        bench.load(server, population, clients, add=False) as (swarm, publisher),
    ):
        before = Meter(server.roles()).read()
        bench.progress.step(f"connecting {clients}")
        begun_ns = time.monotonic_ns()
        meter = Meter(server.roles())
        swarm.record(begun_ns)
        swarm.add(clients, bench["clients_per_s"])
        counts = swarm.wait_ready(_CONNECT_S)
        connected_s = (counts.last_ready_ns - begun_ns) / 1e9
        time.sleep(bench["idle_s"])
        used = meter.read()
        holder = "gateway" if "gateway" in used else "server"
        grown = used[holder]["memory_mib"] - before[holder]["memory_mib"]
        row = {
            **identity(server),
            "clients": clients,
            "gateways": len(server.roles()[holder]),
            "connected_s": round(connected_s, 2),
            "bytes_a_connection": round(grown * 2**20 / clients),
            "used": used,
        }
        for publish in range(bench["publishes"]):
            bench.progress.step(f"publish {publish + 1} to all")
            swarm.record()
            sent = publisher.once()
            counts = swarm.wait(lambda counts: counts.reached >= clients, READY_S, "the publish at all")
            latencies, _ = swarm.take()
            reached_s = round((counts.last_reached_ns - sent.first_ns) / 1e9, 3)
            bench.rows.append({**row, "publish": publish, "all_reached_s": reached_s, **latencies.summary()})


def seconds(parameters: Parameters) -> float:
    """About."""
    paced = parameters["clients"] / (parameters["clients_per_s"] or 1000)
    return float(40 + paced + parameters["idle_s"] + 10 * parameters["publishes"])


_TABLES = (
    Shape(
        "Idle connections, one publish to all",
        {**SERVER, "clients": "clients", "gateways": "gateways"},
        {
            "connected in s": "connected_s",
            "bytes a connection": "bytes_a_connection",
            "a publish reaches all, s": "all_reached_s",
            "median ms": "p50_ms",
        },
    ),
)
SCALE = Experiment(
    "scale",
    "idle connections, and one publish to all",
    {
        "clients": 100_000,
        "registrations": 5,
        "gateways": 6,
        "clients_per_s": 1000,
        "idle_s": 10,
        "publishes": 5,
        "processes": 6,
        "servers": ColdNotify.name,
    },
    {"clients": 200, "gateways": 2, "idle_s": 1, "publishes": 2, "processes": 2},
    seconds,
    lambda parameters: 1 + int(parameters["publishes"]),
    run,
    _TABLES,
)
