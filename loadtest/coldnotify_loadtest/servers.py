"""The servers under load, started here: ColdNotify's processes and its peers, and what their answers are worth."""

import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

from coldnotify_kafka import topic_plan, topics
from coldnotify_kafka.broker import EmbeddedBroker, EmbeddedCluster, free_port
from coldnotify_kafka.broker.process import end, spawn
from coldnotify_load.population import Population
from coldnotify_load.senders import Target
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.byte_code import keeping_byte_code
from coldnotify_testkit.users_kafka import ConfigWithUsers
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from prometheus_client.parser import text_string_to_metric_families

from coldnotify_loadtest.devices import nats
from coldnotify_loadtest.senders import target_of

TOPICS = TopicNames()

HOST = "127.0.0.1"
READY_S = 120.0
_STOP_S = 20.0
_LOOK_S = 0.01
_METRICS_S = 10.0
_WARM_UP_EVERY_S = 0.0015

NONE = "none"
PROCESS = "survives a process crash"
FSYNC = "fsynced"
"""An acknowledged publish survives a power cut."""

_TOOK = re.compile(r'"seconds": ?([\d.]+)')

PEERS = Path(__file__).parents[1] / "peers"
_AT_LEAST = {"nats-server": (2, 10)}
"""Minimum versions of programs on PATH. Debian 12 has nats-server 2.9: it knows neither `sync_interval` nor a
consumer's filters.
"""
INSTALLED = PEERS / ".installed"
"""The directory of what peers/install builds."""


class ServerError(Exception):
    """A server is missing, or does not become ready."""


class ServerProcess:
    """One process that can be killed and started again."""

    def __init__(self, argv: list[str], log: Path, ready: Callable[[], bool]) -> None:
        self._argv, self.log, self._ready = argv, log, ready
        self._process: subprocess.Popen[bytes] | None = None
        self.started_s = 0.0
        """When it was last started, by the monotonic clock."""

    def start(self) -> None:
        """Start it; does not wait."""
        self.started_s = time.monotonic()
        self._process = spawn(self._argv, self.log, environ=keeping_byte_code(os.environ))

    def wait_ready(self, timeout_s: float = READY_S) -> float:
        """Seconds from the start until it was ready. Raises ServerError."""
        while not self._ready():
            if self._process is None or self._process.poll() is not None:
                raise ServerError(f"{self._argv[0]} has ended:\n{tail(self.log)}")
            if time.monotonic() - self.started_s > timeout_s:
                raise ServerError(f"{self._argv[0]} is not ready after {timeout_s:g} s:\n{tail(self.log)}")
            time.sleep(_LOOK_S)
        return time.monotonic() - self.started_s

    @property
    def pid(self) -> int:
        """The id of the process that runs, or ran last."""
        assert self._process is not None
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Returns true if it was started, and has not ended."""
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL, and wait for its end."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(_STOP_S)

    def pause(self) -> None:
        """SIGSTOP: its connections stay, and nothing answers."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        if self.runs:
            os.kill(self.pid, signal.SIGCONT)

    def stop(self) -> None:
        """SIGTERM; SIGKILL where that does not suffice."""
        if self._process is not None:
            end(self._process, _STOP_S)


def tail(path: Path, bytes_max: int = 2000) -> str:
    """The end of a log."""
    return path.read_bytes()[-bytes_max:].decode(errors="replace") if path.exists() else ""


def listens(port: int) -> Callable[[], bool]:
    """Returns a condition that is true if something accepts connections there."""

    def ready() -> bool:
        try:
            socket.create_connection((HOST, port), 1).close()
        except OSError:
            return False
        return True

    return ready


def says_ready(port: int, host: str = HOST) -> Callable[[], bool]:
    """Returns a condition that is true if /readyz succeeds."""

    def ready() -> bool:
        try:
            with urllib.request.urlopen(f"http://{host}:{port}/readyz", timeout=2):
                return True
        except (OSError, ValueError):
            return False

    return ready


