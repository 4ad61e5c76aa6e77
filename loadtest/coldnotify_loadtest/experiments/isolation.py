"""isolation: the effect on a tenant within its agreement of one that asks for ten times its own; part by part.

pairs   tenant A publishes within its agreement, and a device of it measures; tenant B is silent, then asks for
        `times` its agreement, by HTTP, on a session, or by Kafka, as a user with a quota or as nobody; in A's
        partition, or in another one
uneven  a tenant's publishers leave two of three HTTP nodes for the third: how long until it has its whole rate there

Each B is in a mode that its row says, and its processes have a lower priority (`nice`) than all others: publishers are
elsewhere, and A is not to wait for their own work. By HTTP and on sessions B is refused. Kafka makes a user with a
quota wait, and then B's own producer refuses what its queue has no room for. Of publishers that do not log in Kafka
refuses nothing: what goes out of it is held to `out_per_s`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from coldnotify_kafka import topics as kafka_topics
from coldnotify_kafka.client_quotas import set_producer_quota
from coldnotify_load.open_loop import PublisherHandle, PublishPlan
from coldnotify_load.population import Population
from coldnotify_load.swarm import Swarm
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.tenants import Agreement, Tenant, encode_tenant
from coldnotify_schemas.topics import TopicNames
from confluent_kafka import Producer

from coldnotify_loadtest.askers import BIN_S, Ask, AskerOutcome, Askers, accepted_per_s, record_bytes
from coldnotify_loadtest.bench import READY_S, BenchRun, Experiment, Parameters, Row, identity, settle
from coldnotify_loadtest.devices import KINDS
from coldnotify_loadtest.servers import ColdNotify
from coldnotify_loadtest.tables import Shape

TOPICS = TopicNames()

PARTS = ("pairs", "uneven")
WAYS = ("http", "session", "kafka-user", "kafka")
WHERE = ("same", "different")
_A, _B, _MOVING = "calm", "loud", "moving"
_MODES = {
    "http": "in_per_s: 429",
    "session": "in_per_s: NotPublished",
    "kafka-user": "in_bytes_per_s: Kafka's quota of its user",
    "kafka": "out_per_s: told later; no quota without a user",
}
_USER = "loud"
_QUEUE_S = 1.0
"""Queue in the producer of a user with a quota, in seconds of what was agreed."""
_LINGER_MS = 20
_BURST_S = 2.0
_KAFKA_BURST_S = 11.0
"""Kafka takes the mean of so many seconds, and where less has passed since a user's first write, of ten."""
_BEGINNING_S = 0.25
"""Part of a run in which shares move and the first burst is let in: it does not count for B's rate."""
_WHOLE = 0.95
_START_S = 20.0


def run(bench: BenchRun) -> None:
    """Raises ValueError for an unknown part or way."""
    for name, known in (("parts", PARTS), ("ways", WAYS)):
        if unknown := set(bench[name]) - set(known):
            raise ValueError(f"{name}: unknown value {min(unknown)!r}, expected one of {', '.join(known)}")
    if "pairs" in bench["parts"]:
        with ColdNotify(bench.new_directory(), as_up=True, usage=True, users={_USER: _USER}) as server:
            _pairs(bench, server)
    if "uneven" in bench["parts"]:
        with ColdNotify(bench.new_directory(), http_nodes=3, usage=True) as server:
            _uneven(bench, server)


def _agree(server: ColdNotify, tenants: Sequence[Tenant]) -> None:
    producer = Producer({"bootstrap.servers": server.kafka, "log_level": 0})
    for tenant in tenants:
        producer.produce(TOPICS.tenants, encode_tenant(tenant), tenant.name.encode())
    if producer.flush(READY_S):
        raise RuntimeError("Kafka does not take the tenants")


