"""Wakes: devices that come, learn that they have missed nothing, and go; what each costs, process by process.

And a crowd: devices that all come in the same moment, as after a power cut.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from coldnotify_common.security.certificates import Authority
from coldnotify_load.population import Population
from coldnotify_load.processes import Meter, per_delivery_us

from coldnotify_loadtest import wake_loop
from coldnotify_loadtest.bench import READY_S, BenchRun, Experiment, Parameters, chosen, identity
from coldnotify_loadtest.servers import HOST, ColdNotify, Server
from coldnotify_loadtest.tables import Shape

_START_S = 12.0
_FIRST_S = 2.0
"""Warm-up of each rate, before it is measured."""
_DEVICES_A_LOOP = 18_000
"""A process may open 20,000 files."""
_CROWD_S = 120.0
_AWAY_S = 5.0


def run(bench: BenchRun) -> None:
    """Per server, gateways and registrations: idle, then each rate of wakes of devices that were there before."""
    for repeat in range(bench["repeats"]):
        for kind in bench.servers():
            for gateways in bench["gateways"] if kind is ColdNotify else (1,):
                for registrations in bench["registrations"]:
                    about = {"repeat": repeat, "gateways": gateways, "registrations": registrations}
                    population = _population(bench, registrations)
                    with _server(kind, bench, gateways) as server:
                        server.warm_up(bench["warm_up_s"])
                        _one_server(bench, server, population, {**identity(server), **about})


def run_crowd(bench: BenchRun) -> None:
    """All devices at once, so many times; from the first one's connect to the last one's complete."""
    devices, loops = bench["devices"], -(-bench["devices"] // _DEVICES_A_LOOP)
    population = _population(bench, bench["registrations"])
    with ColdNotify(bench.new_directory(), gateways=bench["gateways"], as_up=True) as server:
        server.warm_up(bench["warm_up_s"])
        bench.progress.step(f"{devices} devices connect for the first time")
        first_s = _register(bench, server, population)
        paths = [server.directory / f"hellos-{number}" for number in range(loops)]
        for number, path in enumerate(paths):
            wake_loop.write_hellos(path, server, population, range(number, devices, loops))
        for repeat in range(bench["repeats"]):
            bench.progress.step(f"{devices} devices at once, repeat {repeat + 1}")
            meter = Meter(server.roles())
            begun = [wake_loop.begin(server, path, 0, _CROWD_S) for path in paths]
            seen = [wake_loop.wait_for(loop) for loop in begun]
            bench.rows.append(
                {
                    **identity(server),
                    "repeat": repeat,
                    "gateways": bench["gateways"],
                    "devices": devices,
                    "first_s": first_s,
                    "all_s": max(one["seconds"] for one in seen),
                    "p50_ms": max(one["p50_ms"] for one in seen),
                    "done": sum(one["done"] for one in seen),
                    "failed": sum(one["failed"] for one in seen),
                    "used": meter.read(),
                }
            )
            time.sleep(_AWAY_S)


def _population(bench: BenchRun, registrations: int) -> Population:
    return Population(-(-bench["devices"] // bench["groups"]), registrations, bench["groups"])


def _server(kind: type[Server], bench: BenchRun, gateways: int) -> Server:
    directory = bench.new_directory()
    return ColdNotify(directory, gateways=gateways, as_up=True) if kind is ColdNotify else kind(directory)


def _one_server(bench: BenchRun, server: Server, population: Population, about: dict[str, object]) -> None:
    if bench["idle_s"]:
        bench.progress.step(f"{server.name}: idle")
        time.sleep(_FIRST_S)
        meter = Meter(server.roles())
        time.sleep(bench["idle_s"])
        cores = {role: one["cpu_s"] / bench["idle_s"] for role, one in meter.read().items()}
        bench.rows.append({**about, "case": "idle", "cores": cores})
    hellos = server.directory / "hellos"
    _register(bench, server, population)
    wake_loop.write_hellos(hellos, server, population, range(bench["devices"]))
    _wakes(bench, server, {**about, "tls": "no"}, [(rate, hellos) for rate in bench["rates"]], ())
    if bench["tls"] and isinstance(server, ColdNotify) and wake_loop.knows_tls():
        _secured(bench, server, population, about)


def _secured(bench: BenchRun, server: ColdNotify, population: Population, about: Mapping[str, object]) -> None:
    """The same by mutual TLS: each session new, and resumed by devices that come again each second."""
    authority = Authority(server.directory / "certs")
    # An answer tells devices how far they are, and it is asked for without TLS.
    paths = {}
    for rate in bench["rates"]:
        paths[rate] = server.directory / f"hellos-{rate}"
        wake_loop.write_hellos(paths[rate], server, population, range(min(rate, bench["devices"])))
    all_ = server.directory / "hellos"
    server.secure(*authority.server("gateway", [HOST]), authority.directory / "ca.pem")
    certificate = (authority.directory / "ca.pem", *authority.client(population.domain, "any", "any"))
    _wakes(bench, server, {**about, "tls": "new"}, [(rate, all_) for rate in bench["rates"]], (*certificate, "0"))
    _wakes(bench, server, {**about, "tls": "resumed"}, list(paths.items()), (*certificate, "1"))


def _wakes(
    bench: BenchRun,
    server: Server,
    about: Mapping[str, object],
    rates: Iterable[tuple[float, Path]],
    tls: Sequence[str | Path],
) -> None:
    """Adds a row for each rate, with what devices report at it."""
    for rate, hellos in rates:
        bench.progress.step(f"{server.name}: {rate} wakes a second, {about['gateways']} gateways, TLS: {about['tls']}")
        wake_loop.wake(server, hellos, rate, _FIRST_S, tls)
        meter = Meter(server.roles())
        begun_s = time.monotonic()
        seen = wake_loop.wake(server, hellos, rate, bench["seconds"], tls)
        seconds = time.monotonic() - begun_s
        used = meter.read()
        cores = {role: one["cpu_s"] / seconds for role, one in used.items()}
        bench.rows.append(
            {
                **about,
                "case": "wakes",
                "per_s": rate,
                **seen,
                "used": used,
                "cpu_us_per_wake": per_delivery_us(used, seen["done"]),
                "device_cpu_us_per_wake": round(seen["cpu_s"] / max(seen["done"], 1) * 1e6, 2),
                "cores": cores,
            }
        )


def _register(bench: BenchRun, server: Server, population: Population) -> float:
    """All devices register, are told a first version each, and leave. Returns after how many seconds they were complete
    at first.
    """
    begun_ns = time.monotonic_ns()
    with bench.load(server, population, bench["devices"]) as (swarm, publisher):
        complete_s = (swarm.counts().last_ready_ns - begun_ns) / 1e9
        swarm.record()
        publisher.once(blocks=bench["groups"])
        swarm.wait(lambda counts: counts.reached >= bench["devices"], READY_S, "a first version at all")
        swarm.drop()
    time.sleep(_FIRST_S)
    return round(complete_s, 2)


def seconds(parameters: Parameters) -> float:
    """About."""
    a_server = _START_S + parameters["warm_up_s"] + parameters["idle_s"] + parameters["devices"] / 1000
    a_rate = parameters["seconds"] + _FIRST_S
    plain, secured = _servers(parameters)
    return float(parameters["repeats"] * (plain * a_server + (plain + 2 * secured) * len(parameters["rates"]) * a_rate))


def steps(parameters: Parameters) -> int:
    """For the progress bar."""
    plain, secured = _servers(parameters)
    idle = plain if parameters["idle_s"] else 0
    return int(parameters["repeats"] * (idle + (plain + 2 * secured) * len(parameters["rates"])))


def _servers(parameters: Parameters) -> tuple[int, int]:
    """Returns how many are started, and how many of them also serve TLS."""
    ours = len(parameters["gateways"]) * len(parameters["registrations"])
    others = (len(chosen(parameters)) - 1) * len(parameters["registrations"])
    return ours + others, ours if parameters["tls"] else 0


_WAKES_TABLES = (
    Shape(
        "Wakes that have missed nothing: CPU us a wake, by process",
        {
            "server": "server",
            "gateways": "gateways",
            "registrations": "registrations",
            "TLS": "tls",
            "wakes/s": "per_s",
        },
        {
            "gateway": "cpu_us_per_wake.gateway",
            "matcher": "cpu_us_per_wake.matcher",
            "broker": "cpu_us_per_wake.broker",
            "all": "cpu_us_per_wake.*",
            "all: cores": "cores.*",
            "connect to complete, median ms": "p50_ms",
            "p99": "p99_ms",
            "complete": "done",
            "of": "due",
            "TLS resumed": "resumed",
        },
        lambda row: row["case"] == "wakes",
    ),
    Shape(
        "Nothing to do: share of a core",
        {"server": "server", "gateways": "gateways"},
        {
            "gateway": "cores.gateway",
            "matcher": "cores.matcher",
            "HTTP": "cores.http",
            "broker": "cores.broker",
            "all": "cores.*",
        },
        lambda row: row["case"] == "idle",
    ),
)
WAKES = Experiment(
    "wakes",
    "devices that wake, and have missed nothing",
    {
        "devices": 6000,
        "groups": 1,
        "rates": (100, 500, 1500, 3000),
        "gateways": (1,),
        "registrations": (1,),
        "seconds": 10.0,
        "warm_up_s": 20,
        "idle_s": 15,
        "tls": 0,
        "repeats": 1,
        "processes": 2,
        "servers": "ColdNotify,NATS core,mosquitto",
    },
    {"devices": 40, "rates": (20,), "seconds": 1.0, "warm_up_s": 0, "idle_s": 1, "servers": "ColdNotify"},
    seconds,
    steps,
    run,
    _WAKES_TABLES,
)
WAKES_MATRIX = Experiment(
    "wakes-matrix",
    "the same by gateways, by registrations, and with TLS",
    {
        **WAKES.parameters, "devices": 1000, "rates": (500, 3000), "gateways": (1, 6), "registrations": (1, 1000),
        "idle_s": 0, "tls": 1, "servers": "ColdNotify",
    },
    {"devices": 40, "rates": (20,), "gateways": (2,), "registrations": (3,), "seconds": 1.0, "warm_up_s": 0},
    seconds,
    steps,
    run,
    _WAKES_TABLES[:1],
)  # fmt: skip
_CROWD_TABLES = (
    Shape(
        "All devices at once",
        {"devices": "devices", "gateways": "gateways"},
        {
            "first connections, s": "first_s",
            "all complete, s": "all_s",
            "median ms": "p50_ms",
            "complete": "done",
            "gateways' CPU s": "used.gateway.cpu_s",
            "matcher": "used.matcher.cpu_s",
            "broker": "used.broker.cpu_s",
        },
    ),
)
CROWD = Experiment(
    "crowd",
    "all devices wake at once",
    {
        "devices": 18_000,
        "groups": 1,
        "gateways": 1,
        "registrations": 1,
        "warm_up_s": 20,
        "repeats": 3,
        "processes": 2,
    },
    {"devices": 40, "warm_up_s": 0, "repeats": 1},
    lambda parameters: float(60 + parameters["devices"] / 1000 + parameters["repeats"] * 10),
    lambda parameters: 1 + int(parameters["repeats"]),
    run_crowd,
    _CROWD_TABLES,
)
