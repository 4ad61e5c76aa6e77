"""Stored interests: a bucket's record has them sorted, and the lowest format that has their kinds."""

import pytest
from coldnotify_matcher.engine.interests.by_channel import ClientChannel
from coldnotify_matcher.engine.interests.by_query.by_query import RegisteredQuery
from coldnotify_matcher.engine.interests.stored import bucket_record
from coldnotify_matcher.engine.objects.objects import Obj
from coldnotify_schemas.matcher_state import FORMAT, FORMAT_WITH_CHANNELS, FORMAT_WITH_QUERIES, RegisteredChannel

NAMES = [Obj("d/g/b"), Obj("d/g/a")]
QUERIES = [RegisteredQuery("B=1", 0), RegisteredQuery("A=1", 0)]
CHANNELS = [ClientChannel("d/g", "y", 7, 3, 0), ClientChannel("d/g", "x", -1, 3, 0)]


@pytest.mark.parametrize(
    ("bucket", "format_"),
    [
        (NAMES, FORMAT),
        ([*NAMES, *QUERIES], FORMAT_WITH_QUERIES),
        ([*NAMES, *CHANNELS], FORMAT_WITH_CHANNELS),
        ([*CHANNELS, *QUERIES, *NAMES], FORMAT_WITH_CHANNELS),
    ],
)
def test_the_format_is_the_lowest_that_has_the_kinds(bucket: list[object], format_: int) -> None:
    record = bucket_record(bucket, 4, 9, None)
    assert (record.format, record.generation, record.applied, record.unsettled) == (format_, 4, 9, None)
    assert record.objects == ["a", "b"]
    assert record.queries == (["A=1", "B=1"] if QUERIES[0] in bucket else [])
    channels = [RegisteredChannel("x", -1, 3), RegisteredChannel("y", 7, 3)]
    assert record.channels == (channels if CHANNELS[0] in bucket else [])
