"""The settings of the commands that are not services."""

from dataclasses import dataclass
from pathlib import Path

from coldnotify_common.settings import KafkaSettings, Settings, setting
from coldnotify_common.settings.channel_settings import ChannelSettings
from coldnotify_common.settings.object_settings import ObjectSettings
from coldnotify_schemas.internal_protocol import GATEWAY_HTTP_PORT, MATCHER_PORT, USAGE_PORT
from coldnotify_schemas.protocol import DEVICE_PORT, HTTP_PORT

from coldnotify_cli.credentials import AskBothSettings, CredentialSettings


@dataclass(frozen=True, kw_only=True)
class BrokerSettings(Settings):
    """The settings of the embedded broker."""

    data: Path = setting(Path(".data"), "data directory; existing data is used")
    kafka_host: str = setting("127.0.0.1", "address on which Kafka listens")
    nodes: int = setting(
        1,
        "number of Kafka nodes: 1, or 3, so that any one may die; a data directory keeps its number",
        minimum=1,
    )
    kafka_port: int = setting(
        9092,
        "Kafka's TCP port; three nodes use this port and the next ones; 0: any free ports",
        minimum=0,
        maximum=65535,
    )
    kafka_advertised_host: str = setting(
        "", "address that Kafka tells clients to connect to; empty: the address on which it listens"
    )
    kafka_heap_mib: int = setting(256, "Java heap of each Kafka node (MiB)", minimum=128)
    kafka_ready_timeout_s: float = setting(
        # 2 to 3 s are usual; after a crash Kafka first checks its logs.
        60,
        "seconds that Kafka may take to get ready",
        minimum=1,
    )


@dataclass(frozen=True, kw_only=True)
class AskKafkaSettings(KafkaSettings):
    """Kafka's address, and how long it may take."""

    topics_timeout_s: float = setting(60, "seconds that Kafka may take for all topics together", minimum=1)


@dataclass(frozen=True, kw_only=True)
class TopicsSettings(AskKafkaSettings):
    """Settings of topics, beyond topics.yaml."""

    partitions: int = setting(
        0,
        "number of partitions of the co-partitioned topics; 0: as many as there are; new ones as in topics.yaml",
        minimum=0,
        maximum=100_000,
    )
    replication: int = setting(1, "number of copies of each partition; 3 in a cluster", minimum=1, maximum=32)


@dataclass(frozen=True, kw_only=True)
class DumpSettings(TopicsSettings, ObjectSettings):
    """Settings of a dump, which says what services take for a version."""


@dataclass(frozen=True, kw_only=True)
class AclsSettings(TopicsSettings):
    """Settings of permissions in Kafka."""

    acls_principal: str = setting(
        "",
        "template of the principals; {role} is matcher, gateway, http, usage, publisher or operator; empty: "
        "User:coldnotify-{role}, or User:PREFIX{role}",
    )


@dataclass(frozen=True, kw_only=True)
class TenantSettings(AskKafkaSettings):
    """Settings for writing agreements."""

    tenant_command_config: str = setting(
        "",
        "file with properties of a Java client of Kafka's (security.protocol, sasl.jaas.config ...), by which "
        "Kafka's own tool sets the quota of a --principal; empty: none",
    )


@dataclass(frozen=True, kw_only=True)
class PublishSettings(KafkaSettings):
    """Settings for publishing."""

    publish_timeout_s: float = setting(10, "seconds that Kafka may take to acknowledge", minimum=0.1)


@dataclass(frozen=True, kw_only=True)
class HttpNodeSettings(CredentialSettings):
    """Settings for asking the HTTP service."""

    http: str = setting(f"127.0.0.1:{HTTP_PORT}", "any node of the HTTP service, host:port or a URL")
    http_timeout_s: float = setting(10, "seconds that the HTTP service may take to answer", minimum=0.1)


@dataclass(frozen=True, kw_only=True)
class PublishCommandSettings(PublishSettings, ObjectSettings, HttpNodeSettings):
    """Settings for publishing, and for asking the outcome."""


@dataclass(frozen=True, kw_only=True)
class SendSettings(PublishSettings, ChannelSettings):
    """Settings for sending to channels, and their topics."""


@dataclass(frozen=True, kw_only=True)
class WatchSettings(CredentialSettings):
    """Settings for connecting to gateways."""

    gateway: str = setting(f"127.0.0.1:{DEVICE_PORT}", "gateways, host:port[,host:port]; any one of them will do")


@dataclass(frozen=True, kw_only=True)
class OperatorSettings(CredentialSettings, KafkaSettings):
    """Settings of a context, and before each command: one installation's addresses, and an identity for all of it."""

    http: str = setting(f"127.0.0.1:{HTTP_PORT}", "any node of the HTTP service, host:port or a URL")
    gateway: str = setting(f"127.0.0.1:{DEVICE_PORT}", "gateways, host:port[,host:port]; any one of them will do")


@dataclass(frozen=True, kw_only=True)
class BenchSubSettings(CredentialSettings):
    """Settings of many clients that connect to gateways."""

    gateway: str = setting(
        "", "gateways, host:port[,host:port], shared among the clients; empty: this machine's, at the transport's port"
    )


@dataclass(frozen=True, kw_only=True)
class BenchPubSettings(OperatorSettings, ChannelSettings):
    """Settings of publishing to one of three: Kafka, the HTTP service, or a gateway."""


@dataclass(frozen=True, kw_only=True)
class LookSettings(HttpNodeSettings, AskBothSettings):
    """Settings for asking what matchers know: through the HTTP service, or at their own ports."""

    matcher: str = setting(
        "",
        "HTTP ports of all matchers, host:port[,host:port], asked instead of --http",
    )
    matcher_timeout_s: float = setting(10, "seconds that a matcher may take to answer", minimum=0.1)


