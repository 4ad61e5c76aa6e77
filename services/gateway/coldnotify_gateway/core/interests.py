"""Converts clients' interests to the matcher's requests, which list queries and channels separately."""

from collections.abc import Iterable

from coldnotify_schemas import internal_pb2, wire_pb2
from coldnotify_schemas.wire_pb2 import INTEREST_CHANNEL, INTEREST_QUERY, Interest


def queries(interests: Iterable[Interest]) -> list[internal_pb2.Query]:
    """Returns the queries among these interests."""
    return [_query(one) for one in interests if one.kind == INTEREST_QUERY]


def channels(interests: Iterable[Interest]) -> list[internal_pb2.Channel]:
    """Returns the channels among these interests."""
    return [
        internal_pb2.Channel(name=one.text, attributes=one.attributes, since=one.since, at=one.at)
        for one in interests
        if one.kind == INTEREST_CHANNEL
    ]


def has_channels(interests: Iterable[Interest]) -> bool:
    """Returns true if at least one of these interests is a channel."""
    return any(one.kind == INTEREST_CHANNEL for one in interests)


def register(said: wire_pb2.Register) -> internal_pb2.Register:
    """Converts a client's Register to the matcher's."""
    return internal_pb2.Register(
        request=said.request,
        objects=said.objects,
        queries=queries(said.interests),
        channels=channels(said.interests),
    )


def unregister(said: wire_pb2.Unregister) -> internal_pb2.Unregister:
    """Converts a client's Unregister to the matcher's. Both lists contain every hash, because a hash does not show its
    kind."""
    return internal_pb2.Unregister(
        request=said.request, objects=said.objects, queries=said.interests, channels=said.interests
    )


def sync(said: wire_pb2.SyncChunk) -> internal_pb2.SyncChunk:
    """Converts a client's SyncChunk to the matcher's."""
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
