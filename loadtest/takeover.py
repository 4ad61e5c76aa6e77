"""What a killed process costs: seconds until every client has the newest of what is published right after the kill.

Many clients with many registrations each, two gateways, two matchers; in each case one process is killed with SIGKILL
and at once a new version of one object of every group is published. The cases:

    restarted  a matcher is started again at once under its name: the group does not notice
    cold       a matcher stays away: after its session timeout the other one loads its partitions
    warm       the same, and the other one has followed them (matcher_standby)
    gateway    a gateway stays away: its clients connect to the other one
    leader     of three Kafka nodes the one that leads most of the objects' partitions stays away
    group      of three Kafka nodes the one that coordinates the matchers' group stays away

    python loadtest/takeover.py --clients 1000 --registrations 50 --history 100000 --json takeover.json
"""

import argparse
import asyncio
import json
import multiprocessing
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection as Pipe
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from coldnotify import Connection, Notification, State, aio
from coldnotify.publisher import Publisher
from coldnotify_kafka import topic_plan
from coldnotify_kafka.broker import EmbeddedCluster, free_port
from coldnotify_kafka.broker.cluster import NODES, coordinator
from coldnotify_kafka.broker.readiness import quiet_admin
from coldnotify_kafka.topics import load
from coldnotify_schemas import topics
from coldnotify_schemas.partitioner import partition_of
from coldnotify_testkit.gateway_process import GatewayProcess
from coldnotify_testkit.kafka import broker
from coldnotify_testkit.matcher_process import PARTITIONS, MatcherProcess
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import Producer

DOMAIN = "loadtest"
GROUPS = [f"group-{i}" for i in range(24)]
PUBLISHED = "object-0"
"""Of each group, the object that is published after a kill."""
PROCESSES = 2
CASES = ("restarted", "cold", "warm", "gateway", "leader", "group")
ON_THREE_NODES = ("leader", "group")
"""Whatever --brokers says: who loses the only node waits for it, and that is another question."""
MATCHERS = "coldnotify-matcher"
"""Their consumer group."""
READY_TIMEOUT_S = 300.0
_REPORT_EVERY_S = 0.05


def swarm(number: int, clients: int, registrations: int, port: int, pipe: Pipe) -> None:
    """A process with its share of the clients. Answers each version it is asked for with the times they all had it."""
    asyncio.run(_swarm(number, clients, registrations, port, pipe))


async def _swarm(number: int, clients: int, registrations: int, port: int, pipe: Pipe) -> None:
    newest = dict.fromkeys(range(number, clients, PROCESSES), (0, 0.0))
    handlers: list[aio.Notify] = []
    for i in newest:

        def told(notification: Notification, i: int = i) -> None:
            if notification.version is not None and notification.version > newest[i][0]:
                newest[i] = (notification.version, time.time())

        one = aio.Notify(
            domain=DOMAIN,
            group_id=GROUPS[i % len(GROUPS)],
            client_id=f"client-{i}",
            state=State(filename=None),
            connection=Connection(address="127.0.0.1", port=port),
        )
        one.register(PUBLISHED).subscribe(told)
        for n in range(1, registrations):
            one.register(f"object-{n}").subscribe(lambda _: None)
        await one.connect()
        handlers.append(one)
    pipe.send(all([await one.wait_caught_up(READY_TIMEOUT_S) for one in handlers]))
    while (version := await asyncio.to_thread(pipe.recv)) is not None:
        until_s = time.monotonic() + READY_TIMEOUT_S
        while any(had < version for had, _ in newest.values()) and time.monotonic() < until_s:  # noqa: ASYNC110
            await asyncio.sleep(_REPORT_EVERY_S)
        pipe.send([at_s if had >= version else None for had, at_s in newest.values()])
    await asyncio.gather(*(one.disconnect() for one in handlers))


