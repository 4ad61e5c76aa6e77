"""Interests by channel: the channels that one client registered, and its cursor in their log."""

from __future__ import annotations

from collections.abc import Iterator
from sys import intern
from zlib import crc32

from coldnotify_schemas.interests import Interest, Kind, channel_hash, channel_of, expression_of

from coldnotify_matcher.engine.streams.stream import NO_CURSOR

NO_EPOCH = 0


def channel_mark(key: str) -> int:
    """Returns the mark of the channel in a block's summary: if two channels share one, a block is read in vain."""
    return crc32(key.encode())


def key_of(group_key: str, name: str) -> str:
    """Returns the key of a channel of this group, or of a pattern: none that a record can have."""
    return f"{group_key}/{name}" if expression_of(name) is None else group_key + name


class ClientChannel:
    """One channel of one client, or one pattern of channels."""

    __slots__ = ("attributes", "bucket", "epoch", "expression", "group", "hash", "key", "mark", "position", "text")

    def __init__(self, group_key: str, text: str, position: int, epoch: int, bucket: int) -> None:
        self.text = intern(text)
        """`channel_text` of its name and attributes."""
        name, attributes = channel_of(text)
        self.attributes = frozenset(attributes)
        self.expression = expression_of(name)
        """A pattern's expression; None: it is a channel."""
        self.group = group_key
        """domain/group."""
        self.key = intern(key_of(group_key, name))
        """domain/group/channel; a pattern's is no channel's."""
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

    __slots__ = ("by_key", "cursor", "epoch", "patterns", "stored_cursor")

    def __init__(self) -> None:
        super().__init__()
        self.by_key: dict[str, ClientChannel] = {}
        """By `key_of`: a client has at most one registration of each."""
        self.patterns = 0
        """Number of those that are patterns."""
        self.cursor = NO_CURSOR
        """The cursor that the client reports."""
        self.epoch = NO_EPOCH
        """Epoch of the log that the cursor belongs to."""
        self.stored_cursor = NO_CURSOR
        """The cursor in its session record."""

    def add(self, channel: ClientChannel) -> None:
        """Add a registration of a new channel."""
        self[channel.hash] = self.by_key[channel.key] = channel
        self.patterns += channel.expression is not None

    def remove(self, channel: ClientChannel) -> None:
        """Remove an existing registration."""
        del self[channel.hash], self.by_key[channel.key]
        self.patterns -= channel.expression is not None

    def interests(self) -> Iterator[Interest]:
        """Yields all of them, as values."""
        return (Interest(Kind.CHANNEL, channel.text) for channel in self.values())
