"""For tests: the frames that a device sends, from their fields; and what a gateway wrote, as frames."""

from coldnotify_schemas.digest import digest
from coldnotify_schemas.frames import FrameBuffer, encode, parse_gateway_frame
from coldnotify_schemas.protocol import GATEWAY_FRAME_BYTES_MAX
from coldnotify_schemas.wire_pb2 import (
    Ack,
    Bye,
    ClientFrame,
    GatewayFrame,
    HeldShare,
    Hello,
    Hold,
    Ping,
    Register,
    SyncChunk,
    Unregister,
    UseNames,
)

EPOCH = 7
"""The epoch of the matcher that the devices meet."""


def hello(
    client: str = "client-1",
    *,
    domain: str = "animal.observer",
    group: str = "region-1",
    wanted: tuple[str, ...] = (),
    register: tuple[str, ...] = (),
    unregister: tuple[str, ...] = (),
    cursor: int | None = None,
    protocol: int = 1,
    capabilities: int = 0,
    keepalive_s: int = 0,
    token: str = "",
) -> bytes:
    """A Hello's frame; its digest is that of `wanted`. A cursor is of the matcher's epoch."""
    message = Hello(
        protocol=protocol,
        capabilities=capabilities,
        domain=domain,
        group=group,
        client=client,
        digest=digest(wanted),
        register=register,
        unregister=unregister,
        epoch=None if cursor is None else EPOCH,
        cursor=cursor,
        keepalive_s=keepalive_s,
        token=token,
    )
    return encode(ClientFrame(hello=message))


def register(request: int, *objects: str) -> bytes:
    """A Register's frame."""
    return encode(ClientFrame(register=Register(request=request, objects=objects)))


def unregister(request: int, *objects: str) -> bytes:
    """An Unregister's frame."""
    return encode(ClientFrame(unregister=Unregister(request=request, objects=objects)))


def sync(index: int, *objects: str, last: bool = False) -> bytes:
    """A SyncChunk's frame."""
    return encode(ClientFrame(sync=SyncChunk(index=index, last=last, objects=objects)))


def ack(complete: int | None = None, page: int = 0) -> bytes:
    """An Ack's frame."""
    return encode(ClientFrame(ack=Ack(complete=complete, page=page)))


def hold(number: int, *shares: HeldShare, every: bool = False) -> bytes:
    """A Hold's frame. `every`: it says all that is held."""
    return encode(ClientFrame(hold=Hold(number=number, all=every, shares=shares)))


def ping(said: int | None = None) -> bytes:
    """Returns the frame of a Ping; `said` is its digest."""
    return encode(ClientFrame(ping=Ping(digest=said)))


def use_names() -> bytes:
    """A UseNames' frame."""
    return encode(ClientFrame(use_names=UseNames()))


def bye() -> bytes:
    """A Bye's frame."""
    return encode(ClientFrame(bye=Bye()))


def parse(data: bytes) -> list[GatewayFrame]:
    """The frames that a gateway wrote. Raises AssertionError if the last one is not whole."""
    frames = FrameBuffer(GATEWAY_FRAME_BYTES_MAX)
    parsed = [parse_gateway_frame(body) for body in frames.feed(data)]
    assert not len(frames), "half a frame"
    return parsed