class Parts:
    """The matchers and gateways of one case."""

    def __init__(self, kafka: str, directory: Path, *, standby: bool, session_timeout_ms: int) -> None:
        self.kafka = kafka
        self._directory = directory
        self._settings = {
            "matcher_group": MATCHERS,
            "matcher_standby": standby,
            "matcher_session_timeout_ms": session_timeout_ms,
        }
        self.matchers: dict[str, MatcherProcess] = {}
        self.gateway_port = free_port()
        self.gateways: list[GatewayProcess] = []
        try:
            for name in ("matcher-1", "matcher-2"):
                self.matchers[name] = self.start_matcher(name)
            for _ in range(2):
                self.gateways.append(GatewayProcess(kafka, gateway_port=self.gateway_port).__enter__())
            wait_for(self._served, "all partitions served", READY_TIMEOUT_S)
            for gateway in self.gateways:
                gateway.wait_ready()
        except BaseException:
            self.end()
            raise

    def start_matcher(self, name: str) -> MatcherProcess:
        """One matcher."""
        log = self._directory / f"{name}.log"
        return MatcherProcess(self.kafka, log, matcher_id=name, **self._settings)

    def _served(self) -> bool:
        owned = [matcher.owned() for matcher in self.matchers.values()]
        return all(owned) and sum(map(len, owned)) == PARTITIONS and all(m.ready for m in self.matchers.values())

    def wait_followed(self) -> None:
        """Until the standby has read all that is there."""

        def followed() -> bool:
            return all(
                matcher.get("/metrics")[1].count("coldnotify_matcher_lag_standby{") == PARTITIONS - len(matcher.owned())
                and not re.search(r"^coldnotify_matcher_lag_standby\{.*\} [1-9]", matcher.get("/metrics")[1], re.M)
                for matcher in self.matchers.values()
            )

        wait_for(followed, "all followed", READY_TIMEOUT_S)

    def resident_mib(self) -> float:
        """Of the larger matcher."""
        statm = [Path(f"/proc/{m.process.pid}/statm").read_text().split()[1] for m in self.matchers.values()]
        return max(int(pages) for pages in statm) * 4096 / 2**20

    def end(self) -> None:
        """All processes."""
        for gateway in self.gateways:
            gateway.__exit__(None, None, None)
        for matcher in self.matchers.values():
            if matcher.process.poll() is None:
                matcher.kill()


def weapon(case: str, parts: Parts, nodes: EmbeddedCluster | None) -> Callable[[], None]:
    """What kills what the case is about, looked for beforehand."""
    if case == "gateway":
        return parts.gateways[0].process.kill
    if case in ON_THREE_NODES:
        assert nodes is not None
        return partial(nodes.kill_node, victim(case, nodes))

    def strike() -> None:
        parts.matchers["matcher-1"].kill()
        if case == "restarted":
            parts.matchers["matcher-1"] = parts.start_matcher("matcher-1")

    return strike


def victim(case: str, nodes: EmbeddedCluster) -> int:
    """The number of the node that is to be killed."""
    admin = quiet_admin(nodes.bootstrap)
    if case == "group":
        found = coordinator(admin, MATCHERS)
    else:
        partitions = admin.list_topics(topics.OBJECTS, timeout=60).topics[topics.OBJECTS].partitions
        found = Counter(int(one.leader) for one in partitions.values()).most_common(1)[0][0]
    if found is None or found not in nodes.nodes:
        raise RuntimeError(f"{case}: no node of that kind is known")
    return found


@contextmanager
def kafka(count: int, directory: Path) -> Iterator[tuple[str, EmbeddedCluster | None]]:
    """Kafka with the topics: its address, and the nodes if they are three."""
    with ExitStack() as stack:
        nodes = stack.enter_context(EmbeddedCluster(directory / "kafka")) if count == NODES else None
        bootstrap = stack.enter_context(broker()).bootstrap if nodes is None else nodes.bootstrap
        topic_plan.apply(quiet_admin(bootstrap), load(replication_factor=count))
        yield bootstrap, nodes


def write_history(kafka: str, records: int) -> None:
    """Objects that nobody registered for: what a matcher has to load."""
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 50, "queue.buffering.max.messages": 1_000_000})
    for i in range(records):
        group = GROUPS[i % len(GROUPS)]
        producer.produce(
            topics.OBJECTS,
            b'{"version":1,"payload":{"size":%d}}' % i,
            f"{DOMAIN}/{group}/history-{i}".encode(),
            partition_of(DOMAIN, group, PARTITIONS),
        )
        if i % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(READY_TIMEOUT_S) == 0, "Kafka does not take the history"


