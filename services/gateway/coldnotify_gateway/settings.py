"""The gateway's settings."""

from dataclasses import dataclass

from coldnotify_common.placement.isolation import ISOLATED_AFTER_S_MIN
from coldnotify_common.security.address_settings import AddressSettings
from coldnotify_common.security.inside import InsideSettings
from coldnotify_common.security.shares import share_of
from coldnotify_common.security.tls import SecureSettings
from coldnotify_common.settings import invalid, setting
from coldnotify_common.settings.channel_settings import ChannelSettings
from coldnotify_common.settings.object_settings import ObjectSettings
from coldnotify_schemas.host_port import parse_host_port
from coldnotify_schemas.internal_protocol import GATEWAY_HTTP_PORT
from coldnotify_schemas.protocol import (
    ANSWER_S,
    CLIENT_FRAME_BYTES_MAX,
    HELLO_S,
    KEEPALIVE_S,
    KEEPALIVE_S_MAX,
    OBJECTS_PER_FRAME_MAX,
    SYNC_CHUNKS_MAX,
    WELCOME_S,
)
from coldnotify_schemas.records import PAYLOAD_BYTES_MAX

from coldnotify_gateway.core import DeviceHome, Limits
from coldnotify_gateway.listeners.mqtt.settings import BOTH, MqttSettings
from coldnotify_gateway.listeners.tcp.settings import TcpSettings
from coldnotify_gateway.listeners.web.settings import WebSettings

_ANSWERED_MAX = 4 * OBJECTS_PER_FRAME_MAX
"""Objects in the unanswered requests of one client."""
GATEWAY_HTTP_PORT_SETTING = "COLDNOTIFY_GATEWAY_HTTP_PORT / --gateway-http-port"


def peers_of(text: str) -> list[tuple[str, int]]:
    """Returns the hosts and ports of host:port[,host:port]. Raises ValueError."""
    found = []
    for word in filter(None, map(str.strip, text.split(","))):
        try:
            found.append(parse_host_port(word))
        except ValueError as error:
            raise ValueError(f"{word[:80]!r} {error}") from None
    return found


def check_isolated_after(seconds: float) -> None:
    """Raises ValueError if gateways that Kafka has left together could take each other for better ones."""
    if 0 < seconds < ISOLATED_AFTER_S_MIN:
        raise ValueError(f"is {seconds:g}, neither 0 nor at least {ISOLATED_AFTER_S_MIN:g}")


def check_host_ports(text: str) -> None:
    """Raises ValueError unless the text is host:port[,host:port]."""
    peers_of(text)


