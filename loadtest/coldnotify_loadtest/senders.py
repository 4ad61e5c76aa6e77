"""Sends one version of one object to each server; no sender waits for an answer before the next."""

import re
import select
import socket
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from coldnotify_schemas.descriptions import encode_description_record
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.topics import TopicNames
from confluent_kafka import KafkaError, Message, Producer

from coldnotify_loadtest.described import DescribedLoad
from coldnotify_loadtest.devices import bare, mqtt, nats, redis
from coldnotify_loadtest.population import Population

TOPICS = TopicNames()

_QUEUE_MAX = 1_000_000
_FLUSH_S = 60.0


@dataclass(frozen=True)
class Target:
    """The target of publishes, and the protocol."""

    kind: str
    host: str
    port: int
    population: Population
    partitions: int = 8
    """Partitions of ColdNotify's topics."""


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


class KafkaSender:
    """Publishes as a back-end does: acks=all, the record in Kafka's topic of objects."""

    def __init__(self, target: Target) -> None:
        self.acknowledged = self.failed = 0
        self._target = target
        self._where: dict[tuple[int, int], tuple[bytes, int]] = {}
        self._producer = Producer(
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
        self._producer.list_topics(TOPICS.objects, timeout=_FLUSH_S)

    def send(self, block: int, number: int, stamp_ns: int) -> None:
        """See Sender."""
        where = self._where.get((block, number))
        if where is None:
            population, group = self._target.population, self._target.population.group(block)
            key = f"{population.domain}/{group}/{population.object(block, number)}".encode()
            where = self._where[block, number] = key, partition_of(population.domain, group, self._target.partitions)
        value = b'{"version":%d,"payload":%d}' % (stamp_ns, stamp_ns)
        self._producer.produce(TOPICS.objects, value, *where, on_delivery=self._on_delivery)

    def poll(self) -> None:
        """See Sender."""
        self._producer.poll(0)

    def flush(self) -> None:
        """See Sender."""
        self.failed += self._producer.flush(_FLUSH_S)

    def close(self) -> None:
        """See Sender."""
        self._producer.flush(_FLUSH_S)

    def _on_delivery(self, error: KafkaError | None, _message: Any) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.failed += 1


class DescriptionSender(KafkaSender):
    """Describes objects as a back-end does: an object's next description, by its key in the same topic."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        if not isinstance(target.population, DescribedLoad):
            raise ValueError("its population has no descriptions")
        self._described = target.population
        self._turns: Counter[tuple[int, int]] = Counter()
        self._stamps: dict[int, int] = {}

    def send(self, block: int, number: int, stamp_ns: int) -> None:
        """See Sender."""
        population, group = self._described, self._described.group(block)
        turn = self._turns[block, number]
        self._turns[block, number] += 1
        key = f"describe:{population.domain}/{group}/{population.object(block, number)}".encode()
        value = encode_description_record(population.description(number, turn))

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            self._on_delivery(error, message)
            if error is None and (offset := message.offset()) is not None:
                self._stamps[offset] = stamp_ns

        partition = partition_of(population.domain, group, self._target.partitions)
        self._producer.produce(TOPICS.objects, value, key, partition, on_delivery=on_delivery)

    def take_stamps(self) -> dict[int, int]:
        """Returns since the last call, by offset, when its record was written; for one partition, if all is in one."""
        stamps, self._stamps = self._stamps, {}
        return stamps


class SocketSender:
    """The common part of senders that write packets to a socket and count answers."""

    greeting = b""

    def __init__(self, target: Target) -> None:
        self.acknowledged = self.failed = 0
        self._target = target
        self._sent = 0
        self._buffer = b""
        self._socket = socket.create_connection((target.host, target.port), _FLUSH_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # With a limit, Python would wait for it where MSG_DONTWAIT says not to.
        self._socket.settimeout(None)
        self._socket.sendall(self.greeting)

    def send(self, block: int, number: int, stamp_ns: int) -> None:
        """See Sender."""
        self._socket.sendall(self.packet(block, number, b"%d" % stamp_ns))
        self._sent += 1

    def poll(self) -> None:
        """See Sender."""
        with suppress(BlockingIOError):
            while data := self._socket.recv(65536, socket.MSG_DONTWAIT):
                self._take(data)

    def flush(self) -> None:
        """See Sender."""
        while self.acknowledged + self.failed < self._sent:
            there, _, _ = select.select([self._socket], [], [], _FLUSH_S)
            data = self._socket.recv(65536) if there else b""
            if not data:
                self.failed = self._sent - self.acknowledged
                return
            self._take(data)

    def close(self) -> None:
        """See Sender."""
        self._socket.close()

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


class NatsSender(SocketSender):
    """Core: nothing is acknowledged. A PING for each publish would slow it, so only flush sends one."""

    greeting = b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n'

    def packet(self, block: int, number: int, payload: bytes) -> bytes:
        """PUB."""
        return (
            f"PUB {nats.subject(self._target.population, block, number)} {len(payload)}\r\n".encode()
            + payload
            + b"\r\n"
        )

    def flush(self) -> None:
        """Until a PING is answered."""
        self._socket.sendall(b"PING\r\n")
        super().flush()

    def answers(self, data: bytes) -> tuple[int, int, bytes]:
        """The PONG stands for all; the server's PING is answered."""
        *lines, left = data.split(b"\r\n")
        acknowledged = failed = 0
        for line in lines:
            if line == b"PING":
                self._socket.sendall(b"PONG\r\n")
            elif line == b"PONG":
                acknowledged = self._sent - self.acknowledged - self.failed
            elif line.startswith(b"-ERR"):
                failed += 1
        return acknowledged, failed, left


class KvSender(SocketSender):
    """JetStream: each publish is acknowledged to its own inbox."""

    greeting = NatsSender.greeting + b"SUB _P.acks 1\r\n"
    _ack = re.compile(
        rb"MSG _P\.acks 1 \d+\r\n([^\r]*)\r\n|H?MSG _P\.acks[^\r]*\r\n(NATS/1\.0 [^\r]*)\r\n|PING\r\n|PONG\r\n"
    )

    def packet(self, block: int, number: int, payload: bytes) -> bytes:
        """PUB to the key's subject."""
        subject = f"$KV.{nats.BUCKET}.{nats.subject(self._target.population, block, number)}"
        return f"PUB {subject} _P.acks {len(payload)}\r\n".encode() + payload + b"\r\n"

    def answers(self, data: bytes) -> tuple[int, int, bytes]:
        """PubAck is JSON; with "error" in it, or no responder, nothing was kept."""
        acknowledged = failed = end = 0
        for match in self._ack.finditer(data):
            end = match.end()
            if match[0] == b"PING\r\n":
                self._socket.sendall(b"PONG\r\n")
            elif match[1] is not None and b'"error"' not in match[1]:
                acknowledged += 1
            elif match[1] is not None or match[2] is not None:
                failed += 1
        return acknowledged, failed, data[end:]


class MqttSender(SocketSender):
    """QoS 1, retained."""

    greeting = mqtt.connect("publisher", clean=True)

    def packet(self, block: int, number: int, payload: bytes) -> bytes:
        """PUBLISH."""
        return mqtt.publish(
            mqtt.topic(self._target.population, block, number), payload, self._sent % 65535 + 1, retain=True
        )

    def answers(self, data: bytes) -> tuple[int, int, bytes]:
        """PUBACKs."""
        packets, left = mqtt.cut(data)
        return sum(first >> 4 == 4 for first, _ in packets), 0, left


class RedisSender(SocketSender):
    """The value is kept for later subscribers, and told to present ones."""

    def packet(self, block: int, number: int, payload: bytes) -> bytes:
        """SET and PUBLISH."""
        key = redis.key(self._target.population, block, number)
        return redis.command("SET", key, payload) + redis.command("PUBLISH", key, payload)

    def answers(self, data: bytes) -> tuple[int, int, bytes]:
        """The PUBLISH's answer is a number."""
        *lines, left = data.split(b"\r\n")
        return sum(line[:1] == b":" for line in lines), sum(line[:1] == b"-" for line in lines), left


class BareSender(SocketSender):
    """Sends to the bare loop."""

    greeting = b"P"

    def packet(self, block: int, number: int, payload: bytes) -> bytes:
        """A line of the size of a notification."""
        return payload.rjust(bare.LINE_BYTES - 1, b"0") + b"\n"

    def flush(self) -> None:
        """Nothing answers."""
        self.acknowledged = self._sent

    def answers(self, data: bytes) -> tuple[int, int, bytes]:
        """The greeting's."""
        return 0, 0, b""


SENDERS: dict[str, Callable[[Target], LoadSender]] = {
    "coldnotify": KafkaSender,
    "coldnotify-descriptions": DescriptionSender,
    "nats": NatsSender,
    "nats-kv": KvSender,
    "mqtt": MqttSender,
    "redis": RedisSender,
    "bare": BareSender,
}