def _pairs(bench: BenchRun, server: ColdNotify) -> None:
    per_s = bench["b_per_s"]
    others = [
        Tenant(f"other-{number}", (f"other-{number}.domain",), Agreement(in_per_s=1.0))
        for number in range(bench["tenants"] - 2)
    ]
    a = Population(1, 1, 1, domain=_A)
    _agree(server, [*others, Tenant(_A, (_A,), Agreement(in_per_s=10 * bench["a_per_s"]))])
    with (
        Swarm(KINDS[server.kind], a, 1, server.addresses(), processes=1) as swarm,
        PublisherHandle(server.target(a)) as publisher,
    ):
        swarm.add(1)
        swarm.wait_ready(READY_S)
        publisher.publish(PublishPlan(bench["a_per_s"], bench["seconds"] / 4))
        for way in bench["ways"]:
            _agree(server, [_tenant(server, way, per_s, [_population(where, a) for where in WHERE])])
            for where in bench["where"]:
                b = _population(where, a)
                # A device of B, whose deliveries cost something, too.
                with Swarm(KINDS[server.kind], b, 1, server.addresses(), processes=1) as of_b:
                    of_b.add(1)
                    of_b.wait_ready(READY_S)
                    for pair in range(bench["pairs"]):
                        bench.progress.step(f"{way}, {where} partition, pair {pair + 1}")
                        about: Row = {**identity(server), "part": "pairs", "way": way, "where": where, "pair": pair}
                        about |= {"mode": _MODES[way], "tenants": bench["tenants"]}
                        off = _latency(bench, swarm, publisher)
                        with Askers([_ask(bench, server, way, b)]) as askers:
                            askers.begin()
                            on = _latency(bench, swarm, publisher)
                            asked = askers.end()
                        burst_s = _KAFKA_BURST_S if way == "kafka-user" else _BURST_S
                        bench.rows.append({**about, **_compared(off, on), **_b_row(bench, asked, burst_s)})


def _tenant(server: ColdNotify, way: str, per_s: float, populations: Sequence[Population]) -> Tenant:
    """B, who may publish so much this way."""
    domains = tuple(one.domain for one in populations)
    if way == "kafka":
        return Tenant(_B, domains, Agreement(out_per_s=per_s))
    if way != "kafka-user":
        return Tenant(_B, domains, Agreement(in_per_s=per_s))
    bytes_per_s = per_s * max(record_bytes(one, 0) for one in populations)
    set_producer_quota(server.kafka, _USER, round(bytes_per_s))
    return Tenant(_B, domains, Agreement(in_bytes_per_s=bytes_per_s), principal=_USER)


def _population(where: str, a: Population) -> Population:
    """B's: of a domain whose partition is A's, or another one."""
    partitions = kafka_topics.EMBEDDED_PARTITIONS
    of_a = partition_of(a.domain, a.group(0), partitions)
    found = (Population(1, 16, 1, domain=f"{_B}-{number}") for number in range(100 * partitions))
    return next(
        one for one in found if (partition_of(one.domain, one.group(0), partitions) == of_a) == (where == "same")
    )


def _ask(bench: BenchRun, server: ColdNotify, way: str, b: Population) -> Ask:
    per_s, seconds = bench["times"] * bench["b_per_s"], bench["seconds"]
    if way == "kafka-user":
        return Ask(
            "kafka",
            server.users_port,
            b,
            0,
            seconds,
            per_s=per_s,
            user=_USER,
            queue_max=max(1, round(_QUEUE_S * bench["b_per_s"])),
            linger_ms=_LINGER_MS,
            nice=bench["nice"],
        )
    port = {"http": server.web_port(), "session": server.port, "kafka": server.target(b).port}[way]
    return Ask(way, port, b, 0, seconds, per_s=per_s, at_once=bench["at_once"], nice=bench["nice"])


def _latency(bench: BenchRun, swarm: Swarm, publisher: PublisherHandle) -> Row:
    """A's, from publish to callback."""
    swarm.record()
    published = publisher.publish(PublishPlan(bench["a_per_s"], bench["seconds"]))
    settle(swarm, published.sent)
    delivered, _ = swarm.take()
    return {**delivered.summary(), "delivered": delivered.count, "failed": published.failed}


def _compared(off: Row, on: Row) -> Row:
    return {
        "off": off,
        "on": on,
        "p99_ratio": round(on["p99_ms"] / off["p99_ms"], 2),
        "p50_ratio": round(on["p50_ms"] / off["p50_ms"], 2),
    }


def _b_row(bench: BenchRun, asked: Sequence[AskerOutcome], burst_s: float) -> Row:
    seconds = bench["seconds"]
    from_s = max(seconds * _BEGINNING_S, min(burst_s, seconds / 2))
    per_s = accepted_per_s(asked, from_s, seconds)
    sent, accepted = sum(one.sent for one in asked), sum(one.accepted for one in asked)
    refused = sum(one.refused for one in asked)
    return {
        "b_asked_per_s": round(sent / seconds, 1),
        "b_accepted_per_s": round(per_s, 1),
        "b_agreed_per_s": bench["b_per_s"],
        "b_share": round(per_s / bench["b_per_s"], 3),
        "b_refused": refused,
        "b_not_told": sent - accepted - refused,
    }


