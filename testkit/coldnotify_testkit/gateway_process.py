"""For tests: a gateway in a process of its own, a matcher double on a real Kafka, raw sockets as devices."""

import json
import os
import signal
import subprocess
import sys
import threading
from types import TracebackType
from typing import IO, Any, Self

from coldnotify_schemas.internal_pb2 import Inbox, Request
from coldnotify_schemas.topics import NOTIFICATIONS, REQUESTS
from confluent_kafka import Consumer, Producer, TopicPartition

from coldnotify_testkit.fetching import fetch
from coldnotify_testkit.matcher_double import MatcherDouble
from coldnotify_testkit.waiting import WAIT_S, wait_for


class GatewayProcess:
    """`coldnotify_gateway.app.run` in a process of its own, on free ports; `settings` are those of the environment."""

    def __init__(self, bootstrap: str, **settings: object) -> None:
        self._settings = {
            "kafka": bootstrap,
            "gateway_port": 0,
            "gateway_web_port": 0,
            "gateway_http_port": 0,
            **settings,
        }
        self._process: subprocess.Popen[str] | None = None
        self._logs = threading.Thread(target=self._read_logs, daemon=True)
        self.events: list[dict[str, Any]] = []
        """The log's lines."""

    def __enter__(self) -> Self:
        code = (
            "import os, sys; from coldnotify_common.settings import load; from coldnotify_gateway.app import run; "
            "from coldnotify_gateway.settings import GatewaySettings; sys.exit(run(load(GatewaySettings, os.environ)))"
        )
        environment = {f"COLDNOTIFY_{name.upper()}": str(value) for name, value in self._settings.items()}
        environment = {**os.environ, "COLDNOTIFY_LOG_FORMAT": "json", "COLDNOTIFY_LOG_LEVEL": "info", **environment}
        self._process = subprocess.Popen(
            [sys.executable, "-c", code], stderr=subprocess.PIPE, env=environment, text=True
        )
        self._logs.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(WAIT_S)
        self._logs.join(WAIT_S)
        if self.process.stderr is not None:
            self.process.stderr.close()
        if error is not None:
            sys.stderr.write("".join(f"{event}\n" for event in self.events))

    @property
    def process(self) -> "subprocess.Popen[str]":
        """The process; after __enter__."""
        assert self._process is not None
        return self._process

    @property
    def port(self) -> int:
        """The devices' port."""
        return int(self.event("gateway started")["port"])

    @property
    def web_port(self) -> int:
        """The devices' port for WebSocket and HTTP."""
        return int(self.event("gateway started")["web_port"])

    def event(self, name: str, count: int = 1) -> dict[str, Any]:
        """The `count`th log line of this event, once it is there."""
        wait_for(lambda: len(self._of(name)) >= count or self.process.poll() is not None, f"log line {name!r}")
        assert len(self._of(name)) >= count, f"ended without {name!r}"
        return self._of(name)[count - 1]

    def wait_ready(self) -> Self:
        """Returns when /readyz says so."""
        wait_for(lambda: self.get("/readyz")[0] == 200, "ready")
        return self

    def get(self, path: str) -> tuple[int, str]:
        """GET on the HTTP port: (status, body)."""
        port = self.event("gateway started")["http_port"]
        answer = fetch(f"http://127.0.0.1:{port}{path}", WAIT_S)
        return answer.status, answer.text

    def json(self, path: str) -> Any:
        """What GET says, with status 200."""
        status, body = self.get(path)
        assert status == 200, body
        return json.loads(body)

    def metric(self, name: str) -> float:
        """The sum of a metric's samples: of all its labels, or of those in `name`."""
        lines = [line for line in self.get("/metrics")[1].splitlines() if not line.startswith("#")]
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith((f"{name} ", f"{name}{{")))

    def stop(self) -> int:
        """SIGTERM, and its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(WAIT_S)

    def _of(self, name: str) -> list[dict[str, Any]]:
        return [event for event in list(self.events) if event["event"] == name]

    def _read_logs(self) -> None:
        stream: IO[str] | None = self.process.stderr
        assert stream is not None
        for line in stream:
            try:
                self.events.append(json.loads(line))
            except ValueError:
                self.events.append({"event": line.rstrip()})


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
        self._consumer.assign([TopicPartition(REQUESTS, partition, 0) for partition in range(partitions)])
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
        """Writes what a double has to say. The lock must be held."""
        for inbox, record in self.matchers[partition].take_records():
            self.produce(inbox, record.SerializeToString())

    def produce(self, inbox: int, value: bytes | Inbox) -> None:
        """Writes anything to an inbox."""
        data = value if isinstance(value, bytes) else value.SerializeToString()
        while True:
            try:
                self._producer.produce(NOTIFICATIONS, data, partition=inbox)
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
