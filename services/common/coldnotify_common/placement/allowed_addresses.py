"""The addresses that the directory may give out."""

from coldnotify_schemas.host_port import parse_host_port

from coldnotify_common.addresses import Among, Network, networks
from coldnotify_common.nodes import HTTPS


class AllowedAddresses:
    """The addresses that may be given out: whoever may write to the nodes topic could otherwise send clients
    anywhere."""

    def __init__(self, text: str) -> None:
        """`text`: entries of --directory-addresses. Raises ValueError."""
        self._exact: set[tuple[str, int]] = set()
        self._hosts: set[str] = set()
        self._suffixes: list[str] = []
        found: list[Network] = []
        for word in filter(None, map(str.strip, text.lower().split(","))):
            if word.startswith("*."):
                self._suffixes.append(word[1:])
            elif "/" in word:
                found += networks(word)
            elif word.count(":") == 1 or word.startswith("["):
                self._exact.add(parse_host_port(word))
            else:
                self._hosts.add(word)
        self._networks = Among(tuple(found))

    def __bool__(self) -> bool:
        """Returns true if there is any."""
        return bool(self._exact or self._hosts or self._suffixes or self._networks)

    def __contains__(self, address: str) -> bool:
        """Returns true if [https://]host:port may be given out."""
        host, port = parse_host_port(address.removeprefix(HTTPS).lower())
        return (
            host in self._hosts
            or (host, port) in self._exact
            or host.endswith(tuple(self._suffixes))
            or host in self._networks
        )


def check_addresses(text: str) -> None:
    """Raises ValueError unless the text is entries of --directory-addresses."""
    AllowedAddresses(text)
