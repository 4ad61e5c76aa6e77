"""flood: processes publish without any pause, to Kafka or by HTTP; measures their answers, and the effect on others.

A device is registered for each process' objects. Its latency counts as the lag. Once the flood is over, probes follow
each other, each as soon as the previous one has arrived, until one arrives within LAG_S. A probe is newer than
everything acknowledged before: all that is told by then, or replaced.

With flow control, publishers to Kafka use the limit of the publishers' library, and the HTTP service its own; without,
a producer fills its queue, and the service accepts everything.
"""

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from coldnotify.flow.controllers import DEFAULT, FIXED
from coldnotify_load.open_loop import PublisherHandle
from coldnotify_load.population import Population
from coldnotify_load.processes import Meter
from coldnotify_load.swarm import Swarm

from coldnotify_loadtest.askers import Ask, AskerOutcome, Askers
from coldnotify_loadtest.bench import READY_S, BenchRun, Experiment, Parameters, Row, identity
from coldnotify_loadtest.devices import KINDS
from coldnotify_loadtest.servers import ColdNotify
from coldnotify_loadtest.tables import Shape

WAYS = ("kafka", "http")
LAG_S = 1.0
_OBJECTS = 16
"""Objects of each process."""
_START_S = 12.0
_LOOK_S = 0.5


def run(bench: BenchRun) -> None:
    """Each case has its own servers. Raises ValueError for an unknown way."""
    if unknown := set(bench["ways"]) - set(WAYS):
        raise ValueError(f"ways: unknown value {min(unknown)!r}, expected one of {', '.join(WAYS)}")
    for way in bench["ways"]:
        for flow in (True, False):
            for processes in bench["publishers"]:
                bench.progress.step(f"{processes} by {way}, flow control {'on' if flow else 'off'}")
                bench.rows.append(_flood(bench, way, processes, flow=flow))


def _flood(bench: BenchRun, way: str, processes: int, *, flow: bool) -> Row:
    directory = bench.new_directory()
    population = Population(1, _OBJECTS, processes, domain="flood")
    settings = {"http-flow": DEFAULT if flow else FIXED}
    with ColdNotify(directory, as_up=way == "http", settings=settings) as server:
        port = server.web_port() if way == "http" else server.target(population).port
        asks = [
            Ask(way, port, population, block, bench["seconds"], at_once=bench["at_once"], flow=flow)
            for block in range(processes)
        ]
        with (
            Swarm(KINDS[server.kind], population, processes, server.addresses(), processes=1) as swarm,
            PublisherHandle(server.target(population)) as publisher,
            Askers(asks) as askers,
        ):
            swarm.add(processes)
            swarm.wait_ready(READY_S)
            with _memory(server) as memory:
                swarm.record()
                told = askers.run()
                ended_s = time.monotonic()
                delivered, _ = swarm.take()
                lag_s, back_s = _until_back(swarm, publisher, processes, ended_s)
            row = {
                **identity(server),
                "way": way,
                "processes": processes,
                "flow": "on" if flow else "off",
                **_sums(told, bench["seconds"]),
                "p99_ms": delivered.summary().get("p99_ms"),
                "delivered": delivered.count,
                "lag_s": lag_s,
                "back_s": back_s,
                "memory_mib": memory,
                "ended": len(server.ended()),
                "lost": swarm.counts().lost,
            }
    shutil.rmtree(directory, ignore_errors=True)  # millions of records a row
    return row


def _sums(told: list[AskerOutcome], seconds: float) -> Row:
    accepted, refused = sum(one.accepted for one in told), sum(one.refused for one in told)
    failed, sent = sum(one.failed for one in told), sum(one.sent for one in told)
    return {
        "sent": sent,
        "accepted": accepted,
        "accepted_per_s": round(accepted / seconds, 1),
        "refused": refused,
        "failed": failed,
        "not_answered": sent - accepted - refused - failed,
    }


def _until_back(swarm: Swarm, publisher: PublisherHandle, devices: int, ended_s: float) -> tuple[float, float]:
    """Returns how far the first probe was behind, and after how many seconds one was published that arrived within
    LAG_S.
    """
    first_lag_s: float | None = None
    while True:
        swarm.record()
        probe = publisher.once(devices)
        counts = swarm.wait(lambda counts: counts.reached == devices, READY_S, "all have been told what is newest")
        lag_s = (counts.last_reached_ns - probe.first_ns) / 1e9
        first_lag_s = lag_s if first_lag_s is None else first_lag_s
        if lag_s <= LAG_S:
            return round(first_lag_s, 2), round(max(0.0, probe.first_ns / 1e9 - ended_s), 2)


@contextmanager
def _memory(server: ColdNotify) -> Iterator[dict[str, float]]:
    """The most of each role meanwhile, in MiB."""
    most: dict[str, float] = {}
    meter, end = Meter(server.roles()), threading.Event()

    def look() -> None:
        while True:
            for role, used in meter.read().items():
                most[role] = max(most.get(role, 0.0), used["memory_mib"])
            if end.wait(_LOOK_S):
                return

    thread = threading.Thread(target=look, name="memory", daemon=True)
    thread.start()
    try:
        yield most
    finally:
        end.set()
        thread.join()


def steps(parameters: Parameters) -> int:
    """Floods."""
    return len(parameters["ways"]) * 2 * len(parameters["publishers"])


_TABLES = (
    Shape(
        "Processes that publish without any pause",
        {"way": "way", "processes": "processes", "flow control": "flow"},
        {
            "acknowledged/s": "accepted_per_s",
            "refused, told so": "refused",
            "failed": "failed",
            "not answered": "not_answered",
            "delivery's p99 ms": "p99_ms",
            "lag at the end, s": "lag_s",
            "1 s of lag again after, s": "back_s",
            "broker MiB": "memory_mib.broker",
            "HTTP": "memory_mib.http",
            "matcher": "memory_mib.matcher",
            "gateway": "memory_mib.gateway",
            "processes that ended": "ended",
            "devices lost": "lost",
        },
    ),
)
FLOOD = Experiment(
    "flood",
    "publishers that make no pause",
    {"ways": WAYS, "publishers": (1, 4, 16), "seconds": 60.0, "at_once": 16},
    {"publishers": (2,), "seconds": 1.0, "at_once": 4},
    lambda parameters: steps(parameters) * (parameters["seconds"] + _START_S),
    steps,
    run,
    _TABLES,
)
