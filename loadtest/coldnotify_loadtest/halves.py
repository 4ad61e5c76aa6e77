"""ColdNotify in two halves that can be cut off from each other: two nodes of Kafka in the first, one in the second, and
of matchers and gateways half in each. What ends by itself is started again, as `coldnotify up` does.
"""

import json
import os
import signal
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from coldnotify_kafka import topic_plan, topics
from coldnotify_kafka.broker import free_port
from coldnotify_kafka.broker.readiness import quiet_admin
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.networked_kafka import NetworkedBroker, NetworkedKafka
from confluent_kafka import Consumer, KafkaError, TopicPartition

from coldnotify_loadtest.servers import READY_S, ServerError, ServerProcess, says_ready

HALVES = (1, 3)
"""The networks of the two. Node 2 of Kafka has one of its own, which is never cut off from the first."""
_ASK_S = 3.0
_POLL_S = 1.0
_OWNED = "owned"


class Halves:
    """All processes, by their names, started and ready."""

    def __init__(self, stack: ExitStack, directory: Path, *, partitions: int, matchers: int, gateways: int) -> None:
        """`stack` ends them."""
        self.partitions = partitions
        self.kafka = NetworkedKafka(stack, directory / "kafka")
        self.members: dict[str, ServerProcess | NetworkedBroker] = {
            f"kafka-{node}": broker for node, broker in self.kafka.brokers.items()
        }
        self.gateways: list[str] = []
        """The addresses for clients."""
        self._matchers: list[str] = []
        self._pool = stack.enter_context(ThreadPoolExecutor(matchers))
        self._asked: dict[str, Future[list[int]]] = {}
        self._owned: dict[str, list[int]] = {}
        self.restarted = 0
        """Processes that had ended by themselves."""
        self.kafka.wait_ready(READY_S)
        topic_plan.apply(quiet_admin(self.kafka.bootstrap), topics.load(partitions, len(self.kafka.nodes)), READY_S)
        for kind, count in (("matcher", matchers), ("gateway", gateways)):
            for number in range(count):
                self._add(stack, directory, kind, number + 1, HALVES[number * len(HALVES) // count])
        for member in self.members.values():
            if isinstance(member, ServerProcess):
                member.wait_ready(READY_S)

    def _add(self, stack: ExitStack, directory: Path, kind: str, number: int, half: int) -> None:
        networks, port = self.kafka.networks, free_port()
        host = networks.host(half)
        if kind == "matcher":
            flags = {"matcher-host": host, "matcher-port": port, "matcher-id": f"matcher-{number}"}
            self._matchers.append(f"{host}:{port}")
        else:
            device = free_port()
            flags = {"gateway-host": host, "gateway-port": device, "gateway-web-port": 0}
            flags |= {"gateway-http-host": host, "gateway-http-port": port}
            self.gateways.append(f"{host}:{device}")
        name = f"{kind}-{number}"
        argv = [*networks.command(half), sys.executable, "-m", "coldnotify_cli.main", kind]
        argv += [f"--kafka={self.kafka.bootstrap}", "--log-format=json"]
        argv += [f"--{flag}={value}" for flag, value in flags.items()]
        member = ServerProcess(argv, directory / f"{name}.log", says_ready(port, host))
        self.members[name] = member
        stack.callback(member.stop)
        member.start()

    @contextmanager
    def cut(self) -> Iterator[None]:
        """Cuts the halves off from each other."""
        with self.kafka.networks.cut(HALVES[1]):
            yield

    def keep(self) -> None:
        """Starts again what has ended by itself."""
        for member in self.members.values():
            if not member.runs:
                self.restarted += 1
                member.start()

    def kill(self, names: list[str]) -> None:
        """kill -9 of all of these at once, and starts them again."""
        for name in names:
            os.kill(self.members[name].pid, signal.SIGKILL)
        for name in names:
            self.members[name].kill()
        for name in names:
            self.members[name].start()

    def owners(self) -> Counter[int]:
        """Returns by partition how many matchers say that they own it, by their last answers, and asks them again. A
        matcher that does not answer in time owns nothing. Waits for none."""
        for matcher in self._matchers:
            if matcher not in self._asked or self._asked[matcher].done():
                if matcher in self._asked:
                    self._owned[matcher] = self._asked[matcher].result()
                self._asked[matcher] = self._pool.submit(_owned, matcher)
        return Counter(number for owned in self._owned.values() for number in owned)

    def written(self) -> set[tuple[str, int]]:
        """Returns what the objects topic has: keys and versions."""
        found, left = set[tuple[str, int]](), set(range(self.partitions))
        settings = {"group.id": "none", "enable.partition.eof": True, "log_level": 0}
        consumer = Consumer({"bootstrap.servers": self.kafka.bootstrap, **settings})
        try:
            consumer.assign([TopicPartition(TopicNames().objects, number, 0) for number in left])
            until_s = time.monotonic() + READY_S
            while left:
                if time.monotonic() > until_s:
                    raise ServerError("the objects topic cannot be read to its end")
                message = consumer.poll(_POLL_S)
                if message is None:
                    continue
                error = message.error()
                if error is None:
                    if value := message.value():
                        found.add(((message.key() or b"").decode(), json.loads(value)["version"]))
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition())
        finally:
            consumer.close()
        return found


def _owned(matcher: str) -> list[int]:
    try:
        with urllib.request.urlopen(f"http://{matcher}/v1/partitions", timeout=_ASK_S) as answer:
            items = json.load(answer)["items"]
    except (OSError, ValueError):
        return []
    return [item["partition"] for item in items if item["phase"] == _OWNED]
