"""The shell's interface to a device's connection over any transport: TCP, WebSocket, one HTTP request."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from coldnotify_common.security.identity import Identity

from coldnotify_gateway.core import Dialect, Frame, Urgent


class DeviceConnection(Protocol):
    """One device's connection: the core's peer."""

    address: str
    """The client's IP address; "": unknown."""
    nobodys: bool
    """True while a balancer has not sent the client's address yet."""
    held: bool
    """True for a session within a connection that counts already, on a port whose connections carry changing
    sessions."""

    @property
    def blocked(self) -> bool:
        """Returns true while more bytes than the high-water mark wait to be written."""

    @property
    def certificate(self) -> Mapping[str, Any] | None:
        """Returns the client's verified certificate in the form of ssl's getpeercert(); None: none."""

    @property
    def token(self) -> str:
        """Returns the token from a header outside the byte stream; "": none."""

    @property
    def dialect(self) -> Dialect | None:
        """Returns the dialect of a device whose listener knows it; None: the Hello decides."""

    @property
    def passed_on(self) -> bool:
        """Returns true if a proxy forwards the connection, so that `certificate` could only be the proxy's."""

    @property
    def waits(self) -> bool:
        """Returns true if frames must `wait`: the transport is full, or takes nothing by itself."""

    @property
    def write(self) -> Callable[[bytes], None]:
        """Returns the function that hands bytes to the transport, for use while `waits` is false. A fan-out calls it a
        thousand times. It raises OSError or RuntimeError if the connection is gone."""

    def wait(self, frame: Frame) -> None:
        """Keeps a frame until it can be written."""

    def send(self, frames: Sequence[Frame]) -> None:
        """Writes frames, or keeps them until the transport takes them. Urgent frames may overtake those that wait."""

    def send_urgent(self, urgent: Urgent) -> None:
        """Writes it ahead of the waiting frames, or in its turn if no frames wait."""

    def overtake(self, channels: Collection[int], repeats: Sequence[Frame]) -> None:
        """Moves the waiting frames of these channels ahead of all others, and `repeats` after them."""

    @property
    def buffered_bytes(self) -> int:
        """Returns the size of the waiting frames, in bytes."""

    def set_high_water(self, high_water_bytes: int, low_water_bytes: int) -> None:
        """Sets the marks above which the connection is blocked, and below which it is drained."""

    def pause_reading(self) -> None:
        """Stops reading for now. May be called repeatedly."""

    def resume_reading(self) -> None:
        """Continues reading. May be called without a pause before it."""

    def finish(self) -> None:
        """Closes the connection once all sent bytes are flushed, and cuts it off if that takes too long."""

    def abort(self) -> None:
        """Cuts the connection off."""

    def __hash__(self) -> int: ...


class Proof(NamedTuple):
    """The proof of a client's identity outside its frames, from a connection or a request."""

    address: str
    certificate: Mapping[str, Any] | None
    token: str
    passed_on: bool


class ConnectionEvents:
    """The events that a connection reports to its service."""

    def identify(self, proof: Proof) -> Identity:
        """Returns the identity that a request's proof belongs to, before its body is read. Raises Violation."""
        raise NotImplementedError

    def on_connect(self, connection: DeviceConnection, transport: asyncio.Transport) -> None:
        """Handles a device's new connection."""
        raise NotImplementedError

    def on_address(self, connection: DeviceConnection) -> None:
        """Handles the client's address from a balancer, in `connection.address`; the balancer's own if it sent none."""
        raise NotImplementedError

    def on_malformed_proxy_header(self) -> None:
        """Handles a balancer's connection without a PROXY protocol header, which is being closed."""
        raise NotImplementedError

    def on_bytes(self, connection: DeviceConnection, data: bytes) -> None:
        """Handles received bytes."""
        raise NotImplementedError

    def on_blocked(self, connection: DeviceConnection) -> None:
        """Handles a connection that has become full."""
        raise NotImplementedError

    def on_drained(self, connection: DeviceConnection) -> None:
        """Handles a connection that is drained."""
        raise NotImplementedError

    def on_disconnected(self, connection: DeviceConnection) -> None:
        """Handles the end of a connection."""
        raise NotImplementedError
