"""HookUrls: the URLs that a webhook may have, and the addresses that a call may connect to. Pure.

A URL is a stranger's, and the process that calls it stands inside the operator's network. So an address is judged after
the name was resolved, all answers of that one resolution together, and the call connects to a judged address.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

from coldnotify_common.addresses import Network, networks

URL_LENGTH_MAX = 2048
PORTS = {"https": 443, "http": 80}
"""The default ports, which need no permission."""
_SHARED = IPv4Network("100.64.0.0/10")
_NAT64 = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))


class RefusedUrl(ValueError):
    """A URL, or what it leads to, is refused; the text begins with "url: "."""

    def __init__(self, words: str) -> None:
        super().__init__(f"url: {words}")


@dataclass(frozen=True)
class HookUrls:
    """The permissions that the operator gives."""

    networks: tuple[Network, ...] = ()
    """Networks in which addresses are allowed that would be refused."""
    ports: frozenset[int] = frozenset()
    """Ports that are allowed besides 80 and 443."""
    schemes: frozenset[str] = frozenset({"https"})

    @classmethod
    def of(cls, allowed_networks: str, ports: str, schemes: str) -> "HookUrls":
        """Parses the texts of the settings. Raises ValueError, whose text names the wrong word."""
        numbers = set()
        for word in ports.replace(",", " ").split():
            if not word.isascii() or not word.isdigit() or not 1 <= int(word) <= 65535:
                raise ValueError(f"{word!r} is not a port")
            numbers.add(int(word))
        names = frozenset(schemes.replace(",", " ").split())
        if unknown := names - PORTS.keys():
            raise ValueError(f"{min(unknown)!r} is neither https nor http")
        return cls(networks(allowed_networks), frozenset(numbers), names)

    def check(self, url: str) -> str:
        """Returns the host of a URL that a hook may have. Raises RefusedUrl."""
        if len(url) > URL_LENGTH_MAX:
            raise RefusedUrl(f"has {len(url)} characters (at most {URL_LENGTH_MAX} are allowed)")
        if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
            raise RefusedUrl("has characters that belong in no URL; they can be written as %XX")
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise RefusedUrl(str(error)) from None
        if parts.scheme not in self.schemes:
            raise RefusedUrl(f"begins with {parts.scheme[:20]!r} (allowed: {', '.join(sorted(self.schemes))})")
        if "@" in parts.netloc:
            raise RefusedUrl("contains a user or a password: whoever lists hooks would read it")
        if parts.fragment:
            raise RefusedUrl("has a fragment, which is never sent")
        if not parts.hostname:
            raise RefusedUrl("names no host")
        port = PORTS[parts.scheme] if port is None else port
        if port not in PORTS.values() and port not in self.ports:
            raise RefusedUrl(f"port {port} is not allowed (80, 443 and those of --hooks-ports are)")
        literal = literal_of(parts.hostname)
        if literal is not None:
            self.judge(parts.hostname, [str(literal)])
        return parts.hostname

    def judge(self, host: str, answers: Sequence[str]) -> list[str]:
        """Returns the addresses of one resolution, if every one is allowed. Raises RefusedUrl, which does not say the
        address: what a name is inside is nobody else's business."""
        if not answers:
            raise RefusedUrl(f"{host} has no address")
        for answer in answers:
            try:
                address = ip_address(answer)
            except ValueError:
                raise RefusedUrl(f"{host} has something else than an address") from None
            reason = self._refusal(address)
            if reason:
                raise RefusedUrl(f"{host} leads to an address that is not allowed: {reason}")
        return list(answers)

    def _refusal(self, address: IPv4Address | IPv6Address) -> str:
        """Returns the reason why an address is refused; "": it is not."""
        if any(address in network for network in self.networks):
            return ""
        if isinstance(address, IPv6Address):
            if address.ipv4_mapped is not None:
                return "IPv4-mapped"
            if address.sixtofour is not None:
                return "6to4"
            if address.scope_id is not None:
                return "of one link"
            if any(address in network for network in _NAT64):
                return "NAT64"
        elif address in _SHARED:
            return "shared by a provider's customers"
        if address.is_multicast:
            return "multicast"
        return "" if address.is_global else "not global"


def literal_of(host: str) -> IPv4Address | IPv6Address | None:
    """Returns the address that a host is written as; None for a name. Raises RefusedUrl for other spellings of an
    address, as 2130706433 and 127.1: some resolvers take these for one without being asked."""
    try:
        return ip_address(host)
    except ValueError:
        pass
    last = host.rstrip(".").rpartition(".")[2]
    if ":" in host or last.isdigit() or last.startswith("0x"):
        raise RefusedUrl(f"{host[:80]!r} is neither a name nor an address in its usual form")
    return None