class Server:
    """The interface of a server that every experiment uses."""

    name = ""
    kind = ""
    """The kind of its devices and its publisher."""
    sender = ""
    """The kind of its publisher; empty: that of its devices."""
    durability = NONE
    needs: tuple[str, ...] = ()
    """Programs; without them the row is left out."""
    tells_all = False
    """True if it has no subscriptions: everything goes to every connection."""

    def __init__(self, directory: Path) -> None:
        """Nothing is started yet. Files go into `directory`."""
        self.directory = directory
        self.children: dict[str, ServerProcess] = {}
        self.port = 0

    @classmethod
    def missing(cls) -> list[str]:
        """The programs that are not there."""
        return [program for program in cls.needs if not find(program)]

    def start(self) -> None:
        """Start, and wait until it is ready. Raises ServerError."""
        for child in self.children.values():
            child.start()
        for child in self.children.values():
            child.wait_ready()

    def stop(self) -> None:
        """All processes."""
        for child in reversed(self.children.values()):
            child.stop()

    def warm_up(self, seconds: float) -> None:
        """Load beforehand, for servers that get faster by it; the others are what they are from the first moment."""

    def addresses(self) -> list[tuple[str, int]]:
        """The addresses for devices."""
        return [(HOST, self.port)]

    def target(self, population: Population) -> Target:
        """The address for publishers."""
        return target_of(self.sender or self.kind, HOST, self.port, population)

    def roles(self) -> dict[str, list[int]]:
        """Process ids by what they are for."""
        return {"server": [child.pid for child in self.children.values()]}

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.stop()


