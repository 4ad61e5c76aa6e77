"""Writes this process's record in the nodes topic, in a thread of its own. Nothing waits for it.

    with NodeWriter(settings, "gateway", node_id, look):
        ...    # at its end a null is written: the node has ended in order

A missing topic (in a Kafka of release 0.1.0) is said, and tried again and again; the service runs without it.
"""

import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import structlog
from coldnotify_schemas.host_port import host_port, parse_host_port
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from coldnotify_common.errors import ServiceError
from coldnotify_common.kafka.kafka_clients import TopicLooks, renewed_producer
from coldnotify_common.kafka.kafka_options import read_options
from coldnotify_common.nodes import (
    ANONYMOUS,
    HTTPS,
    RENEW_S,
    InvalidNode,
    Node,
    NodeKey,
    check_addresses,
    check_labels,
    encode_key,
    encode_node,
)
from coldnotify_common.own_thread import OwnThread
from coldnotify_common.paced import Paced
from coldnotify_common.settings import ServiceSettings, invalid

_paced = Paced(structlog.get_logger(), every_s=60.0)

_LOOK_S = 0.5
"""Interval of looks at the process: a change of readiness, or of addresses, is written at once."""
_QUEUED_MAX = 10
_RETRY_S = 2.0
_ASK_S = 1.0
_LAST_S = 2.0
_JOIN_S = 4.0
_EVERYWHERE = ("", "0.0.0.0", "::")
"""Hosts of a port that listens on all addresses of its machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePort:
    """A port of this process."""

    host: str
    """The address that it listens on."""
    port: int
    tls: bool = False
    """True if it is asked by https."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """The state of a process now."""

    ready: bool
    ports: Mapping[str, NodePort] = field(default_factory=dict)
    """By the name of the address; ports that are not open yet are absent."""
    connections: int = 0
    limit: int = 0
    home: int = 0
    payload_bytes_max: int = 0
    kafka_heard_s: float | None = None
    """None: since Kafka last acknowledged a record of this writer."""


class Advertised:
    """The settings that tell others how this node is reached."""

    def __init__(self, settings: ServiceSettings) -> None:
        """Raises SettingError."""
        self.labels: dict[str, str] = dict(_pairs("node_labels", settings.node_labels))
        self._said: dict[str, str] = {}
        self._host = ""
        for word in _words(settings.node_addresses):
            name, equals, address = word.partition("=")
            if equals:
                self._said[name] = address
            elif self._host:
                raise invalid("node_addresses", f"names two hosts: {self._host[:80]}, {word[:80]}")
            else:
                self._host = word
        try:
            check_addresses("addresses", {**self._said, **({"host": host_port(self._host, 1)} if self._host else {})})
        except InvalidNode as error:
            raise invalid("node_addresses", str(error)) from None
        try:
            check_labels("labels", self.labels)
        except InvalidNode as error:
            raise invalid("node_labels", str(error)) from None
        self._kafka = settings.kafka

    def addresses(self, ports: Mapping[str, NodePort]) -> dict[str, str]:
        """Returns the addresses by their names. May look up Kafka's host name."""
        found = {}
        for name, port in ports.items():
            host = self._host or (self._facing_kafka() if port.host in _EVERYWHERE else port.host)
            found[name] = self._said.get(name) or (HTTPS if port.tls else "") + host_port(host, port.port)
        return found

    def _facing_kafka(self) -> str:
        """Returns the address of this machine from which Kafka is reached; nothing is sent."""
        try:
            host, port = parse_host_port(self._kafka.split(",")[0].strip(), 9092)
            (family, kind, *_, address), *_ = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
            with socket.socket(family, kind) as probe:
                probe.connect(address)
                return str(probe.getsockname()[0])
        except (OSError, ValueError, UnicodeError):
            return socket.gethostname()


def principal_of(settings: ServiceSettings) -> str:
    """Returns Kafka's name of this process, as far as its options tell: SASL's user, or the certificate's subject."""
    options = read_options(settings.kafka_config)
    if user := options.get("sasl.username") or options.get("sasl.kerberos.principal"):
        return user[:255]
    if path := options.get("ssl.certificate.location"):
        from cryptography import x509  # takes longer to import than all that others need

        try:
            return x509.load_pem_x509_certificate(Path(path).read_bytes()).subject.rfc4514_string()[:255] or ANONYMOUS
        except (OSError, ValueError):
            return ANONYMOUS
    return ANONYMOUS


