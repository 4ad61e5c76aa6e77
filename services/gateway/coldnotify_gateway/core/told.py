"""Told: the content of a frame, as a value; and Frame: that content, as a dialect encodes it.

A dialect encodes a frame once for each fan-out, and its length counts at once. The value stays beside the bytes until
the connection's transport takes them, because `overtaking.py` compares values to decide which frames may overtake.
The table in `dialects/` lists the dialects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum, auto
from typing import NamedTuple

from coldnotify_schemas.wire_pb2 import GatewayFrame, Missed


class Fence(IntEnum):
    """Kinds of frames that others must not overtake."""

    NONE = auto()
    REGISTERED = auto()
    """The frame names the channels' log and their first offsets, which a client must know before messages arrive."""
    WELCOME = auto()
    """The frame carries the same, and no frame at all may precede it."""


class Told(NamedTuple):
    """The content of a frame, as far as it decides the order of frames."""

    fence: Fence = Fence.NONE
    entering: str = ""
    """Name of the object that becomes a member by this frame; "": none."""
    channel: int | None = None
    """Hash of the channel whose message, or Missed, the frame carries."""
    offset: int = -1
    """Offset up to which the frame makes the channel's messages known."""
    entry: GatewayFrame | None = None
    """The frame's Message or Missed, if it moves the cursor; None: it is part of a page."""


class Frame(NamedTuple):
    """A frame, encoded in one dialect."""

    data: bytes
    """The complete frame. Its length counts against the limits of the connection."""
    told: Told = Told()
    value: GatewayFrame | None = None
    """The frame as a value, for a device that is played in this process; None: the dialect hands over bytes. A fan-out
    shares it, so nobody changes it."""


Encode = Callable[[GatewayFrame, Told], Frame]


@dataclass(frozen=True, eq=False, slots=True)
class Dialect:
    """A dialect: the encoding of frames for a kind of device."""

    name: str
    encode: Encode
    """Encodes a frame. Dialects that share it differ in nothing but the names of objects."""
    by_name: bool
    """Objects are named by their names; false: by the CRC-32s of their names."""
    raw: bool
    """Payloads that are any bytes are told; false: such a version is told without a payload."""


def size_of(frames: Iterable[Frame]) -> int:
    """Returns the total size of these frames, in bytes."""
    return sum(len(frame.data) for frame in frames)


def joined(frames: Iterable[Frame]) -> bytes:
    """Returns the bytes of these frames, concatenated."""
    return b"".join([frame.data for frame in frames])


def of_entry(entry: GatewayFrame) -> Told:
    """Returns the value of a Message or a Missed."""
    said = entry.missed if entry.HasField("missed") else entry.message
    offset = said.before - 1 if isinstance(said, Missed) else said.offset
    return Told(channel=said.channel, offset=offset, entry=None if said.paged else entry)
