"""Descriptions of a partition: which record is in force, whatever the log's order, and that what is shared is one."""

from contextlib import suppress
from random import Random

import pytest
from coldnotify_matcher.engine.objects import description_store
from coldnotify_matcher.engine.objects.description_store import DescriptionChange, DescriptionStore
from coldnotify_schemas.descriptions import Description, encode_description_record, parse_description_record
from coldnotify_schemas.records import InvalidRecord
from coldnotify_testkit.queries import PATIENT
from hypothesis import given
from hypothesis import strategies as st

GROUP, NAME = "animal.observer/region-1", "lamp-1"
RED, BLUE = b'{"description": {"colour": "red"}}', b'{"description": {"colour": "blue"}}'
NONE = b'{"description": null}'
RECORDS = st.lists(st.tuples(st.sampled_from([RED, BLUE, NONE, b"{}", None]), st.integers(-1, 6)), max_size=12)
"""(value, timestamp), in the order of the log."""


def state(of: DescriptionStore) -> tuple[object, ...] | None:
    """All that is known of the one object."""
    described = of.of(GROUP, NAME)
    if described is None:
        return None
    return described.description, described.version, described.kept_offset, described.last_offset


def taken(records: list[tuple[bytes | None, int]]) -> DescriptionStore:
    """As an owner sees them, one by one."""
    of = DescriptionStore()
    for offset, (value, timestamp_ms) in enumerate(records):
        with suppress(InvalidRecord):
            of.take(GROUP, NAME, value, timestamp_ms, offset)
    return of


def test_a_description_comes_changes_and_goes() -> None:
    of = DescriptionStore()
    assert of.take(GROUP, NAME, RED, 5, 0) == DescriptionChange(None, {"colour": "red"})
    assert of.take(GROUP, NAME, RED, 7, 1) is None
    assert of.take(GROUP, NAME, BLUE, 9, 2) == DescriptionChange({"colour": "red"}, {"colour": "blue"})
    assert of.take(GROUP, NAME, NONE, 11, 3) == DescriptionChange({"colour": "blue"}, None)
    described = of.of(GROUP, NAME)
    assert described is not None
    assert (described.version, described.offset, described.needs_repair) == (11, 3, False)
    assert list(of.of_group(GROUP)) == [NAME]
    assert of.of("another/group", NAME) is None


def test_the_same_map_again_changes_nothing_but_version_and_place() -> None:
    of = taken([(RED, 5), (RED, 7)])
    described = of.of(GROUP, NAME)
    assert described is not None
    assert (described.version, described.offset, described.kept_offset) == (7, 0, 1)


def test_true_instead_of_one_is_a_change() -> None:
    of = DescriptionStore()
    of.take(GROUP, NAME, b'{"description": {"a": 1}}', 1, 0)
    assert of.take(GROUP, NAME, b'{"description": {"a": true}}', 2, 1) == DescriptionChange({"a": 1.0}, {"a": True})


@pytest.mark.parametrize("value", [None, b"{}", b'{"description": {"9": 1}}'])
def test_what_is_no_description_leaves_the_one_in_force(value: bytes | None) -> None:
    of = taken([(RED, 5)])
    with pytest.raises(InvalidRecord, match=r"^(record|description): "):
        of.take(GROUP, NAME, value, 9, 1)
    described = of.of(GROUP, NAME)
    assert described is not None
    assert described.description == {"colour": "red"}
    assert described.needs_repair
    assert of.take(GROUP, NAME, described.repair_record(), described.version, 2) is None
    assert not described.needs_repair


def test_what_is_no_description_of_an_object_without_one_leaves_nothing() -> None:
    of = taken([(b"{}", 5), (None, 6), (RED, -1)])
    assert len(of) == 0


def test_an_outdone_one_changes_nothing_and_is_written_over() -> None:
    of = taken([(BLUE, 9), (RED, 5)])
    described = of.of(GROUP, NAME)
    assert described is not None
    assert described.description == {"colour": "blue"}
    assert described.needs_repair
    assert described.repair_record() == encode_description_record({"colour": "blue"})


