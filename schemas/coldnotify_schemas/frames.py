"""The frame codec: a varint length, then a protobuf message. Pure: bytes in, messages out."""

from collections.abc import Iterator

from google.protobuf.message import DecodeError, Message

from coldnotify_schemas.protocol import CLIENT_FRAME_BYTES_MAX as CLIENT_FRAME_BYTES_MAX
from coldnotify_schemas.protocol import FRAME_LENGTH_BYTES_MAX
from coldnotify_schemas.protocol import GATEWAY_FRAME_BYTES_MAX as GATEWAY_FRAME_BYTES_MAX
from coldnotify_schemas.wire_pb2 import ClientFrame, GatewayFrame

_ACK_HEAD = b"\x0b\x2a\x09\x09"
"""An Ack with nothing but `complete`: a frame of 11 bytes, field 5 (ack) of 9 bytes, field 1 (fixed64)."""
_ACK_BYTES = len(_ACK_HEAD) + 8


_SESSION_TAG = b"\x78"
"""Field 15 (session), a varint. It is a message's last field, whatever comes before."""


SAID_ONCE = ("protocol", "domain", "group", "client", "token", "keepalive_s")
"""Fields of a Hello that later ones on a link leave out, where they are those of the first."""


class FrameError(Exception):
    """The bytes are not a frame: the rest of the stream cannot be read."""


class FrameTooLarge(FrameError):
    """A frame announced more bytes than the reader takes."""


def encode(message: Message) -> bytes:
    """One frame: the message's length as a varint, then the message."""
    body = message.SerializeToString()
    return encode_length(len(body)) + body


def encode_length(length: int) -> bytes:
    """`length` as a base-128 varint, least significant group first."""
    if length < 0x80:
        return bytes((length,))
    groups = bytearray()
    while length >= 0x80:
        groups.append(length & 0x7F | 0x80)
        length >>= 7
    groups.append(length)
    return bytes(groups)


class FrameBuffer:
    """Cuts a byte stream into frames' bodies. Holds at most one frame's bytes beyond what it was fed at once.

    Between frames it holds nothing: a gateway has one for each of its many idle connections.
    """

    __slots__ = ("_bytes_max", "_rest")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._rest = b""

    def __len__(self) -> int:
        """Bytes of a frame that is not whole yet."""
        return len(self._rest)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yields the bodies of the frames that `data` completes, in order; an empty body is a frame too.

        Raises FrameTooLarge as soon as a length exceeds the limit, FrameError if the length is not a varint.
        """
        data = self._rest + data if self._rest else data
        start = 0
        try:
            while True:
                header = self._length_at(data, start)
                if header is None:
                    return
                length, width = header
                end = start + width + length
                if end > len(data):
                    return
                body = bytes(data[start + width : end])
                start = end
                yield body
        finally:
            self._rest = bytes(data[start:])

    def take_rest(self) -> bytes:
        """Returns the bytes of a frame that is not whole yet, and forgets them."""
        rest, self._rest = self._rest, b""
        return rest

    def _length_at(self, data: bytes, start: int) -> tuple[int, int] | None:
        length = 0
        for i, byte in enumerate(data[start : start + FRAME_LENGTH_BYTES_MAX]):
            length |= (byte & 0x7F) << 7 * i
            if not byte & 0x80:
                if length > self._bytes_max:
                    raise FrameTooLarge(f"frame of {length} bytes, at most {self._bytes_max} are taken")
                return length, i + 1
        if len(data) - start >= FRAME_LENGTH_BYTES_MAX:
            raise FrameError(f"frame length is not a varint of at most {FRAME_LENGTH_BYTES_MAX} bytes")
        return None


def numbered(data: bytes, session: int) -> bytes:
    """Returns these whole frames as frames of a session with this number."""
    if not session:
        return data
    tail = _SESSION_TAG + encode_length(session)
    bodies = FrameBuffer(len(data)).feed(data)
    return b"".join([b"%b%b%b" % (encode_length(len(body) + len(tail)), body, tail) for body in bodies])


def ack_complete(data: bytes) -> int | None:
    """Returns the `complete` of an Ack, if these bytes are exactly that frame; None: parse them as any other.

    Every client sends one a second while it is told something: this costs a sixth of parsing.
    """
    if len(data) == _ACK_BYTES and data.startswith(_ACK_HEAD):
        return int.from_bytes(data[len(_ACK_HEAD) :], "little")
    return None


def parse_client_frame(body: bytes) -> ClientFrame:
    """Parses a client's frame; an unknown kind of frame has no `frame` set. Raises FrameError."""
    try:
        return ClientFrame.FromString(body)
    except DecodeError as error:
        raise FrameError(f"not a client's frame: {error}") from None


def parse_gateway_frame(body: bytes) -> GatewayFrame:
    """Parses a gateway's frame; an unknown kind of frame has no `frame` set. Raises FrameError."""
    try:
        return GatewayFrame.FromString(body)
    except DecodeError as error:
        raise FrameError(f"not a gateway's frame: {error}") from None