def _uneven(bench: BenchRun, server: ColdNotify) -> None:
    """At first each node gets a third of the demand; then the first one gets all of it."""
    per_s, seconds = bench["uneven_per_s"], bench["seconds"]
    _agree(server, [Tenant(_MOVING, (_MOVING,), Agreement(in_per_s=per_s, burst_s=1.0))])
    population = Population(1, 16, 3, domain=_MOVING)
    ports = [server.http_port(f"http-{number}") for number in (1, 2, 3)]
    asked_per_s = bench["uneven_times"] * per_s
    bench.progress.step("three nodes, evenly")
    even = [
        Ask("http", port, population, block, seconds, per_s=asked_per_s / 3, at_once=bench["at_once"])
        for block, port in enumerate(ports)
    ]
    one = [Ask("http", ports[0], population, 0, seconds, per_s=asked_per_s, at_once=3 * bench["at_once"])]
    with Askers(even) as evenly, Askers(one) as at_one:
        asked = evenly.run()
        bench.progress.step("one node, all of it")
        moved = at_one.run()
    bench.rows.append(
        {
            **identity(server),
            "part": "uneven",
            "nodes": len(ports),
            "agreed_per_s": per_s,
            "evenly_per_s": round(accepted_per_s(asked, seconds / 2, seconds), 1),
            "at_one_per_s": round(accepted_per_s(moved, seconds / 2, seconds), 1),
            "whole_after_s": whole_after_s(moved, per_s, seconds),
            "not_told": sum(each.sent - each.accepted - each.refused for each in (*asked, *moved)),
        }
    )


def whole_after_s(asked: Sequence[AskerOutcome], per_s: float, seconds: float) -> float | None:
    """Returns from when on, in the following second, nearly all of the rate was accepted; None: never."""
    for number in range(round((seconds - 1) / BIN_S) + 1):
        from_s = number * BIN_S
        if accepted_per_s(asked, from_s, from_s + 1) >= _WHOLE * per_s:
            return round(from_s, 1)
    return None


def steps(parameters: Parameters) -> int:
    """Pairs, and the two halves of the other part."""
    pairs = len(parameters["ways"]) * len(parameters["where"]) * int(parameters["pairs"])
    return pairs * ("pairs" in parameters["parts"]) + 2 * ("uneven" in parameters["parts"])


def seconds_of(parameters: Parameters) -> float:
    """About."""
    return float(len(parameters["parts"]) * _START_S + steps(parameters) * 2 * (parameters["seconds"] + 1))


def _of_ways(*ways: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda row: row["part"] == "pairs" and row["way"] in ways


_TABLES = (
    *(
        Shape(
            f"Tenant A within its agreement, beside tenant B {how}: medians of the pairs",
            {"B publishes": "way", "B is held by": "mode", "partition": "where"},
            {
                "A's p50 ms, B silent": "off.p50_ms",
                "beside B": "on.p50_ms",
                "A's p99 ms, B silent": "off.p99_ms",
                "beside B ": "on.p99_ms",
                "p99 ratio": "p99_ratio",
                "B asks/s": "b_asked_per_s",
                "accepted/s": "b_accepted_per_s",
                "agreed/s": "b_agreed_per_s",
                "accepted to agreed": "b_share",
                "refused": "b_refused",
                "not told": "b_not_told",
            },
            only,
        )
        for how, only in (
            ("that comes through the service", _of_ways("http", "session")),
            ("that writes to Kafka as a user", _of_ways("kafka-user")),
            ("that writes to Kafka as nobody", _of_ways("kafka")),
        )
    ),
    Shape(
        "All publishers of a tenant go to one of three HTTP nodes",
        {"nodes": "nodes", "agreed/s": "agreed_per_s"},
        {
            "evenly, accepted/s": "evenly_per_s",
            "at one, accepted/s": "at_one_per_s",
            "95 % of the rate after, s": "whole_after_s",
            "not told": "not_told",
        },
        lambda row: row["part"] == "uneven",
    ),
)
ISOLATION = Experiment(
    "isolation",
    "a tenant beside one that asks for ten times its agreement",
    {
        "parts": PARTS,
        "ways": WAYS,
        "where": WHERE,
        "pairs": 5,
        "seconds": 120.0,
        "tenants": 1_000,
        "a_per_s": 50.0,
        "b_per_s": 100.0,
        "times": 10,
        "uneven_per_s": 150.0,
        "uneven_times": 3,
        "at_once": 8,
        "nice": 10,
        "processes": 1,
    },
    {"where": ("same",), "pairs": 1, "seconds": 2.0, "tenants": 10, "at_once": 2, "times": 3},
    seconds_of,
    steps,
    run,
    _TABLES,
)