def test_an_outdone_one_does_not_come_back_behind_a_removal() -> None:
    assert state(taken([(NONE, 9), (RED, 5)])) == (None, 9, 0, 1)


@PATIENT
@given(RECORDS, st.integers(1, 4))
def test_who_loads_comes_to_what_the_owner_had(records: list[tuple[bytes | None, int]], kept: int) -> None:
    owner, loader = taken(records), DescriptionStore()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(description_store, "KEPT_MAX", kept)
        for offset, (value, timestamp_ms) in enumerate(records):
            loader.keep(GROUP, NAME, value, timestamp_ms, offset)
        repairs = [described for _, _, described in loader.finish_load()]
    had, has = owner.of(GROUP, NAME), loader.of(GROUP, NAME)
    if had is None or has is None:
        assert had is has
        return
    assert (has.description, has.version) == (had.description, had.version)
    assert has.kept_offset == had.kept_offset
    # What is no description leaves no trace with an owner that knows of no other: then nothing is to be repaired.
    assert (has in repairs) == has.needs_repair == (has.last_offset > has.kept_offset)
    assert has.last_offset >= had.last_offset


@PATIENT
@given(
    st.lists(st.tuples(st.sampled_from([RED, BLUE, NONE]), st.integers(0, 6)), max_size=8, unique_by=lambda r: r[1]),
    st.randoms(),
)
def test_the_order_of_the_log_does_not_count(records: list[tuple[bytes | None, int]], random: Random) -> None:
    shuffled = list(records)
    random.shuffle(shuffled)
    one, other = state(taken(records)), state(taken(shuffled))
    assert (one and one[:2]) == (other and other[:2])


def test_of_what_is_loaded_only_what_counts_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes | None] = []

    def counting(value: bytes | None) -> Description | None:
        parsed.append(value)
        return parse_description_record(value)

    monkeypatch.setattr(description_store, "parse_description_record", counting)
    of = DescriptionStore()
    for number in range(3):
        of.keep(GROUP, NAME, RED if number % 2 else BLUE, number, number)
    of.keep(GROUP, "lamp-2", RED, 5, 3)
    assert list(of.finish_load()) == []
    assert parsed == [BLUE, RED]
    assert state(of) == ({"colour": "blue"}, 2, 2, 2)


def test_what_is_the_same_is_one_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(description_store, "SHARED_MAX", 8)
    of = DescriptionStore()
    for number in range(2):
        value = b'{"description": {"a_key": "a text", "b": 1.5, "c": true, "d": 1}}'
        of.take(GROUP, f"lamp-{number}", value, 1, number)
    one, other = (described.description for described in of.of_group(GROUP).values())
    assert one is not None
    assert other is not None
    assert [id(key) for key in one] == [id(key) for key in other]
    assert [id(value) for value in one.values()] == [id(value) for value in other.values()]
    assert [type(value) for value in one.values()] == [str, float, bool, float]
    for number in range(20):
        of.take(GROUP, f"lamp-{number}", b'{"description": {"a": %d}}' % number, 2, 2 + number)
    assert len(of._shared) <= 8 + 4


def test_of_a_loaded_log_it_is_not_said_to_be_older_than_what_stood_between() -> None:
    """Red, then blue, which nobody has parsed, then red again: who knew of blue is to be told."""
    of = DescriptionStore()
    of.keep(GROUP, NAME, RED, 5, 0)
    of.settle(GROUP, NAME)
    of.keep(GROUP, NAME, BLUE, 6, 1)
    of.keep(GROUP, NAME, RED, 7, 2)
    assert list(of.finish_load()) == []
    described = of.of(GROUP, NAME)
    assert described is not None
    assert (described.description, described.offset) == ({"colour": "red"}, 2)
