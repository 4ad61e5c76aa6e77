"""The parts that make up ColdNotify on one machine, and their addresses."""

import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from string import Formatter

import structlog
from coldnotify_auto.auto_file import read_auto_file
from coldnotify_common.errors import SettingError
from coldnotify_common.stop import StopFlag
from coldnotify_gateway.listeners.registry import LISTENERS
from coldnotify_gateway.listeners.row import ListenerRow
from coldnotify_kafka import topic_plan
from coldnotify_kafka.broker import EmbeddedBroker, EmbeddedCluster, free_port
from coldnotify_kafka.broker.data_dir import check_unused
from coldnotify_kafka.broker.free_ports import check_port_is_free, free_row, reserve
from coldnotify_kafka.broker.process import spawn
from coldnotify_kafka.errors import PortTakenError
from coldnotify_kafka.topics import EMBEDDED_PARTITIONS
from coldnotify_parts.registry import PARTS
from coldnotify_parts.row import PartRow
from confluent_kafka.admin import AdminClient

from coldnotify_cli import parts_in_kafka
from coldnotify_cli.dead_matchers import remove_dead_matcher
from coldnotify_cli.existing_kafka import ExistingKafka
from coldnotify_cli.kafka_parts import check_nodes, parts_of
from coldnotify_cli.readyz import asks_readyz
from coldnotify_cli.settings import UpSettings
from coldnotify_cli.supervisor import ChildProcess, Part
from coldnotify_cli.tls_parts import TlsParts

log = structlog.get_logger()

HOST = "127.0.0.1"
_HTTP_BESIDE = 1
"""Offset of the gateway's HTTP port from the first port for devices: 55001 beside 55000."""
"""Timeout of /readyz, which returns what the part knows, and asks nobody."""


@dataclass(frozen=True)
class StackAddresses:
    """The ports of all parts."""

    kafka: int | None
    """The first node's port; others have the next ones. None: Kafka is there already."""
    devices: dict[ListenerRow, int]
    """The gateways' for devices, by listener."""
    parts: dict[str, list[int]]
    """The HTTP ports by part; a part whose extra is not installed is left out."""

    @classmethod
    def choose(cls, settings: UpSettings, added: Mapping[str, int] | None = None) -> "StackAddresses":
        """Chooses ports by the settings and `added`, the ports that are not settings; free ones for 0.

        Raises PortTakenError, which names all that are taken, BrokerError for one that cannot be used, SettingError for
        one used twice.
        """
        wanted_of = {name: value for name, value in {**(added or {}), **vars(settings)}.items() if name[-5:] == "_port"}
        if settings.kafka:
            del wanted_of["kafka_port"]
        taken: dict[int, str] = {}
        troubles: list[str] = []
        for wanted in wanted_of.values():
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

        kafka = None
        if not settings.kafka:
            kafka = settings.kafka_port or free_row(settings.kafka_nodes, HOST)
            for one in range(kafka, kafka + settings.kafka_nodes):
                port(one, "--kafka-port")
        first, *others = LISTENERS
        devices = {first: port(getattr(settings, first.port_setting), first.flag)}
        parts: dict[str, list[int]] = {}

        def if_free(usual: int) -> int:
            return usual if usual not in taken and reserve(usual, HOST) else 0

        def take(row: PartRow, usual: int) -> None:
            wanted = wanted_of.get(row.port_setting, 0) or (if_free(usual) if usual else 0)
            parts[row.name] = [port(0 if i else wanted, row.flag) for i in range(_number_of(row, settings))]

        # Those with a usual port of their own as their setting's default come first: they were asked for.
        installed = [row for row in PARTS if row.is_installed and _is_on(row, settings)]
        named = [row for row in installed if _default_of(row.port_setting)]
        for row in named:
            take(row, 0)
        for listener in others:
            wanted = wanted_of.get(listener.port_setting, 0) or if_free(
                listener.usual_port or devices[first] + listener.beside
            )
            devices[listener] = port(wanted, listener.flag)
        for row in installed:
            if row not in named:
                take(row, devices[first] + _HTTP_BESIDE if row.listeners else row.port)
        if troubles:
            raise PortTakenError("\n".join(troubles))
        return cls(kafka, devices, parts)


