"""Told: what a session is told, as a value; and a frame, which is that value as a dialect writes it.

A dialect makes the bytes of a frame, once for each fan-out, and their length counts at once. The value stays beside
the bytes until the connection's transport takes them: what may overtake what is decided by values (`overtaking.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum, auto
from typing import NamedTuple

from coldnotify_schemas.wire_pb2 import GatewayFrame, Missed


class Dialect(IntEnum):
    """The ways to write what is told."""

    CRC = auto()
    """Objects are named by the CRC-32s of their names."""
    NAMES = auto()
    """Objects are named by their names."""


class Fence(IntEnum):
    """Frames that others do not go in front of."""

    NONE = auto()
    REGISTERED = auto()
    """It says which log channels are in and where they begin, which is to be known before messages come."""
    WELCOME = auto()
    """The same, and nothing at all is heard before it."""


class Told(NamedTuple):
    """One thing that a session is told, as far as others may have to go in front of it, or behind it."""

    fence: Fence = Fence.NONE
    entering: str = ""
    """The object that becomes a member by this; "": none does."""
    channel: int | None = None
    """The hash of the channel of which this is a message, or says what is missed."""
    offset: int = -1
    """The channel's messages are told up to this offset."""
    entry: GatewayFrame | None = None
    """The message, or what is missed, where it moves the cursor; None: it is part of a page."""


class Frame(NamedTuple):
    """What is told, in one dialect."""

    data: bytes
    """The whole frame, with its length in front."""
    told: Told = Told()


def size_of(frames: Iterable[Frame]) -> int:
    """Bytes of these frames together."""
    return sum(len(frame.data) for frame in frames)


def joined(frames: Iterable[Frame]) -> bytes:
    """The bytes of these frames, one behind the other."""
    return b"".join([frame.data for frame in frames])


def of_entry(entry: GatewayFrame) -> Told:
    """The value of a message, or of what is missed."""
    said = entry.missed if entry.HasField("missed") else entry.message
    offset = said.before - 1 if isinstance(said, Missed) else said.offset
    return Told(channel=said.channel, offset=offset, entry=None if said.paged else entry)
