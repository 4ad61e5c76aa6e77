"""The settings of the commands that are no services."""

from dataclasses import dataclass
from pathlib import Path

from coldnotify_common.inside import AskInsideSettings
from coldnotify_common.settings import Settings, setting

from coldnotify_cli.credentials import CredentialSettings


@dataclass(frozen=True, kw_only=True)
class BrokerSettings(Settings):
    """What the embedded broker can be told."""

    data: Path = setting(Path(".data"), "directory of the data; what is in it is carried on with")
    kafka_host: str = setting("127.0.0.1", "the address on which Kafka listens")
    nodes: int = setting(
        1, "how many Kafka nodes: 1, or 3 of which any one may die; a data directory is for one number", minimum=1
    )
    kafka_port: int = setting(
        9092, "Kafka's TCP port, of three nodes the first's, the others have the next; 0: any", minimum=0, maximum=65535
    )
    kafka_advertised_host: str = setting(
        "", "the address that clients are told to connect to; empty: the one on which Kafka listens"
    )
    kafka_heap_mib: int = setting(256, "Java's heap for each Kafka node, in MiB", minimum=128)
    kafka_ready_timeout_s: float = setting(
        # 2 to 3 s are usual; after a crash Kafka first checks its logs.
        60,
        "how long Kafka may take to get ready, in seconds",
        minimum=1,
    )


@dataclass(frozen=True, kw_only=True)
class KafkaSettings(Settings):
    """Where Kafka is."""

    kafka: str = setting("127.0.0.1:9092", "Kafka's bootstrap servers, host:port[,host:port]")
    kafka_config: str = setting(
        "",
        "file with further options of librdkafka, name=value a line: security.protocol, sasl.*, ssl.* ...; empty: none",
    )


@dataclass(frozen=True, kw_only=True)
class TopicsSettings(KafkaSettings):
    """What the topics should be like, beyond topics.yaml."""

    partitions: int = setting(
        0, "partitions of the co-partitioned topics; 0: as topics.yaml says", minimum=0, maximum=100_000
    )
    replication: int = setting(1, "copies of each partition; 3 in a cluster", minimum=1, maximum=32)
    topics_timeout_s: float = setting(60, "how long Kafka may take for all of it, in seconds", minimum=1)


@dataclass(frozen=True, kw_only=True)
class AclsSettings(TopicsSettings):
    """Who may do what in Kafka."""

    acls_principal: str = setting(
        "User:coldnotify-{role}", "the principals, with {role} for matcher, gateway, http, publisher, operator"
    )


@dataclass(frozen=True, kw_only=True)
class PublishSettings(KafkaSettings):
    """How to publish."""

    publish_timeout_s: float = setting(10, "how long Kafka may take to acknowledge, in seconds", minimum=0.1)


@dataclass(frozen=True, kw_only=True)
class HttpNodeSettings(CredentialSettings):
    """Where the HTTP service is."""

    http: str = setting("127.0.0.1:55002", "the HTTP service, host:port or a URL: any node of it")
    http_timeout_s: float = setting(10, "how long it may take to answer, in seconds", minimum=0.1)


@dataclass(frozen=True, kw_only=True)
class PublishCommandSettings(PublishSettings, HttpNodeSettings):
    """How to publish, and whom to ask what it has changed."""


@dataclass(frozen=True, kw_only=True)
class WatchSettings(CredentialSettings):
    """Where the gateways are."""

    gateway: str = setting("127.0.0.1:55000", "the gateways, host:port[,host:port]: any one of them will do")


@dataclass(frozen=True, kw_only=True)
class LookSettings(AskInsideSettings):
    """Where the matchers' HTTP ports are."""

    matcher: str = setting(
        "127.0.0.1:51001", "the matchers' HTTP ports, host:port[,host:port]: all of them, each serves some partitions"
    )
    matcher_timeout_s: float = setting(10, "how long a matcher may take to answer, in seconds", minimum=0.1)


@dataclass(frozen=True, kw_only=True)
class DoctorSettings(HttpNodeSettings, LookSettings, TopicsSettings):
    """What is to be checked: where everything is, and the services' own certificates."""

    gateway_http: str = setting("127.0.0.1:55001", "the gateways' HTTP ports, host:port[,host:port]: all of them")
    tls_certificate: str = setting("", "PEM file of a service's certificate and of those between it and its authority")
    tls_key: str = setting("", "PEM file of its private key; empty: it is in the certificate's file")
    tls_client_ca: str = setting("", "PEM file of the authorities that sign client certificates")
    doctor_timeout_s: float = setting(5, "how long each part may take to answer, in seconds", minimum=0.1)


@dataclass(frozen=True, kw_only=True)
class ResetSettings(PublishSettings, LookSettings):
    """What starting an object over needs: the matcher to ask, Kafka to publish."""


@dataclass(frozen=True, kw_only=True)
class UpSettings(Settings):
    """What running everything together can be told. The parts take what else they can be told from the environment."""

    data: Path = setting(Path(".data"), "directory of the data; what is in it is carried on with")
    ready_file: str = setting(
        "", "file that is written whenever all is ready: JSON with the addresses and process ids; empty: none"
    )
    kafka_nodes: int = setting(
        1, "how many Kafka nodes: 1, or 3 of which any one may die; a data directory is for one number", minimum=1
    )
    kafka_port: int = setting(
        9092, "Kafka's TCP port, of three nodes the first's, the others have the next; 0: any", minimum=0, maximum=65535
    )
    gateway_port: int = setting(55000, "TCP port on which devices connect; 0: any free one", minimum=0, maximum=65535)
    http_port: int = setting(55002, "TCP port that publishers connect to; 0: any free one", minimum=0, maximum=65535)
    matcher_port: int = setting(
        51001, "the first matcher's HTTP port, the others take any; 0: any free one", minimum=0, maximum=65535
    )
    gateway_http_port: int = setting(
        0,
        "the first gateway's HTTP port, the others take any; 0: the one after --gateway-port, or any if that is taken",
        minimum=0,
        maximum=65535,
    )
    gateway_web_port: int = setting(
        0,
        "port on which devices connect by WebSocket and HTTP; 0: the third after --gateway-port, or any if that is "
        "taken",
        minimum=0,
        maximum=65535,
    )
    tls: str = setting(
        "",
        "directory that `coldnotify certs` made: all ports use mutual TLS but Kafka's, which is for this machine "
        "only; empty: none",
    )
    gateways: int = setting(1, "how many gateways share the port for devices", minimum=1, maximum=64)
    matchers: int = setting(1, "how many matchers share the partitions", minimum=1, maximum=64)
    partitions: int = setting(
        0, "partitions of the co-partitioned topics; 0: as topics.yaml says", minimum=0, maximum=100_000
    )
    up_status: str = setting(
        "auto",
        "live: a picture of all parts on the terminal, log lines go to up.log in the data directory; plain: lines; "
        "auto: live on a terminal, plain in a pipe",
        choices=("auto", "live", "plain"),
    )
    up_ready_timeout_s: float = setting(
        120, "how long a part may take to get ready, in seconds; fetching Kafka comes on top", minimum=1
    )
    log_format: str = setting("console", "how log lines on stderr look", choices=("console", "json"))
    log_level: str = setting(
        "info", "the least important log lines that are written", choices=("debug", "info", "warning", "error")
    )
