"""A load device's interface: one connection's protocol, as little of it as a real client would send.

Pure: bytes in, bytes out. A device sends `hello()`, then answers what it receives; `receive` returns what to send and
the publishers' stamps that arrived. Devices of a fan-out receive the same bytes: their meaning is cached, so that a
swarm stays light.
"""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from coldnotify_load.marks import Stamp
from coldnotify_load.population import Population


class LoadDevice(Protocol):
    """One connection's protocol."""

    @property
    def ready(self) -> bool:
        """Subscribed and complete: what is published from now on arrives."""

    @property
    def closed(self) -> str:
        """Why the server sent it away; empty: it did not."""

    def hello(self) -> bytes:
        """Returns what to send on a new connection; begins a new session."""

    def receive(self, data: bytes) -> tuple[bytes, tuple[Stamp, ...]]:
        """Returns what to answer, and the stamps of the publishes that arrived.

        A negative stamp is a difference of a set: -1 minus the offset of the change that caused it.
        """

    def tick(self) -> bytes:
        """Returns what to send a second after something arrived."""

    def ping(self) -> bytes:
        """Returns what to send once a keepalive."""


@runtime_checkable
class QueryingDevice(Protocol):
    """A device whose registrations are queries."""

    def change(self, count: int) -> bytes:
        """Returns what to send to register for so many new ones, and to unregister the oldest."""

    def held(self) -> Any:
        """Returns its state, for whoever compares it."""


DeviceMaker = Callable[[Population, int], LoadDevice]
"""Makes device `number` of a population. A class, or a function of a module: other processes get it by its name."""