class ColdNotify(Server):
    """Broker, topics, matchers, gateways; each to be killed by its name."""

    name = "ColdNotify"
    kind = "coldnotify"
    durability = PROCESS

    def __init__(
        self,
        directory: Path,
        *,
        gateways: int = 1,
        matchers: int = 1,
        nodes: int = 1,
        settings: Mapping[str, object] | None = None,
        as_up: bool = False,
        http_nodes: int = 0,
        usage: bool = False,
        users: Mapping[str, str] | None = None,
        hosts: Sequence[str] = (),
        web: bool = False,
        partitions: int = topics.EMBEDDED_PARTITIONS,
    ) -> None:
        """`hosts`: each gateway is at the next of these addresses. `web`: devices connect to them over WebSocket.
        `nodes`: of Kafka, 1 or 3. `http_nodes`: of the HTTP service. `usage`: with the usage job.

        `users`: who may log in to a Kafka of one node at `users_port`, with their passwords.
        `settings`: more of the services' settings, such as {"matcher-conflation": "*=200"}.
        `partitions`: of co-partitioned topics. `as_up`: with the HTTP service, as `coldnotify up` has it.
        """
        super().__init__(directory)
        settings = settings or {}
        self._own: list[tuple[str, int]] = []
        self._partitions = partitions
        self._http_ports: dict[str, int] = {}
        self.port = free_port(HOST)
        self.users_port = free_port(HOST) if users else 0
        self.broker: EmbeddedBroker | EmbeddedCluster
        if users:
            config = ConfigWithUsers(
                directory / "kafka",
                free_port(HOST),
                free_port(HOST),
                host=HOST,
                users_port=self.users_port,
                users=users,
            )
            self.broker = EmbeddedBroker.of(config)
        else:
            self.broker = (EmbeddedBroker if nodes == 1 else EmbeddedCluster)(directory / "kafka", host=HOST)
        self._nodes = [self.broker] if isinstance(self.broker, EmbeddedBroker) else list(self.broker.nodes.values())
        self.kafka = self.broker.bootstrap
        for number in range(1, matchers + 1):
            port = free_port(HOST)
            self._add("matcher", number, port, {"matcher-port": port, "matcher-id": f"matcher-{number}"}, settings)
        for number in range(1, gateways + 1):
            port = free_port(HOST)
            own: dict[str, object] = {"gateway-port": self.port, "gateway-http-port": port}
            if hosts:
                host = hosts[number - 1]
                device, browser = free_port(host), free_port(host)
                own |= {"gateway-host": host, "gateway-port": device, "gateway-web-port": browser}
                self._own.append((host, browser if web else device))
            self._add("gateway", number, port, own, settings)
        for number in range(1, (http_nodes or int(as_up)) + 1):
            port = free_port(HOST)
            self._add("http", number, port, {"http-port": port}, settings)
        if usage:
            port = free_port(HOST)
            self._add("usage", 1, port, {"usage-port": port}, settings)

    def start(self) -> None:
        """See Server."""
        self.broker.start()
        self.broker.wait_ready(READY_S)
        self.apply_topics()
        super().start()

    def stop(self) -> None:
        """See Server."""
        super().stop()
        self.broker.stop()

    def apply_topics(self) -> None:
        """Make those that are missing."""
        topic_plan.apply(self._admin(), topics.load(self._partitions, len(self._nodes)), READY_S)

    def warm_up(self, seconds: float) -> None:
        """Publishes what nobody registered for: Java compiles what runs often, so a broker is fastest after a while."""
        producer = Producer({"bootstrap.servers": self.kafka, "log_level": 0, "linger.ms": 0, "acks": "all"})
        partitions = self._partitions
        places = [
            (f"warm.up/{group}/object".encode(), partition_of("warm.up", str(group), partitions)) for group in range(16)
        ]
        until_s = time.monotonic() + seconds
        for version in itertools.count(1):
            if time.monotonic() > until_s:
                break
            producer.produce(TOPICS.objects, b'{"version":%d}' % version, *places[version % len(places)])
            producer.poll(_WARM_UP_EVERY_S)
        if producer.flush(READY_S):
            raise ServerError("Kafka does not take what is to warm it up")

    def secure(self, certificate: Path, key: Path, authority: Path) -> None:
        """Restarts gateways, on the same ports, with mutual TLS: any client of the authority is accepted."""
        tls = {"tls-certificate": certificate, "tls-key": key, "tls-client-ca": authority}
        for name in [name for name in self.children if name.startswith("gateway-")]:
            self.children[name].stop()
            port = self._http_ports[name]
            own = {"gateway-port": self.port, "gateway-http-port": port, **tls}
            self._add("gateway", int(name.partition("-")[2]), port, own, {})
            self.children[name].start()
            self.children[name].wait_ready()

    def addresses(self) -> list[tuple[str, int]]:
        """See Server. Of gateways at addresses of their own: all, in order."""
        return self._own or super().addresses()

    def configure_topic(self, topic: str, values: Mapping[str, str]) -> None:
        """Settings of a topic; the others stay as they are."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        for name, value in values.items():
            resource.add_incremental_config(ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET))
        admin = self._admin()
        admin.incremental_alter_configs([resource])[resource].result(READY_S)

    def delete_topic(self, name: str) -> None:
        """Deletes a topic with all its contents; `apply_topics` recreates it."""
        admin = self._admin()
        admin.delete_topics([name], operation_timeout=READY_S)[name].result(READY_S)
        until_s = time.monotonic() + READY_S
        while name in admin.list_topics(timeout=READY_S).topics:
            if time.monotonic() > until_s:
                raise ServerError(f"{name} is still there")
            time.sleep(_LOOK_S)

    def target(self, population: Population) -> Target:
        """Kafka itself."""
        return target_of(self.sender or self.kind, HOST, self._nodes[0].port, population, self._partitions)

    def http_port(self, name: str) -> int:
        """Returns the HTTP port of a process by its name, such as matcher-1."""
        return self._http_ports[name]

    def ended(self) -> list[str]:
        """The processes that run no more."""
        return [name for name, child in self.children.items() if not child.runs]

    def web_port(self) -> int:
        """Returns the HTTP service's port. Raises KeyError if there is none (as_up)."""
        return self._http_ports["http-1"]

    def takeovers_s(self) -> "Counter[float]":
        """Returns how long each took, from a partition's assignment until it was served, from the matchers' logs."""
        logs = [child.log.read_text(errors="replace") for name, child in self.children.items() if "matcher" in name]
        lines = (line for log in logs for line in log.splitlines() if '"partition taken over"' in line)
        return Counter(float(found[1]) for line in lines if (found := _TOOK.search(line)))

    def owner(self, partition: int) -> str:
        """Returns the matcher that last took a partition over, by the logs. Raises ServerError."""
        logs = {name: child.log for name, child in self.children.items() if name.startswith("matcher")}
        said = [
            (json.loads(line), name)
            for name, log in logs.items()
            for line in log.read_text(errors="replace").splitlines()
            if '"partition taken over"' in line
        ]
        found = [(line["timestamp"], name) for line, name in said if line["partition"] == partition]
        if not found:
            raise ServerError(f"nobody has taken over partition {partition}")
        return max(found)[1]

    def metric(self, child: str, name: str, **labels: str) -> float:
        """Returns a child's largest sample of a metric with these labels; 0 if there is none. Raises OSError."""
        with urllib.request.urlopen(f"http://{HOST}:{self._http_ports[child]}/metrics", timeout=_METRICS_S) as answer:
            text = answer.read().decode()
        families = text_string_to_metric_families(text)
        samples = (sample for family in families for sample in family.samples if sample.name == name)
        return max((one.value for one in samples if labels.items() <= one.labels.items()), default=0.0)

    def roles(self) -> dict[str, list[int]]:
        """See Server."""
        by_role = {"broker": [node.pid for node in self._nodes], "matcher": [], "gateway": []}
        for name, child in self.children.items():
            by_role.setdefault(name.partition("-")[0], []).append(child.pid)
        return by_role

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.kafka, "log_level": 0})

    def _add(
        self, command: str, number: int, port: int, own: Mapping[str, object], settings: Mapping[str, object]
    ) -> None:
        flags = {**own, **{name: value for name, value in settings.items() if name.startswith(f"{command}-")}}
        argv = [sys.executable, "-m", "coldnotify_cli.main", command, f"--kafka={self.kafka}", "--log-format=json"]
        argv += [
            f"--{name}" if value is True else f"--{name}={value}" for name, value in flags.items() if value is not False
        ]
        self._http_ports[f"{command}-{number}"] = port
        self.children[f"{command}-{number}"] = ServerProcess(
            argv, self.directory / f"{command}-{number}.log", says_ready(port)
        )


