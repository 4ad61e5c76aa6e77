"""A connection that has not sent a Hello yet."""

from sys import intern

from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.frames import FrameBuffer, FrameError, encode_length, parse_client_frame
from coldnotify_schemas.wire_pb2 import Hello

from coldnotify_gateway.core.dialects import MQTT
from coldnotify_gateway.core.limits import Limits
from coldnotify_gateway.core.mqtt.device import MqttSide
from coldnotify_gateway.core.outputs import Peer
from coldnotify_gateway.core.timers import NEVER_S
from coldnotify_gateway.core.told import Dialect
from coldnotify_gateway.core.violation import Violation, check_hello, check_session, of_frame_error


class Unidentified:
    """A connection of an unknown client. It may send only a Hello, and has limited time for it."""

    __slots__ = (
        "_is_link",
        "_skipped_bytes",
        "_skipped_bytes_max",
        "address",
        "carried",
        "connected_s",
        "device",
        "dialect",
        "frames",
        "handshake_due_s",
        "held_hello",
        "kept",
        "peer",
        "wake_s",
    )

    def __init__(self, peer: Peer, address: str, now_s: float, limits: Limits, dialect: Dialect | None = None) -> None:
        """`dialect`: the one that the connection states; None: the Hello decides."""
        self.peer = peer
        self.dialect = dialect
        self.address = intern(address)  # behind a proxy, all connections share one address
        self.connected_s = now_s
        self.handshake_due_s = now_s + limits.handshake_s
        self.device = MqttSide(limits.packet_bytes_max) if dialect is MQTT else None
        """The MQTT side of the connection; None: it is of the device protocol."""
        self.frames = FrameBuffer(limits.frame_bytes_max)
        self.wake_s = NEVER_S
        self.kept: list[bytes] | None = None
        """Frames that came after a Hello that waits for its turn; None: no Hello has come yet."""
        self.held_hello: Hello | None = None
        """A Hello that is handled at the deadline; None: there is none, or its Hello is late by then."""
        self._is_link = False
        self.carried = b""
        """A link's first Hello, as it came: its sessions are connections of their own. b"": it is none, or not yet."""
        self._skipped_bytes = 0
        self._skipped_bytes_max = limits.before_hello_bytes_max

    def wait(self) -> None:
        """Notes that its Hello waits for its turn. The client is late no more."""
        self.kept = []
        self.held_hello = None
        self.handshake_due_s = NEVER_S

    def wait_for(self, hello: Hello, due_s: float) -> None:
        """Holds its Hello until this time."""
        self.held_hello, self.handshake_due_s = hello, due_s

    def deadline_s(self) -> float:
        """Returns the time by which the Hello must have arrived."""
        return self.handshake_due_s

    def move_to(self, address: str) -> None:
        """Assigns the connection to another address."""
        self.address = address

    def on_frame(self, body: bytes) -> Hello | None:
        """Returns the checked Hello, or None after a frame of an unknown kind, or a link's Hello. Raises Violation.

        A frame without content that has a session's number makes the connection a link.
        """
        try:
            frame = parse_client_frame(body)
        except FrameError as error:
            raise of_frame_error(error) from None
        kind = frame.WhichOneof("frame")
        self._is_link |= kind is None and frame.session > 0
        if self._is_link and kind == "hello":
            self.carried = encode_length(len(body)) + body
            return None
        if kind is not None:
            check_session(frame)
        if kind == "hello":
            check_hello(frame.hello)
            return frame.hello
        if kind is not None:
            raise Violation(CloseCode.PROTOCOL_ERROR, f"{kind}: came before hello")
        self._skipped_bytes += len(body) + 1
        if self._skipped_bytes > self._skipped_bytes_max:
            raise Violation(CloseCode.PROTOCOL_ERROR, f"hello: did not come within {self._skipped_bytes_max} bytes")
        return None
