"""horizontal: three gateways at addresses of their own; one goes under load, and its clients to the others.

The cases:

    killed   kill -9: its connections end, so that its clients know at once
    stopped  SIGSTOP: nothing ends, and its clients give it up 1.5 keepalives and the grace after an unanswered Ping
    silent   it runs, and nothing passes between it and its clients any more (root and iproute2)

The last two are run for each keepalive, with fewer clients where these would send too many Pings for the machine. A
client connects to the next address 50 ms after it has lost its gateway. MigratoryData's experiment of the same name had
300,000 clients on three servers, over WebSocket, as here.
"""

import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from itertools import pairwise

from coldnotify_load.open_loop import PublisherHandle, PublishPlan
from coldnotify_load.population import Population
from coldnotify_load.processes import Meter
from coldnotify_load.swarm import Swarm, SwarmError
from coldnotify_load.swarm_process import Counts
from coldnotify_testkit.networks import enter

from coldnotify_loadtest.bench import READY_S, BenchRun, Experiment, Parameters, Row, identity, settle
from coldnotify_loadtest.devices import KINDS
from coldnotify_loadtest.network import SilentNetwork
from coldnotify_loadtest.servers import ColdNotify, ServerError
from coldnotify_loadtest.tables import Shape

CASES = (_KILLED, _STOPPED, _SILENT) = ("killed", "stopped", "silent")
_GATEWAYS = 3
_VICTIM = "gateway-1"
HOSTS = tuple(f"127.0.0.{101 + number}" for number in range(_GATEWAYS))
"""Gateways' addresses."""
_LOOK_S = 0.1
_SERIES_MAX = 200


def run(bench: BenchRun) -> None:
    """Each case restarts everything; each keepalive has new clients."""
    if unknown := set(bench["cases"]) - set(CASES):
        raise ValueError(f"cases: unknown value {min(unknown)!r}, expected one of {', '.join(CASES)}")
    for case in bench["cases"]:
        with ExitStack() as stack:
            network = stack.enter_context(SilentNetwork(_GATEWAYS)) if case == _SILENT else None
            hosts = HOSTS if network is None else network.hosts
            server = stack.enter_context(ColdNotify(bench.new_directory(), gateways=_GATEWAYS, hosts=hosts, web=True))
            stack.callback(server.children[_VICTIM].resume)
            server.warm_up(bench["warm_up_s"])
            for keepalive_s in (0,) if case == _KILLED else bench["keepalives"]:
                _Trial(bench, server, network, case, keepalive_s).run()


