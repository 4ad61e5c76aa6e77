"""A link: one connection that carries the sessions of several applications, or of one in several groups.

Each session is a `DeviceConnection` of its own, so the core, which knows nothing of links, serves it as any other. Its
frames carry its number on the way to the device, and lose it on the way here.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.frames import SAID_ONCE, FrameBuffer, FrameError, encode, numbered, parse_client_frame
from coldnotify_schemas.protocol import LINK_SESSIONS_MAX
from coldnotify_schemas.wire_pb2 import Hello

from coldnotify_gateway.core import Dialect, Frame, Urgent, Violation
from coldnotify_gateway.core.violation import of_frame_error
from coldnotify_gateway.device_connection import DeviceConnection


class LinkEvents(Protocol):
    """The events that a link reports to its service."""

    def on_session(self, connection: DeviceConnection) -> None:
        """Handles a session's beginning, before its Hello."""

    def on_bytes(self, connection: DeviceConnection, data: bytes) -> None:
        """Handles a session's frame."""

    def on_heard(self, connections: Sequence[DeviceConnection]) -> None:
        """Handles a sign of life of these sessions."""

    def on_violation(self, connection: DeviceConnection, violation: Violation) -> None:
        """Ends a session, whose client, or whose link, broke the protocol."""

    def on_disconnected(self, connection: DeviceConnection) -> None:
        """Handles the end of a session."""

    def on_emptied(self, carrier: DeviceConnection) -> None:
        """Handles the end of a link's last session."""


class LinkedSessions:
    """The sessions of one link, by number. A number is never used again, so a frame cannot reach another session."""

    def __init__(self, carrier: DeviceConnection, events: LinkEvents, frame_bytes_max: int) -> None:
        self._carrier = carrier
        self._events = events
        self._frames = FrameBuffer(frame_bytes_max)
        self._open: dict[int, LinkedSession] = {}
        self._last = -1
        self._first: Hello | None = None
        """The first Hello: later ones leave out what they have in common with it."""
        self._paused: set[LinkedSession] = set()
        self._ended = False

    def sessions(self) -> list["LinkedSession"]:
        """Returns the open sessions: first the one that was last the time before."""
        if self._open:
            number = next(iter(self._open))
            self._open[number] = self._open.pop(number)
        return list(self._open.values())

    def feed(self, data: bytes) -> None:
        """Handles received bytes: any part of a frame, or several frames. After the last session's end none matter."""
        if self._ended:
            return
        self._events.on_heard(list(self._open.values()))
        try:
            for body in self._frames.feed(data):
                self._on_frame(body)
        except FrameError as error:
            self._break(of_frame_error(error))
        except Violation as violation:
            self._break(violation)

    def _on_frame(self, body: bytes) -> None:
        frame = parse_client_frame(body)
        number = frame.session
        frame.ClearField("session")
        if number > self._last:
            kind = frame.WhichOneof("frame")
            if kind is None:
                return
            if kind != "hello":
                raise Violation(CloseCode.PROTOCOL_ERROR, f"session: {kind} came before the hello of {number}")
            self._begin(number, frame.hello)
        session = self._open.get(number)
        if session is not None:  # what is under way to an ended session is for nobody
            self._events.on_bytes(session, encode(frame))

    def _begin(self, number: int, hello: Hello) -> None:
        self._last = number
        session = LinkedSession(self._carrier, number, self._end, self._pause)
        if len(self._open) == LINK_SESSIONS_MAX:
            reason = f"session: {LINK_SESSIONS_MAX} are open on this connection, no more are taken"
            self._events.on_violation(session, Violation(CloseCode.OVERLOADED, reason))
            return
        if self._first is None:
            self._first = Hello()
            self._first.CopyFrom(hello)
        for name in SAID_ONCE:
            setattr(hello, name, getattr(hello, name) or getattr(self._first, name))
        self._open[number] = session
        self._events.on_session(session)

    def _break(self, violation: Violation) -> None:
        """Ends all sessions, because the link itself cannot be read."""
        for session in list(self._open.values()):
            self._events.on_violation(session, violation)

    def _end(self, session: "LinkedSession") -> None:
        """Ends a session. The connection ends with its last one."""
        self._pause(session, paused=False)
        self._open.pop(session.number, None)
        asyncio.get_running_loop().call_soon(self._events.on_disconnected, session)
        if not self._open and not self._ended:
            self._ended = True
            self._events.on_emptied(self._carrier)

    def _pause(self, session: "LinkedSession", *, paused: bool) -> None:
        """A session that must pause stops the reading of its link: what it sent would else fill the memory."""
        (self._paused.add if paused else self._paused.discard)(session)
        if self._paused:
            self._carrier.pause_reading()
        else:
            self._carrier.resume_reading()


