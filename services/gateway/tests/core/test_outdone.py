"""What a gateway that is behind need not write any more."""

from coldnotify_gateway.core.outdone import drop_outdone
from coldnotify_gateway.testing import beat_answer, fan_out
from coldnotify_schemas.internal_pb2 import Inbox, Item


def record(*items: Item, partition: int = 1, generation: int = 5, gateway: int = 77) -> Inbox:
    return Inbox(format=1, partition=partition, generation=generation, gateway=gateway, items=items)


def told(*records: Inbox) -> list[tuple[str, int]]:
    """(object, version) of each fan-out that is still written to somebody, in order."""
    found = [item.fan_out for record in records for item in record.items if item.HasField("fan_out")]
    return [(one.newest.name, one.newest.version) for one in found if one.sessions]


def test_of_versions_to_the_same_sessions_the_newest_is_left():
    records = [
        record(fan_out("a", 1, 10, 3, 4), fan_out("b", 1, 11, 3)),
        record(fan_out("a", 2, 12, 3, 4), beat_answer(12), fan_out("a", 3, 13, 3, 4)),
    ]
    assert drop_outdone(records) == 4
    assert told(*records) == [("b", 1), ("a", 3)]
    assert [len(one.items) for one in records] == [2, 3], "the order, and what is complete, is as it was"
    assert [item.fan_out.newest.offset for item in records[0].items] == [10, 11]


def test_others_than_exactly_the_same_sessions_are_told_all():
    records = [record(fan_out("a", 1, 10, 3, 4), fan_out("a", 2, 11, 3), fan_out("a", 3, 12, 3, 4, 5))]
    assert drop_outdone(records) == 0
    assert told(*records) == [("a", 1), ("a", 2), ("a", 3)]


def test_each_part_of_a_large_fan_out_is_outdone_by_its_own():
    records = [record(fan_out("a", 1, 10, 3), fan_out("a", 1, 10, 4), fan_out("a", 2, 11, 3))]
    assert drop_outdone(records) == 1
    records += [record(fan_out("a", 2, 11, 4))]
    assert drop_outdone(records) == 1
    assert told(*records) == [("a", 2), ("a", 2)]


def test_another_partitions_object_is_another_one():
    records = [record(fan_out("a", 1, 10, 3)), record(fan_out("a", 2, 11, 3), partition=2)]
    assert drop_outdone(records) == 0


def test_what_a_stale_matcher_says_later_outdoes_nothing():
    records = [
        record(fan_out("a", 1, 10, 3)),
        record(generation=6, gateway=0),
        record(fan_out("a", 2, 11, 3)),  # a gateway drops it
    ]
    assert drop_outdone(records) == 0
    assert told(*records) == [("a", 1), ("a", 2)]


def test_what_was_made_earlier_and_comes_later_outdoes_nothing():
    records = [record(fan_out("a", 2, 11, 3), fan_out("a", 1, 10, 3))]
    assert drop_outdone(records) == 0


def test_the_same_once_more_outdoes_nothing():
    # What stands between them may say that all up to the first one is complete.
    records = [record(fan_out("a", 1, 10, 3), fan_out("b", 1, 11, 3), fan_out("a", 1, 10, 3))]
    assert drop_outdone(records) == 0
