"""takeover: a process is killed and stays away; seconds until everybody has what is published right after.

The cases, each with two matchers and two gateways:

    matcher      after its session timeout the other one loads its partitions
    gateway      its clients connect to the other one
    leader       of three Kafka nodes the one that leads most of the objects' partitions
    coordinator  of three Kafka nodes the one that coordinates the matchers' group

Processes that are restarted at once, and a warm standby, are in E3 and E4.
"""

import time
from collections import Counter
from collections.abc import Callable
from functools import partial

from coldnotify_kafka.broker import EmbeddedCluster
from coldnotify_kafka.broker.cluster import NODES, coordinator
from coldnotify_kafka.broker.readiness import quiet_admin
from coldnotify_load.open_loop import PublisherHandle
from coldnotify_load.population import Population
from coldnotify_load.swarm import Swarm
from coldnotify_schemas.topics import TopicNames

from coldnotify_loadtest.bench import READY_S, BenchRun, Experiment, Parameters, Row, identity
from coldnotify_loadtest.servers import ColdNotify
from coldnotify_loadtest.tables import Shape

TOPICS = TopicNames()

CASES = ("matcher", "gateway", "leader", "coordinator")
_OF_KAFKA = ("leader", "coordinator")
_MATCHERS_GROUP = TOPICS.group("matcher")
_FAILURES_MAX = 5
"""A node that is killed in the middle of an election takes a publish with it now and then; it is published again."""


def run(bench: BenchRun) -> None:
    """Each repeat restarts everything."""
    if unknown := set(bench["cases"]) - set(CASES):
        raise ValueError(f"cases: unknown value {min(unknown)!r}, expected one of {', '.join(CASES)}")
    clients, groups = bench["clients"], bench["groups"]
    population = Population(-(-clients // groups), bench["registrations"], groups)
    settings = {"matcher-session-timeout-ms": bench["session_timeout_ms"]}
    for case in bench["cases"]:
        for repeat in range(bench["repeats"]):
            bench.progress.step(f"{case}, repeat {repeat + 1}")
            nodes = NODES if case in _OF_KAFKA else 1
            with (
                ColdNotify(bench.new_directory(), gateways=2, matchers=2, nodes=nodes, settings=settings) as server,
                bench.load(server, population, clients) as (swarm, publisher),
            ):
                publisher.once(groups)
                swarm.wait(lambda counts: counts.reached >= swarm.devices, READY_S, "the first publish at all")
                about: Row = {"case": case, "kafka_nodes": nodes, "repeat": repeat, "clients": clients}
                bench.rows.append({**identity(server), **about, **_struck(server, swarm, publisher, case, groups)})


def _struck(server: ColdNotify, swarm: Swarm, publisher: PublisherHandle, case: str, groups: int) -> Row:
    strike = _weapon(server, case)
    taken_over = server.takeovers_s()
    swarm.record()
    killed_s = time.monotonic()
    strike()
    for _ in range(_FAILURES_MAX):
        if not publisher.once(groups).failed:
            break
    published_s = time.monotonic() - killed_s
    counts = swarm.wait(lambda counts: counts.reached >= swarm.devices, READY_S, "the publish at all")
    latencies, _ = swarm.take()
    return {
        "published_s": round(published_s, 3),
        "half_reached_s": round(latencies.percentile_ms(50) / 1000, 3),
        "all_reached_s": round(counts.last_reached_ns / 1e9 - killed_s, 3),
        "takeover_s": max(server.takeovers_s() - taken_over, default=None),
    }


def _weapon(server: ColdNotify, case: str) -> Callable[[], None]:
    """Returns a function that kills the case's victim, which is determined beforehand."""
    if case in ("matcher", "gateway"):
        return server.children[f"{case}-1"].kill
    assert isinstance(server.broker, EmbeddedCluster)
    return partial(server.broker.kill_node, _victim(server.kafka, case))


def _victim(kafka: str, case: str) -> int:
    """The number of the node that is to be killed."""
    admin = quiet_admin(kafka)
    if case == "leader":
        partitions = admin.list_topics(TOPICS.objects, timeout=READY_S).topics[TOPICS.objects].partitions
        return Counter(int(one.leader) for one in partitions.values()).most_common(1)[0][0]
    found = coordinator(admin, _MATCHERS_GROUP)
    if found is None:
        raise RuntimeError(f"Kafka knows no coordinator of {_MATCHERS_GROUP}")
    return found


def seconds(parameters: Parameters) -> float:
    """About."""
    return float(len(parameters["cases"]) * parameters["repeats"] * 30)


_TABLES = (
    Shape(
        "Killed, and stays away: seconds since the kill",
        {"killed": "case", "Kafka nodes": "kafka_nodes", "clients": "clients"},
        {
            "published": "published_s",
            "half of the clients have it": "half_reached_s",
            "all have it": "all_reached_s",
            "takeover": "takeover_s",
        },
    ),
)
TAKEOVER = Experiment(
    "takeover",
    "a process is killed and stays away",
    {
        "clients": 1000,
        "registrations": 50,
        "groups": 24,
        "session_timeout_ms": 6000,
        "cases": CASES,
        "repeats": 3,
        "processes": 2,
    },
    {"clients": 48, "registrations": 5, "repeats": 1, "cases": ("matcher", "gateway")},
    seconds,
    lambda parameters: len(parameters["cases"]) * int(parameters["repeats"]),
    run,
    _TABLES,
)
