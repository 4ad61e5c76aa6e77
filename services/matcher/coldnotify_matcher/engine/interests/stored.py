"""Stored interests: those of one bucket of a client, as a record of the registrations topic has them."""

from collections.abc import Iterable

from coldnotify_schemas.matcher_state import (
    FORMAT,
    FORMAT_WITH_CHANNELS,
    FORMAT_WITH_QUERIES,
    RegisteredChannel,
    RegistrationsRecord,
    UnsettledRecord,
)

from coldnotify_matcher.engine.interests.by_channel import ClientChannel
from coldnotify_matcher.engine.interests.by_query.by_query import RegisteredQuery
from coldnotify_matcher.engine.objects.objects import Obj


def bucket_record(
    bucket: Iterable[object], generation: int, applied: int, unsettled: list[UnsettledRecord] | None
) -> RegistrationsRecord:
    """Returns the record of these interests, in the order of their texts, and in the lowest format that has them."""
    names, queries, channels = [], [], []
    for one in bucket:
        if isinstance(one, Obj):
            names.append(one.name)
        elif isinstance(one, RegisteredQuery):
            queries.append(one.text)
        elif isinstance(one, ClientChannel):
            channels.append(RegisteredChannel(one.text, one.position, one.epoch))
    channels.sort(key=lambda channel: channel.text)
    format_ = FORMAT_WITH_CHANNELS if channels else FORMAT_WITH_QUERIES if queries else FORMAT
    return RegistrationsRecord(format_, generation, applied, sorted(names), sorted(queries), channels, unsettled)
