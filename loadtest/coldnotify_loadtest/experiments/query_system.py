"""The whole system with queries, while values and descriptions change; and a takeover behind many descriptions."""

import time

from coldnotify_schemas.partitioner import partition_of
from coldnotify_testkit.waiting import wait_for

from coldnotify_loadtest.bench import READY_S, Bench, Row, identity, measure
from coldnotify_loadtest.described import Described, a_group_each
from coldnotify_loadtest.experiments.described_load import (
    Turns,
    connected,
    describe_all,
    describing,
    differences,
    longest_gap_s,
    summary,
)
from coldnotify_loadtest.publisher import Plan, Publisher
from coldnotify_loadtest.servers import ColdNotify
from coldnotify_loadtest.tables import Shape

_NODES = 3
"""CQBS' brokers, and coordinators; here gateways, and matchers."""
_BEHIND_PER_S = 20.0
"""Changes while the matcher is killed."""
_KILL_AFTER_S = 2.0
_SETS_S = 60.0
_FINISHED_S = 900.0
"""In which all changes of a long log must have been followed."""
_OWNED = "coldnotify_matcher_partitions_owned"


def run_system(bench: Bench) -> None:
    """CQBS' whole system: values of all objects all the time, without changes of descriptions and with them."""
    groups, seconds = bench["system_groups"], bench["system_seconds"]
    fan_out, numbers = bench["system_subscribers"] // groups, bench["system_objects"] // groups
    with ColdNotify(bench.new_directory(), gateways=_NODES, matchers=_NODES) as server:
        server.warm_up(bench["warm_up_s"])
        domain = "system"
        wait_for(lambda: _all_own(server), "all matchers have partitions", READY_S)
        population = Described(
            fan_out,
            domain=domain,
            named_groups=a_group_each(domain, server.target(Described()).partitions)[:groups],
            distinct=fan_out,
            fit=bench["system_fit"],
        )
        values = Plan(bench["system_values_per_s"] * groups * numbers, seconds, groups, numbers)
        about: Row = {"part": "system", "clients": fan_out * groups, "objects": numbers * groups}
        with (
            describing(server, population) as describer,
            connected(server, population, fan_out * groups) as swarm,
            Publisher(server.target(population)) as publisher,
        ):
            describe_all(describer, numbers, groups)
            publisher.publish(Plan(1000, 60, groups, numbers, poisson=False, count=groups * numbers))
            differences(swarm)
            for every_s in (0.0, *bench["system_changed_every_s"]):
                bench.progress.step(f"system: {_every(every_s)}")
                row: Row = {**about, "changed": _every(every_s)}
                if every_s:
                    describer.begin(Plan(numbers * groups / every_s, seconds + 2, groups, numbers, seed=2))
                row |= measure(server, swarm, publisher, values, fan_out)
                # How many subscribers an object has, follows from what it is by then.
                row["expected"] = None
                bench.rows.append(row)
                if every_s:
                    written = describer.end()
                    told = summary(differences(swarm), written.stamps)
                    bench.rows.append(
                        {**identity(server), **about, "changed": f"{_every(every_s)}: differences", **told}
                    )


def _every(every_s: float) -> str:
    return f"each every {every_s:g} s" if every_s else "nothing"


def _all_own(server: ColdNotify) -> bool:
    owned = [server.metric(name, _OWNED) for name in server.children if name.startswith("matcher")]
    return min(owned) > 0


def run_behind(bench: Bench) -> None:
    """A matcher is killed behind a log of very many changes of descriptions; the other one has followed it, or not."""
    for standby in (False, True):
        _behind(bench, standby=standby)


def _behind(bench: Bench, *, standby: bool) -> None:
    changes, objects, subscribers = bench["behind_changes"], bench["behind_objects"], bench["behind_subscribers"]
    case = "standby" if standby else "cold"
    population = Described(subscribers, domain="behind", distinct=subscribers, fit=0.1)
    settings = {"matcher-session-timeout-ms": bench["session_timeout_ms"], "matcher-standby": standby}
    about: Row = {"part": "behind", "case": case, "changes": changes, "objects": objects, "clients": subscribers}
    with ColdNotify(bench.new_directory(), matchers=2, settings=settings) as server:
        server.warm_up(bench["warm_up_s"])
        wait_for(lambda: _all_own(server), "both matchers have partitions", READY_S)
        partition = partition_of(population.domain, population.group(0), server.target(population).partitions)
        with describing(server, population) as describer:
            bench.progress.step(f"behind: {case}, {changes} changes are written")
            turns = Turns(population, subscribers, objects)
            turns.add(_write(describer, objects, changes, bench["behind_per_s"]))
            with connected(server, population, subscribers) as swarm:
                bench.progress.step(f"behind: {case}, the matcher is killed")
                right = turns.wrong(swarm, _FINISHED_S) == 0
                before = server.takeovers_s()
                victim = server.children[server.owner(partition)]
                swarm.record()
                describer.begin(Plan(_BEHIND_PER_S, bench["behind_seconds"], numbers=objects, seed=3))
                time.sleep(_KILL_AFTER_S)
                killed_ns = time.monotonic_ns()
                victim.kill()
                written = describer.end()
                turns.add(written.sent)
                told = differences(swarm)
                row: Row = {"gap_s": longest_gap_s(told, killed_ns), "right_before": right}
                row |= {"takeover_s": max(server.takeovers_s() - before, default=None)}
                row |= {"wrong": turns.wrong(swarm, _SETS_S), **summary(told, written.stamps)}
                bench.rows.append({**identity(server), **about, **row})


def _write(describer: Publisher, objects: int, changes: int, per_s: float) -> int:
    """So many changes, one object after the other."""
    sent = 0
    while sent < changes:
        sent += describe_all(describer, objects, per_s=per_s).sent
    return sent


SYSTEM_TABLE = Shape(
    "The whole system: three gateways, three matchers",
    {"subscribers": "clients", "objects": "objects", "descriptions change": "changed"},
    {
        "values/s": "published_per_s",
        "mean ms": "mean_ms",
        "median ms": "p50_ms",
        "p95": "p95_ms",
        "p99": "p99_ms",
        "delivered": "deliveries",
        "differences": "told",
    },
    lambda row: row["part"] == "system",
)
BEHIND_TABLE = Shape(
    "A takeover behind changes of descriptions that are not compacted",
    {"changes": "changes", "objects": "objects", "the other matcher": "case"},
    {
        "longest gap, s": "gap_s",
        "slowest partition taken over in, s": "takeover_s",
        "differences": "told",
        "median ms": "p50_ms",
        "devices with wrong sets": "wrong",
    },
    lambda row: row["part"] == "behind",
)
