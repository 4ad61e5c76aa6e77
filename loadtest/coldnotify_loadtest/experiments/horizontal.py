"""horizontal: three gateways at addresses of their own; one goes under load, and its clients to the others.

The cases:

    killed     kill -9: its connections end, so that its clients know at once
    stopped K  SIGSTOP: nothing ends, and its clients notice after a keepalive of K s, and the grace

MigratoryData's experiment of the same name had 300,000 clients on three servers; here is a twentieth of them, over
WebSocket as there. A client connects to the next address 50 ms after it has lost its gateway.
"""

import time
from functools import partial

from coldnotify_loadtest.bench import READY_S, BenchRun, Experiment, Parameters, Row, identity, settle
from coldnotify_loadtest.population import Population
from coldnotify_loadtest.publisher import PublisherHandle, PublishPlan
from coldnotify_loadtest.servers import ColdNotify
from coldnotify_loadtest.swarm import Swarm
from coldnotify_loadtest.swarm_process import Counts
from coldnotify_loadtest.tables import Shape

_GATEWAYS = 3
_VICTIM = "gateway-1"
_LOOK_S = 0.1
_GRACE_S = 10.0
_KILLED = "killed"


def run(bench: BenchRun) -> None:
    """Each case restarts everything."""
    topics, clients = bench["topics"], bench["clients"]
    population = Population(fan_out=-(-clients // topics), registrations=1, groups=topics)
    cases = [(_KILLED, 0.0), *((f"stopped {keepalive_s:g}", float(keepalive_s)) for keepalive_s in bench["keepalives"])]
    for case, keepalive_s in cases:
        bench.progress.step(f"{case}: {clients} clients connect")
        with (
            ColdNotify(bench.new_directory(), gateways=_GATEWAYS, web=True) as server,
            Swarm("coldnotify-web", population, clients, server.addresses(), processes=bench["processes"]) as swarm,
            PublisherHandle(server.target(population)) as publisher,
        ):
            server.warm_up(bench["warm_up_s"])
            swarm.keep_alive(keepalive_s)
            swarm.add(clients, bench["clients_per_s"])
            swarm.wait_ready(READY_S)
            about: Row = {"case": case, "keepalive_s": keepalive_s, "clients": clients, "topics": topics}
            bench.rows.append({**identity(server), **about, **_struck(bench, server, swarm, publisher, case)})
            server.children[_VICTIM].resume()


def _struck(bench: BenchRun, server: ColdNotify, swarm: Swarm, publisher: PublisherHandle, case: str) -> Row:
    topics, clients, per_s = bench["topics"], bench["clients"], bench["per_s"]
    plan = partial(PublishPlan, per_s, blocks=topics)
    before, expected_before = _through(swarm, publisher, plan(seconds=bench["seconds"]), clients // topics)
    shares = _shares(server)
    keepalive_s = 0.0 if case == _KILLED else float(case.split()[1])
    seconds = bench["seconds"] + keepalive_s + min(_GRACE_S, keepalive_s)
    bench.progress.step(f"{case}: {_VICTIM}")
    swarm.record()
    publisher.begin(plan(seconds=seconds))
    victim = server.children[_VICTIM]
    struck_s = time.monotonic()
    if case == _KILLED:
        victim.kill()
    else:
        victim.pause()
    watched = _watch(swarm, struck_s, until_s=struck_s + seconds, clients=clients)
    sent = publisher.end()
    counts = swarm.wait(lambda counts: counts.ready >= clients, READY_S, "all clients complete again")
    counts = settle(swarm, sent.sent * clients // topics)
    after, _ = swarm.take()
    whole_s = round(counts.last_ready_ns / 1e9 - struck_s, 3)
    shares_after = _shares(server, leaving_out=_VICTIM)
    last, expected_last = _through(swarm, publisher, plan(seconds=bench["seconds"]), clients // topics)
    swarm.record()
    publisher.once(topics)
    counts_of_all = swarm.wait(lambda counts: counts.reached >= clients, READY_S, "the last publish at all")
    return {
        "shares_before": shares,
        "shares_after": shares_after,
        **{f"before_{name}": value for name, value in before.items()},
        **{f"through_{name}": value for name, value in after.summary().items()},
        **{f"after_{name}": value for name, value in last.items()},
        "expected_before": expected_before,
        "expected_after": expected_last,
        **watched,
        "all_complete_s": whole_s,
        "through_deliveries": counts.deliveries,
        "through_expected": sent.sent * clients // topics,
        "newest_at": counts_of_all.reached,
    }


def _through(swarm: Swarm, publisher: PublisherHandle, plan: PublishPlan, fan_out: int) -> tuple[Row, int]:
    """Publishes by plan: the latencies, and how many deliveries were expected."""
    swarm.record()
    expected = publisher.publish(plan).sent * fan_out
    counts = settle(swarm, expected)
    latencies, _ = swarm.take()
    return {**latencies.summary(), "deliveries": counts.deliveries}, expected


def _watch(swarm: Swarm, struck_s: float, *, until_s: float, clients: int) -> Row:
    """Looks at the swarm from the strike on: when half of the lost ones are complete again, and attempts a second."""
    looks: list[tuple[float, Counts]] = []
    while (now_s := time.monotonic()) < until_s:
        looks.append((now_s, swarm.counts()))
        time.sleep(_LOOK_S)
    lowest = min((counts.ready for _, counts in looks), default=clients)
    at = next((i for i, (_, counts) in enumerate(looks) if counts.ready == lowest), 0)
    half = clients - (clients - lowest) / 2
    halfway_s = next((at_s for at_s, counts in looks[at:] if counts.ready >= half), None)
    return {
        "lost": looks[-1][1].lost if looks else 0,
        "fewest_complete": lowest,
        "half_complete_s": None if halfway_s is None else round(halfway_s - struck_s, 3),
        "attempts": looks[-1][1].attempts if looks else 0,
        "attempts_per_s_max": _most_in_a_second([(at_s, counts.attempts) for at_s, counts in looks]),
    }


def _most_in_a_second(looks: list[tuple[float, int]]) -> int:
    """Returns the largest growth within about a second."""
    most, first = 0, 0
    for at_s, attempts in looks:
        while looks[first][0] < at_s - 1:
            first += 1
        most = max(most, attempts - looks[first][1])
    return most


def _shares(server: ColdNotify, leaving_out: str = "") -> str:
    """Says how many connections each gateway has."""
    names = [name for name in server.children if name.startswith("gateway-") and name != leaving_out]
    counts = [round(server.metric(name, "coldnotify_gateway_connections_open")) for name in names]
    return " / ".join(f"{count:,}" for count in counts)


def seconds(parameters: Parameters) -> float:
    """About."""
    waits = sum(keepalive_s + min(_GRACE_S, keepalive_s) for keepalive_s in parameters["keepalives"])
    cases = 1 + len(parameters["keepalives"])
    a_case = (
        30 + parameters["warm_up_s"] + parameters["clients"] / parameters["clients_per_s"] + 3 * parameters["seconds"]
    )
    return float(cases * a_case + waits)


_TABLES = (
    Shape(
        "Three gateways, one of them killed or stopped under load",
        {"case": "case", "clients": "clients"},
        {
            "connections of each before": "shares_before",
            "and after": "shares_after",
            "half of the lost complete, s": "half_complete_s",
            "all, s": "all_complete_s",
            "attempts/s": "attempts_per_s_max",
        },
    ),
    Shape(
        "Latency before, through and after it, ms",
        {"case": "case", "clients": "clients"},
        {
            "median before": "before_p50_ms",
            "p99": "before_p99_ms",
            "median through it": "through_p50_ms",
            "p99 ": "through_p99_ms",
            "median after": "after_p50_ms",
            "p99  ": "after_p99_ms",
        },
    ),
)
HORIZONTAL = Experiment(
    "horizontal",
    "three gateways, one goes under load",
    {
        "clients": 15_000,
        "topics": 30,
        "per_s": 30,
        "seconds": 20,
        "keepalives": (1, 4, 15, 60),
        "clients_per_s": 1000,
        "warm_up_s": 20,
        "processes": 2,
    },
    {"clients": 60, "topics": 6, "per_s": 10, "seconds": 2, "keepalives": (1,), "warm_up_s": 1},
    seconds,
    lambda parameters: 2 + 2 * len(parameters["keepalives"]),
    run,
    _TABLES,
    "MigratoryData: 100,327 / 99,918 / 99,755 clients, after a server was killed 150,357 / 149,643; median 11 ms "
    "before and after, p99 21 ms, then 56 ms.",
)