class NodeWriter(OwnThread):
    """Writes a record every RENEW_S, and at once when `look` returns another readiness or other ports."""

    def __init__(self, settings: ServiceSettings, role: str, node_id: str, look: Callable[[], NodeState]) -> None:
        """`look` is called from the writer's thread. Raises SettingError."""
        super().__init__("nodes-writer", _JOIN_S)
        self._settings = settings
        self._topic = settings.topics.nodes
        self._advertised = Advertised(settings)
        self._version = version("coldnotify-server")
        self._look = look
        self.key = NodeKey(role, principal_of(settings), node_id)
        self._cpu = time.monotonic(), time.process_time()
        self._load = 0.0
        self._exists = False
        self._looks: TopicLooks | None = None
        self.heard_s = time.monotonic()
        """Time at which Kafka last acknowledged a record, on the monotonic clock."""
        self.written = 0
        """Number of records that Kafka has acknowledged."""

    def _run(self) -> None:
        producer = renewed_producer(self._settings, "nodes-writer", _QUEUED_MAX, self._on_delivery)
        said: NodeState | None = None
        next_s = time.monotonic()
        while not self._stop.is_set():
            producer.poll(0)
            if not self._exists and not self._find():
                self._stop.wait(_RETRY_S)
                continue
            state = self._look()
            now_s = time.monotonic()
            if said is None or now_s >= next_s or (state.ready, state.ports) != (said.ready, said.ports):
                said, next_s = state, now_s + RENEW_S
                self._write(producer, state)
            self._stop.wait(_LOOK_S)
        if said is not None and self._exists:
            self._produce(producer, None)
            producer.flush(_LAST_S)

    def _find(self) -> bool:
        """Returns true once the topic exists: Kafka might create it with other settings if it was written to before."""
        if self._looks is None:
            self._looks = TopicLooks(self._settings)
        try:
            self._looks.describe(self._topic, _ASK_S)
        except ServiceError as error:
            _paced.log("this node is not known to others", level="warning", reason=str(error))
            return False
        self._exists, self._looks = True, None
        return True

    def _write(self, producer: Producer, state: NodeState) -> None:
        now_s, cpu_s = time.monotonic(), time.process_time()
        before_s, before_cpu_s = self._cpu
        if now_s - before_s >= RENEW_S / 2:
            self._cpu = now_s, cpu_s
            self._load = min(1.0, max(0.0, (cpu_s - before_cpu_s) / (now_s - before_s)))
        heard_s = max(0.0, now_s - self.heard_s) if state.kafka_heard_s is None else state.kafka_heard_s
        node = Node(
            role=self.key.role,
            id=self.key.id,
            addresses=self._advertised.addresses(state.ports),
            ready=state.ready,
            connections=state.connections,
            limit=state.limit,
            home=state.home,
            payload_bytes_max=state.payload_bytes_max,
            weight=self._settings.node_weight,
            labels=self._advertised.labels,
            load=round(self._load, 3),
            version=self._version,
            kafka_heard_s=round(heard_s, 1),
        )
        try:
            value = encode_node(node)
        except InvalidNode as error:
            _paced.log("this node's record is not written", level="error", reason=str(error))
            return
        self._produce(producer, value)

    def _produce(self, producer: Producer, value: bytes | None) -> None:
        try:
            producer.produce(self._topic, value, encode_key(self.key), partition=0)
        except (BufferError, KafkaException) as error:
            self._say_dropped(str(error))

    def _on_delivery(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self.written += 1
            self.heard_s = time.monotonic()
        else:
            # A topic that is deleted is seen so only, or not at all: a timed-out record says nothing of it.
            self._exists = False
            self._say_dropped(error.str())

    @staticmethod
    def _say_dropped(reason: str) -> None:
        _paced.log("this node's record was not written; it is tried again", level="warning", reason=reason)


def _words(text: str) -> list[str]:
    return [one.strip() for one in text.split(",") if one.strip()]


def _pairs(name: str, text: str) -> list[tuple[str, str]]:
    found = []
    for word in _words(text):
        key, equals, value = word.partition("=")
        if not equals:
            raise invalid(name, f"{word[:80]!r} is not name=value")
        found.append((key.strip(), value.strip()))
    return found
