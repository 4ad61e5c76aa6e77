"""Settings of a service that limits connections by address."""

from dataclasses import dataclass

from coldnotify_common.addresses import Network
from coldnotify_common.security.shares import SHARE_PERCENT
from coldnotify_common.settings import Settings, networks_of, setting


@dataclass(frozen=True, kw_only=True)
class AddressSettings(Settings):
    """Limits by address, and the balancers that pass addresses on."""

    address_share_percent: int = setting(
        SHARE_PERCENT,
        "share (per cent) of all connections, and of those without a Hello or a complete request, that one address "
        "(IPv6: one /64) may have; loopback may have all; 100: so may every address",
        minimum=1,
        maximum=100,
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
