"""Whose an address is, and networks that settings name. Pure."""

from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Network = IPv4Network | IPv6Network

_SUBSCRIBER_BYTES = 8
"""Of an IPv6 address: its /64, which is what one subscriber has; the rest is theirs to choose, 2^64 times over."""
_CACHED_MAX = 8192
"""An address is asked for several times in its connection's life. Beyond it, in a flood of many addresses, a look costs
some microseconds."""


@lru_cache(_CACHED_MAX)
def subscriber(address: str) -> bytes:
    """What stands for all addresses that somebody with this one may have; b"" for what is no address."""
    parsed = _parse(address)
    if parsed is None:
        return b""
    return parsed.packed[:_SUBSCRIBER_BYTES] if isinstance(parsed, IPv6Address) else parsed.packed


def networks(text: str) -> tuple[Network, ...]:
    """Addresses and networks, separated by commas or spaces. Raises ValueError, whose text names the one at fault."""
    return tuple(ip_network(word) for word in text.replace(",", " ").split())


LOOPBACK = networks("127.0.0.0/8 ::1")


class Among:
    """Whether an address is of one of some networks."""

    def __init__(self, some: tuple[Network, ...]) -> None:
        self._networks = some
        self._look = lru_cache(_CACHED_MAX)(self._among)

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._networks)

    def __contains__(self, address: object) -> bool:
        """What is no address is in none."""
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
