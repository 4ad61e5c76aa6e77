"""Groups IP addresses by subscriber, and parses the networks that settings name. Pure."""

from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Network = IPv4Network | IPv6Network

_SUBSCRIBER_BYTES = 8
"""An IPv6 address is counted by its /64, because one subscriber gets a /64 and may choose any of the 2^64 addresses in
it."""
_CACHED_MAX = 8192
"""Cache size. Each address is looked up several times during its connection. In a flood of more addresses, a lookup
costs some microseconds."""


@lru_cache(_CACHED_MAX)
def subscriber(address: str) -> bytes:
    """Returns a key shared by all addresses that one subscriber may use; b"" if the text is not an IP address."""
    parsed = _parse(address)
    if parsed is None:
        return b""
    return parsed.packed[:_SUBSCRIBER_BYTES] if isinstance(parsed, IPv6Address) else parsed.packed


def networks(text: str) -> tuple[Network, ...]:
    """Parses addresses and networks, separated by commas or spaces. Raises ValueError, whose text names the invalid
    one."""
    return tuple(ip_network(word) for word in text.replace(",", " ").split())


LOOPBACK = networks("127.0.0.0/8 ::1")


class Among:
    """A set of networks; `address in among` is true if one of them contains the address."""

    def __init__(self, some: tuple[Network, ...]) -> None:
        self._networks = some
        self._look = lru_cache(_CACHED_MAX)(self._among)

    def __bool__(self) -> bool:
        """Returns true if there is at least one network."""
        return bool(self._networks)

    def __contains__(self, address: object) -> bool:
        """Returns true if a network contains the address; false for a text that is not an IP address."""
        return bool(self._networks) and isinstance(address, str) and self._look(address)

    def _among(self, address: str) -> bool:
        parsed = _parse(address)
        return parsed is not None and any(parsed in network for network in self._networks)


def _parse(address: str) -> IPv4Address | IPv6Address | None:
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return None
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return mapped or parsed