class ColdNotifyMqtt(ColdNotify):
    """Its devices speak MQTT, with QoS 1; publishers are those of ColdNotify."""

    name = "ColdNotify MQTT"
    kind = "coldnotify-mqtt"
    sender = "coldnotify"

    def __init__(self, directory: Path, *, gateways: int = 1) -> None:
        self.mqtt_port = free_port(HOST)
        super().__init__(directory, gateways=gateways, settings={"gateway-mqtt-port": self.mqtt_port})

    def addresses(self) -> list[tuple[str, int]]:
        """See Server."""
        return [(HOST, self.mqtt_port)]


class ColdNotifyMqtt0(ColdNotifyMqtt):
    """Likewise, with QoS 0."""

    name = "ColdNotify MQTT QoS 0"
    kind = "coldnotify-mqtt-0"


class Bare(Server):
    """The physical limit: a loop in C that writes to every connection."""

    name = "bare C loop"
    kind = "bare"
    tells_all = True
    needs = ("bare_loop",)

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.port = free_port(HOST)
        log = directory / "bare.log"
        self.children["bare"] = ServerProcess([find("bare_loop"), str(self.port)], log, listens(self.port))


class Nats(Server):
    """nats-server without JetStream."""

    name = "NATS core"
    kind = "nats"
    needs = ("nats-server",)
    _jetstream = ""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.port = free_port(HOST)
        config = directory / "nats.conf"
        directory.mkdir(parents=True, exist_ok=True)
        config.write_text(
            f'listen: "{HOST}:{self.port}"\nmax_connections: 1000000\n{self._jetstream.format(directory=directory)}\n'
        )
        argv = [find("nats-server"), "-c", str(config)]
        self.children["nats"] = ServerProcess(argv, directory / "nats.log", listens(self.port))

    def ask(self, what: str, body: bytes) -> None:
        """Asks JetStream for something. Raises ServerError if it refuses."""
        with socket.create_connection((HOST, self.port), 10) as connection:
            connection.sendall(
                b'CONNECT {"verbose":false,"headers":true}\r\nSUB _B 1\r\n'
                + f"PUB $JS.API.{what} _B {len(body)}\r\n".encode()
                + body
                + b"\r\n"
            )
            answer = b""
            while b"}\r\n" not in answer.partition(b"MSG _B")[2]:
                data = connection.recv(65536)
                if not data:
                    raise ServerError(f"nats-server closed: {answer!r}")
                answer += data
            if b'"error"' in answer:
                raise ServerError(f"nats-server refuses {what}: {answer!r}")


class NatsKv(Nats):
    """nats-server with a JetStream KV bucket on files; each device has one watch."""

    name = "JetStream KV"
    kind = "nats-kv"
    durability = PROCESS
    _jetstream = 'jetstream {{\n  store_dir: "{directory}"\n}}'

    def start(self) -> None:
        """Also makes the bucket, as clients make it."""
        super().start()
        body = (
            f'{{"name":"KV_{nats.BUCKET}","subjects":["$KV.{nats.BUCKET}.>"],"max_msgs_per_subject":1,"discard":"new",'
            '"allow_rollup_hdrs":true,"deny_delete":true,"allow_direct":true,"storage":"file","num_replicas":1,'
            # Of 1,000 devices that reconnect, the consumers of the connections before are there for a while.
            '"max_consumers":1000000}'
        ).encode()
        self.ask(f"STREAM.CREATE.KV_{nats.BUCKET}", body)


