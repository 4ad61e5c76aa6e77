"""What the shell needs of a device's connection, whatever carries it: TCP, WebSocket, one HTTP request."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from coldnotify_common.security.identity import Identity

from coldnotify_gateway.core import Frame, Urgent


class DeviceConnection(Protocol):
    """One device's connection: the core's peer."""

    address: str
    """The client's IP address, as far as it is known; "": not at all."""
    nobodys: bool
    """A balancer has not said yet whose it is."""
    held: bool
    """It is within a connection that counts already, of a port where sessions come and go in one."""
    blocked: bool
    """More than the high-water mark waits to be written."""

    @property
    def certificate(self) -> Mapping[str, Any] | None:
        """The client's verified certificate, as ssl's getpeercert() says it; None: there is none."""

    @property
    def token(self) -> str:
        """What came beside the byte stream to say who this is, in a header; "" if nothing."""

    @property
    def passed_on(self) -> bool:
        """Whether somebody in between passes it on, so that `certificate` could only be theirs."""

    waits: bool
    """What comes is to `wait`: the transport has as much as it is to hold, or takes nothing by itself."""

    @property
    def write(self) -> Callable[[bytes], None]:
        """Hands bytes to the transport, where nothing `waits`. A fan-out calls it a thousand times. Raises OSError or
        RuntimeError where the connection is gone."""

    def wait(self, frame: Frame) -> None:
        """Keeps a frame until it can be written."""

    def send(self, frames: Sequence[Frame]) -> None:
        """Writes frames, or keeps them until they can be; between them something urgent may come while they wait."""

    def send_urgent(self, urgent: Urgent) -> None:
        """Writes it in front of what waits, or in its turn where nothing does."""

    def overtake(self, channels: Collection[int], repeats: Sequence[Frame]) -> None:
        """Writes what waits of these channels in front of what waits of others, and behind it these frames."""

    @property
    def buffered_bytes(self) -> int:
        """What waits to be written."""

    def set_high_water(self, high_water_bytes: int, low_water_bytes: int) -> None:
        """Blocked above the one, drained below the other, from here on."""

    def pause_reading(self) -> None:
        """Nothing more of what the client says is wanted for now; may be called again."""

    def resume_reading(self) -> None:
        """It is again; may be called although it never was not."""

    def finish(self) -> None:
        """Closes the connection once what was sent is flushed; cuts it off if that takes too long."""

    def abort(self) -> None:
        """Cuts the connection off."""

    def __hash__(self) -> int: ...


class Proof(NamedTuple):
    """What says who somebody is, beside what they say themselves: of a connection, or of a request."""

    address: str
    certificate: Mapping[str, Any] | None
    token: str
    passed_on: bool


class ConnectionEvents:
    """What a connection tells its service."""

    def identify(self, proof: Proof) -> Identity:
        """Who this is, by what a request shows before its body is read. Raises Violation."""
        raise NotImplementedError

    def on_connect(self, connection: DeviceConnection, transport: asyncio.Transport) -> None:
        """A device connected."""
        raise NotImplementedError

    def on_address(self, connection: DeviceConnection) -> None:
        """A balancer has said whose this connection is: `connection.address`; its own, if it left that open."""
        raise NotImplementedError

    def on_malformed_proxy_header(self) -> None:
        """A balancer's connection did not begin with a PROXY protocol header; it is being closed."""
        raise NotImplementedError

    def on_bytes(self, connection: DeviceConnection, data: bytes) -> None:
        """Bytes came."""
        raise NotImplementedError

    def on_blocked(self, connection: DeviceConnection) -> None:
        """The connection is full."""
        raise NotImplementedError

    def on_drained(self, connection: DeviceConnection) -> None:
        """It is drained."""
        raise NotImplementedError

    def on_disconnected(self, connection: DeviceConnection) -> None:
        """It is gone."""
        raise NotImplementedError
