"""The embedded broker's settings, checked, and the configuration files made from them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from string import Template

from coldnotify_schemas.host_port import host_port

from coldnotify_kafka.broker.java import as_java_names
from coldnotify_kafka.errors import BrokerSettingError, DataDirectoryError

HEAP_MIB_DEFAULT = 256
"""Runs 60 partitions and 100,000 records a second; the whole process then takes 200 to 330 MB."""
_HEAP_MIB_MIN = 128
"""With less, the broker dies of OutOfMemoryError once the log cleaner allocates its buffer."""

_BACKSLASH = 0x5C
_WILDCARD_HOSTS = ("", "0.0.0.0", "::", "*")


@dataclass(frozen=True)
class BrokerConfig:
    """Data directory, addresses and memory of one broker.

    `port` and `controller_port` are actual ports here, `host` is the address to listen on, `advertised_host` the one
    for clients. Raises BrokerSettingError or DataDirectoryError.
    """

    data_dir: Path
    port: int
    controller_port: int
    host: str = "127.0.0.1"
    advertised_host: str | None = None
    heap_mib: int = HEAP_MIB_DEFAULT
    node_id: int = 1
    voters: Mapping[int, int] = field(default_factory=dict)
    """For a cluster: each node's id with its controller's port. Empty: this node alone."""
    cluster_id: str = ""
    """The cluster id for formatting a new data directory; empty: a random one."""

    controller_host = "127.0.0.1"
    """The controllers of all nodes are on this machine; nobody else needs to reach them."""

    def __post_init__(self) -> None:
        if self.heap_mib < _HEAP_MIB_MIN:
            raise BrokerSettingError(f"heap_mib: {self.heap_mib} MiB are too few for Kafka ({_HEAP_MIB_MIN} at least)")
        if self.host in _WILDCARD_HOSTS and not self.advertised_host:
            raise BrokerSettingError(
                f"advertised_host: must be given when host is {self.host!r}: it is what clients are told to connect to"
            )
        if self.voters and self.voters.get(self.node_id) != self.controller_port:
            raise BrokerSettingError(f"voters: {dict(self.voters)} does not say controller_port of node {self.node_id}")
        if "," in str(self.data_dir) or "\n" in str(self.data_dir):
            raise DataDirectoryError(f"data directory {str(self.data_dir)!r}: Kafka cannot have a comma in its path")

    @property
    def log_dir(self) -> Path:
        """Kafka's own directory: the records, and meta.properties with the cluster's id."""
        return self.data_dir / "records"

    @property
    def log_file(self) -> Path:
        """The broker's log4j log."""
        return self.data_dir / "broker.log"

    @property
    def output_file(self) -> Path:
        """Java's own standard output and error, before and beside the log."""
        return self.data_dir / "broker.out"

    @property
    def properties_file(self) -> Path:
        """The server.properties rendered for this start."""
        return self.data_dir / "server.properties"

    @property
    def contact_host(self) -> str:
        """An address under which this machine reaches the broker."""
        return "127.0.0.1" if self.host in _WILDCARD_HOSTS else self.host

    @property
    def bootstrap(self) -> str:
        """The bootstrap.servers of clients on this machine."""
        return host_port(self.contact_host, self.port)

    def server_properties(self) -> str:
        """The text of server.properties."""
        voters = self.voters or {self.node_id: self.controller_port}
        replicas = len(voters)
        return Template(resource("server.properties").read_text()).substitute(
            node_id=self.node_id,
            voters=",".join(f"{node}@{host_port(self.controller_host, port)}" for node, port in sorted(voters.items())),
            replicas=replicas,
            # Of three: an acknowledged write is on two, and one may be down.
            replicas_in_sync_min=replicas // 2 + 1,
            listener=host_port("0.0.0.0" if self.host in _WILDCARD_HOSTS else self.host, self.port),
            controller_listener=host_port(self.controller_host, self.controller_port),
            advertised=host_port(self.advertised_host or self.host, self.port),
            log_dir=_property(as_java_names(self.log_dir)),
        )

    def java_options(self) -> list[str]:
        """The broker's Java options. More of them can be in Java's own variable JDK_JAVA_OPTIONS."""
        return [
            f"-Xmx{self.heap_mib}m",
            # No -XX:+ExitOnOutOfMemoryError: 90 bytes of snappy that claim to hold 200 MiB would end the broker, and a
            # batch of zeros each broker whose log cleaner unpacks it, after each start. The thread that wants such an
            # array gets the error alone: the producer hears of it, or the log cleaner ends. Kafka ends the process
            # itself where a thread dies that it cannot do without.
            # Other collectors keep threads and tables that a heap of this size does not repay.
            "-XX:+UseSerialGC",
            # No memory-mapped statistics file in /tmp.
            "-XX:-UsePerfData",
            "-Djava.awt.headless=true",
            f"-Dcoldnotify.log.file={self.log_file}",
            # Of a name's percent signs, log4j takes each as the beginning of a date or number.
            f"-Dcoldnotify.log.pattern={str(self.log_file).replace('%', '%%')}.%i",
            # It would take a path for a URI where it looks like one.
            f"-Dlog4j2.configurationFile={resource('log4j2.xml').as_uri()}",
        ]


def _property(text: str) -> str:
    """A value as Java reads it in a properties file: that is ISO-8859-1, and a backslash begins an escape there."""
    units = text.encode("utf-16-be")
    codes = (int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2))
    return "".join(chr(code) if 0x20 <= code < 0x7F and code != _BACKSLASH else f"\\u{code:04x}" for code in codes)


def resource(name: str) -> Path:
    """A file that lies beside this module."""
    return Path(str(files(__package__).joinpath(name)))
