"""A network of their own for the swarm's devices, in which a gateway can fall silent: nothing of its link arrives.

Needs root and iproute2: a network namespace, and a pair of virtual interfaces for each gateway. Silence is a wrong
link-layer address at both ends: no packet arrives, and nobody is told.
"""

import os
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from coldnotify_testkit.networks import ip, makes_networks

_NOWHERE = "02:00:00:00:00:ff"
_HERE, _THERE = "02:00:00:00:00:01", "02:00:00:00:00:02"
"""Link-layer addresses of this machine's end and of the devices' end."""
LINKS_MAX = 3


class NetworkError(Exception):
    """Networks cannot be made here."""


class SilentNetwork:
    """Links number 0 to `links` - 1, each from an address of this machine to the devices' namespace."""

    def __init__(self, links: int) -> None:
        """At most LINKS_MAX. Nothing is made yet. Raises NetworkError if none can be."""
        if not makes_networks():
            raise NetworkError("a silent network needs root and iproute2")
        pid = os.getpid()
        self.name = f"cnl{pid}"
        """The namespace's."""
        self._nets = [f"10.{200 + pid % 50}.{pid // 50 % 80 * LINKS_MAX + link}" for link in range(links)]
        self._stack = ExitStack()

    @property
    def hosts(self) -> tuple[str, ...]:
        """Returns this machine's address on each link."""
        return tuple(f"{net}.1" for net in self._nets)

    def silence(self, link: int) -> None:
        """From now on nothing arrives in either direction."""
        self._point(link, _NOWHERE, _NOWHERE)

    def heal(self, link: int) -> None:
        """All arrives again."""
        self._point(link, _HERE, _THERE)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            ip("netns", "add", self.name)
            stack.callback(ip, "netns", "del", self.name)
            for link, net in enumerate(self._nets):
                here, there = self._ends(link)
                of_peer = ("peer", "name", there, "address", _THERE, "netns", self.name)
                ip("link", "add", here, "address", _HERE, "type", "veth", *of_peer)
                # With the namespace it would go later, at some time.
                stack.callback(ip, "link", "del", here)
                ip("addr", "add", f"{net}.1/24", "dev", here)
                ip("link", "set", here, "up")
                ip("-n", self.name, "addr", "add", f"{net}.2/24", "dev", there)
                ip("-n", self.name, "link", "set", there, "up")
                self.heal(link)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    def _ends(self, link: int) -> tuple[str, str]:
        return f"{self.name}h{link}", f"{self.name}d{link}"

    def _point(self, link: int, to_here: str, to_there: str) -> None:
        (here, there), net = self._ends(link), self._nets[link]
        for_ever = ("nud", "permanent")
        ip("-n", self.name, "neigh", "replace", f"{net}.1", "lladdr", to_here, "dev", there, *for_ever)
        ip("neigh", "replace", f"{net}.2", "lladdr", to_there, "dev", here, *for_ever)
