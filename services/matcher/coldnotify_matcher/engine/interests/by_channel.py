"""Interests by channel: the channels that one client registered, and how far it is in the log that they are in."""

from __future__ import annotations

from collections.abc import Iterator
from sys import intern
from zlib import crc32

from coldnotify_schemas.interests import Interest, Kind, channel_hash, channel_of

from coldnotify_matcher.engine.streams.stream import NO_CURSOR

NO_EPOCH = 0


def channel_mark(key: str) -> int:
    """What a summary of a block says of the channel of this key: two may share one, then a block is read in vain."""
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
        """Behind which offset it began; -1: with the log's first."""
        self.epoch = epoch
        """Of the log that the position belongs to."""
        self.bucket = bucket
        """The number of the bucket that says so."""


class ByChannel(dict[int, ClientChannel]):
    """A client's interests by channel, by their hashes."""

    __slots__ = ("by_key", "cursor", "epoch", "stored_cursor")

    def __init__(self) -> None:
        super().__init__()
        self.by_key: dict[str, ClientChannel] = {}
        """By domain/group/channel: of each it has one."""
        self.cursor = NO_CURSOR
        """How far the client is, as it says itself."""
        self.epoch = NO_EPOCH
        """Of the log that the cursor belongs to."""
        self.stored_cursor = NO_CURSOR
        """The cursor that its session record has."""

    def add(self, channel: ClientChannel) -> None:
        """Add one whose channel is not there."""
        self[channel.hash] = self.by_key[channel.key] = channel

    def remove(self, channel: ClientChannel) -> None:
        """Remove one that is there."""
        del self[channel.hash], self.by_key[channel.key]

    def interests(self) -> Iterator[Interest]:
        """All of them, as values."""
        return (Interest(Kind.CHANNEL, channel.text) for channel in self.values())
