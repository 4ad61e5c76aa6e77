"""Senders to the servers that are compared; none waits for an answer before the next publish."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from coldnotify_load import mqtt_device
from coldnotify_load.population import Population
from coldnotify_load.senders import TOPICS, KafkaSender, LoadSender, SocketSender, Target
from coldnotify_schemas.descriptions import encode_description_record
from coldnotify_schemas.partitioner import partition_of
from confluent_kafka import KafkaError, Message

from coldnotify_loadtest.described import DescribedLoad
from coldnotify_loadtest.devices import bare, nats, redis


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

        def with_stamp(error: KafkaError | None, message: Message) -> None:
            self.on_delivery(error, message)
            if error is None and (offset := message.offset()) is not None:
                self._stamps[offset] = stamp_ns

        partition = partition_of(population.domain, group, self.target.partitions)
        self.producer.produce(TOPICS.objects, value, key, partition, on_delivery=with_stamp)

    def take_stamps(self) -> dict[int, int]:
        """Returns since the last call, by offset, when its record was written; for one partition, if all is in one."""
        stamps, self._stamps = self._stamps, {}
        return stamps


class NatsSender(SocketSender):
    """Core: nothing is acknowledged. A PING for each publish would slow it, so only flush sends one."""

    greeting = b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n'

    def packet(self, block: int, number: int, payload: bytes) -> bytes:
        """PUB."""
        return (
            f"PUB {nats.subject(self.target.population, block, number)} {len(payload)}\r\n".encode() + payload + b"\r\n"
        )

    def flush(self) -> None:
        """Until a PING is answered."""
        self.socket.sendall(b"PING\r\n")
        super().flush()

    def answers(self, data: bytes) -> tuple[int, int, bytes]:
        """The PONG stands for all; the server's PING is answered."""
        *lines, left = data.split(b"\r\n")
        acknowledged = failed = 0
        for line in lines:
            if line == b"PING":
                self.socket.sendall(b"PONG\r\n")
            elif line == b"PONG":
                acknowledged = self.sent - self.acknowledged - self.failed
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
        subject = f"$KV.{nats.BUCKET}.{nats.subject(self.target.population, block, number)}"
        return f"PUB {subject} _P.acks {len(payload)}\r\n".encode() + payload + b"\r\n"

    def answers(self, data: bytes) -> tuple[int, int, bytes]:
        """PubAck is JSON; with "error" in it, or no responder, nothing was kept."""
        acknowledged = failed = end = 0
        for match in self._ack.finditer(data):
            end = match.end()
            if match[0] == b"PING\r\n":
                self.socket.sendall(b"PONG\r\n")
            elif match[1] is not None and b'"error"' not in match[1]:
                acknowledged += 1
            elif match[1] is not None or match[2] is not None:
                failed += 1
        return acknowledged, failed, data[end:]


class MqttSender(SocketSender):
    """QoS 1, retained."""

    greeting = mqtt_device.connect("publisher", clean=True)

    def packet(self, block: int, number: int, payload: bytes) -> bytes:
        """PUBLISH."""
        return mqtt_device.publish(
            mqtt_device.topic(self.target.population, block, number), payload, self.sent % 65535 + 1, retain=True
        )

    def answers(self, data: bytes) -> tuple[int, int, bytes]:
        """PUBACKs."""
        packets, left = mqtt_device.cut(data)
        return sum(first >> 4 == 4 for first, _ in packets), 0, left


class RedisSender(SocketSender):
    """The value is kept for later subscribers, and told to present ones."""

    def packet(self, block: int, number: int, payload: bytes) -> bytes:
        """SET and PUBLISH."""
        key = redis.key(self.target.population, block, number)
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
        self.acknowledged = self.sent

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


def target_of(kind: str, host: str, port: int, population: Population, partitions: int = 8) -> Target:
    """Returns the target of this kind of sender."""
    return Target(kind, host, port, population, SENDERS[kind], partitions)


def told_by(target: Target, kind: str) -> Target:
    """Returns the same target for another kind of sender."""
    return replace(target, kind=kind, sender=SENDERS[kind])
