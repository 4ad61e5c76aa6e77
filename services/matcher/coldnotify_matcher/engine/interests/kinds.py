"""The kinds of interests in a request, beside names: what a service accepts, and how each is told apart and hashed."""

from collections.abc import Iterable

from coldnotify_schemas import wire_pb2
from coldnotify_schemas.digest import object_digest
from coldnotify_schemas.interests import BETWEEN, channel_hash, filter_hash, joined_channel, query_hash, share_hash
from coldnotify_schemas.wire_pb2 import (
    INTEREST_CHANNEL,
    INTEREST_FILTER,
    INTEREST_PATTERN,
    INTEREST_QUERY,
    INTEREST_SHARE,
    Interest,
)

KINDS = wire_pb2.KINDS_NAMES | wire_pb2.KINDS_QUERIES
"""Kinds of interests that every matcher of this release accepts."""
ALL_KINDS = "objects, queries and channels"
"""The same kinds, and the one that needs topics of its own, as refusals name them."""


def queries_in(interests: Iterable[Interest]) -> list[Interest]:
    """Returns the queries among these interests, in their order."""
    return [one for one in interests if one.kind == INTEREST_QUERY]


def channels_in(interests: Iterable[Interest]) -> list[Interest]:
    """Returns the channels among these interests, and the patterns of channels, in their order."""
    return [one for one in interests if one.kind in (INTEREST_CHANNEL, INTEREST_PATTERN)]


def filters_in(interests: Iterable[Interest]) -> list[Interest]:
    """Returns the filters among these interests, in their order."""
    return [one for one in interests if one.kind == INTEREST_FILTER]


def shares_in(interests: Iterable[Interest]) -> list[Interest]:
    """Returns the shares of channels among these interests, in their order."""
    return [one for one in interests if one.kind == INTEREST_SHARE]


def share_text_of(share: Interest) -> str:
    """Returns the registered text of a share, unchecked."""
    return BETWEEN.join([share.share, share.text, *share.attributes])


def channel_text_of(channel: Interest) -> str:
    """Returns the registered text of a channel, or of a pattern, unchecked."""
    name = BETWEEN + channel.text if channel.kind == INTEREST_PATTERN else channel.text
    return joined_channel(name, channel.attributes) if channel.attributes else name


def hashes_of(interests: Iterable[Interest]) -> list[int]:
    """Returns the hashes of these interests. An interest of an unknown kind has none."""
    hashes = []
    for one in interests:
        if one.kind == INTEREST_QUERY:
            hashes.append(query_hash(one.text))
        elif one.kind in (INTEREST_CHANNEL, INTEREST_PATTERN):
            hashes.append(channel_hash(channel_text_of(one)))
        elif one.kind == INTEREST_FILTER:
            hashes.append(filter_hash(one.text))
        elif one.kind == INTEREST_SHARE:
            hashes.append(share_hash(share_text_of(one)))
    return hashes


def packed(interest: Interest) -> bytes:
    """Returns an interest of a set in a compact, hashable form. The answers that its client has do not count there."""
    kept = Interest(
        kind=interest.kind,
        text=interest.text,
        attributes=interest.attributes,
        since=interest.since,
        at=interest.at,
        options=interest.options,
        identifier=interest.identifier,
        share=interest.share,
    )
    return kept.SerializeToString(deterministic=True)


def refused_hash(refusal: wire_pb2.Refusal) -> int:
    """Returns the hash of the refused interest."""
    return refusal.interest if refusal.HasField("interest") else object_digest(refusal.object)
