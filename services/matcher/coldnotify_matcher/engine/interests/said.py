"""Said: the interests in a frame. Three parallel lists on the wire are one list from here on, each with its kind.

An interest by name contains only the name. For a query its client may say how much of the answer it has, for a channel
where it begins.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from coldnotify_schemas import internal_pb2, wire_pb2
from coldnotify_schemas.digest import object_digest
from coldnotify_schemas.interests import Interest, Kind

KINDS = wire_pb2.KINDS_NAMES | wire_pb2.KINDS_QUERIES
"""Kinds of interests that every matcher of this release accepts."""
ALL_KINDS = "objects, queries and channels"
"""The same kinds, and the one that needs topics of its own, as refusals name them."""
_BETWEEN = "\x00"


class Said(NamedTuple):
    """One interest that a client registers."""

    kind: Kind
    text: str
    """The registered text: a channel's is joined like by `channel_text`, but unchecked."""
    since: wire_pb2.Since = wire_pb2.SINCE_NOW
    at: int = 0
    """The place at which a channel begins."""
    held: int | None = None
    """The digest of the members that the client holds; None: it does not say."""
    reached: str = ""
    reached_at: int = 0
    """The member up to which it has the answer, as of this offset."""

    @property
    def hash(self) -> int:
        """The hash of the interest."""
        return Interest(self.kind, self.text).hash


Packed = str | Said
"""An interest in a set that may be large: a name is its text."""


class Gone(NamedTuple):
    """One interest that a client unregisters."""

    kind: Kind
    name: str = ""
    hash: int = 0
    """0 if it has a name."""


def said_in_open(request: internal_pb2.Open) -> list[Said]:
    """Returns the interests that a Hello registers."""
    return _said(request.register, request.queries, request.channels)


def gone_in_open(request: internal_pb2.Open) -> list[Gone]:
    """Returns the interests that it unregisters."""
    return _gone(request.unregister, request.unregister_queries, request.unregister_channels)


def said_in_register(request: internal_pb2.Register) -> list[Said]:
    """Returns the interests that a Register registers."""
    return _said(request.objects, request.queries, request.channels)


def gone_in_unregister(request: internal_pb2.Unregister) -> list[Gone]:
    """Returns the interests that an Unregister unregisters."""
    return _gone(request.objects, request.queries, request.channels)


def said_in_chunk(chunk: internal_pb2.SyncChunk) -> list[Packed]:
    """Returns the interests in one part of a whole set. The answers that its client has do not count."""
    queries = (Said(Kind.QUERY, query.text) for query in chunk.queries)
    return [*chunk.objects, *queries, *map(said_channel, chunk.channels)]


def said_channel(channel: internal_pb2.Channel) -> Said:
    """Returns the channel in a frame."""
    text = _BETWEEN.join([channel.name, *channel.attributes]) if channel.attributes else channel.name
    return Said(Kind.CHANNEL, text, channel.since, channel.at)


def of_kind(kind: Kind, said: Iterable[Packed]) -> list[Said]:
    """Returns those of one kind, in their order, without packed names."""
    return [one for one in said if isinstance(one, Said) and one.kind is kind]


def names_of(said: Iterable[Packed]) -> list[str]:
    """Returns the names among them."""
    return [one if isinstance(one, str) else one.text for one in said if isinstance(one, str) or one.kind is Kind.NAME]


def hashes_of(said: Iterable[Said]) -> list[int]:
    """Returns the hashes of those that are known by their hash: all but names."""
    return [one.hash for one in said if one.kind is not Kind.NAME]


def refused_hash(refusal: wire_pb2.Refusal) -> int:
    """Returns the hash of the refused interest."""
    return refusal.interest if refusal.HasField("interest") else object_digest(refusal.object)


def _said(
    names: Sequence[str], queries: Sequence[internal_pb2.Query], channels: Sequence[internal_pb2.Channel]
) -> list[Said]:
    if not (names or queries or channels):
        return []
    # A slice: iteration over the wire's own list ends with an exception that it raises, which takes a microsecond.
    said = [Said(Kind.NAME, name) for name in names[:]]
    for query in queries[:]:
        held = query.held if query.HasField("held") else None
        said.append(Said(Kind.QUERY, query.text, held=held, reached=query.reached, reached_at=query.reached_at))
    said += map(said_channel, channels[:])
    return said


def _gone(names: Sequence[str], queries: Sequence[int], channels: Sequence[int]) -> list[Gone]:
    if not (names or queries or channels):
        return []
    gone = [Gone(Kind.NAME, name) for name in names[:]]
    gone += [Gone(Kind.QUERY, hash=hash_) for hash_ in queries[:]]
    gone += [Gone(Kind.CHANNEL, hash=hash_) for hash_ in channels[:]]
    return gone


def names_in(gone: Iterable[Gone]) -> list[str]:
    """Returns the names among them."""
    return [one.name for one in gone if one.kind is Kind.NAME]


def hashes_in(kind: Kind, gone: Iterable[Gone]) -> Sequence[int]:
    """Returns the hashes of one kind among them."""
    return [one.hash for one in gone if one.kind is kind]
