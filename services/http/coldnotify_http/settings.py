"""The settings of the HTTP publishing service."""

from dataclasses import dataclass

from coldnotify_common.addresses import Network
from coldnotify_common.inside import AskInsideSettings
from coldnotify_common.settings import networks_of, setting
from coldnotify_common.shares import SHARE_PERCENT
from coldnotify_common.tls import SecureSettings

HTTP_HOSTS_SETTING = "COLDNOTIFY_HTTP_HOSTS / --http-hosts"


@dataclass(frozen=True, kw_only=True)
class HttpSettings(SecureSettings, AskInsideSettings):
    """What the HTTP service can be told."""

    http_host: str = setting("127.0.0.1", "the address that publishers connect to")
    http_port: int = setting(55002, "the TCP port of it; 0: any free one", minimum=0, maximum=65535)
    http_hosts: str = setting(
        "",
        "with --auth none and without TLS: names by which the HTTP service may be asked, separated by spaces, beside "
        "addresses, localhost and --http-host; a page whose name leads to this machine is refused; *: all",
    )
    http_address_share_percent: int = setting(
        SHARE_PERCENT,
        "how much of all connections, and of those that have no whole request under way, one address (of IPv6: one "
        "/64) may have, per cent; loopback may have all; 100: so may everybody",
        minimum=1,
        maximum=100,
    )
    http_addresses_exempt: str = setting(
        "", "addresses and networks without this limit, separated by spaces or commas: where many share one"
    )
    http_proxies: str = setting(
        "",
        "addresses and networks of balancers, separated by spaces or commas: a connection from one must begin with a "
        "PROXY protocol header (version 1 or 2), which says the client's address; from others none is read",
    )
    http_body_bytes_max: int = setting(
        # 1000 records with the largest payload and a long name each.
        8 * 1024 * 1024,
        "the largest body of a request, in bytes",
        minimum=1,
    )
    http_body_timeout_s: float = setting(30, "how long a publisher may take to send a body, in seconds", minimum=0.1)
    http_publish_timeout_s: float = setting(10, "how long Kafka may take to acknowledge, in seconds", minimum=0.1)
    http_outcome_timeout_s: float = setting(
        # An owner that is well answers in milliseconds; a takeover takes longer than anybody should wait.
        2,
        "how long the matcher may take to say what an acknowledged publish has changed, in seconds; then the answer's "
        "outcome is unknown",
        minimum=0.1,
        maximum=10,
    )
    http_publishes_max: int = setting(
        # More than a broker acknowledges in a second here: what comes on top would only wait longer.
        10_000,
        "how many objects may be on their way to Kafka at once; beyond it the answer is 503",
        minimum=1000,
    )
    http_gateways: str = setting(
        "127.0.0.1:55003",
        "the gateways' web ports, [https://]host:port[,...]: /v1/connect, /v1/sync and /v1/events are passed on to one",
    )
    http_gateways_ca: str = setting(
        "", "PEM file of the authorities that gateways with https:// are trusted by; empty: the system's"
    )
    http_passed_on_max: int = setting(
        5_000, "requests passed on to gateways at one time; fewer, if the process may not open so many files", minimum=1
    )
    http_sync_bytes_max: int = setting(
        4 * 1024 * 1024,
        "longest body that is passed on to a gateway, bytes; gateways have --gateway-sync-bytes-max",
        minimum=1024,
    )
    http_look_timeout_s: float = setting(
        # A matcher waits 2 s for a step of its own before it says that it cannot look.
        3,
        "how long a matcher or gateway may take to answer who lacks what, in seconds",
        minimum=0.1,
    )
    matcher: str = setting(
        "127.0.0.1:51001", "the matchers' HTTP ports, host:port[,host:port]: all of them, each serves some partitions"
    )
    gateway_http: str = setting("127.0.0.1:55001", "the gateways' HTTP ports, host:port[,host:port]: all of them")
    http_overdue_s: int = setting(
        3600, "a client that has lacked something for longer than this, in seconds, is shown as overdue", minimum=1
    )

    def addresses_exempt(self) -> tuple[Network, ...]:
        """The networks of http_addresses_exempt. Raises SettingError."""
        return networks_of("http_addresses_exempt", self.http_addresses_exempt)

    def proxies(self) -> tuple[Network, ...]:
        """The networks of http_proxies. Raises SettingError."""
        return networks_of("http_proxies", self.http_proxies)
