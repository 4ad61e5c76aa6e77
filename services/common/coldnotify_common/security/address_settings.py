"""Settings of ports: limits by address, balancers, and the names by which a port is asked."""

from dataclasses import dataclass

from coldnotify_common.addresses import Network
from coldnotify_common.settings import Settings, networks_of, setting


@dataclass(frozen=True, kw_only=True)
class AddressSettings(Settings):
    """Limits by address, and the balancers that pass addresses on."""

    gateway_addresses_exempt: str = setting(
        "",
        "addresses and networks to which limits per address do not apply, at gateways and the HTTP service, separated "
        "by spaces or commas: for many clients behind one address; 0.0.0.0/0,::/0: no address has a limit",
    )
    balancers: str = setting(
        "",
        "addresses and networks of balancers, separated by spaces or commas: a connection from a balancer must "
        "begin with a PROXY protocol header (version 1 or 2) with the client's address; from other addresses no "
        "header is read",
    )

    def proxies(self) -> tuple[Network, ...]:
        """Returns the networks of the balancers. Raises SettingError."""
        return networks_of("balancers", self.balancers)

    def without_limit(self) -> tuple[Network, ...]:
        """Returns the networks without a limit: those exempt, and balancers, whose connections do not count for an
        address until the balancer has sent the client's. Raises SettingError."""
        return (*networks_of("gateway_addresses_exempt", self.gateway_addresses_exempt), *self.proxies())


@dataclass(frozen=True, kw_only=True)
class HostSettings(Settings):
    """The names by which an HTTP port is asked."""

    http_hosts: str = setting(
        "",
        "host names that requests to the HTTP port may use, separated by spaces, besides addresses, localhost and "
        "the name it listens on; a web page whose own host name resolves to this machine is refused; *: all. The HTTP "
        "service looks at them only with --auth none and without TLS",
    )


HTTP_HOSTS_SETTING = "COLDNOTIFY_HTTP_HOSTS / --http-hosts"
