"""Senders of marks to a running system: to Kafka, to the HTTP service, or on a device's session at a gateway."""

import json
import queue
import secrets
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from coldnotify_checker.histories import HistoryWriter, Publish, Published, Send, now_us
from coldnotify_schemas.channels import ID_HEADER, Retention, parse_retentions
from coldnotify_schemas.frames import FrameBuffer, encode, parse_gateway_frame
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.protocol import GATEWAY_FRAME_BYTES_MAX, PROTOCOL_VERSION, PUBLISHES_UNANSWERED_MAX
from coldnotify_schemas.wire_pb2 import ClientFrame
from confluent_kafka import KafkaError, Producer

from coldnotify_load.bench_topics import BenchTopics
from coldnotify_load.latencies import Latencies
from coldnotify_load.marks import Mark, boot_id, payload_of
from coldnotify_load.senders import Target
from coldnotify_load.tls_device import TlsFiles, context_of

_ANSWER_S = 60.0
_WAITING_MAX = 100_000
"""Publishes that wait for the HTTP service; then the next one waits, and is late."""
_POST_MAX = 1_000
_WORKERS = 4
"""Requests to the HTTP service at a time; a group's publishes go through one of them, in order."""


@dataclass(frozen=True, kw_only=True)
class MarkTarget(Target):
    """A running system, and one of several processes that publish to it."""

    payload_bytes: int
    number: int = 0
    """The process's, from 0."""
    publishers: int = 1
    """Topics are shared out among so many processes, in turn."""
    history: Path | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    """Further ones of librdkafka."""
    retentions: str = "*=1d"
    """The setting --channel-retentions."""
    url: str = ""
    """The HTTP service's."""
    tls: TlsFiles | None = None
    token: str = field(default="", repr=False)


class _Sent(NamedTuple):
    topic: int
    version: int
    id: str
    payload: bytes
    at_ns: int