@dataclass(frozen=True, kw_only=True)
class GatewaySettings(
    MqttSettings,
    WebSettings,
    TcpSettings,
    SecureSettings,
    InsideSettings,
    ChannelSettings,
    ObjectSettings,
    AddressSettings,
):
    """The settings of `coldnotify gateway`: each listener's settings, and the common ones."""

    gateway_host: str = setting("127.0.0.1", "address that devices connect to")
    gateway_http_host: str = setting("127.0.0.1", "address of the gateway's HTTP port")
    gateway_http_port: int = setting(
        GATEWAY_HTTP_PORT,
        "port of the gateway's /healthz, /readyz, /metrics and /v1; 0: any free port",
        minimum=0,
        maximum=65535,
    )
    gateway_connections_max: int = setting(
        19_000, "maximum number of open connections; less if the process may not open that many files", minimum=1
    )
    gateway_connections_per_address_max: int = setting(
        0,
        "maximum number of open connections from one address (IPv6: one /64), including loopback; 0: limited by "
        "its half of all connections only",
        minimum=0,
    )
    gateway_unidentified_max: int = setting(
        2_000,
        "maximum number of open connections that have not sent Hello; one more closes the oldest of the address "
        "that has most of them",
        minimum=1,
    )
    gateway_handshake_s: float = setting(HELLO_S, "seconds from the connection to a complete Hello", minimum=0.1)
    gateway_keepalive_s: int = setting(
        KEEPALIVE_S,
        "seconds between pings of a client that does not choose its own keepalive",
        minimum=1,
        maximum=KEEPALIVE_S_MAX,
    )
    gateway_keepalive_max_s: int = setting(
        KEEPALIVE_S_MAX, "maximum keepalive that a client may choose (s); a longer one is reduced to this", minimum=1
    )
    gateway_frame_bytes_max: int = setting(
        CLIENT_FRAME_BYTES_MAX, "maximum size of a frame from a client (bytes)", minimum=1024, maximum=1024 * 1024
    )
    gateway_send_buffer_bytes: int = setting(
        64 * 1024,
        "size of the kernel's send buffer of a connection (bytes); its content is sent even if newer versions "
        "exist; 0: the kernel chooses",
        minimum=0,
    )
    gateway_high_water_bytes: int = setting(
        64 * 1024,
        "unwritten bytes above which a connection is slow: nothing is sent to it until it is drained; less if its "
        "link was measured to carry less in 2 s",
    )
    gateway_low_water_bytes: int = setting(
        8 * 1024, "unwritten bytes below which a slow connection is drained", minimum=0
    )
    gateway_hard_water_bytes: int = setting(
        # A client may have four unanswered requests of 64 objects, each object with a payload of 4 KiB: 1.1 MiB that
        # are always written. With a lower limit, a client on a slow link would be closed, reconnect and request them
        # again.
        2 * 1024 * 1024,
        "unwritten bytes above which a connection is closed; with --object-payload-bytes-max above 4,096, 256 times "
        "the difference is added: as many versions can be in answers, which are always written",
        minimum=128 * 1024,
    )
    gateway_buffered_bytes_max: int = setting(
        512 * 1024 * 1024,
        "maximum of unwritten bytes of all connections together; above it, the connections with the most are cut off",
        minimum=1024 * 1024,
    )
    gateway_sync_chunks_max: int = setting(
        SYNC_CHUNKS_MAX,
        f"maximum number of messages of {OBJECTS_PER_FRAME_MAX} objects in which a client may send its whole set, and "
        f"maximum number within {ANSWER_S} s",
        minimum=16,
    )
    gateway_ask_again_s: float = setting(
        10, "seconds after which an unanswered request to the matcher is repeated", minimum=0.1
    )
    gateway_wait_after_s: float = setting(
        3,
        "seconds after which a client whose Hello the matcher has not answered is told to wait",
        minimum=0.1,
        # A client that receives nothing for WELCOME_S gives up, and a Wait has to reach it before that.
        maximum=WELCOME_S / 2,
    )
    gateway_hellos_per_s: float = setting(
        0, "Hellos per second that are handled; the others wait, and are told for how long; 0: all at once", minimum=0
    )
    gateway_isolated_after_s: float = setting(
        15,
        "seconds without any answer of Kafka after which other gateways are asked if Kafka answers them; if so, "
        "clients are sent away; 0: never",
        minimum=0,
        check=check_isolated_after,
    )
    gateway_peers: str = setting(
        "",
        "HTTP ports of other gateways to ask, host:port[,host:port]; empty: those in the nodes topic",
        check=check_host_ports,
    )
    gateway_balance: bool = setting(
        False,
        "send clients away while this gateway has far more than its share of all, until it has its share; only clients "
        "that know other gateways, and whose home it is not",
    )
    gateway_request_timeout_s: float = setting(
        5, "seconds after which a request that Kafka has not accepted is given up", minimum=0.1
    )
    gateway_requests_queued_max: int = setting(
        50_000, "maximum number of requests that wait for Kafka; further ones are given up at once", minimum=1
    )
    gateway_topics_check_s: float = setting(
        10, "seconds between checks whether the topics are still the same", minimum=0.1
    )
    gateway_drain_per_s: int = setting(2_000, "connections that a stopping gateway closes per second", minimum=1)
    gateway_drain_s: float = setting(
        10, "seconds that stopping may take; connections are closed faster if necessary", minimum=0.5
    )

    @property
    def hard_water_bytes(self) -> int:
        """The unwritten bytes above which a connection is closed, with room for answers of the largest payloads."""
        return self.gateway_hard_water_bytes + _ANSWERED_MAX * (self.object_payload_bytes_max - PAYLOAD_BYTES_MAX)

    def mqtt_home(self) -> DeviceHome | None:
        """Returns the domain and group of MQTT devices whose proof names more than one; None: their client identifier
        says it. Raises SettingError.
        """
        if bool(self.gateway_mqtt_domain) is not bool(self.gateway_mqtt_group):
            raise invalid("gateway_mqtt_group", "is set without --gateway-mqtt-domain, or the other way round")
        domain, group = self.gateway_mqtt_domain, self.gateway_mqtt_group
        return DeviceHome(domain, group) if domain else None

    def limits(self, connections_max: int) -> Limits:
        """Returns the core's part of the settings. `connections_max`: the most connections that this process can
        hold."""
        return Limits(
            handshake_s=self.gateway_handshake_s,
            frame_bytes_max=self.gateway_frame_bytes_max,
            payload_bytes_max=self.object_payload_bytes_max,
            high_water_bytes=self.gateway_high_water_bytes,
            connections_max=connections_max,
            connections_per_address_max=self.gateway_connections_per_address_max,
            connections_share_max=share_of(connections_max),
            addresses_exempt=self.without_limit(),
            unidentified_max=self.gateway_unidentified_max,
            unidentified_share_max=share_of(self.gateway_unidentified_max),
            sync_chunks_max=self.gateway_sync_chunks_max,
            hellos_per_s=self.gateway_hellos_per_s,
            keepalive_default_s=self.gateway_keepalive_s,
            keepalive_max_s=self.gateway_keepalive_max_s,
            mqtt_keepalive_max_s=self.gateway_mqtt_keepalive_max_s,
            mqtt_retained_both=self.gateway_mqtt_retained == BOTH,
            ask_again_s=self.gateway_ask_again_s,
            wait_after_s=self.gateway_wait_after_s,
        )