class LinkedSession:
    """One session of a link: the core's peer. What it is written goes to the link in its turn: nothing overtakes."""

    held = nobodys = False

    def __init__(
        self,
        carrier: DeviceConnection,
        number: int,
        end: Callable[["LinkedSession"], None],
        pause: Callable[..., None],
    ) -> None:
        self.number = number
        self._carrier = carrier
        self._end = end
        self._pause = pause
        self._ended = False
        self.address = carrier.address

    @property
    def blocked(self) -> bool:
        """Returns true while the link is full."""
        return self._carrier.blocked

    @property
    def waits(self) -> bool:
        """Returns true if frames must `wait`."""
        return self._carrier.waits

    @property
    def certificate(self) -> Mapping[str, Any] | None:
        """Returns the link's verified certificate."""
        return self._carrier.certificate

    @property
    def token(self) -> str:
        """Returns the token from a header outside the link's byte stream."""
        return self._carrier.token

    @property
    def dialect(self) -> Dialect | None:
        """Returns the link's dialect."""
        return self._carrier.dialect

    @property
    def passed_on(self) -> bool:
        """Returns true if a proxy forwards the link."""
        return self._carrier.passed_on

    @property
    def buffered_bytes(self) -> int:
        """Returns 0, because its frames wait in the link, which counts them."""
        return 0

    @property
    def write(self) -> Callable[[bytes], None]:
        """Returns the function that hands frames to the link's transport."""
        return self._write

    def _write(self, data: bytes) -> None:
        if not self._ended:
            self._carrier.write(numbered(data, self.number))

    def wait(self, frame: Frame) -> None:
        """Keeps a frame until the link's transport takes it."""
        if not self._ended:
            self._carrier.wait(Frame(numbered(frame.data, self.number)))

    def send(self, frames: Sequence[Frame]) -> None:
        """Writes frames, or keeps them until the link's transport takes them."""
        if not self._ended:
            self._carrier.send([Frame(numbered(frame.data, self.number)) for frame in frames])

    def send_urgent(self, urgent: Urgent) -> None:
        """Writes it in its turn."""
        self.send([urgent.alone])

    def overtake(self, channels: Collection[int], repeats: Sequence[Frame]) -> None:
        """Leaves the waiting frames in their order, and writes `repeats` behind them."""
        if repeats:
            self.send(repeats)

    def set_high_water(self, high_water_bytes: int, low_water_bytes: int) -> None:
        """Sets the link's marks."""
        self._carrier.set_high_water(high_water_bytes, low_water_bytes)

    def pause_reading(self) -> None:
        """Stops reading from the link."""
        self._pause(self, paused=True)

    def resume_reading(self) -> None:
        """Continues reading from the link, unless another of its sessions pauses."""
        self._pause(self, paused=False)

    def finish(self) -> None:
        """Ends the session, and with the last one the link, once all sent bytes are flushed."""
        if not self._ended:
            self._ended = True
            self._end(self)

    def abort(self) -> None:
        """Cuts the link off."""
        self._carrier.abort()
