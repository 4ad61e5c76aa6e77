"""E1: many clients on one object, at rising rates of publishes; ColdNotify and its peers in turns."""

from coldnotify_load.open_loop import PublishPlan
from coldnotify_load.population import Population

from coldnotify_loadtest.bench import BenchRun, Experiment, Parameters, chosen, measure
from coldnotify_loadtest.tables import LATENCY, SERVER, Shape

_START_S = 12.0
_FIRST_S = 3.0
"""Publishes that are not counted: whatever the first one costs."""


def run(bench: BenchRun) -> None:
    """Each repeat restarts every server: drift of the machine affects all of them."""
    population = Population(fan_out=bench["clients"], registrations=1)
    for repeat in range(bench["repeats"]):
        for kind in bench.servers():
            with (
                kind(bench.new_directory()) as server,
                bench.load(server, population, bench["clients"]) as (swarm, publisher),
            ):
                server.warm_up(bench["warm_up_s"])
                publisher.publish(PublishPlan(bench["rates"][0], _FIRST_S))
                for rate in bench["rates"]:
                    bench.progress.step(f"{kind.name}, {rate} a second, repeat {repeat + 1}")
                    row = measure(server, swarm, publisher, PublishPlan(rate, bench["seconds"]), bench["clients"])
                    bench.rows.append({"repeat": repeat, "clients": bench["clients"], **row})


def steps(parameters: Parameters) -> int:
    """Measurements."""
    return len(chosen(parameters)) * len(parameters["rates"]) * int(parameters["repeats"])


def seconds(parameters: Parameters) -> float:
    """About."""
    a_repeat = len(chosen(parameters)) * (_START_S + _FIRST_S) + parameters["warm_up_s"]
    return float(steps(parameters) * (parameters["seconds"] + 2) + parameters["repeats"] * a_repeat)


_THESIS = (
    "Thesis: 18.4 ms mean and 5.1 ms median at 13,000 notifications/s, 41.8 ms mean at 25,000/s (84 nodes).\n"
    "Its median at 13,000/s is better than ColdNotify's here, whose cores also carry the load."
)
_TABLES = (
    Shape(
        "E1: clients on one object, medians of the repeats",
        {**SERVER, "publishes/s": "per_s"},
        {
            **LATENCY,
            "delivered": "deliveries",
            "of": "expected",
            "CPU us a delivery": "cpu_us_per_delivery.*",
            "of it gateway": "cpu_us_per_delivery.gateway",
            "memory MiB": "used.*.memory_mib",
        },
    ),
)
E1 = Experiment(
    "E1",
    "clients on one object, publishes a second",
    {
        "clients": 1000,
        "rates": (1, 5, 13, 25, 50, 100, 200),
        "seconds": 10,
        "warm_up_s": 20,
        "repeats": 5,
        "processes": 2,
        "servers": "ColdNotify,NATS core,JetStream KV,bare C loop",
    },
    {"clients": 50, "rates": (5, 20), "seconds": 2, "warm_up_s": 1, "repeats": 1},
    seconds,
    steps,
    run,
    _TABLES,
    _THESIS,
)
