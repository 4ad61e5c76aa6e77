"""Which parts make up ColdNotify on one machine, and where they listen."""

import json
import os
import ssl
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import structlog
from coldnotify_common.errors import SettingError
from coldnotify_gateway.listeners.registry import LISTENERS, WEB
from coldnotify_gateway.listeners.row import Row
from coldnotify_kafka import topic_plan
from coldnotify_kafka.broker import EmbeddedBroker, EmbeddedCluster, free_port
from coldnotify_kafka.broker.data_dir import check_unused
from coldnotify_kafka.broker.free_ports import check_port_is_free, free_row, reserve
from coldnotify_kafka.broker.process import spawn
from coldnotify_kafka.errors import PortTakenError
from coldnotify_schemas.internal_protocol import USAGE_PORT
from coldnotify_streams.jobs.registry import JOBS
from coldnotify_usage.extra import EXTRA, is_installed
from confluent_kafka.admin import AdminClient

from coldnotify_cli import job_parts
from coldnotify_cli.kafka_parts import check_nodes, parts_of
from coldnotify_cli.settings import UpSettings
from coldnotify_cli.supervisor import ChildProcess, Part
from coldnotify_cli.tls_parts import TlsParts

log = structlog.get_logger()

HOST = "127.0.0.1"
_HTTP_BESIDE = 1
"""Where the gateway's HTTP port is, counted from the first one for devices: 55001 beside 55000."""
_LOOK_TIMEOUT_S = 5.0
"""For an answer of /readyz: it says what the part knows, and asks nobody."""


@dataclass(frozen=True)
class Addresses:
    """The ports of all parts."""

    kafka: int
    """Of the first node; others have the next ones."""
    devices: dict[Row, int]
    """The gateways' for devices, by listener."""
    http: int
    matchers: list[int]
    gateways_http: list[int] = field(default_factory=list)
    jobs: dict[str, int] = field(default_factory=dict)
    usage: int | None = None
    """None: its extra is not installed."""

    @classmethod
    def choose(cls, settings: UpSettings) -> "Addresses":
        """As the settings say, free ones for 0. Raises PortTakenError, which names all that are taken, BrokerError for
        one that nobody can have, SettingError for one used twice."""
        taken: dict[int, str] = {}
        troubles: list[str] = []
        for setting, wanted in vars(settings).items():
            if setting.endswith("_port"):
                # Else it could be chosen for another one.
                reserve(wanted, HOST)

        def port(wanted: int, flag: str) -> int:
            chosen = wanted or free_port(HOST)
            name = f"{flag} (COLDNOTIFY_{flag[2:].replace('-', '_').upper()})"
            if chosen in taken:
                raise SettingError(f"{name}: port {chosen} is {taken[chosen]} already")
            try:
                check_port_is_free(HOST, chosen, name)
            except PortTakenError as error:
                troubles.append(str(error))
            taken[chosen] = flag
            return chosen

        kafka = settings.kafka_port or free_row(settings.kafka_nodes, HOST)
        for one in range(kafka, kafka + settings.kafka_nodes):
            port(one, "--kafka-port")
        first, *others = LISTENERS
        devices = {first: port(getattr(settings, first.port_setting), first.flag)}
        http = port(settings.http_port, "--http-port")
        matchers = [port(0 if i else settings.matcher_port, "--matcher-port") for i in range(settings.matchers)]

        def beside(distance: int) -> int:
            near = devices[first] + distance
            return near if near not in taken and reserve(near, HOST) else 0

        for row in others:
            devices[row] = port(getattr(settings, row.port_setting, 0) or beside(row.beside), row.flag)
        gateways = [
            port(0 if i else settings.gateway_http_port or beside(_HTTP_BESIDE), "--gateway-http-port")
            for i in range(settings.gateways)
        ]
        jobs = {row.name: port(getattr(settings, row.port_setting, row.port), row.flag) for row in JOBS}
        usual = USAGE_PORT if USAGE_PORT not in taken and reserve(USAGE_PORT, HOST) else 0
        usage = port(settings.usage_port or usual, "--usage-port") if is_installed() else None
        if troubles:
            raise PortTakenError("\n".join(troubles))
        return cls(kafka, devices, http, matchers, gateways, jobs, usage)