class _Trial:
    """One gateway goes, once."""

    def __init__(
        self, bench: BenchRun, server: ColdNotify, network: SilentNetwork | None, case: str, keepalive_s: int
    ) -> None:
        self._bench, self._server, self._network, self._case = bench, server, network, case
        self._name = f"{case}, keepalive {keepalive_s} s" if keepalive_s else case
        self._topics = bench["topics"]
        pings_max = bench["pings_per_s_max"]
        self._clients = min(bench["clients"], keepalive_s * pings_max) if keepalive_s else bench["clients"]
        fan_out = -(-self._clients // self._topics)
        self._population = Population(
            fan_out, registrations=1, groups=self._topics, prefix=f"{case}-{keepalive_s}", keepalive_s=keepalive_s
        )
        self._plan = partial(PublishPlan, bench["per_s"], blocks=self._topics)

    def run(self) -> None:
        """Adds a row."""
        bench, clients = self._bench, self._clients
        bench.progress.step(f"{self._name}: {clients} clients connect")
        network = partial(enter, self._network.name) if self._network is not None else None
        with (
            Swarm(
                KINDS["coldnotify-web"],
                self._population,
                clients,
                self._server.addresses(),
                processes=bench["processes"],
                network=network,
            ) as swarm,
            PublisherHandle(self._server.target(self._population)) as publisher,
        ):
            swarm.add(clients, bench["clients_per_s"])
            swarm.wait_ready(READY_S)
            about: Row = {"case": self._name, "clients": clients, "topics": self._topics}
            before = self._load(swarm, publisher) if self._case == _KILLED else {}
            shares = self._shares()
            bench.progress.step(f"{self._name}: {_VICTIM} goes")
            through = self._strike(swarm, publisher, lost=shares[_VICTIM])
            after = self._load(swarm, publisher) if self._case == _KILLED else {}
            swarm.record()
            publisher.once(self._topics)
            newest = swarm.wait(lambda counts: counts.reached >= clients, READY_S, "the last publish at all")
            bench.rows.append(
                {
                    **identity(self._server),
                    **about,
                    "shares_before": _said(shares),
                    "shares_after": _said(self._shares(leaving_out=_VICTIM)),
                    **{f"before_{name}": value for name, value in before.items()},
                    **through,
                    **{f"after_{name}": value for name, value in after.items()},
                    "newest_at": newest.reached,
                }
            )
        self._back()

    def _load(self, swarm: Swarm, publisher: PublisherHandle) -> Row:
        """Publishes for a while: the latencies, what came of what was expected, and the cores that were busy."""
        swarm.record()
        meter = Meter({**self._server.roles(), "swarm": swarm.pids})
        begun_s = time.monotonic()
        expected = publisher.publish(self._plan(seconds=self._bench["seconds"])).sent * self._population.fan_out
        counts = settle(swarm, expected)
        passed_s = time.monotonic() - begun_s
        used = {role: round(one["cpu_s"] / passed_s, 2) for role, one in meter.read().items()}
        latencies, _ = swarm.take()
        return {**latencies.summary(), "deliveries": counts.deliveries, "expected": expected, "cores": used}

    def _strike(self, swarm: Swarm, publisher: PublisherHandle, *, lost: int) -> Row:
        """`lost`: so many clients are at the gateway that goes."""
        swarm.record()
        keepalive_s = self._population.keepalive_s
        seconds = self._bench["seconds"] + swarm.given_up_s(keepalive_s)
        publisher.begin(self._plan(seconds=seconds))
        struck_s = time.monotonic()
        self._go()
        looks: list[tuple[float, Counts]] = []
        back: list[tuple[float, int]] = []
        while not looks or looks[-1][0] < seconds or back[-1][1] < lost or looks[-1][1].ready < self._clients:
            counts, at_s = swarm.counts(), time.monotonic() - struck_s
            if at_s > seconds + READY_S:
                raise SwarmError(f"clients are not complete again: {counts}")
            looks.append((at_s, counts))
            back.append((counts.last_ready_ns / 1e9 - struck_s, counts.returned))
            time.sleep(_LOOK_S)
        whole_s, _ = back[-1]
        expected = publisher.end().sent * self._population.fan_out
        counts = settle(swarm, expected)
        latencies, to_ready = swarm.take()
        return {
            **{f"through_{name}": value for name, value in latencies.summary().items()},
            "connect_p99_ms": to_ready.summary().get("p99_ms"),
            "lost": counts.lost,
            "half_complete_s": next((round(at_s, 2) for at_s, count in back if count >= lost / 2), None),
            "all_complete_s": round(whole_s, 2),
            "attempts": counts.attempts,
            "attempts_per_s_max": most_in_a_second([(at_s, one.attempts) for at_s, one in looks]),
            "closed": counts.closed,
            "through_deliveries": counts.deliveries,
            "through_expected": expected,
            "outdone": expected - counts.deliveries,
            "behind": behind(swarm.newest()),
            "series": _thinned([(round(at_s, 2), round(100 * count / lost, 1)) for at_s, count in back if count]),
        }

    def _go(self) -> None:
        victim = self._server.children[_VICTIM]
        if self._case == _KILLED:
            victim.kill()
        elif self._case == _STOPPED:
            victim.pause()
        else:
            assert self._network is not None
            self._network.silence(0)

    def _back(self) -> None:
        """It serves again, and no gateway has a connection left."""
        if self._case == _KILLED:
            return
        self._server.children[_VICTIM].resume()
        if self._network is not None:
            self._network.heal(0)
        until_s = time.monotonic() + READY_S
        while not self._is_empty():
            if time.monotonic() > until_s:
                raise ServerError("gateways still have connections of clients that have ended")
            time.sleep(1)

    def _is_empty(self) -> bool:
        try:
            return not any(self._shares().values())
        except OSError:
            return False  # it was stopped, and has much to do

    def _shares(self, leaving_out: str = "") -> dict[str, int]:
        """Returns how many connections each gateway has."""
        names = [name for name in self._server.children if name.startswith("gateway-") and name != leaving_out]
        return {name: round(self._server.metric(name, "coldnotify_gateway_connections_open")) for name in names}


def most_in_a_second(looks: list[tuple[float, int]]) -> int:
    """Returns the largest growth within about a second."""
    most, first = 0, 0
    for at_s, attempts in looks:
        while looks[first][0] < at_s - 1:
            first += 1
        most = max(most, attempts - looks[first][1])
    return most


def behind(newest: Mapping[int, Counter[int]]) -> int:
    """Returns how many devices lack the newest version that another device of their block has."""
    return sum(stamps.total() - stamps[max(stamps)] for stamps in newest.values())


def _said(shares: Mapping[str, int]) -> str:
    return " / ".join(f"{count:,}" for count in shares.values())


def _thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Returns about _SERIES_MAX points: those where the value changed, evenly, and the last one."""
    changed = [point for before, point in pairwise([(0.0, 0.0), *points]) if point[1] != before[1]]
    return [*changed[: -1 : -(-len(changed) // _SERIES_MAX) or 1], *changed[-1:]]


def seconds(parameters: Parameters) -> float:
    """About."""
    each = 15 + parameters["clients"] / parameters["clients_per_s"] + parameters["seconds"]
    keepalives = [0.0 for case in parameters["cases"] if case == _KILLED]
    keepalives += [one for case in parameters["cases"] if case != _KILLED for one in parameters["keepalives"]]
    waits = sum(Swarm.given_up_s(keepalive_s) for keepalive_s in keepalives)
    return float(len(parameters["cases"]) * (20 + parameters["warm_up_s"]) + len(keepalives) * each + waits)


_TABLES = (
    Shape(
        "Three gateways, one of which goes under load",
        {"case": "case", "clients": "clients"},
        {
            "connections of each before": "shares_before",
            "and after": "shares_after",
            "half of its clients current elsewhere, s": "half_complete_s",
            "all, s": "all_complete_s",
            "connection attempts": "attempts",
            "most in a second": "attempts_per_s_max",
            "versions for all clients meanwhile": "through_expected",
            "told": "through_deliveries",
            "replaced by newer ones": "outdone",
            "clients without the newest": "behind",
        },
    ),
    Shape(
        "One of three gateways is killed: latency before, through and after it, ms",
        {"clients": "clients"},
        {
            "median before": "before_p50_ms",
            "p99 before": "before_p99_ms",
            "median through it": "through_p50_ms",
            "p99 through it": "through_p99_ms",
            "median after": "after_p50_ms",
            "p99 after": "after_p99_ms",
            "busy cores before": "before_cores.*",
            "of them the clients'": "before_cores.swarm",
        },
        lambda row: row["case"] == _KILLED,
    ),
)
HORIZONTAL = Experiment(
    "horizontal",
    "three gateways, one goes under load",
    {
        "clients": 15_000,
        "topics": 30,
        "per_s": 30,
        "seconds": 10,
        "cases": CASES,
        "keepalives": (1, 4, 15, 60),
        "pings_per_s_max": 5000,
        "clients_per_s": 1000,
        "warm_up_s": 20,
        "processes": 2,
    },
    {"clients": 60, "topics": 6, "per_s": 10, "seconds": 1, "keepalives": (1,), "warm_up_s": 1},
    seconds,
    lambda parameters: sum(2 if case == _KILLED else 2 * len(parameters["keepalives"]) for case in parameters["cases"]),
    run,
    _TABLES,
    "MigratoryData: 100,327 / 99,918 / 99,755 clients, after a server was killed 150,357 / 149,643; median 11 ms "
    "before and after, p99 21 ms, then 56 ms.",
)
