"""A gateway in a process of its own, and a double of the matcher on a real Kafka for it."""

import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from coldnotify_gateway.listeners.registry import LISTENERS
from coldnotify_schemas.internal_pb2 import Inbox, Request
from coldnotify_schemas.topics import TopicNames
from confluent_kafka import Consumer, Producer, TopicPartition

from coldnotify_testkit.child import ServiceProcess
from coldnotify_testkit.matcher_double import MatcherDouble
from coldnotify_testkit.waiting import WAIT_S

TOPICS = TopicNames()


class GatewayProcess(ServiceProcess):
    """A gateway, on free ports."""

    def __init__(self, bootstrap: str, **settings: object) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="coldnotify-gateway-")
        free = {"gateway_http_port": 0, **{row.port_setting: 0 for row in LISTENERS}}
        super().__init__(
            "gateway", Path(self._directory.name) / "gateway.log", {"kafka": bootstrap, **free, **settings}
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self._directory.cleanup()

    @property
    def port(self) -> int:
        """The devices' port."""
        return int(self.event("gateway started")["port"])

    @property
    def web_port(self) -> int:
        """The devices' port for WebSocket and HTTP."""
        return int(self.event("gateway started")["web_port"])

    @property
    def http_port(self) -> int:
        """The port of its HTTP endpoints."""
        return int(self.event("gateway started")["http_port"])


class MatcherOnKafka:
    """A MatcherDouble for each partition, on real topics. `with matcher.lock:` before touching one by hand."""

    def __init__(self, bootstrap: str, partitions: int, page_objects: int = 2) -> None:
        self.lock = threading.Lock()
        self.requests: list[Request] = []
        """All that gateways asked."""
        self.answering = True
        self.matchers = [MatcherDouble(partition, page_objects) for partition in range(partitions)]
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "matcher-double", "enable.auto.commit": False, "log_level": 0}
        )
        self._consumer.assign([TopicPartition(TOPICS.requests, partition, 0) for partition in range(partitions)])
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "linger.ms": 0, "enable.idempotence": True, "log_level": 0}
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(WAIT_S)
        self._consumer.close()
        self._producer.flush(WAIT_S)

    def of_kind(self, kind: str) -> list[Request]:
        """The requests of one kind so far."""
        with self.lock:
            return [request for request in self.requests if request.WhichOneof("body") == kind]

    def publish(self, partition: int, name: str, version: int, payload: bytes = b"") -> int:
        """A new version; its offset."""
        with self.lock:
            offset = self.matchers[partition].publish(name, version, payload)
            self.write(partition)
        return offset

    def write(self, partition: int) -> None:
        """Writes the records of a double. The caller holds the lock."""
        for inbox, record in self.matchers[partition].take_records():
            self.produce(inbox, record.SerializeToString())

    def produce(self, inbox: int, value: bytes | Inbox) -> None:
        """Writes anything to an inbox."""
        data = value if isinstance(value, bytes) else value.SerializeToString()
        while True:
            try:
                self._producer.produce(TOPICS.notifications, data, partition=inbox)
            except BufferError:
                self._producer.poll(0.1)
            else:
                break
        self._producer.poll(0)

    def _run(self) -> None:
        while not self._stop.is_set():
            first = self._consumer.poll(0.05)
            if first is None:
                continue
            for message in [first, *self._consumer.consume(1000, 0)]:
                if message.error() is not None:
                    continue
                request = Request.FromString(message.value() or b"")
                partition = message.partition()
                assert partition is not None
                with self.lock:
                    self.requests.append(request)
                    if self.answering:
                        self.matchers[partition].on_request(request)
                        self.write(partition)
