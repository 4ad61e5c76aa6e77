"""Values to those who registered by a query, beside those by name, in turns; and the bytes of their wakes."""

import time
from contextlib import ExitStack

from coldnotify_load.open_loop import PublisherHandle, PublishPlan
from coldnotify_load.swarm import Swarm
from coldnotify_testkit.proxy import Proxy, in_front_of
from coldnotify_testkit.waiting import wait_for

from coldnotify_loadtest.bench import READY_S, BenchRun, Row, identity, measure
from coldnotify_loadtest.described import DescribedLoad
from coldnotify_loadtest.devices import KINDS
from coldnotify_loadtest.experiments.described_load import KIND, connected, describe_all, describing, publish_others
from coldnotify_loadtest.servers import ColdNotify
from coldnotify_loadtest.tables import CPU, Shape, at

NAMES = "by name"
_QUIET_S = 1.5
"""Acks are delayed by a second."""
_WIRE_OBJECTS = 10
_RATIOS = {
    "all": "cpu_us_per_publish.*",
    "matcher": "cpu_us_per_publish.matcher",
    "gateway": "cpu_us_per_publish.gateway",
    "mean": "mean_ms",
}
_Ends = tuple[Swarm, PublisherHandle]


def run_distinct(bench: BenchRun) -> None:
    """E1's clients on one object, who registered for it by name, or by one of so many different queries."""
    clients = bench["distinct_clients"]
    populations = {NAMES: _by_name(clients, 1, "name")}
    for count in bench["distinct_queries"]:
        populations[f"{count} queries"] = DescribedLoad(clients, domain=f"query-{count}", distinct=count)
    plans = [PublishPlan(rate, bench["distinct_seconds"]) for rate in bench["distinct_rates"]]
    with ColdNotify(bench.new_directory()) as server:
        server.warm_up(bench["warm_up_s"])
        _in_turns(bench, server, populations, clients, plans, {"part": "distinct", "clients": clients})


def _by_name(clients: int, objects: int, domain: str) -> DescribedLoad:
    return DescribedLoad(clients, registrations=objects, domain=domain, queries_each=0)


def _in_turns(
    bench: BenchRun,
    server: ColdNotify,
    populations: dict[str, DescribedLoad],
    clients: int,
    plans: list[PublishPlan],
    about: Row,
) -> None:
    """All are connected all the time; each plan goes to each in turn, in every other turn backwards."""
    with ExitStack() as stack:
        ends = {by: _ends(stack, server, population, clients, plans[0]) for by, population in populations.items()}
        for turn in range(bench["turns"]):
            for plan in plans:
                rows: dict[str, Row] = {}
                for by in ends if turn % 2 == 0 else reversed(ends):
                    bench.progress.step(f"{about['part']}: {clients} clients, {by}, {plan.per_s:g} a second")
                    rows[by] = {**about, "turn": turn, "by": by, **measure(server, *ends[by], plan, clients)}
                for by in ends:
                    row = rows[by]
                    row["to_names"] = {name: _ratio(row, rows[NAMES], path) for name, path in _RATIOS.items()}
                    bench.rows.append(row)


def _ends(stack: ExitStack, server: ColdNotify, population: DescribedLoad, clients: int, plan: PublishPlan) -> _Ends:
    """Returns devices that are complete and have been told each object once, and the publisher."""
    with describing(server, population) as describer:
        describe_all(describer, plan.numbers)
    swarm = stack.enter_context(connected(server, population, clients))
    publisher = stack.enter_context(PublisherHandle(server.target(population)))
    swarm.record()
    publisher.publish(PublishPlan(1000, 10, numbers=plan.numbers, poisson=False, count=plan.numbers))
    swarm.wait(lambda counts: counts.reached == clients, READY_S, "the first publish at all")
    return swarm, publisher


def _ratio(row: Row, to: Row, path: str) -> float | None:
    one, other = at(row, path), at(to, path)
    return round(one / other, 3) if one is not None and other else None


def run_wire(bench: BenchRun) -> None:
    """One client with a registration by name and so many queries: it wakes unchanged, before and after a takeover."""
    with ColdNotify(bench.new_directory()) as server, ExitStack() as stack:
        swarms: dict[int, tuple[Swarm, Proxy]] = {}
        populations: dict[int, DescribedLoad] = {}
        for count in bench["wire_queries"]:
            proxy = stack.enter_context(in_front_of(*server.addresses()[0]))
            domain = f"wire-{count:03}"
            population = populations[count] = DescribedLoad(
                1, registrations=1, domain=domain, queries_each=count, distinct=max(count, 1), fit=0.5
            )
            with describing(server, population) as describer, PublisherHandle(server.target(population)) as publisher:
                describe_all(describer, _WIRE_OBJECTS)
                publisher.once()
            swarm = stack.enter_context(Swarm(KINDS[KIND], population, 1, [proxy.address], processes=1))
            swarm.add(1)
            swarm.wait_ready(READY_S)
            time.sleep(_QUIET_S)
            swarms[count] = swarm, proxy
        for when in ("before a takeover", "first after it", "second after it"):
            for count, (swarm, _) in swarms.items():
                swarm.drop()
                # The position moves on; nothing changes that concerns the client.
                publish_others(server, populations[count])
            time.sleep(_QUIET_S)
            if when == "first after it":
                _take_over(server)
            for count in swarms:
                bench.rows.append(_wake(bench, server, count, *swarms[count], when))


def _take_over(server: ColdNotify) -> None:
    """The matcher is killed and started again; until all partitions are served."""
    matcher = server.children["matcher-1"]
    before = server.takeovers_s().total()
    matcher.kill()
    matcher.start()
    matcher.wait_ready()
    wait_for(lambda: server.takeovers_s().total() >= 2 * before, "the partitions are taken over", READY_S)


def _wake(bench: BenchRun, server: ColdNotify, count: int, swarm: Swarm, proxy: Proxy, when: str) -> Row:
    bench.progress.step(f"wire: {count} queries, {when}")
    proxy.reset()
    swarm.come_back()
    swarm.wait_ready(READY_S)
    time.sleep(_QUIET_S)
    (held,) = swarm.held().values()
    return {
        **identity(server),
        "part": "wire",
        "queries": count,
        "when": when,
        "up": proxy.up_bytes,
        "down": proxy.down_bytes,
        "bytes": proxy.up_bytes + proxy.down_bytes,
        "asked": held.asked,
    }


DISTINCT_TABLE = Shape(
    "Clients on one object: medians of the turns",
    {"clients": "clients", "registered": "by", "publishes/s": "per_s"},
    {
        "median ms": "p50_ms",
        "p99": "p99_ms",
        **CPU,
        "CPU to by name": "to_names.all",
        "matcher's": "to_names.matcher",
        "gateway's": "to_names.gateway",
        "delivered": "deliveries",
        "of": "expected",
    },
    lambda row: row["part"] == "distinct",
)
WIRE_TABLE = Shape(
    "Bytes of an unchanged wake",
    {"queries": "queries", "wake": "when"},
    {"up": "up", "down": "down", "together": "bytes"},
    lambda row: row["part"] == "wire",
)
