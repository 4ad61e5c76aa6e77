"""Networks of their own for processes of one machine, which can be cut off from each other. Needs root and iproute2."""

import ctypes
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

_CLONE_NEWNET = 0x40000000


def makes_networks() -> bool:
    """Returns true if this user may make networks, and iproute2 is there."""
    return shutil.which("ip") is not None and not subprocess.call(["unshare", "-n", "true"], stderr=subprocess.DEVNULL)


def ip(*words: str) -> None:
    """Runs iproute2's command. Raises CalledProcessError."""
    subprocess.run(["ip", *words], check=True, capture_output=True)


def enter(name: str) -> None:
    """Moves the calling thread, and those that it starts later, into a network. Raises OSError."""
    with Path("/var/run/netns", name).open("rb") as network:
        setns: Callable[[int, int], int] = ctypes.CDLL(None, use_errno=True).setns
        if setns(network.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"network {name} cannot be entered")


class Networks:
    """A bridge, and a network namespace for each number. This machine reaches all of them, and is a way to none."""

    def __init__(self, stack: ExitStack, numbers: Sequence[int]) -> None:
        """`stack` removes them."""
        self._numbers = numbers
        self._tag = f"cn{os.getpid() % 10_000}"
        self._net = f"10.{100 + os.getpid() % 100}.{os.getpid() // 100 % 250}"
        bridge = f"{self._tag}b"
        ip("link", "add", bridge, "type", "bridge")
        stack.callback(ip, "link", "del", bridge)
        ip("addr", "add", f"{self._net}.254/24", "dev", bridge)
        ip("link", "set", bridge, "up")
        for number in numbers:
            name, link = self.name(number), f"{self._tag}v{number}"
            ip("netns", "add", name)
            stack.callback(ip, "netns", "del", name)
            ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name)
            # With the namespace it would go later, at some time.
            stack.callback(ip, "link", "del", link)
            ip("link", "set", link, "master", bridge, "up")
            ip("-n", name, "addr", "add", f"{self.host(number)}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "link", "set", "lo", "up")

    def name(self, number: int) -> str:
        """Returns the namespace's name."""
        return f"{self._tag}n{number}"

    def host(self, number: int) -> str:
        """Returns the network's address."""
        return f"{self._net}.{number}"

    def command(self, number: int) -> list[str]:
        """Returns the words before a command that is to run there."""
        return ["ip", "netns", "exec", self.name(number)]

    @contextmanager
    def cut(self, number: int) -> Iterator[None]:
        """Drops all that passes between this one and the others."""
        others = [other for other in self._numbers if other != number]
        pairs = [(number, other) for other in others] + [(other, number) for other in others]
        for one, other in pairs:
            ip("-n", self.name(one), "route", "add", "blackhole", f"{self.host(other)}/32")
        try:
            yield
        finally:
            for one, other in pairs:
                ip("-n", self.name(one), "route", "del", "blackhole", f"{self.host(other)}/32")
