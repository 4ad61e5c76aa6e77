"""E3 and E4: how long clients are without service when a gateway, or a matcher, is killed and started again."""

import time
from contextlib import suppress

from coldnotify_kafka.topics import EMBEDDED_PARTITIONS
from coldnotify_load.open_loop import PublisherHandle
from coldnotify_load.population import Population
from coldnotify_load.swarm import Swarm
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.topics import TopicNames
from confluent_kafka import Producer

from coldnotify_loadtest.bench import READY_S, BenchRun, Experiment, Parameters, Row, identity
from coldnotify_loadtest.servers import ColdNotify
from coldnotify_loadtest.tables import Shape

TOPICS = TopicNames()

_LONG_LOG = "cold behind a long log"
_VERSIONS = 100
"""Versions of each object of the history."""
_COMPACTED_SHARE = 0.025
"""The share of the history's bytes that may be left: one version in a hundred, in separate batches."""
_COMPACTED_BYTES = 4_000_000
"""So much may be left in any case."""
_HISTORY_PER_S = 60_000.0
"""About how fast history is written, and read again."""


def _population(bench: BenchRun) -> Population:
    return Population(-(-bench["clients"] // bench["groups"]), bench["registrations"], bench["groups"])


def _row(server: ColdNotify, bench: BenchRun, repeat: int, case: str) -> Row:
    return {**identity(server), "case": case, "repeat": repeat, "clients": bench["clients"]}


def run_gateway(bench: BenchRun) -> None:
    """Killed: the clients come back by themselves. Lost: the service has forgotten all registrations meanwhile."""
    population = _population(bench)
    with (
        ColdNotify(bench.new_directory()) as server,
        bench.load(server, population, bench["clients"]) as (swarm, publisher),
    ):
        publisher.once(bench["groups"])
        gateway, matcher = server.children["gateway-1"], server.children["matcher-1"]
        for repeat in range(bench["repeats"]):
            bench.progress.step(f"gateway killed, repeat {repeat + 1}")
            swarm.record()
            killed_s = time.monotonic()
            gateway.kill()
            gateway.start()
            bench.rows.append(
                {**_row(server, bench, repeat, "gateway killed"), **_back(swarm, server, "gateway-1", killed_s)}
            )
            bench.progress.step(f"registrations lost, repeat {repeat + 1}")
            swarm.record()
            killed_s = time.monotonic()
            gateway.kill()
            matcher.kill()
            for topic in (TOPICS.registrations, TOPICS.sessions):
                server.delete_topic(topic)
            server.apply_topics()
            matcher.start()
            matcher.wait_ready(READY_S)
            gateway.start()
            bench.rows.append(
                {**_row(server, bench, repeat, "registrations lost"), **_back(swarm, server, "gateway-1", killed_s)}
            )


def _back(swarm: Swarm, server: ColdNotify, name: str, killed_s: float) -> Row:
    """Measures from the start of the process until it is ready, and half and all clients are complete again."""
    child = server.children[name]
    process_s = child.wait_ready(READY_S)
    counts = swarm.wait(
        lambda counts: counts.last_ready_ns > child.started_s * 1e9 and counts.ready >= swarm.devices,
        READY_S,
        "all clients complete again",
    )
    _, to_ready = swarm.take()
    return {
        "process_ready_s": round(process_s, 3),
        "all_back_s": round(counts.last_ready_ns / 1e9 - child.started_s, 3),
        "all_back_since_kill_s": round(counts.last_ready_ns / 1e9 - killed_s, 3),
        "to_ready": to_ready.summary(),
    }


def run_matcher(bench: BenchRun) -> None:
    """Measures how soon a publish made right after the kill reaches all, in seconds from the start of the process."""
    population = _population(bench)
    for case, history, standby in (
        ("cold", 0, False),
        (_LONG_LOG, bench["history"], False),
        ("warm standby", 0, True),
    ):
        if case == _LONG_LOG and not history:
            continue
        # A long log takes a minute to write: there, one matcher is killed again and again.
        starts, kills = (1, bench["repeats"]) if history else (bench["repeats"], 1)
        for start in range(starts):
            settings = {"matcher-session-timeout-ms": bench["session_timeout_ms"], "matcher-standby": standby}
            with (
                ColdNotify(bench.new_directory(), matchers=2 if standby else 1, settings=settings) as server,
                bench.load(server, population, bench["clients"]) as (swarm, publisher),
            ):
                if history:
                    bench.progress.step(f"the log is written: {history:,} publishes")
                    write_history(server.kafka, population, history)
                    compact(server, population)
                publisher.once(bench["groups"])
                swarm.wait(lambda counts: counts.reached >= swarm.devices, READY_S, "the first publish at all")
                for kill in range(kills):
                    repeat = start + kill
                    bench.progress.step(f"matcher, {case}, repeat {repeat + 1}")
                    row = {**_row(server, bench, repeat, case), "history": history}
                    bench.rows.append({**row, **_struck(bench, server, swarm, publisher, standby=standby)})


def _struck(bench: BenchRun, server: ColdNotify, swarm: Swarm, publisher: PublisherHandle, *, standby: bool) -> Row:
    if standby:
        _wait_followed(server)
    taken_over = server.takeovers_s()
    swarm.record()
    killed_s = time.monotonic()
    matcher = server.children["matcher-1"]
    matcher.kill()
    if not standby:
        matcher.start()
    publisher.once(bench["groups"])
    counts = swarm.wait(lambda counts: counts.reached >= swarm.devices, READY_S, "the publish at all")
    reached_s = counts.last_reached_ns / 1e9
    row: Row = {
        "all_reached_since_kill_s": round(reached_s - killed_s, 3),
        "session_timeout_s": bench["session_timeout_ms"] / 1000,
        "clients_lost": counts.lost,
    }
    row["takeover_s"] = max(server.takeovers_s() - taken_over, default=None)
    if not standby:
        row["all_back_s"] = round(reached_s - matcher.started_s, 3)
    return row


def _wait_followed(server: ColdNotify) -> None:
    """Until the second matcher has read all of what the first one serves."""
    for name in ("matcher-1", "matcher-2"):
        server.children[name].wait_ready(READY_S)
    until_s = time.monotonic() + READY_S
    while not (
        server.metric("matcher-1", "coldnotify_matcher_partitions_owned")
        == server.metric("matcher-2", "coldnotify_matcher_partitions_standby")
        > 0
        == server.metric("matcher-2", "coldnotify_matcher_lag_standby")
    ):
        if time.monotonic() > until_s:
            raise TimeoutError(f"the standby has not read all within {READY_S:g} s")
        time.sleep(0.2)


def compact(server: ColdNotify, population: Population) -> None:
    """Have Kafka compact the objects topic now, which it would do after a day, and wait for it."""
    left_bytes = max(_COMPACTED_BYTES, _COMPACTED_SHARE * _bytes_of(server, TOPICS.objects))
    producer = Producer({"bootstrap.servers": server.kafka, "log_level": 0})
    now = {"min.compaction.lag.ms": "0", "min.cleanable.dirty.ratio": "0.001", "segment.ms": "1000"}
    server.configure_topic(TOPICS.objects, now)
    until_s = time.monotonic() + READY_S
    while _bytes_of(server, TOPICS.objects) > left_bytes:
        if time.monotonic() > until_s:
            raise TimeoutError(f"Kafka has not compacted the history within {READY_S:g} s")
        # Only with the next record a segment that is old enough is closed, and only then it is compacted.
        for prefix, partition in _places(population):
            producer.produce(TOPICS.objects, b'{"version":%d}' % time.time_ns(), prefix + b"compacted", partition)
        producer.flush(READY_S)
        time.sleep(1.5)
    # What follows is measured beside no cleaning.
    server.configure_topic(TOPICS.objects, {"min.compaction.lag.ms": "86400000", "segment.ms": "86400000"})


def _bytes_of(server: ColdNotify, topic: str) -> int:
    sizes = []
    for log in server.directory.glob(f"kafka/**/{topic}-*/*.log"):
        with suppress(FileNotFoundError):  # compacted meanwhile
            sizes.append(log.stat().st_size)
    return sum(sizes)


def _places(population: Population) -> list[tuple[bytes, int]]:
    """Returns, for each group, the prefix of its objects' keys, and its partition."""
    groups = [population.group(block) for block in range(population.groups)]
    domain = population.domain
    return [(f"{domain}/{group}/".encode(), partition_of(domain, group, EMBEDDED_PARTITIONS)) for group in groups]


def write_history(kafka: str, population: Population, records: int) -> None:
    """Publishes of objects that nobody registered for, many versions of each: what a matcher has to load."""
    producer = Producer(
        {"bootstrap.servers": kafka, "log_level": 0, "linger.ms": 50, "queue.buffering.max.messages": 500_000}
    )
    places = _places(population)
    objects = max(1, records // _VERSIONS)
    for number in range(records):
        prefix, partition = places[number % len(places)]
        while True:
            try:
                producer.produce(
                    TOPICS.objects, b'{"version":%d}' % number, prefix + b"history-%d" % (number % objects), partition
                )
                break
            except BufferError:
                producer.poll(0.1)
        if number % 10_000 == 0:
            producer.poll(0)
    if producer.flush(READY_S):
        raise TimeoutError("Kafka does not take the history")


def gateway_seconds(parameters: Parameters) -> float:
    """About."""
    return float(25 + parameters["repeats"] * 20)


def matcher_seconds(parameters: Parameters) -> float:
    """About."""
    return float(2 * parameters["repeats"] * 15 + 60 + 2 * parameters["history"] / _HISTORY_PER_S)


_COMMON = {"clients": 1000, "registrations": 50, "groups": 8, "repeats": 5, "processes": 2}
_QUICK = {"clients": 48, "registrations": 5, "repeats": 1}

_E3_THESIS = "Thesis: 1.81 s (registrations kept), 2.41 s (all registrations lost)."
_E3_TABLES = (
    Shape(
        "E3: from the gateway's start, seconds",
        {"case": "case", "clients": "clients"},
        {
            "process ready": "process_ready_s",
            "all complete": "all_back_s",
            "since the kill": "all_back_since_kill_s",
        },
    ),
)
E3 = Experiment(
    "E3",
    "recovery of a gateway",
    _COMMON,
    _QUICK,
    gateway_seconds,
    lambda parameters: 2 * int(parameters["repeats"]),
    run_gateway,
    _E3_TABLES,
    _E3_THESIS,
)
_E4_THESIS = "Thesis: 1.81 s (its matcher begins empty), 2.01 s (it loads its file first). Neither is a standby."
_E4_TABLES = (
    Shape(
        "E4: a publish right after the kill is at all clients, seconds",
        {"case": "case", "clients": "clients"},
        {
            "since the matcher's start": "all_back_s",
            "since the kill": "all_reached_since_kill_s",
            "of it the group's timeout": "session_timeout_s",
            "takeover": "takeover_s",
        },
    ),
)
E4 = Experiment(
    "E4",
    "recovery of a matcher",
    {**_COMMON, "history": 10_000_000, "session_timeout_ms": 6000},
    {**_QUICK, "history": 10_000},
    matcher_seconds,
    lambda parameters: 3 * int(parameters["repeats"]) + 1,
    run_matcher,
    _E4_TABLES,
    _E4_THESIS,
)
