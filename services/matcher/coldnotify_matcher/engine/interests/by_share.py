"""Interests by share: the shares of channels that one client is a member of."""

from __future__ import annotations

from collections.abc import Iterator
from sys import intern

from coldnotify_schemas.interests import Interest, Kind, share_hash, share_of
from coldnotify_schemas.wire_pb2 import INTEREST_SHARE
from coldnotify_schemas.wire_pb2 import Interest as SaidInterest


class ClientShare:
    """One client's membership of one share."""

    __slots__ = (
        "attributes",
        "bucket",
        "channel",
        "epoch",
        "hash",
        "identifier",
        "key",
        "options",
        "position",
        "share",
        "text",
    )

    def __init__(
        self,
        group_key: str,
        text: str,
        position: int,
        epoch: int,
        bucket: int,
        options: int = 0,
        identifier: int = 0,
    ) -> None:
        self.text = intern(text)
        """`share_text` of the share, its channel and attributes."""
        self.share, channel, attributes = share_of(text)
        self.attributes = tuple(attributes)
        self.channel = intern(f"{group_key}/{channel}")
        """domain/group/channel."""
        self.key = intern(f"{group_key}/{self.share}/{channel}")
        """domain/group/share/channel."""
        self.hash = share_hash(text)
        self.position = position
        """The offset after which the share began, as far as this member is concerned; -1: with the log's first."""
        self.epoch = epoch
        """Epoch of the log that the position belongs to."""
        self.bucket = bucket
        """Number of the bucket that contains it."""
        self.options, self.identifier = options, identifier
        """As of a filter, for a client whose set is kept."""

    def said(self) -> SaidInterest:
        """Returns it as a client whose set is kept has registered it."""
        _, channel, _ = share_of(self.text)
        return SaidInterest(
            kind=INTEREST_SHARE,
            text=channel,
            share=self.share,
            attributes=self.attributes,
            options=self.options,
            identifier=self.identifier,
        )

    def asked(self, options: int, identifier: int) -> bool:
        """Take over what its client says of it now. Returns true if that is another option or identifier."""
        same = (options, identifier) == (self.options, self.identifier)
        self.options, self.identifier = options, identifier
        return not same


class ByShare(dict[int, ClientShare]):
    """A client's interests by share, by their hashes."""

    __slots__ = ("by_key",)

    def __init__(self) -> None:
        super().__init__()
        self.by_key: dict[str, ClientShare] = {}
        """By the share's key: a client has at most one registration of each."""

    def add(self, share: ClientShare) -> None:
        """Add a registration of a new share."""
        self[share.hash] = self.by_key[share.key] = share

    def remove(self, share: ClientShare) -> None:
        """Remove an existing registration."""
        del self[share.hash], self.by_key[share.key]

    def interests(self) -> Iterator[Interest]:
        """Yields all of them, as values."""
        return (Interest(Kind.SHARE, share.text) for share in self.values())
