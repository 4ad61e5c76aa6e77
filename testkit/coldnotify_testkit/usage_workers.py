"""For tests of the usage job: its workers as processes, simulated nodes, and the sums that a plain consumer counts.

A simulated node writes cumulative counters as real ones do. One of the nodes restarts with each record. So each of its
records counts by itself, and one that is lost, or counted twice, shows in the sums.
"""

import random
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from coldnotify_common.kafka.record_consumer import Gap, RecordConsumer
from coldnotify_schemas.tenant_usage import (
    CUMULATIVE,
    HistoryKey,
    TenantCounters,
    UsageRecord,
    encode_usage,
    parse_counters,
    parse_history_key,
    parse_usage,
    usage_partition_of,
)
from coldnotify_schemas.topics import TopicNames
from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_NOT_AVAILABLE,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)

from coldnotify_testkit.child import ServiceProcess
from coldnotify_testkit.kafka import free_port

TOPICS = TopicNames()

PARTITIONS = 8
_READ_S = 60.0
_POLL_S = 0.5
_READ_RECORDS = 1_000

Sums = dict[HistoryKey, dict[str, int]]
"""The cumulative fields that are not 0, by tenant and hour or day."""


class UsageProcess(ServiceProcess):
    """A worker of the usage job."""

    def __init__(self, kafka: str, log: Path, **settings: object) -> None:
        """`settings`: by name, beyond address and port."""
        self._port = free_port()
        super().__init__("usage", log, {"kafka": kafka, "usage_port": self._port, **settings})

    @property
    def http_port(self) -> int:
        """The port of its HTTP endpoints."""
        return self._port

    @property
    def partitions(self) -> int:
        """Returns the number of its partitions; 0 if it does not answer."""
        return int(self.metric("coldnotify_usage_partitions"))

    @property
    def takeovers(self) -> int:
        """Returns how often it was assigned partitions."""
        return int(self.metric('coldnotify_usage_events_total{event="takeover"}'))


