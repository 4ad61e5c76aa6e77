"""Overtaking: frames of high priority overtake the frames that wait for a connection, and move no cursor.

A publish of high priority reaches a session as an *urgent* frame: a Notification marked as an answer. So it may precede
any other frame, and the client's cursor does not move, because the overtaken frames follow. The version is sent again
at its own place in the log's order, in a frame or a page that moves the cursor; the client's floor hides that
repetition. If no frames wait, the version is sent at its place alone.

An object that a client has through a query is not sent before the frame that announces its entry.
`Identified.knows_member` knows the pages and live frames that were written to a session; such a frame that still waits
is not overtaken.

A message of high priority takes its channel with it: all waiting messages of the channel are sent ahead, in order, as
parts of a page, which move no cursor either. The originals keep their places, in frames that move it; the client knows
them by then, and hides them. So no message ever precedes an earlier one of its channel.

Frames stay whole: an urgent one goes between two others. The order is decided by the frames' values (`told.py`), and no
bytes are parsed. Bytes that the transport holds cannot be overtaken, so it gets only a few at a time.
"""

from collections import deque
from collections.abc import Collection, Sequence
from typing import NamedTuple

from coldnotify_schemas.internal_pb2 import Newest

from coldnotify_gateway.core import encoding
from coldnotify_gateway.core.dialects import CRC
from coldnotify_gateway.core.told import Dialect, Encode, Fence, Frame, joined

_PART_SHARE = 4
"""A page is at most as long as the high-water mark, and the transport gets it in so many parts: a fast link takes each
part at once, and on a slow link a quarter of a page takes half a second."""
_PART_BYTES_MIN = 1024


class Urgent(NamedTuple):
    """The frames of a publish of high priority for one connection."""

    ahead: Frame
    """Frame that overtakes the waiting ones. It moves no cursor."""
    at_its_place: Frame | None
    """Frame that follows the waiting ones; None: a page contains it."""
    member: str = ""
    """Name of the object, if the frame must not overtake the frame that announces the object's entry; "": it may."""

    @property
    def alone(self) -> Frame:
        """Returns the only frame that is written if no frames wait."""
        return self.at_its_place or self.ahead


def urgent(said: Newest, dialect: Dialect, *, live: bool, by_query: bool = False) -> Urgent:
    """Returns the frames of a publish of high priority.

    `live`: the session is complete except for the frames that wait for its connection. Otherwise it waits for pages.

    `by_query`: the session has the object through queries only.
    """
    at_its_place = encoding.notification(said, dialect) if live else None
    ahead = encoding.notification(said, dialect, answer=True)
    return Urgent(ahead, at_its_place, said.name if by_query else "")


def part_bytes(high_water_bytes: int) -> int:
    """Returns the bytes that a transport gets at a time, and may hold, for a connection with this high-water mark."""
    return max(high_water_bytes // _PART_SHARE, _PART_BYTES_MIN)


class WaitingFrames:
    """The frames that wait for one connection's transport."""

    __slots__ = ("_ahead", "_ahead_to", "_encode", "_in_turn", "size_bytes")

    def __init__(self, encode: Encode = CRC.encode) -> None:
        """`encode`: the encoding of the connection's dialect."""
        self._encode = encode
        self._ahead: deque[Frame] = deque()
        self._ahead_to: dict[int, int] = {}
        """Channels with messages that overtook the waiting frames, and the offset of the last such message."""
        self._in_turn: deque[Frame] = deque()
        self.size_bytes = 0
        """Total size of the waiting frames, in bytes."""

    def add(self, *frames: Frame) -> None:
        """Adds frames after all waiting ones."""
        for frame in frames:
            self._in_turn.append(frame)
            self.size_bytes += len(frame.data)

    def add_urgent(self, urgent: Urgent) -> None:
        """Adds a frame ahead of the waiting ones, after earlier urgent ones."""
        if urgent.at_its_place is not None and not self.size_bytes:
            self.add(urgent.at_its_place)
        elif self._is_fenced(Fence.WELCOME) or (urgent.member and self._enters(urgent.member)):
            self.add(urgent.alone)
        else:
            self._add_ahead(urgent.ahead)
            if urgent.at_its_place is not None:
                self.add(urgent.at_its_place)

    def overtake(self, channels: Collection[int], repeats: Sequence[Frame] = ()) -> None:
        """Moves the waiting messages of these channels ahead of all other frames, after earlier urgent ones.

        Moves nothing if no other frame waits before them. `repeats`: frames to send ahead after them, in any case.
        Nothing overtakes a Welcome or a Registered.
        """
        if self._is_fenced(Fence.REGISTERED):
            self.add(*repeats)
            return
        found: list[Frame] = []
        others, overtakes = False, bool(repeats)
        for frame in self._in_turn:
            channel = frame.told.channel
            if channel is None or channel not in channels:
                others = True
                continue
            overtakes |= others
            if frame.told.offset > self._ahead_to.get(channel, -1):
                found.append(frame)
        if not overtakes:
            return
        for frame in found:
            if frame.told.channel is not None:
                self._ahead_to[frame.told.channel] = frame.told.offset
            self._add_ahead(encoding.as_part_of_a_page(frame, self._encode))
        for frame in repeats:
            self._add_ahead(frame)

    def _add_ahead(self, frame: Frame) -> None:
        self._ahead.append(frame)
        self.size_bytes += len(frame.data)

    def _is_fenced(self, fence: Fence) -> bool:
        """Returns true if a frame with this fence, or a stricter one, waits."""
        return any(frame.told.fence >= fence for frame in self._in_turn)

    def _enters(self, name: str) -> bool:
        """Returns true if a waiting frame announces the entry of the object of this name into a query."""
        return any(frame.told.entering == name for frame in self._in_turn)

    def take(self, bytes_max: int) -> bytes:
        """Removes the next frames as `take_frames` does, and returns their bytes."""
        return joined(self.take_frames(bytes_max))

    def take_frames(self, bytes_max: int) -> list[Frame]:
        """Removes and returns the next frames of at most so many bytes, or one frame if the first is longer."""
        taken: list[Frame] = []
        room = bytes_max
        for waiting in (self._ahead, self._in_turn):
            while waiting and (not taken or len(waiting[0].data) <= room):
                taken.append(waiting.popleft())
                room -= len(taken[-1].data)
            if waiting:
                break
        if not self._in_turn:
            self._ahead_to.clear()
        self.size_bytes -= bytes_max - room
        return taken

    def clear(self) -> None:
        """Drops all waiting frames, because the connection is gone."""
        self._ahead.clear()
        self._ahead_to.clear()
        self._in_turn.clear()
        self.size_bytes = 0
