"""An object's history shows the versions that its owner gave to records by arrival."""

from coldnotify_http.found_versions import versions_of
from coldnotify_http.object_history import FoundRecord
from coldnotify_schemas.arrival_versions import arrival_header, checkpoint_header

NOW_MS = 1_700_000_000_000


def arrival(offset: int, timestamp_ms: int) -> FoundRecord:
    return FoundRecord(offset, timestamp_ms, b"{}", (arrival_header(),))


def checkpoint(offset: int, version: int, read_to: int) -> FoundRecord:
    value = b'{"version":%d,"incarnation":0}' % version
    return FoundRecord(offset, NOW_MS, value, (checkpoint_header(77, read_to),))


def test_they_are_counted_in_the_order_of_the_log() -> None:
    found = [arrival(4, NOW_MS + 9), arrival(3, NOW_MS), FoundRecord(2, NOW_MS, b"{}", ()), arrival(1, NOW_MS)]
    assert versions_of(found) == {1: NOW_MS, 2: NOW_MS, 3: NOW_MS + 1, 4: NOW_MS + 9}


def test_numbers_go_on_as_numbers() -> None:
    found = [arrival(3, NOW_MS), FoundRecord(2, 1, b"nonsense", ()), FoundRecord(1, 1, b'{"version":41}', ())]
    assert versions_of(found) == {1: 41, 3: 42}


def test_a_checkpoint_stands_for_records_that_are_compacted_away() -> None:
    found = [arrival(7, NOW_MS), checkpoint(6, 101, 4), arrival(5, NOW_MS), arrival(4, NOW_MS)]
    versions = versions_of(found)
    assert (versions[5], versions[6], versions[7]) == (102, 101, 103)


def test_another_value_of_the_header_says_nothing() -> None:
    found = [FoundRecord(2, NOW_MS, b'{"version":1,"incarnation":0}', ((arrival_header()[0], b"x/1"),)), arrival(1, 9)]
    assert versions_of(found) == {1: 9, 2: 1}