class MarkSender:
    """The common part: numbers, marks, the history, and how long acknowledgements took."""

    def __init__(self, target: Target) -> None:
        assert isinstance(target, MarkTarget)
        assert isinstance(target.population, BenchTopics)
        self.target, self.topics = target, target.population
        self.acknowledged = self.failed = 0
        self.why = ""
        self._boot, self._run = boot_id(), secrets.token_hex(4)
        self._seqs: dict[int, int] = {}
        self._versions: dict[int, int] = {}
        self._took_ns: list[int] = []
        self._history = HistoryWriter(target.history) if target.history is not None else None

    def send(self, block: int, number: int, stamp_ns: int) -> None:
        """See LoadSender: `block` is the place of a topic among this process'."""
        topic = block * self.target.publishers + self.target.number
        seq = self._seqs[topic] = self._seqs.get(topic, 0) + 1
        version = self._versions[topic] = max(self._versions.get(topic, 0) + 1, time.time_ns() // 1_000_000)
        payload = payload_of(Mark(self._boot, self._run, topic, seq, version, stamp_ns), self.target.payload_bytes)
        sent = _Sent(topic, version, f"{self._run}-{topic}-{seq}", payload, stamp_ns)
        self._note(sent)
        self.hand_over(sent)

    def hand_over(self, sent: _Sent) -> None:
        """Sends it; `answered` is called once that is known."""
        raise NotImplementedError

    def answered(self, sent: _Sent, outcome: str) -> None:
        """Counts an answer: acknowledged, failed or unknown."""
        if outcome == "acknowledged":
            self.acknowledged += 1
            self._took_ns.append(time.monotonic_ns() - sent.at_ns)
        else:
            self.failed += 1
        if self._history is not None:
            self._history.write(
                Published(t=now_us(), publisher=self._run, id=sent.id, outcome=outcome)  # type: ignore[arg-type]
            )

    def name(self, topic: int) -> str:
        """Returns domain/group/name of a topic."""
        topics = self.topics
        return f"{topics.domain}/{topics.group(topic)}/{topics.object(topic)}"

    def take_latencies(self) -> bytes:
        """See TimedSender."""
        took = Latencies()
        took.add_ns(self._took_ns)
        self._took_ns.clear()
        return took.encoded()

    def poll(self) -> None:
        """See LoadSender."""

    def flush(self) -> None:
        """See LoadSender."""

    def close(self) -> None:
        """See LoadSender."""
        if self._history is not None:
            self._history.close()

    def _note(self, sent: _Sent) -> None:
        if self._history is None:
            return
        name, payload = self.name(sent.topic), sent.payload[1:-1].decode()
        publisher, at_us = self._run, now_us()
        if self.topics.channels:
            event: Any = Send(t=at_us, publisher=publisher, id=sent.id, channel=name, message=sent.id, payload=payload)
        else:
            event = Publish(
                t=at_us, publisher=publisher, id=sent.id, object=name, version=sent.version, payload=payload
            )
        self._history.write(event)


class KafkaMarks(MarkSender):
    """Writes records as a back-end does, acks=all."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        topics = self.target.topics
        self._log = topics.objects
        if self.topics.channels:
            places = dict(zip(Retention, topics.channels, strict=True))
            self._log = places[parse_retentions(self.target.retentions).of(self.topics.domain)]
        servers = {"bootstrap.servers": self.target.host, "log_level": 0}
        self._producer = Producer(
            servers | {"acks": "all", "enable.idempotence": True, "linger.ms": 0} | dict(self.target.options)
        )
        found = self._producer.list_topics(self._log, timeout=_ANSWER_S).topics[self._log]
        self._partitions = len(found.partitions)
        if found.error is not None or not self._partitions:
            raise OSError(f"topic {self._log}: does not exist; `coldnotify topics apply` creates it")
        self._places: dict[int, tuple[bytes, int]] = {}

    def hand_over(self, sent: _Sent) -> None:
        """See MarkSender."""
        place = self._places.get(sent.topic)
        if place is None:
            partition = partition_of(self.topics.domain, self.topics.group(sent.topic), self._partitions)
            place = self._places[sent.topic] = self.name(sent.topic).encode(), partition
        value = b'{"version":%d,"payload":%b}' % (sent.version, sent.payload)
        headers: list[tuple[str, str | bytes | None]] = []
        if self.topics.channels:
            value, headers = sent.payload, [(ID_HEADER, sent.id.encode())]

        def on_delivery(error: KafkaError | None, _message: Any) -> None:
            self.why = self.why if error is None else error.str()
            self.answered(sent, "acknowledged" if error is None else "unknown")

        until_s = time.monotonic() + _ANSWER_S
        while True:
            try:
                self._producer.produce(self._log, value, *place, on_delivery=on_delivery, headers=headers)
            except BufferError:
                # Kafka is slower than the rate: the publish is late, and says so.
                if time.monotonic() > until_s:
                    self.why = f"Kafka has taken nothing for {_ANSWER_S:g} s"
                    self.answered(sent, "failed")
                    return
                self._producer.poll(0.1)
            else:
                return

    def poll(self) -> None:
        """See LoadSender."""
        self._producer.poll(0)

    def flush(self) -> None:
        """See LoadSender."""
        self._producer.flush(_ANSWER_S)

    def close(self) -> None:
        """See LoadSender."""
        self._producer.flush(_ANSWER_S)
        super().close()


class _Session:
    """A session at a gateway, of one group."""

    def __init__(self, sender: "GatewayMarks", topic: int) -> None:
        """Raises OSError."""
        target, topics = sender.target, sender.topics
        self._sender = sender
        connection = socket.create_connection((target.host, target.port), _ANSWER_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if target.tls is not None:
            connection = context_of(target.tls).wrap_socket(connection, server_hostname=target.tls.server_name)
        self.socket = connection
        self._frames = FrameBuffer(GATEWAY_FRAME_BYTES_MAX)
        self._requests = 0
        self.waiting: deque[tuple[int, _Sent]] = deque()
        self._is_welcome = False
        frame = ClientFrame()
        frame.hello.protocol, frame.hello.domain = PROTOCOL_VERSION, topics.domain
        frame.hello.group, frame.hello.token = topics.group(topic), target.token
        frame.hello.client, frame.hello.keepalive_s = f"{topics.prefix}-pub-{target.number}", 3600
        connection.sendall(encode(frame))
        until_s = time.monotonic() + _ANSWER_S
        while not self._is_welcome:
            if time.monotonic() > until_s:
                raise OSError(f"no Welcome within {_ANSWER_S:g} s")
            self.receive(1.0)

    def publish(self, sent: _Sent) -> None:
        """Raises OSError."""
        until_s = time.monotonic() + _ANSWER_S
        while len(self.waiting) >= PUBLISHES_UNANSWERED_MAX:
            if time.monotonic() > until_s:
                raise OSError(f"no answer within {_ANSWER_S:g} s")
            self.receive(1.0)
        self._requests += 1
        frame, topics = ClientFrame(), self._sender.topics
        said = frame.publish
        said.request, said.payload = self._requests, sent.payload
        if topics.channels:
            said.channel, said.id = topics.object(sent.topic), sent.id
        else:
            said.object, said.version = topics.object(sent.topic), sent.version
        self.waiting.append((self._requests, sent))
        self.socket.sendall(encode(frame))

    def receive(self, wait_s: float) -> None:
        """Takes what is there, or comes within `wait_s`. Raises OSError."""
        pending = getattr(self.socket, "pending", lambda: 0)()
        if not pending and not select.select([self.socket], [], [], wait_s)[0]:
            return
        data = self.socket.recv(65_536)
        if not data:
            raise OSError("the gateway has closed the connection")
        for body in self._frames.feed(data):
            frame = parse_gateway_frame(body)
            kind = frame.WhichOneof("frame")
            if kind == "welcome":
                self._is_welcome = True
            elif kind == "published":
                self._sender.answered(self.waiting.popleft()[1], "acknowledged")
            elif kind == "not_published":
                self._sender.answered(self.waiting.popleft()[1], "failed")
                self._sender.why = frame.not_published.reason
                if frame.not_published.retry_after_ms:
                    # It refuses all that follows in this session.
                    raise OSError(frame.not_published.reason)
            elif kind == "close":
                raise OSError(f"the gateway closes: {frame.close.reason}")


class GatewayMarks(MarkSender):
    """Publishes as a device does, in a session of each group; at most 64 publishes of it are unanswered."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._sessions: dict[int, _Session] = {}
        # Not on the first publish's account; and whether it can be reached is known.
        self._sessions[self.target.number % self.topics.groups] = _Session(self, self.target.number)

    def hand_over(self, sent: _Sent) -> None:
        """See MarkSender."""
        group = sent.topic % self.topics.groups
        try:
            if group not in self._sessions:
                self._sessions[group] = _Session(self, sent.topic)
            self._sessions[group].publish(sent)
        except OSError as error:
            self.why = str(error)
            if not self._lose(group, sent):
                self.answered(sent, "failed")

    def poll(self) -> None:
        """See LoadSender."""
        for group in list(self._sessions):
            self._receive(group, 0)

    def flush(self) -> None:
        """See LoadSender."""
        until_s = time.monotonic() + _ANSWER_S
        for group in list(self._sessions):
            while (session := self._sessions.get(group)) is not None and session.waiting:
                if time.monotonic() > until_s:
                    self._lose(group, None)
                else:
                    self._receive(group, 1.0)

    def close(self) -> None:
        """See LoadSender."""
        for session in self._sessions.values():
            session.socket.close()
        super().close()

    def _receive(self, group: int, wait_s: float) -> None:
        try:
            self._sessions[group].receive(wait_s)
        except OSError as error:
            self.why = str(error)
            self._lose(group, None)

    def _lose(self, group: int, sent: _Sent | None) -> bool:
        """All that is unanswered may have been published, or not. Returns true if `sent` is among it."""
        session = self._sessions.pop(group, None)
        if session is None:
            return False
        session.socket.close()
        for _, one in session.waiting:
            self.answered(one, "unknown")
        return any(one is sent for _, one in session.waiting)


class HttpMarks(MarkSender):
    """Posts to the HTTP service: what has come meanwhile, of one group, in one request."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        from coldnotify._http_requests import HttpRequests

        tls = self.target.tls
        self._requests = HttpRequests(
            self.target.url, self.target.token or None, None if tls is None else context_of(tls)
        )
        self._requests.ask("GET", "/v1/openapi.json", None, query={}, timeout_s=_ANSWER_S)
        self._lock = threading.Lock()
        self._queues: list[queue.Queue[_Sent | None]] = [queue.Queue(_WAITING_MAX) for _ in range(_WORKERS)]
        self._threads = [threading.Thread(target=self._work, args=(one,), daemon=True) for one in self._queues]
        for thread in self._threads:
            thread.start()

    def hand_over(self, sent: _Sent) -> None:
        """See MarkSender."""
        self._queues[sent.topic % self.topics.groups % _WORKERS].put(sent)

    def answered(self, sent: _Sent, outcome: str) -> None:
        """See MarkSender. Threads call it."""
        with self._lock:
            super().answered(sent, outcome)

    def flush(self) -> None:
        """See LoadSender."""
        for one in self._queues:
            one.join()

    def close(self) -> None:
        """See LoadSender."""
        for one in self._queues:
            one.put(None)
        for thread in self._threads:
            thread.join(_ANSWER_S)
        super().close()

    def _work(self, waiting: "queue.Queue[_Sent | None]") -> None:
        kept: _Sent | None = None
        while True:
            first = kept if kept is not None else waiting.get()
            if first is None:
                return
            some, kept = [first], None
            names, group = {first.topic}, first.topic % self.topics.groups
            with suppress(queue.Empty):
                while len(some) < _POST_MAX:
                    one = waiting.get_nowait()
                    # A request has each object once.
                    if (
                        one is None
                        or one.topic % self.topics.groups != group
                        or (not self.topics.channels and one.topic in names)
                    ):
                        kept = one
                        if one is None:
                            waiting.put(None)
                            waiting.task_done()
                        break
                    some.append(one)
                    names.add(one.topic)
            outcome = self._post(some)
            for one in some:
                self.answered(one, outcome)
                waiting.task_done()

    def _post(self, some: list[_Sent]) -> str:
        from coldnotify._http_requests import HttpRefusal, HttpUnanswered

        topics = self.topics
        kind = "channels" if topics.channels else "objects"
        path = f"/v1/domains/{topics.domain}/groups/{topics.group(some[0].topic)}/{kind}"
        if topics.channels:
            messages = [
                b'{"channel":%b,"id":"%b","payload":%b}'
                % (_text(topics.object(one.topic)), one.id.encode(), one.payload)
                for one in some
            ]
            body = b'{"messages":[%b]}' % b",".join(messages)
        else:
            objects = [
                b'%b:{"version":%d,"payload":%b}' % (_text(topics.object(one.topic)), one.version, one.payload)
                for one in some
            ]
            body = b'{"objects":{%b}}' % b",".join(objects)
        try:
            self._requests.ask("POST", path, body, query={}, timeout_s=_ANSWER_S)
        except HttpRefusal as refusal:
            self.why = str(refusal)
            return "unknown" if refusal.status >= 500 else "failed"
        except HttpUnanswered as error:
            self.why = str(error)
            return "failed" if error.unsent else "unknown"
        return "acknowledged"


def _text(name: str) -> bytes:
    return json.dumps(name).encode()
