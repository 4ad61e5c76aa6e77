"""What carries a session's bytes: a connection as it is, WebSocket messages, HTTP requests. No I/O here.

A link asks its carrier what to write when the connection stands (`begin`), hands it what comes (`receive`, which gives
the session's bytes), and has it wrap what the session sends (`send`). WebSocket and HTTP need the extra
`coldnotify[web]`: `websockets` and `h11`, both without I/O of their own.
"""

from importlib.util import find_spec
from typing import Protocol

from coldnotify_schemas.frames import FrameBuffer, encode_length, parse_client_frame, parse_gateway_frame
from coldnotify_schemas.protocol import (
    CLIENT_FRAME_BYTES_MAX,
    GATEWAY_FRAME_BYTES_MAX,
    SYNC_WAIT_S_MAX,
    WEBSOCKET_TAKEN_FRAMES_MAX,
)

from coldnotify._core.reconnect import Address

MESSAGE_BYTES_MAX = 1024 * 1024
"""Of one WebSocket message: a gateway sends at most a page and what waits beside it."""
FRAMES_TYPE = "application/vnd.coldnotify.frames"
_PROBLEM_BYTES_MAX = 500
_NEEDS = {"ws": "websockets", "wss": "websockets", "http": "h11", "https": "h11"}


class CarrierError(Exception):
    """The other side does not speak this protocol, or refuses: the connection is of no use."""


class Carrier(Protocol):
    """What a link needs of one."""

    @property
    def ready(self) -> bool:
        """The session may begin."""

    @property
    def hello_only(self) -> bool:
        """A session can say its Hello and its whole set, and nothing else."""

    @property
    def over(self) -> str:
        """Why the connection is of no more use; "": it is."""

    @property
    def renewable(self) -> bool:
        """It is over because it has done what it is for: another one is to follow without a pause."""

    def begin(self) -> bytes:
        """What to write when the connection stands."""

    def receive(self, data: bytes) -> bytes:
        """What the gateway says to the session. Raises CarrierError."""

    def answer(self) -> bytes:
        """What to write on the carrier's own account after `receive`."""

    def send(self, data: bytes) -> bytes:
        """What to write for the session to say this."""

    def end(self) -> bytes:
        """What to write when nothing follows any more."""


def missing_library(scheme: str) -> str | None:
    """What has to be installed before addresses of this scheme can be used."""
    needed = _NEEDS.get(scheme)
    return needed if needed is not None and find_spec(needed) is None else None


def carrier_of(address: Address, keepalive_s: int) -> Carrier:
    """A new carrier for one connection to this address."""
    match address.scheme:
        case "ws" | "wss":
            return _WebSocket(address)
        case "http" | "https":
            return _Requests(address, min(keepalive_s, SYNC_WAIT_S_MAX))
    return _AsItIs()


class _AsItIs:
    """TCP: the connection's bytes are the session's."""

    ready = True
    hello_only = False
    over = ""
    renewable = False

    def begin(self) -> bytes:
        return b""

    def receive(self, data: bytes) -> bytes:
        return data

    def answer(self) -> bytes:
        return b""

    def send(self, data: bytes) -> bytes:
        return data

    def end(self) -> bytes:
        return b""


class _WebSocket:
    """Each piece that is sent is a binary message."""

    hello_only = False
    renewable = False

    def __init__(self, address: Address) -> None:
        from websockets.client import ClientProtocol
        from websockets.uri import parse_uri

        self._protocol = ClientProtocol(parse_uri(str(address)), max_size=MESSAGE_BYTES_MAX)
        self.ready = False
        self.over = ""

    def begin(self) -> bytes:
        self._protocol.send_request(self._protocol.connect())
        return self.answer()

    def receive(self, data: bytes) -> bytes:
        from websockets.frames import Frame, Opcode

        self._protocol.receive_data(data)
        said = []
        for event in self._protocol.events_received():
            if not isinstance(event, Frame):
                problem = self._protocol.handshake_exc
                if problem is not None:
                    raise CarrierError(f"WebSocket: {problem}")
                self.ready = True
            elif event.opcode in (Opcode.BINARY, Opcode.CONT):
                said.append(bytes(event.data))
            elif event.opcode is Opcode.CLOSE:
                self.over = "the gateway closed the connection"
        if self._protocol.handshake_exc is not None:
            raise CarrierError(f"WebSocket: {self._protocol.handshake_exc}")
        if self._protocol.parser_exc is not None:
            raise CarrierError(f"WebSocket: {self._protocol.parser_exc}")
        return b"".join(said)

    def answer(self) -> bytes:
        return b"".join(self._protocol.data_to_send())

    def send(self, data: bytes) -> bytes:
        if self.over:
            return b""
        self._protocol.send_binary(data)
        return self.answer()

    def end(self) -> bytes:
        if not self.ready or self.over:
            return b""
        self._protocol.send_close(1000)
        return self.answer()