class Stack:
    """Kafka with its topics, then matchers, gateways and HTTP, then the usage job."""

    def __init__(self, settings: UpSettings) -> None:
        """Nothing is started. Raises BrokerError, SettingError for ports that cannot be had."""
        check_nodes(settings.kafka_nodes, "--kafka-nodes")
        # Before its ports, which are taken then, too: that they are says less.
        check_unused(settings.data, "ColdNotify or a broker")
        self._settings = settings
        self.tls = TlsParts(settings.tls)
        self.addresses = ports = Addresses.choose(settings)
        kind = EmbeddedBroker if settings.kafka_nodes == 1 else EmbeddedCluster
        self._kafka: EmbeddedBroker | EmbeddedCluster = kind(settings.data, ports.kafka, host=HOST)
        self._specs = job_parts.topics(settings.partitions or None, settings.kafka_nodes)
        kafka = parts_of(self._kafka, settings.up_ready_timeout_s, self._apply_topics)
        services = [
            # Gateways and HTTP wait for one by themselves, as when it dies. The stage is for the stop: they go first.
            self._service(
                "matcher", i, "matcher", port, f"--matcher-port={port}", f"--matcher-id=matcher-{i}", awaited=False
            )
            for i, port in enumerate(ports.matchers, 1)
        ]
        services += [
            self._service(
                "gateway",
                i,
                "gateway",
                port,
                *(f"{row.flag}={at}" for row, at in ports.devices.items()),
                f"--gateway-http-port={port}",
                *self.tls.flags("gateway"),
            )
            for i, port in enumerate(ports.gateways_http, 1)
        ]
        look = [
            f"--matcher={','.join(f'{HOST}:{port}' for port in ports.matchers)}",
            f"--gateway-http={','.join(f'{HOST}:{port}' for port in ports.gateways_http)}",
            f"--http-gateways={self.tls.scheme}://{HOST}:{ports.devices[WEB]}",
            *([f"--http-gateways-ca={self.tls.ca}"] if self.tls.on else []),
            f"--http-kafka-data={settings.data.absolute()}",
            *self.tls.flags("http"),
        ]
        services.append(self._service("http", 1, "http", ports.http, f"--http-port={ports.http}", *look))
        services += [
            self._service(f"job {row.name}", 1, row.name, ports.jobs[row.name], f"{row.flag}={ports.jobs[row.name]}")
            for row in JOBS
        ]
        self.stages = [kafka, [s for s in services if s.name.startswith("matcher")]]
        self.stages.append([s for s in services if not s.name.startswith("matcher")])
        if ports.usage is None:
            log.warning(f"runs without the usage job: {EXTRA} is not installed")
        else:
            usage = self._service("usage", 1, "usage", ports.usage, f"--usage-port={ports.usage}", needed=False)
            self.stages.append([usage])

    def ready_report(self, pids: dict[str, int]) -> dict[str, object]:
        """What the ready file says: addresses as host:port, process ids by part."""
        ports = self.addresses
        return {
            "kafka": self._kafka.bootstrap,
            **{row.ready_key: f"{HOST}:{port}" for row, port in ports.devices.items()},
            "http": f"{HOST}:{ports.http}",
            "matcher": f"{HOST}:{ports.matchers[0]}",
            "matchers": [f"{HOST}:{port}" for port in ports.matchers],
            "gateways_http": [f"{HOST}:{port}" for port in ports.gateways_http],
            **({"jobs": {name: f"{HOST}:{port}" for name, port in ports.jobs.items()}} if ports.jobs else {}),
            **({"usage": f"{HOST}:{ports.usage}"} if ports.usage is not None else {}),
            "pids": pids,
        }

    def _apply_topics(self) -> None:
        topic_plan.apply(AdminClient({"bootstrap.servers": self._kafka.bootstrap, "log_level": 2}), self._specs)

    def _service(
        self, command: str, number: int, name: str, port: int, *flags: str, needed: bool = True, awaited: bool = True
    ) -> Part:
        settings = self._settings
        argv = [sys.executable, "-m", "coldnotify_cli.main", *command.split(), f"--kafka={self._kafka.bootstrap}"]
        # What the environment says of another Kafka is not for the embedded one.
        argv += ["--kafka-config=", f"--log-format={settings.log_format}", f"--log-level={settings.log_level}", *flags]
        argv += self.tls.inside_flags()
        return Part(
            name if number == 1 else f"{name}-{number}",
            lambda: ChildProcess(spawn(argv, None)),
            _asks_readyz(port, self.tls.context()),
            ready_timeout_s=settings.up_ready_timeout_s,
            needed=needed,
            awaited=awaited,
        )


def _asks_readyz(port: int, tls: ssl.SSLContext | None) -> Callable[[], str | None]:
    url = f"{'https' if tls else 'http'}://{HOST}:{port}/readyz"

    def unready() -> str | None:
        try:
            with urllib.request.urlopen(url, timeout=_LOOK_TIMEOUT_S, context=tls):
                return None
        except urllib.error.HTTPError as error:
            with error:
                return error.read(1000).decode(errors="replace").strip()
        except OSError as error:
            return str(error)

    return unready


def write_atomically(path: Path, content: dict[str, object]) -> None:
    """Writes JSON so that a reader, who may be anybody, finds the whole of it or what was there before.

    Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # In a directory where others may write, a link could lie under any name that they can guess.
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w") as file:
            os.fchmod(descriptor, 0o644)
            file.write(json.dumps(content, indent=2) + "\n")
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
