"""Senders of publishes, to Kafka and over a socket; none waits for an answer before the next."""

import select
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.topics import TopicNames
from confluent_kafka import KafkaError, Producer

from coldnotify_load.population import Population

TOPICS = TopicNames()

_QUEUE_MAX = 1_000_000
_FLUSH_S = 60.0


@dataclass(frozen=True)
class Target:
    """The target of publishes, and the protocol."""

    kind: str
    """Its name in errors."""
    host: str
    port: int
    population: Population
    sender: "Callable[[Target], LoadSender]"
    """Makes the connection, in the publisher's process."""
    partitions: int = 8
    """Partitions of ColdNotify's topics."""
    topics: TopicNames = TOPICS
    """Their names."""


class LoadSender(Protocol):
    """A publisher's connection."""

    acknowledged: int
    """Acknowledged by the server, as durable as its row says; without acknowledgements, what was handed over."""
    failed: int

    def send(self, block: int, number: int, stamp_ns: int) -> None:
        """Publish an object of a block; the stamp is version and payload."""

    def poll(self) -> None:
        """Take what answers are there."""

    def flush(self) -> None:
        """Wait for all answers, at most a minute."""

    def close(self) -> None:
        """The end."""


@runtime_checkable
class StampingSender(Protocol):
    """A sender whose payloads have no room for a stamp."""

    def take_stamps(self) -> dict[int, int]:
        """Returns since the last call, by offset, when its record was written."""


@runtime_checkable
class TimedSender(Protocol):
    """A sender that knows when each publish was acknowledged."""

    why: str
    """Why a publish has failed, the last time; empty: none has."""

    def take_latencies(self) -> bytes:
        """Returns since the last call the Latencies from publish to acknowledgement, encoded."""


class KafkaSender:
    """Publishes as a back-end does: acks=all, the record in Kafka's topic of objects."""

    def __init__(self, target: Target) -> None:
        self.acknowledged = self.failed = 0
        self.target = target
        self._where: dict[tuple[int, int], tuple[bytes, int]] = {}
        self.producer = Producer(
            {
                "bootstrap.servers": f"{target.host}:{target.port}",
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 0,
                "log_level": 0,
                "queue.buffering.max.messages": _QUEUE_MAX,
            }
        )
        # Not on the first publish's account.
        self.producer.list_topics(target.topics.objects, timeout=_FLUSH_S)

    def send(self, block: int, number: int, stamp_ns: int) -> None:
        """See Sender."""
        where = self._where.get((block, number))
        if where is None:
            population, group = self.target.population, self.target.population.group(block)
            key = f"{population.domain}/{group}/{population.object(block, number)}".encode()
            where = self._where[block, number] = key, partition_of(population.domain, group, self.target.partitions)
        value = b'{"version":%d,"payload":%d}' % (stamp_ns, stamp_ns)
        self.producer.produce(self.target.topics.objects, value, *where, on_delivery=self.on_delivery)

    def poll(self) -> None:
        """See Sender."""
        self.producer.poll(0)

    def flush(self) -> None:
        """See Sender."""
        self.failed += self.producer.flush(_FLUSH_S)

    def close(self) -> None:
        """See Sender."""
        self.producer.flush(_FLUSH_S)

    def on_delivery(self, error: KafkaError | None, _message: Any) -> None:
        """Counts Kafka's answer to a record."""
        if error is None:
            self.acknowledged += 1
        else:
            self.failed += 1


class SocketSender:
    """The common part of senders that write packets to a socket and count answers."""

    greeting = b""

    def __init__(self, target: Target) -> None:
        self.acknowledged = self.failed = 0
        self.target = target
        self.sent = 0
        self._buffer = b""
        self.socket = socket.create_connection((target.host, target.port), _FLUSH_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # With a limit, Python would wait for it where MSG_DONTWAIT says not to.
        self.socket.settimeout(None)
        self.socket.sendall(self.greeting)

    def send(self, block: int, number: int, stamp_ns: int) -> None:
        """See Sender."""
        self.socket.sendall(self.packet(block, number, b"%d" % stamp_ns))
        self.sent += 1

    def poll(self) -> None:
        """See Sender."""
        with suppress(BlockingIOError):
            while data := self.socket.recv(65536, socket.MSG_DONTWAIT):
                self._take(data)

    def flush(self) -> None:
        """See Sender."""
        while self.acknowledged + self.failed < self.sent:
            there, _, _ = select.select([self.socket], [], [], _FLUSH_S)
            data = self.socket.recv(65536) if there else b""
            if not data:
                self.failed = self.sent - self.acknowledged
                return
            self._take(data)

    def close(self) -> None:
        """See Sender."""
        self.socket.close()

    def packet(self, block: int, number: int, payload: bytes) -> bytes:
        """One publish."""
        raise NotImplementedError

    def answers(self, data: bytes) -> tuple[int, int, bytes]:
        """Acknowledged, failed, and the bytes that are left."""
        raise NotImplementedError

    def _take(self, data: bytes) -> None:
        acknowledged, failed, self._buffer = self.answers(self._buffer + data)
        self.acknowledged += acknowledged
        self.failed += failed