class _Requests:
    """One session is one POST to /v1/sync, whose answer is held until something is published or `wait_s` is over.

    The Hello makes the request. What else a session says cannot be said: its next Hello says it (the cursor, what is
    to be registered). Only if the service wants the whole set, a second request has it behind the same Hello.
    """

    hello_only = True

    def __init__(self, address: Address, wait_s: int) -> None:
        import h11

        self._target = f"{address.path}?wait_s={wait_s}"
        self._host = address.authority
        self._http = h11.Connection(h11.CLIENT)
        self._status = 0
        self._problem = b""
        self._from_session = FrameBuffer(CLIENT_FRAME_BYTES_MAX * WEBSOCKET_TAKEN_FRAMES_MAX)
        self._to_session = FrameBuffer(GATEWAY_FRAME_BYTES_MAX)
        self._hello = b""
        self._chunks: list[bytes] = []
        self._set_wanted = False
        self._caught_up = False
        self._under_way = False
        self._waiting = b""
        """The body of the next request, for as long as the end of the answer before it has not come."""
        self._out = b""
        self._more_to_say = False
        self.ready = True
        self.over = ""
        self.renewable = False

    def begin(self) -> bytes:
        return b""

    def answer(self) -> bytes:
        out, self._out = self._out, b""
        return out

    def end(self) -> bytes:
        return b""

    def send(self, data: bytes) -> bytes:
        out = b""
        for body in self._from_session.feed(data):
            frame = encode_length(len(body)) + body
            parsed = parse_client_frame(body)
            match parsed.WhichOneof("frame"):
                case "hello":
                    self._hello = frame
                    out += self._post(frame)
                case "sync" if self._set_wanted:
                    self._chunks.append(frame)
                    if parsed.sync.last:
                        self._set_wanted = False
                        out += self._post(self._hello + b"".join(self._chunks))
                        self._chunks.clear()
                case "register" | "unregister" | "use_names":
                    self._more_to_say = True
                    self._end_if_said_and_caught_up()
        return out

    def receive(self, data: bytes) -> bytes:
        import h11

        said = []
        try:
            self._http.receive_data(data)
            while True:
                event = self._http.next_event()
                if isinstance(event, h11.Response):
                    self._status = event.status_code
                elif isinstance(event, h11.Data):
                    said.append(self._of_answer(bytes(event.data)))
                elif isinstance(event, h11.EndOfMessage):
                    self._on_answer()
                elif isinstance(event, h11.InformationalResponse):
                    continue
                else:
                    if isinstance(event, h11.ConnectionClosed):
                        self._end("the gateway closed the connection")
                    return b"".join(said)
        except h11.RemoteProtocolError as error:
            raise CarrierError(f"HTTP: {error}") from None

    def _of_answer(self, data: bytes) -> bytes:
        if self._status != 200:
            self._problem = (self._problem + data)[:_PROBLEM_BYTES_MAX]
            return b""
        for body in self._to_session.feed(data):
            frame = parse_gateway_frame(body)
            kind = frame.WhichOneof("frame")
            self._set_wanted = kind == "welcome" and not frame.welcome.in_sync
            self._caught_up = self._caught_up or kind == "caught_up"
        self._end_if_said_and_caught_up()
        return data

    def _end_if_said_and_caught_up(self) -> None:
        if self._more_to_say and self._caught_up:
            self._end("there is something to register")

    def _on_answer(self) -> None:
        self._under_way = False
        if self._status != 200:
            raise CarrierError(f"HTTP: status {self._status}: {self._problem.decode(errors='replace')}")
        if self._waiting:
            self._out, self._waiting = self._post(self._waiting), b""
        elif not self._set_wanted:
            self._end("the request is answered")

    def _end(self, why: str) -> None:
        self.over = self.over or why
        self.renewable = self._caught_up

    def _post(self, body: bytes) -> bytes:
        import h11

        if self._under_way:
            # The session answers a Welcome at once. The end of the body that it came in may be a segment behind.
            self._waiting = body
            return b""
        try:
            if self._http.states[h11.CLIENT] is not h11.IDLE:
                self._http.start_next_cycle()
            headers = [("Host", self._host), ("Content-Type", FRAMES_TYPE), ("Content-Length", str(len(body)))]
            out = b"".join(
                self._http.send(event) or b""
                for event in (
                    h11.Request(method="POST", target=self._target, headers=headers),
                    h11.Data(data=body),
                    h11.EndOfMessage(),
                )
            )
        except h11.LocalProtocolError as error:
            self._end(f"HTTP: a second request is not possible: {error}")
            return b""
        self._under_way = True
        return out
