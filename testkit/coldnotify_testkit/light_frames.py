"""For tests of light devices: the frames of a gateway, and those that a device says."""

from coldnotify_schemas.digest import object_crc
from coldnotify_schemas.frames import CLIENT_FRAME_BYTES_MAX, FrameBuffer, encode, parse_client_frame
from coldnotify_schemas.wire_pb2 import ClientFrame, GatewayFrame


def said(data: bytes) -> list[ClientFrame]:
    """Returns the frames of a device."""
    return [parse_client_frame(body) for body in FrameBuffer(CLIENT_FRAME_BYTES_MAX).feed(data)]


def notification(stamp: int, offset: int, *, answer: bool = False) -> bytes:
    """Returns a version, its payload the stamp."""
    frame = GatewayFrame()
    frame.notification.crc = object_crc("object-0-0")
    frame.notification.version, frame.notification.offset = stamp, offset
    frame.notification.payload, frame.notification.answer = b"%d" % stamp, answer
    return encode(frame)


def welcome(*, in_sync: bool, epoch: int | None = None) -> bytes:
    """Returns a Welcome."""
    frame = GatewayFrame()
    frame.welcome.in_sync = in_sync
    if epoch is not None:
        frame.welcome.epoch = epoch
    return encode(frame)


def caught_up(complete: int) -> bytes:
    """Returns a CaughtUp."""
    frame = GatewayFrame()
    frame.caught_up.complete = complete
    return encode(frame)


def message(payload: bytes) -> bytes:
    """A binary message of WebSocket from a server."""
    assert len(payload) < 126
    return bytes((0x82, len(payload))) + payload
