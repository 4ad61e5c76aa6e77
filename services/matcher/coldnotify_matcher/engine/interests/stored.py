"""Stored interests: those of one bucket of a client, as a record of the registrations topic has them."""

from collections.abc import Iterable

from coldnotify_schemas.interests import Kind
from coldnotify_schemas.matcher_state import (
    FORMAT,
    FORMAT_WITH_FILTERS,
    FORMAT_WITH_INTERESTS,
    FORMAT_WITH_SHARES,
    RegistrationsRecord,
    StoredInterest,
    UnsettledRecord,
)

from coldnotify_matcher.engine.interests.by_channel import ClientChannel
from coldnotify_matcher.engine.interests.by_filter import RegisteredFilter
from coldnotify_matcher.engine.interests.by_query.by_query import RegisteredQuery
from coldnotify_matcher.engine.interests.by_share import ClientShare
from coldnotify_matcher.engine.objects.objects import Obj


def bucket_record(
    bucket: Iterable[object], generation: int, applied: int, unsettled: list[UnsettledRecord] | None
) -> RegistrationsRecord:
    """Returns the record of these interests, sorted by kind and text, in the lowest format that has them."""
    names: list[str] = []
    interests: list[StoredInterest] = []
    filters = shares = False
    for one in bucket:
        if isinstance(one, Obj):
            names.append(one.name)
        elif isinstance(one, RegisteredQuery):
            interests.append(StoredInterest(Kind.QUERY, one.text))
        elif isinstance(one, ClientChannel):
            interests.append(StoredInterest(Kind.CHANNEL, one.text, one.position, one.epoch))
        elif isinstance(one, ClientShare):
            shares = True
            place, said = (one.position, one.epoch), (one.options, one.identifier)
            interests.append(StoredInterest(Kind.SHARE, one.text, *place, *said))
        elif isinstance(one, RegisteredFilter):
            filters = True
            place, said = (one.position, one.epoch), (one.options, one.identifier)
            interests.append(StoredInterest(Kind.FILTER, one.text, *place, *said, one.owed, one.missed))
    interests.sort(key=lambda one: (one.kind.value, one.text))
    format_ = FORMAT_WITH_FILTERS if filters else FORMAT_WITH_INTERESTS if interests else FORMAT
    if shares:
        format_ = FORMAT_WITH_SHARES
    return RegistrationsRecord(format_, generation, applied, sorted(names), interests, unsettled)