@dataclass(frozen=True, kw_only=True)
class DoctorSettings(LookSettings, TopicsSettings):
    """Settings of the checks: all addresses, and the services' own certificates."""

    matcher: str = setting(
        f"127.0.0.1:{MATCHER_PORT}", "HTTP ports of all matchers, host:port[,host:port]: each serves some partitions"
    )
    gateway_http: str = setting(f"127.0.0.1:{GATEWAY_HTTP_PORT}", "HTTP ports of all gateways, host:port[,host:port]")
    replication: int = setting(
        1,
        "least number of copies of each partition; if the objects' topic has more, as many as that",
        minimum=1,
        maximum=32,
    )
    usage: str = setting(
        f"127.0.0.1:{USAGE_PORT}",
        "HTTP ports of all workers of the usage job, host:port[,host:port]; empty: there are none",
    )
    parts: str = setting(
        "",
        "HTTP ports of other parts, NAME=host:port[,NAME=host:port]; others have the default port of this machine",
    )
    tls_certificate: str = setting("", "PEM file of a service's certificate and its intermediate certificates")
    tls_key: str = setting("", "PEM file of the certificate's private key; empty: it is in the certificate's file")
    tls_client_ca: str = setting("", "PEM file of the authorities that sign client certificates")
    data: Path = setting(
        Path(".data"), "data directory of `coldnotify up`, if it is on this machine: the room on its disk is checked"
    )
    doctor_timeout_s: float = setting(5, "seconds that each part may take to answer", minimum=0.1)


@dataclass(frozen=True, kw_only=True)
class ResetSettings(PublishSettings, ObjectSettings, LookSettings):
    """Settings for starting an object's versions over: the service to ask, and Kafka to publish."""


@dataclass(frozen=True, kw_only=True)
class UpSettings(ObjectSettings, KafkaSettings):
    """Settings for running everything together. The parts take their other settings from the environment."""

    kafka: str = setting(
        "",
        "bootstrap servers of an existing Kafka, host:port[,host:port], used with --kafka-config, --replication; "
        "empty: the embedded one",
    )
    replication: int = setting(
        1,
        "number of copies of each partition; 3 in a cluster",
        minimum=1,
        maximum=32,
    )
    data: Path = setting(Path(".data"), "data directory; existing data is used")
    ready_file: str = setting(
        "", "file that is written each time all parts are ready: JSON with the addresses and process ids; empty: none"
    )
    kafka_nodes: int = setting(
        1,
        "number of Kafka nodes: 1, or 3, so that any one may die; a data directory keeps its number",
        minimum=1,
    )
    kafka_port: int = setting(
        9092,
        "Kafka's TCP port; three nodes use this port and the next ones; 0: any free ports",
        minimum=0,
        maximum=65535,
    )
    gateway_port: int = setting(
        DEVICE_PORT, "TCP port that devices connect to; 0: any free port", minimum=0, maximum=65535
    )
    http_port: int = setting(
        HTTP_PORT, "TCP port that publishers connect to; 0: any free port", minimum=0, maximum=65535
    )
    matcher_port: int = setting(
        MATCHER_PORT,
        "HTTP port of the first matcher; the others use any free port; 0: any free port",
        minimum=0,
        maximum=65535,
    )
    gateway_http_port: int = setting(
        0,
        "HTTP port of the first gateway; the others use any free port; 0: the port after --gateway-port, or any "
        "free port if that is taken",
        minimum=0,
        maximum=65535,
    )
    gateway_web_port: int = setting(
        0,
        "port that devices connect to with WebSocket and HTTP; 0: the third port after --gateway-port, or any "
        "free port if that is taken",
        minimum=0,
        maximum=65535,
    )
    gateway_mqtt_port: int = setting(
        0,
        "port that MQTT devices connect to; 0: 1883, or any free port if that is taken",
        minimum=0,
        maximum=65535,
    )
    usage_port: int = setting(
        0,
        f"HTTP port of the usage job; 0: {USAGE_PORT}, or any free port if that is taken",
        minimum=0,
        maximum=65535,
    )
    hooks_key_file: str = setting(
        "",
        "file with at least 32 random bytes: runs `coldnotify hooks`, too, which calls webhooks; empty: there are none",
    )
    tls: str = setting(
        "",
        "directory made by `coldnotify certs`; all ports use mutual TLS, except Kafka's, which is for this "
        "machine only; empty: no TLS",
    )
    gateways: int = setting(1, "number of gateways, which share the port for devices", minimum=1, maximum=64)
    matchers: int = setting(1, "number of matchers, which share the partitions", minimum=1, maximum=64)
    partitions: int = setting(
        0,
        "number of partitions of the co-partitioned topics; 0: as many as there are, and for new ones 8, in a Kafka "
        "that is there already 32",
        minimum=0,
        maximum=100_000,
    )
    auto: str = setting(
        "", "file of `coldnotify auto`, which runs beside the other parts (docs/sources.md); empty: it does not run"
    )
    up_status: str = setting(
        "auto",
        "live: a status display of all parts on the terminal, with log lines in up.log in the data directory; "
        "plain: lines; auto: live on a terminal, plain in a pipe",
        choices=("auto", "live", "plain"),
    )
    up_ready_timeout_s: float = setting(
        120, "seconds that a part may take to get ready, not counting the time to fetch Kafka", minimum=1
    )
    log_format: str = setting("console", "format of log lines on stderr", choices=("console", "json"))
    log_level: str = setting(
        "info", "lowest level of log lines that are written", choices=("debug", "info", "warning", "error")
    )
