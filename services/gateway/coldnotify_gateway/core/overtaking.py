"""Overtaking: what is of high priority goes in front of what waits for a connection, and moves no cursor.

A publish of high priority comes to a session as an *urgent* frame: a Notification marked as an answer. So it may come
before anything else, and the client's cursor stays where it is: what was overtaken comes behind it. The version comes
once more at its own place, in the order of the log, in a frame or a page that moves the cursor; the client's floor
hides that repeat. Where nothing waits there is nothing to overtake, and the version comes at its place alone.

What a client has by a query it is not told before it was told that the object has entered. Which pages and live frames
were written to a session, `Identified.knows_member` says; a frame among them that still waits is not overtaken.

A message of high priority takes its channel with it: all that waits of the channel, in its order, is said in front as
parts of a page, which move no cursor either. The originals stay where they are, in frames that move it; the client has
been told them by then, and hides them. So no message ever comes before an earlier one of its channel.

Frames stay whole: an urgent one goes between two others. What overtakes what is decided by their values (`told.py`);
no bytes are parsed. What a transport has been handed is not overtaken any more, so
it is handed little at a time.
"""

from collections import deque
from collections.abc import Collection, Sequence
from typing import NamedTuple

from coldnotify_schemas.internal_pb2 import Newest

from coldnotify_gateway.core import encoding
from coldnotify_gateway.core.told import Dialect, Fence, Frame

_PART_SHARE = 4
"""A page is as long as the high-water mark at most, and is handed over in so many parts: a fast link takes each of them
at once, and on a slow one a quarter of a page is half a second."""
_PART_BYTES_MIN = 1024


class Urgent(NamedTuple):
    """A publish of high priority, as it is written to a connection."""

    ahead: Frame
    """In front of what waits. It moves no cursor."""
    at_its_place: Frame | None
    """Behind what waits; None: it comes there in a page."""
    member: str = ""
    """The object's name, where it does not go in front of a frame by which the object enters; "": it may."""

    @property
    def alone(self) -> Frame:
        """What is written where nothing waits."""
        return self.at_its_place or self.ahead


def urgent(said: Newest, dialect: Dialect, *, live: bool, by_query: bool = False) -> Urgent:
    """`live`: the session is complete but for what waits for its connection. Else pages are to come for it.

    `by_query`: it has the object by queries alone.
    """
    at_its_place = encoding.notification(said, dialect) if live else None
    ahead = encoding.notification(said, dialect, answer=True)
    return Urgent(ahead, at_its_place, said.name if by_query else "")


def part_bytes(high_water_bytes: int) -> int:
    """How much a transport is handed at a time, and may hold, where so much may wait for it."""
    return max(high_water_bytes // _PART_SHARE, _PART_BYTES_MIN)


class WaitingFrames:
    """The frames that wait for one connection, until its transport is handed them."""

    __slots__ = ("_ahead", "_ahead_to", "_in_turn", "size_bytes")

    def __init__(self) -> None:
        self._ahead: deque[bytes] = deque()
        self._ahead_to: dict[int, int] = {}
        """Channels of which something went in front of what waits now, and up to which offset."""
        self._in_turn: deque[Frame] = deque()
        self.size_bytes = 0
        """The bytes of all that waits."""

    def add(self, *frames: Frame) -> None:
        """Behind all that waits."""
        for frame in frames:
            self._in_turn.append(frame)
            self.size_bytes += len(frame.data)

    def add_urgent(self, urgent: Urgent) -> None:
        """In front of what waits, behind what came in front of it before."""
        if urgent.at_its_place is not None and not self.size_bytes:
            self.add(urgent.at_its_place)
        elif self._is_fenced(Fence.WELCOME) or (urgent.member and self._enters(urgent.member)):
            self.add(urgent.alone)
        else:
            self._add_ahead(urgent.ahead.data)
            if urgent.at_its_place is not None:
                self.add(urgent.at_its_place)

    def overtake(self, channels: Collection[int], repeats: Sequence[Frame] = ()) -> None:
        """What waits of these channels comes in front of what waits of others, behind what came in front before.

        Nothing does where nothing of others waits before it. `repeats`: frames that come behind it, all the same. In
        front of a Welcome or Registered nothing goes.
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
            self._add_ahead(encoding.as_part_of_a_page(frame))
        for frame in repeats:
            self._add_ahead(frame.data)

    def _add_ahead(self, data: bytes) -> None:
        self._ahead.append(data)
        self.size_bytes += len(data)

    def _is_fenced(self, fence: Fence) -> bool:
        """Returns true if a frame of this fence waits, or one that lets even less go in front of it."""
        return any(frame.told.fence >= fence for frame in self._in_turn)

    def _enters(self, name: str) -> bool:
        """Returns true if a frame that waits says that the object of this name has entered a query."""
        return any(frame.told.entering == name for frame in self._in_turn)

    def take(self, bytes_max: int) -> bytes:
        """What comes next: whole frames of at most so many bytes together, or the first one where that is longer."""
        taken: list[bytes] = []
        room = bytes_max
        while self._ahead and (not taken or len(self._ahead[0]) <= room):
            taken.append(self._ahead.popleft())
            room -= len(taken[-1])
        while self._in_turn and not self._ahead and (not taken or len(self._in_turn[0].data) <= room):
            taken.append(self._in_turn.popleft().data)
            room -= len(taken[-1])
        if not self._in_turn:
            self._ahead_to.clear()
        data = b"".join(taken)
        self.size_bytes -= len(data)
        return data

    def clear(self) -> None:
        """Nobody will take it any more."""
        self._ahead.clear()
        self._ahead_to.clear()
        self._in_turn.clear()
        self.size_bytes = 0
