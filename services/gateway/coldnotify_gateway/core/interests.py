"""Interests, as clients say them and as the matcher is told them: requests list queries and channels apart."""

from collections.abc import Iterable

from coldnotify_schemas import internal_pb2, wire_pb2
from coldnotify_schemas.wire_pb2 import INTEREST_CHANNEL, INTEREST_QUERY, Interest


def queries(interests: Iterable[Interest]) -> list[internal_pb2.Query]:
    """The queries among these."""
    return [_query(one) for one in interests if one.kind == INTEREST_QUERY]


def channels(interests: Iterable[Interest]) -> list[internal_pb2.Channel]:
    """The channels among these."""
    return [
        internal_pb2.Channel(name=one.text, attributes=one.attributes, since=one.since, at=one.at)
        for one in interests
        if one.kind == INTEREST_CHANNEL
    ]


def has_channels(interests: Iterable[Interest]) -> bool:
    """Returns true if there is a channel among these."""
    return any(one.kind == INTEREST_CHANNEL for one in interests)


def register(said: wire_pb2.Register) -> internal_pb2.Register:
    """The matcher's Register for a client's."""
    return internal_pb2.Register(
        request=said.request,
        objects=said.objects,
        queries=queries(said.interests),
        channels=channels(said.interests),
    )


def unregister(said: wire_pb2.Unregister) -> internal_pb2.Unregister:
    """The matcher's Unregister for a client's. A hash does not say of what it is: it is in both lists."""
    return internal_pb2.Unregister(
        request=said.request, objects=said.objects, queries=said.interests, channels=said.interests
    )


def sync(said: wire_pb2.SyncChunk) -> internal_pb2.SyncChunk:
    """The matcher's SyncChunk for a client's."""
    return internal_pb2.SyncChunk(
        index=said.index,
        last=said.last,
        objects=said.objects,
        queries=queries(said.interests),
        channels=channels(said.interests),
    )


def _query(said: Interest) -> internal_pb2.Query:
    held = said.held if said.HasField("held") else None
    return internal_pb2.Query(text=said.text, held=held, reached=said.reached, reached_at=said.reached_at)
