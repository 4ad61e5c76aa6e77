"""The gateway's settings."""

from dataclasses import dataclass

from coldnotify_common.addresses import Network
from coldnotify_common.inside import InsideSettings
from coldnotify_common.settings import networks_of, setting
from coldnotify_common.shares import SHARE_PERCENT, share_of
from coldnotify_common.tls import SecureSettings

from coldnotify_gateway.core import Limits

GATEWAY_PORT_SETTING = "COLDNOTIFY_GATEWAY_PORT / --gateway-port"
GATEWAY_WEB_PORT_SETTING = "COLDNOTIFY_GATEWAY_WEB_PORT / --gateway-web-port"
GATEWAY_HTTP_PORT_SETTING = "COLDNOTIFY_GATEWAY_HTTP_PORT / --gateway-http-port"


@dataclass(frozen=True, kw_only=True)
class GatewaySettings(SecureSettings, InsideSettings):
    """What `coldnotify gateway` can be told."""

    gateway_host: str = setting("127.0.0.1", "address on which devices connect")
    gateway_port: int = setting(
        55000,
        "TCP port on which devices connect; several gateways may share one; 0: any free one",
        minimum=0,
        maximum=65535,
    )
    gateway_web_port: int = setting(
        55003,
        "port on which devices connect by WebSocket and HTTP; several gateways may share one; 0: any free one",
        minimum=0,
        maximum=65535,
    )
    gateway_web_origins: str = setting(
        "",
        "origins whose web pages may connect by WebSocket and HTTP, separated by spaces, as https://host[:port]; "
        "those of the address they connect to always may; *: all",
    )
    gateway_sync_bytes_max: int = setting(
        # 10,000 names of 255 bytes fit.
        4 * 1024 * 1024,
        "longest body of a POST to /v1/sync, bytes",
        minimum=1024,
    )
    gateway_sync_s: float = setting(
        30, "seconds that a POST to /v1/sync may wait for its body, or the matcher, or the client's reading", minimum=1
    )
    gateway_http_host: str = setting("127.0.0.1", "address of the gateway's HTTP port")
    gateway_http_port: int = setting(
        55001, "port of the gateway's /healthz, /readyz, /metrics and /v1; 0: any free one", minimum=0, maximum=65535
    )
    gateway_connections_max: int = setting(
        19_000, "connections at one time; fewer, if the process may not open so many files", minimum=1
    )
    gateway_connections_per_address_max: int = setting(
        0,
        "connections at one time from one address (of IPv6: from one /64), also from loopback; "
        "0: only --gateway-address-share-percent bounds them",
        minimum=0,
    )
    gateway_address_share_percent: int = setting(
        SHARE_PERCENT,
        "how much of --gateway-connections-max, and of --gateway-unidentified-max, one address (of IPv6: one /64) may "
        "have, per cent; loopback may have all; 100: so may everybody",
        minimum=1,
        maximum=100,
    )
    gateway_addresses_exempt: str = setting(
        "",
        "addresses and networks without these two limits, separated by spaces or commas: where many devices share one",
    )
    gateway_proxies: str = setting(
        "",
        "addresses and networks of balancers, separated by spaces or commas: a connection from one must begin with a "
        "PROXY protocol header (version 1 or 2), which says the client's address; from others none is read",
    )
    gateway_unidentified_max: int = setting(
        2_000,
        "connections at one time that have not said Hello; with one more, the oldest one of the address that has most "
        "of them is closed",
        minimum=1,
    )
    gateway_handshake_s: float = setting(10, "seconds from connecting to a whole Hello", minimum=0.1)
    gateway_keepalive_s: int = setting(
        60, "seconds between pings of a client that does not choose its own", minimum=1, maximum=24 * 3600
    )
    gateway_keepalive_max_s: int = setting(
        24 * 3600, "longest keepalive a client may choose, seconds; a longer one counts as this", minimum=1
    )
    gateway_frame_bytes_max: int = setting(
        32 * 1024, "longest frame taken from a client, bytes", minimum=1024, maximum=1024 * 1024
    )
    gateway_send_buffer_bytes: int = setting(
        64 * 1024,
        "the kernel's send buffer of a connection, bytes; what is in there is sent although newer may exist; "
        "0: the kernel chooses",
        minimum=0,
    )
    gateway_high_water_bytes: int = setting(
        64 * 1024,
        "a connection with more than this waiting to be written is slow: nothing is sent until it is drained; "
        "less, if its link was measured to carry less in 2 s",
    )
    gateway_low_water_bytes: int = setting(
        8 * 1024, "a slow connection with less than this waiting to be written is drained", minimum=0
    )
    gateway_hard_water_bytes: int = setting(
        # A client may have four requests of 64 objects unanswered, each object with a payload of 4 KiB: 1.1 MiB that
        # are always written. With less, one on a slow link would be closed, come back and ask for the same again.
        2 * 1024 * 1024,
        "a connection with more than this waiting to be written is closed",
        minimum=128 * 1024,
    )
    gateway_buffered_bytes_max: int = setting(
        512 * 1024 * 1024,
        "bytes waiting to be written to all connections together; above it, those with the most are cut off",
        minimum=1024 * 1024,
    )
    gateway_sync_chunks_max: int = setting(
        # 1,024 chunks of 64 objects: six times as many as a client may be registered for by default.
        1024,
        "messages of 64 objects that a client may need to say its whole set, and may send within 30 s",
        minimum=16,
    )
    gateway_ask_again_s: float = setting(
        10, "seconds after which what the matcher did not answer is asked again", minimum=0.1
    )
    gateway_wait_after_s: float = setting(
        3, "seconds after which a client whose Hello is not answered is told to wait", minimum=0.1
    )
    gateway_request_timeout_s: float = setting(
        5, "seconds after which a request that Kafka did not take is given up", minimum=0.1
    )
    gateway_requests_queued_max: int = setting(
        50_000, "requests that may wait for Kafka; more are given up at once", minimum=1
    )
    gateway_topics_check_s: float = setting(
        10, "seconds between looks at whether the topics are still the same", minimum=0.1
    )
    gateway_drain_per_s: int = setting(2_000, "connections sent away per second when the gateway stops", minimum=1)
    gateway_drain_s: float = setting(
        10, "seconds that stopping may take; the pace is raised where it would not suffice", minimum=0.5
    )

    def addresses_exempt(self) -> tuple[Network, ...]:
        """The networks of gateway_addresses_exempt. Raises SettingError."""
        return networks_of("gateway_addresses_exempt", self.gateway_addresses_exempt)

    def proxies(self) -> tuple[Network, ...]:
        """The networks of gateway_proxies. Raises SettingError."""
        return networks_of("gateway_proxies", self.gateway_proxies)

    def limits(self, connections_max: int) -> Limits:
        """The core's part of the settings. `connections_max`: what this process can hold."""
        return Limits(
            handshake_s=self.gateway_handshake_s,
            frame_bytes_max=self.gateway_frame_bytes_max,
            high_water_bytes=self.gateway_high_water_bytes,
            connections_max=connections_max,
            connections_per_address_max=self.gateway_connections_per_address_max,
            connections_share_max=share_of(connections_max, self.gateway_address_share_percent),
            # What a balancer has not said the address of yet is no one address'.
            addresses_exempt=(*self.addresses_exempt(), *self.proxies()),
            unidentified_max=self.gateway_unidentified_max,
            unidentified_share_max=share_of(self.gateway_unidentified_max, self.gateway_address_share_percent),
            sync_chunks_max=self.gateway_sync_chunks_max,
            keepalive_default_s=self.gateway_keepalive_s,
            keepalive_max_s=self.gateway_keepalive_max_s,
            ask_again_s=self.gateway_ask_again_s,
            wait_after_s=self.gateway_wait_after_s,
        )