def _number_of(row: PartRow, settings: UpSettings) -> int:
    return int(getattr(settings, row.several)) if row.several else 1


def _is_on(row: PartRow, settings: UpSettings) -> bool:
    return not row.switch or bool(getattr(settings, row.switch))


def _default_of(port_setting: str) -> int:
    """The default of a port of `up`; 0: the setting is not in UpSettings, or chooses for itself."""
    return int(getattr(UpSettings, port_setting, 0))


class Stack:
    """Kafka with its topics, if it is not there already; then matchers, gateways and HTTP, then the usage job."""

    def __init__(self, settings: UpSettings, added: Mapping[str, int] | None = None) -> None:
        """Starts nothing. `added`: ports of listeners and parts that are not settings.

        Raises BrokerError, SettingError for unusable ports, AutoFileError.
        """
        check_nodes(settings.kafka_nodes, "--kafka-nodes")
        if settings.auto:
            read_auto_file(Path(settings.auto))
        if not settings.kafka:
            # Before its ports, which are taken then, too: that they are says less.
            check_unused(settings.data, "ColdNotify or a broker")
        self._settings = settings
        self.tls = TlsParts(settings.tls)
        self.addresses = ports = StackAddresses.choose(settings, added)
        copies = settings.replication if settings.kafka else settings.kafka_nodes
        partitions = settings.partitions or (None if settings.kafka else EMBEDDED_PARTITIONS)
        self._specs = parts_in_kafka.topics(partitions, copies, settings.topics)
        self._kafka: EmbeddedBroker | EmbeddedCluster | ExistingKafka
        self.stages: list[list[Part]] = []
        if ports.kafka is None:
            self._kafka = ExistingKafka(settings, self._specs)
        else:
            kind = EmbeddedBroker if settings.kafka_nodes == 1 else EmbeddedCluster
            self._kafka = kind(settings.data, ports.kafka, host=HOST)
            self.stages.append(parts_of(self._kafka, settings.up_ready_timeout_s, self._apply_topics))
        for stage in sorted({row.stage for row in PARTS if row.name in ports.parts}):
            rows = [row for row in PARTS if row.stage == stage and row.name in ports.parts]
            self.stages.append(
                [self._service(row, i, at) for row in rows for i, at in enumerate(ports.parts[row.name], 1)]
            )
        if settings.auto:
            self.stages.append([self._auto(settings.auto)])
        for row in PARTS:
            if row.name not in ports.parts and not row.is_installed:
                log.warning(f"runs without the {row.title}: {row.extra} is not installed")

    def prepare(self, stop: StopFlag) -> None:
        """Has a Kafka that is there ready for the parts. Raises KafkaNotUsable, which names the setting."""
        if isinstance(self._kafka, ExistingKafka):
            self._kafka.prepare(stop)

    def ready_report(self, pids: dict[str, int]) -> dict[str, object]:
        """Returns the content of the ready file: addresses as host:port, process ids by part."""
        ports = self.addresses
        there = [(row, ports.parts[row.name]) for row in PARTS if row.name in ports.parts]
        return {
            "kafka": self._kafka.bootstrap,
            **{row.ready_key: f"{HOST}:{port}" for row, port in ports.devices.items()},
            **{row.ready_key: _hosts(all_)[0] for row, all_ in there if row.ready_key},
            **{row.ready_list: _hosts(all_) for row, all_ in there if row.ready_list},
            "pids": pids,
        }

    def urls(self) -> dict[str, list[str]]:
        """Returns the addresses of all HTTP ports, by part."""
        return {
            name: [f"{self.tls.scheme}://{one}" for one in _hosts(all_)] for name, all_ in self.addresses.parts.items()
        }

    def _apply_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._kafka.bootstrap, "log_level": 2})
        topic_plan.apply(admin, self._specs, keep=not self._settings.partitions)

    def _service(self, row: PartRow, number: int, port: int) -> Part:
        settings = self._settings
        argv = [sys.executable, "-m", "coldnotify_cli.main", row.name, f"--kafka={self._kafka.bootstrap}"]
        # What the environment says of another Kafka is not for the embedded one.
        argv += [f"--kafka-config={settings.kafka_config if settings.kafka else ''}"]
        argv += [
            f"--topics-prefix={settings.topics_prefix}",
            f"--log-format={settings.log_format}",
            f"--log-level={settings.log_level}",
        ]
        if row.listeners:
            argv += [f"{listener.flag}={at}" for listener, at in self.addresses.devices.items()]
        argv += [f"{row.flag}={port}", *self._flags(row, number)]
        argv += self.tls.flags(row.name) if row.certificate else []
        argv += self.tls.inside_flags()
        return Part(
            row.name if number == 1 else f"{row.name}-{number}",
            lambda: ChildProcess(spawn(argv, None)),
            asks_readyz(HOST, port, self.tls.context()),
            ready_timeout_s=settings.up_ready_timeout_s,
            needed=row.needed,
            awaited=row.awaited,
            after_death=self._after_death(row, number),
        )

    def _auto(self, file: str) -> Part:
        """Returns the part of `coldnotify auto`. The others serve without it."""
        settings, port = self._settings, free_port(HOST)
        argv = [sys.executable, "-m", "coldnotify_cli.main", "auto", file, f"--kafka={self._kafka.bootstrap}"]
        argv += [f"--kafka-config={settings.kafka_config if settings.kafka else ''}"]
        argv += [
            f"--topics-prefix={settings.topics_prefix}",
            f"--object-payload-bytes-max={settings.object_payload_bytes_max}",
            f"--log-format={settings.log_format}",
            f"--log-level={settings.log_level}",
            f"--auto-port={port}",
            *self.tls.inside_flags(),
        ]
        return Part(
            "auto",
            lambda: ChildProcess(spawn(argv, None)),
            asks_readyz(HOST, port, self.tls.context()),
            ready_timeout_s=settings.up_ready_timeout_s,
            needed=False,
            awaited=False,
            after_death=None,
        )

    def _after_death(self, row: PartRow, number: int) -> Callable[[], None] | None:
        """Returns a function that has the other matchers take over at once; None if there are none, or another part."""
        if row.name != "matcher" or self._settings.matchers == 1:
            return None
        settings = self._settings
        return partial(
            remove_dead_matcher,
            self._kafka.bootstrap,
            settings.kafka_config if settings.kafka else "",
            settings.topics.group("matcher"),
            f"matcher-{number}",
        )

    def _flags(self, row: PartRow, number: int) -> list[str]:
        """Returns the row's own flags, filled in; flags without a value are left out."""
        known = {
            **{listener.name: f"{HOST}:{at}" for listener, at in self.addresses.devices.items()},
            **{name: ",".join(_hosts(ports)) for name, ports in self.addresses.parts.items()},
            "number": str(number),
            "payload_bytes_max": str(self._settings.object_payload_bytes_max),
            "hooks_key_file": self._settings.hooks_key_file and str(Path(self._settings.hooks_key_file).absolute()),
            "ca": str(self.tls.ca) if self.tls.on else "",
            "data": "" if self._settings.kafka else str(self._settings.data.absolute()),
        }
        wanted = {flag: [name for _, name, _, _ in Formatter().parse(flag) if name] for flag in row.flags}
        return [flag.format_map(known) for flag, names in wanted.items() if all(known.get(name) for name in names)]


def _hosts(ports: list[int]) -> list[str]:
    return [f"{HOST}:{port}" for port in ports]


def write_atomically(path: Path, content: dict[str, object]) -> None:
    """Writes JSON so that any reader finds the whole of it or the previous content.

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
