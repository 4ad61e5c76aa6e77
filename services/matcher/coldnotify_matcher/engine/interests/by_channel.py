"""Interests by channel: the channels that one client registered, and its cursor in their log."""

from __future__ import annotations

from collections.abc import Iterator
from sys import intern
from zlib import crc32

from coldnotify_schemas.interests import Interest, Kind, channel_hash, channel_of

from coldnotify_matcher.engine.streams.stream import NO_CURSOR

NO_EPOCH = 0


def channel_mark(key: str) -> int:
    """Returns the mark of the channel in a block's summary: if two channels share one, a block is read in vain."""
    return crc32(key.encode())


class ClientChannel:
    """One channel of one client."""

    __slots__ = ("attributes", "bucket", "epoch", "hash", "key", "mark", "position", "text")

    def __init__(self, group_key: str, text: str, position: int, epoch: int, bucket: int) -> None:
        self.text = intern(text)
        """`channel_text` of its name and attributes."""
        name, attributes = channel_of(text)
        self.attributes = frozenset(attributes)
        self.key = intern(f"{group_key}/{name}")
        """domain/group/channel."""
        self.mark = channel_mark(self.key)
        self.hash = channel_hash(text)
        self.position = position
        """The offset after which it began; -1: with the log's first."""
        self.epoch = epoch
        """Epoch of the log that the position belongs to."""
        self.bucket = bucket
        """Number of the bucket that contains it."""


class ByChannel(dict[int, ClientChannel]):
    """A client's interests by channel, by their hashes."""

    __slots__ = ("by_key", "cursor", "epoch", "stored_cursor")

    def __init__(self) -> None:
        super().__init__()
        self.by_key: dict[str, ClientChannel] = {}
        """By domain/group/channel: a client has at most one registration of each."""
        self.cursor = NO_CURSOR
        """The cursor that the client reports."""
        self.epoch = NO_EPOCH
        """Epoch of the log that the cursor belongs to."""
        self.stored_cursor = NO_CURSOR
        """The cursor in its session record."""

    def add(self, channel: ClientChannel) -> None:
        """Add a registration of a new channel."""
        self[channel.hash] = self.by_key[channel.key] = channel

    def remove(self, channel: ClientChannel) -> None:
        """Remove an existing registration."""
        del self[channel.hash], self.by_key[channel.key]

    def interests(self) -> Iterator[Interest]:
        """Yields all of them, as values."""
        return (Interest(Kind.CHANNEL, channel.text) for channel in self.values())
