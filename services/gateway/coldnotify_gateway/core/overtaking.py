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

Frames stay whole: an urgent one goes between two others. What a transport has been handed is not overtaken any more, so
it is handed little at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, NamedTuple

from coldnotify_schemas.frames import encode
from coldnotify_schemas.wire_pb2 import GatewayFrame, Message, Missed

from coldnotify_gateway.core import encoding

if TYPE_CHECKING:
    from coldnotify_schemas.internal_pb2 import Newest

_PART_SHARE = 4
"""A page is as long as the high-water mark at most, and is handed over in so many parts: a fast link takes each of them
at once, and on a slow one a quarter of a page is half a second."""
_PART_BYTES_MIN = 1024
_LENGTH_DELIMITED = 2


def _tags(*kinds: str) -> frozenset[int]:
    """The first bytes of frames of these kinds, behind their lengths: so others need not be parsed."""
    numbers = (GatewayFrame.DESCRIPTOR.fields_by_name[kind].number for kind in kinds)
    return frozenset(number << 3 | _LENGTH_DELIMITED for number in numbers)


_WELCOMES = _tags("welcome")
_OF_OBJECTS = _tags("notification")
_OF_CHANNELS = _tags("message", "missed")
_FENCES = _tags("welcome", "registered")
"""They say which log it is and where channels begin, which is to be known before messages come."""


class Urgent(NamedTuple):
    """A publish of high priority, as it is written to a connection."""

    ahead: bytes
    """In front of what waits. It moves no cursor."""
    at_its_place: bytes
    """Behind what waits; b"": it comes there in a page."""
    member: bytes = b""
    """The object's name, where it does not go in front of a frame by which the object enters; b"": it may."""


def urgent_frames(said: Newest, *, names: bool, live: bool, by_query: bool = False) -> Urgent:
    """`live`: the session is complete but for what waits for its connection. Else pages are to come for it.

    `by_query`: it has the object by queries alone.
    """
    at_its_place = encoding.notification(said, names=names) if live else b""
    answers, said.answer = said.answer, True
    ahead = encoding.notification(said, names=names)
    said.answer = answers
    return Urgent(ahead, at_its_place, said.name.encode() if by_query else b"")


def part_bytes(high_water_bytes: int) -> int:
    """How much a transport is handed at a time, and may hold, where so much may wait for it."""
    return max(high_water_bytes // _PART_SHARE, _PART_BYTES_MIN)


class Waiting:
    """The frames that wait for one connection, until its transport is handed them."""

    __slots__ = ("_ahead", "_ahead_to", "_in_turn", "_taken_of_first", "size_bytes")

    def __init__(self) -> None:
        self._ahead: deque[bytes] = deque()
        self._ahead_to: dict[int, int] = {}
        """Channels of which something went in front of what waits now, and up to which offset."""
        self._in_turn: deque[bytes] = deque()
        self._taken_of_first = 0
        """So many bytes of the first of `_in_turn` have been taken: whole frames."""
        self.size_bytes = 0
        """Of all that waits."""

    def add(self, frames: bytes) -> None:
        """Behind all that waits."""
        if frames:
            self._in_turn.append(frames)
            self.size_bytes += len(frames)

    def add_urgent(self, urgent: Urgent) -> None:
        """In front of what waits, behind what came in front of it before."""
        if urgent.at_its_place and not self.size_bytes:
            self.add(urgent.at_its_place)
            return
        if self._welcomes() or (urgent.member and self._enters(urgent.member)):
            self.add(urgent.at_its_place or urgent.ahead)
            return
        self._ahead.append(urgent.ahead)
        self.size_bytes += len(urgent.ahead)
        self.add(urgent.at_its_place)

    def overtake(self, channels: Collection[int], repeats: bytes = b"") -> None:
        """What waits of these channels comes in front of what waits of others, behind what came in front before.

        Nothing does where nothing of others waits before it. `repeats`: frames that come behind it, all the same. In
        front of a Welcome or Registered nothing goes.
        """
        found: list[tuple[int, int, bytes]] = []
        others, overtakes = False, bool(repeats)
        for frame, tag in self._frames():
            if tag in _FENCES:
                self.add(repeats)
                return
            entry = _entry_in(frame) if tag in _OF_CHANNELS else None
            if entry is None or entry.channel not in channels:
                others = True
                continue
            overtakes |= others
            offset = entry.before - 1 if isinstance(entry, Missed) else entry.offset
            if offset > self._ahead_to.get(entry.channel, -1):
                found.append((entry.channel, offset, _repeat(entry)))
        if not overtakes:
            return
        for channel, offset, repeat in found:
            self._ahead_to[channel] = offset
            self._ahead.append(repeat)
            self.size_bytes += len(repeat)
        if repeats:
            self._ahead.append(repeats)
            self.size_bytes += len(repeats)

    def _welcomes(self) -> bool:
        """Whether a Welcome waits, in front of which nothing is heard. It is said by itself."""
        return any(frames[_frame_at(frames, 0)[0]] in _WELCOMES for frames in self._in_turn)

    def _enters(self, name: bytes) -> bool:
        """Whether a frame that waits says that the object of this name has entered a query."""
        if not any(name in frames for frames in self._in_turn):
            return False
        for frame, tag in self._frames():
            if tag in _OF_OBJECTS and name in frame:
                said = GatewayFrame.FromString(frame).notification
                if said.entered and said.name.encode() == name:
                    return True
        return False

    def _frames(self) -> Iterator[tuple[bytes, int]]:
        """Of those that wait in their turn: each frame without its length, and its tag."""
        at = self._taken_of_first
        for frames in self._in_turn:
            while at < len(frames):
                begin, end = _frame_at(frames, at)
                yield frames[begin:end], frames[begin]
                at = end
            at = 0

    def take(self, bytes_max: int) -> bytes:
        """What comes next: whole frames of at most so many bytes together, or the first one where that is longer."""
        taken: list[bytes] = []
        room = bytes_max
        while self._ahead and (not taken or len(self._ahead[0]) <= room):
            taken.append(self._ahead.popleft())
            room -= len(taken[-1])
        while self._in_turn and not self._ahead:
            first, begin = self._in_turn[0], self._taken_of_first
            end = len(first)
            if end - begin > room:
                end = _whole_frames(first, begin, begin + room)
                if end == begin:
                    if taken:
                        break
                    _, end = _frame_at(first, begin)
            taken.append(first[begin:end])
            room -= end - begin
            if end < len(first):
                self._taken_of_first = end
                break
            self._in_turn.popleft()
            self._taken_of_first = 0
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
        self._taken_of_first = self.size_bytes = 0


def _whole_frames(frames: bytes, begin: int, end: int) -> int:
    """Where the last frame ends that lies between these two places; `begin`: none does."""
    at = begin
    while (after := _frame_at(frames, at)[1]) <= end:
        at = after
        if at == len(frames):
            break
    return at


def _entry_in(frame: bytes) -> Message | Missed:
    said = GatewayFrame.FromString(frame)
    return said.missed if said.HasField("missed") else said.message


def _repeat(message: Message | Missed) -> bytes:
    """The frame that says the same as part of a page."""
    message.paged = True
    return encode(GatewayFrame(missed=message) if isinstance(message, Missed) else GatewayFrame(message=message))


def _frame_at(frames: bytes, at: int) -> tuple[int, int]:
    """Where the frame at `at` begins, behind its length, and where it ends: the length is a varint."""
    length = shift = 0
    while True:
        byte = frames[at]
        at += 1
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            return at, min(at + length, len(frames))
        shift += 7
