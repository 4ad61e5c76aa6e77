"""The settings of the HTTP publishing service."""

from dataclasses import dataclass

from coldnotify.flow.controllers import DEFAULT as FLOW_DEFAULT
from coldnotify.flow.controllers import NAMES as FLOW_NAMES
from coldnotify_common.hooks.hook_settings import HookSettings
from coldnotify_common.placement.allowed_addresses import check_addresses
from coldnotify_common.security.address_settings import AddressSettings, HostSettings
from coldnotify_common.security.inside_tls import AskInsideSettings
from coldnotify_common.security.tls import SecureSettings
from coldnotify_common.settings import setting
from coldnotify_common.settings.channel_settings import ChannelSettings
from coldnotify_common.settings.object_settings import ObjectSettings
from coldnotify_schemas.protocol import HTTP_PORT, OUTCOME_WAIT_S_MAX


@dataclass(frozen=True, kw_only=True)
class HttpSettings(
    SecureSettings, AskInsideSettings, ChannelSettings, ObjectSettings, AddressSettings, HostSettings, HookSettings
):
    """The settings of the HTTP service."""

    http_host: str = setting("127.0.0.1", "address that publishers connect to")
    http_port: int = setting(
        HTTP_PORT, "TCP port that publishers connect to; 0: any free port", minimum=0, maximum=65535
    )
    http_body_bytes_max: int = setting(
        # PUBLISHES_PER_REQUEST_MAX records with a payload of 4 KiB and a long name each.
        8 * 1024 * 1024,
        "maximum size of a request's body (bytes)",
        minimum=1,
    )
    http_body_timeout_s: float = setting(30, "seconds that a publisher may take to send a body", minimum=0.1)
    http_publish_timeout_s: float = setting(10, "seconds that Kafka may take to acknowledge", minimum=0.1)
    http_flow: str = setting(
        FLOW_DEFAULT,
        "control of how many objects may be on their way to Kafka at once, between "
        "200 and --http-publishes-max, by how fast Kafka acknowledges; fixed: it stays at --http-publishes-max",
        choices=FLOW_NAMES,
    )
    http_publishes_max: int = setting(
        # More than a broker acknowledges in a second here: what comes on top would only wait longer.
        10_000,
        "maximum number of objects on their way to Kafka; above it, and above what flow control allows, the response "
        "is 503",
        minimum=1000,
    )
    http_gateways: str = setting(
        "",
        "web ports of the gateways, [https://]host:port[,...]; /v1/connect, /mqtt, /v1/sync and /v1/events are passed "
        "on to one of them; empty: those in the nodes topic",
    )
    http_gateways_ca: str = setting(
        "", "PEM file of the authorities that sign the certificates of gateways with https://; empty: the system's"
    )
    http_passed_on_max: int = setting(
        5_000,
        "maximum number of requests that are passed on to gateways at a time; less if the process may not open "
        "that many files",
        minimum=1,
    )
    http_sync_bytes_max: int = setting(
        4 * 1024 * 1024,
        "maximum size of a body that is passed on to a gateway (bytes); gateways have --gateway-sync-bytes-max",
        minimum=1024,
    )
    http_look_timeout_s: float = setting(
        # A matcher waits 2 s for a step of its own before it says that it cannot look.
        3,
        "seconds that matchers and gateways may take to answer questions, and a matcher to tell the outcome of an "
        "acknowledged publish (10 s at most); after that the response says that it is unknown",
        minimum=0.1,
    )
    matcher: str = setting(
        "",
        "HTTP ports of all matchers, host:port[,host:port]: each serves some partitions; empty: those in the nodes "
        "topic",
    )
    gateway_http: str = setting(
        "", "HTTP ports of all gateways, host:port[,host:port]; empty: those in the nodes topic"
    )
    directory_addresses: str = setting(
        "",
        "gateways' addresses that GET /v1/gateway may give to clients: host, host:port, *.domain, network/bits, "
        "separated by commas; empty: none",
        check=check_addresses,
    )
    http_kafka_data: str = setting(
        "",
        "directory with Kafka's data, if it is on this machine: the room on its disk becomes a metric; `coldnotify "
        "up` sets it; empty: none",
    )
    http_overdue_s: int = setting(
        3600, "seconds after which a client that lacks something is shown as overdue", minimum=1
    )

    @property
    def outcome_timeout_s(self) -> float:
        """The seconds that a matcher may take to tell an outcome."""
        return min(self.http_look_timeout_s, OUTCOME_WAIT_S_MAX)