class Feeder:
    """Plays nodes: so many records a second, until it is stopped."""

    def __init__(self, kafka: str, per_s: float, *, tenants: int = 40, nodes: int = 6, seed: int = 1) -> None:
        """`per_s`: records per second, or as many as there is time for. Nothing is written yet."""
        self._producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True, "linger.ms": 5})
        self._per_s = per_s
        self._tenants = [f"tenant-{number}" for number in range(tenants)]
        self._nodes = nodes
        self._draw = random.Random(seed)
        self._counts: dict[tuple[str, str, str], list[int]] = defaultdict(lambda: [0] * len(CUMULATIVE))
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)
        self.written = 0
        """Records."""

    def write(self) -> None:
        """One record."""
        node = self._draw.randrange(self._nodes)
        boot = "0" if node else f"{self.written:x}"
        partition = self._draw.randrange(PARTITIONS)
        near = [name for name in self._tenants if usage_partition_of(name, PARTITIONS) == partition] or ["default"]
        if near == ["default"]:
            partition = usage_partition_of("default", PARTITIONS)
        chosen = self._draw.sample(near, min(len(near), self._draw.randint(1, 3)))
        tenants = {}
        for name in chosen:
            counts = self._counts[name, str(node), boot]
            for number in range(len(counts)):
                counts[number] += self._draw.randint(0, 9)
            tenants[name] = TenantCounters(**dict(zip(CUMULATIVE, counts, strict=True)))
        record = UsageRecord(node=f"node-{node}", boot=boot, at_ms=time.time_ns() // 1_000_000, tenants=tenants)
        self.send(partition, encode_usage(record))
        self.written += 1

    def send(self, partition: int, value: bytes | None) -> None:
        """A record as it is."""
        while True:
            try:
                self._producer.produce(TOPICS.usage, value, partition=partition)
            except BufferError:
                self._producer.poll(0.1)
            else:
                break
        self._producer.poll(0)

    def flush(self) -> None:
        """Waits until everything that was written is in the topic. Raises AssertionError if Kafka
        does not confirm it.
        """
        assert self._producer.flush(_READ_S) == 0

    @contextmanager
    def feeding(self) -> Iterator[None]:
        """Writes while the block runs."""
        self._thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            self._thread.join()
            self.flush()

    def _run(self) -> None:
        begun_s = time.monotonic()
        while not self._stopping.is_set():
            due = int((time.monotonic() - begun_s) * self._per_s) - self.written
            for _ in range(min(due, 200)):
                self.write()
            self._stopping.wait(0.01)


def counted_plainly(kafka: str) -> Sums:
    """Returns what a plain consumer counts over the whole usage topic: the highest counts of each tenant, node and
    start, by hour.

    It is slow on purpose: it keeps all highest counts, and sums them up at the end. It leaves out invalid records.
    """
    highest: dict[tuple[str, str, str], dict[int, dict[str, int]]] = defaultdict(dict)
    for message in read_all(kafka, TOPICS.usage, PARTITIONS):
        try:
            record = parse_usage(message.value() or b"")
        except ValueError:
            continue
        kind, broker_ms = message.timestamp()
        assert kind != TIMESTAMP_NOT_AVAILABLE
        hour = min(max(record.at_ms, broker_ms - 60_000), broker_ms) // 3_600_000
        for tenant, counters in record.tenants.items():
            if usage_partition_of(tenant, PARTITIONS) != message.partition():
                continue
            known = highest[tenant, record.node, record.boot].setdefault(hour, dict.fromkeys(CUMULATIVE, 0))
            for name in CUMULATIVE:
                known[name] = max(known[name], getattr(counters, name))
    sums: Sums = defaultdict(lambda: defaultdict(int))
    for (tenant, _, _), hours in highest.items():
        before = dict.fromkeys(CUMULATIVE, 0)
        for hour, counts in sorted(hours.items()):
            at = datetime.fromtimestamp(hour * 3600, UTC)
            for name in CUMULATIVE:
                if (more := max(counts[name] - before[name], 0)) > 0:
                    sums[HistoryKey(tenant, "hour", at.strftime("%Y-%m-%dT%H"))][name] += more
                    sums[HistoryKey(tenant, "day", at.strftime("%Y-%m-%d"))][name] += more
                before[name] = max(before[name], counts[name])
    return {key: dict(counts) for key, counts in sums.items()}


def told(kafka: str) -> Sums:
    """Returns the usage history: the last record of each key."""
    found: Sums = {}
    for message in read_all(kafka, TOPICS.usage_history, 1):
        counters = parse_counters(message.value() or b"")
        found[parse_history_key(message.key())] = {
            name: count for name in CUMULATIVE if (count := getattr(counters, name)) > 0
        }
    return {key: counts for key, counts in found.items() if counts}


def differences(one: Sums, other: Sums) -> list[str]:
    """Returns the differences as words; empty if both are the same."""
    return [
        f"{key}: {one.get(key)} is not {other.get(key)}"
        for key in sorted(one.keys() | other.keys())
        if one.get(key) != other.get(key)
    ]


def read_all(kafka: str, topic: str, partitions: int) -> Iterator[Message]:
    """The records of a topic that can be read, up to where it ends now, partition by partition in order."""
    config: dict[str, Any] = {
        "bootstrap.servers": kafka,
        "group.id": "coldnotify-test-reader",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "check.crcs": True,
    }
    consumer = RecordConsumer(config)
    try:
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
        left = set(range(partitions))
        until_s = time.monotonic() + _READ_S
        while left:
            assert time.monotonic() < until_s, f"{topic} is not read to its end within {_READ_S:.0f} s"
            for message in consumer.read(_POLL_S, _READ_RECORDS):
                until_s = time.monotonic() + _READ_S
                if isinstance(message, Gap):
                    continue
                error = message.error()
                if error is None:
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition() or 0)
                else:
                    raise AssertionError(error.str())
    finally:
        consumer.close()
