"""Entries whose spans touch go together, in the order of the log."""

from coldnotify_matcher.engine.telling.whole_groups import say_completeness, whole_groups
from coldnotify_schemas import internal_pb2


def groups(*spans: tuple[int, int]) -> list[tuple[list[tuple[int, int]], int, int]]:
    return [(one.entries, one.begin, one.end) for one in whole_groups(spans, lambda span: span)]


def test_entries_of_one_offset_are_a_group() -> None:
    assert groups() == []
    assert groups((3, 3), (1, 1), (3, 3)) == [([(1, 1)], 1, 1), ([(3, 3), (3, 3)], 3, 3)]


def test_spans_that_touch_are_a_group() -> None:
    assert groups((1, 4), (2, 2), (4, 6), (7, 7)) == [([(1, 4), (2, 2), (4, 6)], 1, 6), ([(7, 7)], 7, 7)]


def test_the_last_entry_of_a_group_completes_it() -> None:
    entries = [internal_pb2.Newest(name=name, offset=offset) for name, offset in (("a", 9), ("b", 4), ("c", 6))]
    say_completeness(entries, 4, 5)
    assert [one.offset - one.behind for one in entries] == [3, 3, 5]
    assert [one.more for one in entries] == [True, True, False]
