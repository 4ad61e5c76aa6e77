"""The cost of changes of descriptions and of queries, and their effect on unaffected clients."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from coldnotify_load.open_loop import PublisherHandle, PublishPlan
from coldnotify_load.swarm import Swarm

from coldnotify_loadtest.bench import BenchRun, Row, identity, measure
from coldnotify_loadtest.described import DescribedLoad, a_group_each
from coldnotify_loadtest.experiments.described_load import (
    DescribedTurns,
    connected,
    describe_all,
    describing,
    differences,
    series,
    summary,
)
from coldnotify_loadtest.servers import ColdNotify
from coldnotify_loadtest.tables import Shape

_SETS_S = 30.0
"""All sets must be right within this time at the end."""
_AT_ONCE = 10
"""Queries, or objects, in one Register."""
_TICK_S = 0.01
"""Clients come and go evenly: at 1,000 queries a second there is one of them a tick."""
_READERS = 5
"""Readers of each object whose values are measured."""
_OWNED = "coldnotify_matcher_partitions_owned"
_STILL = 10
"""Objects that do not change."""


def run_registering(bench: BenchRun) -> None:
    """Values while nobody else is there, and while very many queries, or objects by name, are there, come and go."""
    clients, each = bench["registering_clients"], bench["registering_queries_each"]
    values_per_s, seconds = bench["registering_values_per_s"], bench["registering_seconds"]
    with ColdNotify(bench.new_directory()) as server:
        domain = "registering"
        blocks = server.target(DescribedLoad()).partitions
        everywhere = DescribedLoad(domain=domain, named_groups=a_group_each(domain, blocks))
        readers = replace(
            everywhere, fan_out=_READERS, registrations=1, things="value", queries_each=0, prefix="reader"
        )
        a_block_each = replace(everywhere, fan_out=-(-clients // blocks))
        comers = {
            "queries": replace(a_block_each, queries_each=each, distinct=clients * each, by_level=True, prefix="comer"),
            "names": replace(everywhere, fan_out=1, queries_each=0, registrations=each, things="named", prefix="named"),
        }
        plan = PublishPlan(values_per_s, seconds, blocks=blocks)
        server.warm_up(bench["warm_up_s"])
        with (
            describing(server, comers["queries"]) as describer,
            connected(server, readers, _READERS * blocks) as swarm,
            PublisherHandle(server.target(readers)) as publisher,
        ):
            describe_all(describer, bench["registering_objects"], blocks)

            def note(what: str, when: str) -> Row:
                bench.progress.step(f"registering: {what}, {when}")
                row: Row = {"part": "registering", "registrations": clients * each, "what": what, "when": when}
                row |= measure(server, swarm, publisher, plan, _READERS)
                bench.rows.append(row)
                return row

            publisher.once(blocks)
            note("queries", "none")
            for what, population in comers.items():
                bench.progress.step(f"registering: {clients * each} {what}")
                begun_s = time.monotonic()
                with connected(server, population, clients) as coming:
                    registered_s = time.monotonic() - begun_s
                    note(what, "they are there")["registered_s"] = round(registered_s, 1)
                    with _changing(coming, bench["registering_per_s"]) as changed:
                        begun_s = time.monotonic()
                        row = note(what, "added and removed")
                        row["changed_per_s"] = round(changed[0] / (time.monotonic() - begun_s), 1)
                    held = coming.held().values()
                    row |= {"refused": sum(one.refused for one in held), "again": sum(one.again for one in held)}


@contextmanager
def _changing(swarm: Swarm, per_s: float) -> Iterator[list[int]]:
    """Meanwhile so many a second are added and removed; yields a list with the number until now."""
    changed, stop = [0], threading.Event()
    devices = max(1, round(per_s * _TICK_S / _AT_ONCE))

    def run() -> None:
        next_s = time.monotonic()
        while not stop.wait(max(0.0, next_s - time.monotonic())):
            next_s = max(next_s + _TICK_S, time.monotonic())
            changed[0] += swarm.change(devices, _AT_ONCE)

    thread = threading.Thread(target=run, name="changing", daemon=True)
    thread.start()
    try:
        yield changed
    finally:
        stop.set()
        thread.join()


def run_changes(bench: BenchRun) -> None:
    """Values of objects that do not change, to those by name and by query, while others change very often."""
    for condition in bench["changes_conditions"]:
        _changes(bench, condition)


def _changes(bench: BenchRun, condition: str) -> None:
    queries, each, objects = bench["changes_queries"], bench["changes_queries_each"], bench["changes_objects"]
    devices, domain, seconds = queries // each, "changes", bench["changes_seconds"]
    population = DescribedLoad(
        devices,
        domain=domain,
        queries_each=each,
        distinct=queries,
        fit=1 / queries,
        by_level=condition == "value",
    )
    by_name = DescribedLoad(_READERS, 1, domain=domain, things="value", queries_each=0, prefix="by-name")
    by_query = DescribedLoad(_READERS, domain=domain, things="still", prefix="by-query")
    about: Row = {"part": "changes", "condition": condition, "queries": queries, "objects": objects}
    values = PublishPlan(bench["changes_values_per_s"], seconds)
    with ColdNotify(bench.new_directory()) as server:
        server.warm_up(bench["warm_up_s"])
        with (
            describing(server, population) as describer,
            describing(server, by_query) as still,
            PublisherHandle(server.target(by_name)) as to_names,
            PublisherHandle(server.target(by_query)) as to_queries,
        ):
            turns = DescribedTurns(population, devices, objects)
            turns.add(describe_all(describer, objects).sent)
            describe_all(still, _STILL)
            with (
                connected(server, population, devices) as swarm,
                connected(server, by_name, _READERS) as names,
                connected(server, by_query, _READERS) as members,
            ):

                def note(per_s: float) -> None:
                    for by, readers, publisher in (("name", names, to_names), ("query", members, to_queries)):
                        bench.progress.step(f"changes, by {condition}: {per_s:g} a second, readers by {by}")
                        measured = measure(server, readers, publisher, values, _READERS)
                        bench.rows.append({**about, "changes_per_s": per_s, "what": f"value, by {by}", **measured})

                note(0)
                swarm.record()
                per_s = bench["changes_per_s"]
                begun_ns = time.monotonic_ns()
                describer.begin(PublishPlan(per_s, 2 * seconds + 1, numbers=objects, poisson=False))
                note(per_s)
                written = describer.end()
                turns.add(written.sent)
                told = differences(swarm)
                row = summary(told, written.stamps) | {"series": series(told, written.stamps, begun_ns)}
                took_s = (written.last_ns - written.first_ns) / 1e9
                row |= {"changes_made_per_s": round(written.sent / took_s, 1), "wrong": turns.wrong(swarm, _SETS_S)}
                row |= {"what": "difference", "changes_per_s": per_s, "deliveries": row["told"]}
                bench.rows.append({**identity(server), **about, **row})


REGISTERING_TABLE = Shape(
    "Values while registrations of others come and go",
    {"registrations": "registrations", "of others by": "what", "when": "when"},
    {
        "changed/s": "changed_per_s",
        "median ms": "p50_ms",
        "p95": "p95_ms",
        "p99": "p99_ms",
        "delivered": "deliveries",
        "of": "expected",
        "refused": "refused",
        "matcher MiB": "used.matcher.memory_mib",
        "matcher CPU s": "used.matcher.cpu_s",
        "all registered in, s": "registered_s",
    },
    lambda row: row["part"] == "registering",
)
CHANGES_TABLE = Shape(
    "Values while descriptions of others change",
    {
        "queries": "queries",
        "each for a": "condition",
        "objects": "objects",
        "changes/s": "changes_per_s",
        "what": "what",
    },
    {
        "made/s": "changes_made_per_s",
        "median ms": "p50_ms",
        "p95": "p95_ms",
        "p99": "p99_ms",
        "delivered": "deliveries",
        "of": "expected",
        "devices with wrong sets": "wrong",
    },
    lambda row: row["part"] == "changes",
)
