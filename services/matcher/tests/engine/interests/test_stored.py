"""Stored interests: a bucket's record has them sorted, and the lowest format that has their kinds."""

import pytest
from coldnotify_matcher.engine.interests.by_channel import ClientChannel
from coldnotify_matcher.engine.interests.by_filter import RegisteredFilter
from coldnotify_matcher.engine.interests.by_query.by_query import RegisteredQuery
from coldnotify_matcher.engine.interests.stored import bucket_record
from coldnotify_matcher.engine.objects.objects import Obj
from coldnotify_schemas.interests import Kind
from coldnotify_schemas.matcher_state import FORMAT, FORMAT_WITH_FILTERS, FORMAT_WITH_INTERESTS, StoredInterest

NAMES = [Obj("d/g/b"), Obj("d/g/a")]
QUERIES = [RegisteredQuery("B=1", 0), RegisteredQuery("A=1", 0)]
CHANNELS = [ClientChannel("d/g", "y", 7, 3, 0), ClientChannel("d/g", "x", -1, 3, 0)]

FILTERS = [RegisteredFilter("a/#", 0, 0x10, 3)]


@pytest.mark.parametrize(
    ("bucket", "format_"),
    [
        (NAMES, FORMAT),
        ([*NAMES, *QUERIES], FORMAT_WITH_INTERESTS),
        ([*NAMES, *CHANNELS], FORMAT_WITH_INTERESTS),
        ([*CHANNELS, *QUERIES, *NAMES], FORMAT_WITH_INTERESTS),
        ([*NAMES, *FILTERS], FORMAT_WITH_FILTERS),
    ],
)
def test_the_format_is_the_lowest_that_has_the_kinds(bucket: list[object], format_: int) -> None:
    record = bucket_record(bucket, 4, 9, None)
    assert (record.format, record.generation, record.applied, record.unsettled) == (format_, 4, 9, None)
    assert record.objects == ["a", "b"]
    queries = [StoredInterest(Kind.QUERY, "A=1"), StoredInterest(Kind.QUERY, "B=1")]
    assert record.of_kind(Kind.QUERY) == (queries if QUERIES[0] in bucket else [])
    filters = [StoredInterest(Kind.FILTER, "a/#", -1, 0, 0x10, 3)]
    assert record.of_kind(Kind.FILTER) == (filters if FILTERS[0] in bucket else [])
    channels = [StoredInterest(Kind.CHANNEL, "x", -1, 3), StoredInterest(Kind.CHANNEL, "y", 7, 3)]
    assert record.of_kind(Kind.CHANNEL) == (channels if CHANNELS[0] in bucket else [])