def measure(case: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """One case, on a Kafka of its own."""
    count = NODES if case in ON_THREE_NODES else arguments.brokers
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        bootstrap, nodes = stack.enter_context(kafka(count, directory))
        write_history(bootstrap, arguments.history)
        parts = Parts(bootstrap, directory, standby=case == "warm", session_timeout_ms=arguments.session_timeout_ms)
        stack.callback(parts.end)
        pipes = []
        for number in range(PROCESSES):
            here, there = multiprocessing.Pipe()
            share = (number, arguments.clients, arguments.registrations, parts.gateway_port, there)
            process = multiprocessing.get_context("spawn").Process(target=swarm, args=share, daemon=True)
            process.start()
            stack.callback(end_swarm, process, here)
            pipes.append(here)
        if not all(_receive(pipe) for pipe in pipes):
            raise RuntimeError("not all clients caught up before the kill")
        with Publisher(kafka=bootstrap, timeout_s=60) as publisher:
            publish(publisher, 1)
            ask(pipes, 1)
            if case == "warm":
                parts.wait_followed()
            resident_mib = parts.resident_mib()
            strike = weapon(case, parts, nodes)
            taken_over = takeovers_s(parts)
            killed_s = time.time()
            strike()
            publish(publisher, 2)
            published_s = time.time() - killed_s
            had = ask(pipes, 2)
        seconds = sorted(at_s - killed_s for at_s in had if at_s is not None)
        return {
            "case": case,
            "kafka_nodes": count,
            "clients": len(had),
            "reached": len(seconds),
            "published_s": round(published_s, 3),
            "p50_s": round(seconds[len(seconds) // 2], 3),
            "all_s": round(seconds[-1], 3),
            "takeover_s": max((takeovers_s(parts) - taken_over).elements(), default=None),
            "matcher_mib": round(resident_mib),
        }


def end_swarm(process: BaseProcess, pipe: Pipe) -> None:
    """Its clients disconnect; what does not is killed."""
    with suppress(OSError):  # ended by itself
        pipe.send(None)
    process.join(30)
    process.kill()


def takeovers_s(parts: Parts) -> "Counter[float]":
    """How long each took, from the assignment until the partition was served, as the matchers' logs say."""
    logs = (re.sub(r"\x1b\[[0-9;]*m", "", matcher.log.read_text()) for matcher in parts.matchers.values())
    return Counter(float(s) for log in logs for s in re.findall(r"partition taken over.*\bseconds=([\d.]+)", log))


def publish(publisher: Publisher, version: int) -> None:
    """The object of every group, all at once."""

    async def all_() -> None:
        await asyncio.gather(*(publisher.publish_async(DOMAIN, group, PUBLISHED, version=version) for group in GROUPS))

    asyncio.run(all_())


def ask(pipes: list[Pipe], version: int) -> list[float | None]:
    """When each client had this version."""
    for pipe in pipes:
        pipe.send(version)
    return [at_s for pipe in pipes for at_s in _receive(pipe)]


def _receive(pipe: Pipe) -> Any:
    if not pipe.poll(2 * READY_TIMEOUT_S):
        raise TimeoutError("the clients' processes do not answer")
    return pipe.recv()


def main() -> int:
    """Prints a table, one line a case. Exit code 1: not all clients were reached."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--registrations", type=int, default=50, help="of each client")
    parser.add_argument("--history", type=int, default=100_000, help="objects beside those: what a load has to read")
    parser.add_argument("--session-timeout-ms", type=int, default=6000)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument(
        "--brokers", type=int, choices=(1, NODES), default=1, help="Kafka nodes of the cases that kill none of them"
    )
    parser.add_argument("--json", type=Path, help="file for the figures")
    arguments = parser.parse_args()
    cases = arguments.cases.split(",")
    if unknown := set(cases) - set(CASES):
        parser.error(f"--cases: {', '.join(sorted(unknown))}: not one of {', '.join(CASES)}")
    say: Callable[[str], object] = sys.stdout.write
    head = ("case", "nodes", "clients", "published, s", "half, s", "all, s", "takeover, s", "matcher, MiB")
    say(f"| {' | '.join(head)} |\n|{'---|' * len(head)}\n")
    figures = []
    for case in cases:
        found = measure(case, arguments)
        figures.append(found)
        took = "-" if found["takeover_s"] is None else f"{found['takeover_s']:.2f}"
        reached = f"{found['reached']}/{found['clients']}"
        times = " | ".join(f"{found[name]:.2f}" for name in ("published_s", "p50_s", "all_s"))
        say(f"| {case} | {found['kafka_nodes']} | {reached} | {times} | {took} | {found['matcher_mib']} |\n")
        sys.stdout.flush()
    if arguments.json is not None:
        settings = {k: v for k, v in vars(arguments).items() if k not in ("json", "cases")}
        arguments.json.write_text(json.dumps({**settings, "cases": figures}, indent=2) + "\n")
    return 0 if all(found["reached"] == found["clients"] for found in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