class NatsQueue(Nats):
    """nats-server with a work queue of JetStream on files, which workers pull from."""

    name = "JetStream work queue"
    kind = "nats-queue"
    durability = PROCESS
    _jetstream = NatsKv._jetstream

    def start(self) -> None:
        """Also makes the stream and its consumer."""
        super().start()
        self.ask(
            "STREAM.CREATE.tasks",
            b'{"name":"tasks","subjects":["tasks"],"retention":"workqueue","storage":"file","num_replicas":1}',
        )
        self.ask(
            "CONSUMER.DURABLE.CREATE.tasks.workers",
            b'{"stream_name":"tasks","config":{"durable_name":"workers","ack_policy":"explicit",'
            b'"ack_wait":60000000000,"max_ack_pending":10000,"deliver_policy":"all"}}',
        )


class NatsKvFsync(NatsKv):
    """The same, every write synced to the disk."""

    name = "JetStream KV, sync always"
    durability = FSYNC
    _jetstream = 'jetstream {{\n  store_dir: "{directory}"\n  sync_interval: always\n}}'


class Mosquitto(Server):
    """mosquitto as packaged: its state is saved every half hour and when it stops."""

    name = "mosquitto"
    kind = "mqtt"
    durability = NONE
    needs = ("mosquitto",)
    _more = "autosave_interval 1800"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.port = free_port(HOST)
        directory.mkdir(parents=True, exist_ok=True)
        config = directory / "mosquitto.conf"
        config.write_text(
            f"listener {self.port} {HOST}\nallow_anonymous true\npersistence true\npersistence_location {directory}/\n"
            f"max_connections -1\nmax_queued_messages 100000\nset_tcp_nodelay true\n{self._more}\n"
            # Started by root it would become a user who may not write here.
            + ("user root\n" if os.geteuid() == 0 else "")
        )
        argv = [find("mosquitto"), "-c", str(config)]
        self.children["mosquitto"] = ServerProcess(argv, directory / "mosquitto.log", listens(self.port))


class Mosquitto0(Mosquitto):
    """The same, its devices with QoS 0."""

    name = "mosquitto QoS 0"
    kind = "mqtt-0"
    sender = "mqtt"


class Redis(Server):
    """Redis with an append-only file that is synced every second: pub/sub, values read on reconnect."""

    name = "Redis"
    kind = "redis"
    durability = PROCESS
    needs = ("redis-server",)
    _fsync = "everysec"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.port = free_port(HOST)
        argv = [find("redis-server"), "--bind", HOST, "--port", str(self.port), "--dir", str(directory)]
        argv += ["--appendonly", "yes", "--appendfsync", self._fsync, "--save", "", "--maxclients", "100000"]
        # The swarm comes from many addresses, all of this machine.
        argv += ["--protected-mode", "no"]
        argv += ["--client-output-buffer-limit", "pubsub", "0", "0", "0", "--tcp-backlog", "4096"]
        self.children["redis"] = ServerProcess(argv, directory / "redis.log", listens(self.port))


class RedisFsync(Redis):
    """The same, every write synced to the disk."""

    name = "Redis, fsync always"
    durability = FSYNC
    _fsync = "always"


OWN_SERVERS: tuple[type[ColdNotify], ...] = (ColdNotify, ColdNotifyMqtt, ColdNotifyMqtt0)
PEER_SERVERS: tuple[type[Server], ...] = (Nats, NatsKv, NatsKvFsync, Mosquitto, Mosquitto0, Redis, RedisFsync, Bare)


def find(program: str) -> str:
    """Returns its path: what peers/install built, or what is on PATH; empty if it is missing, or too old."""
    own = INSTALLED / program
    if own.exists():
        return str(own)
    # Debian keeps servers where only root looks.
    found = shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin") or ""
    return "" if found and program in _AT_LEAST and _version(found) < _AT_LEAST[program] else found


@cache
def _version(path: str) -> tuple[int, ...]:
    """Returns the version that it reports; if it reports none, older than any."""
    said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=READY_S, check=False).stdout
    found = re.search(r"(\d+)\.(\d+)\.\d+", said)
    return tuple(map(int, found.groups())) if found else ()
