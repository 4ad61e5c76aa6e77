"""What a key of the state topics holds, whatever order writers came in: records and nulls of several generations."""

import pytest
from coldnotify_matcher import merged_records
from coldnotify_matcher.merged_records import Merged
from coldnotify_schemas.matcher_state import RegistrationsRecord

KEY = "d/g/c/0"


def bucket(generation: int, applied: int = 0) -> RegistrationsRecord:
    return RegistrationsRecord(1, generation, applied, ["a"])


def merge(merged: Merged[RegistrationsRecord], *records: RegistrationsRecord | int) -> list[bool]:
    """Numbers are nulls, of this generation."""
    return [merged.merge(KEY, None, one) if isinstance(one, int) else merged.merge(KEY, one) for one in records]


@pytest.mark.parametrize(
    ("records", "wins"),
    [
        ([bucket(2), bucket(1)], bucket(2)),
        ([bucket(2, 5), bucket(2, 4)], bucket(2, 5)),
        ([bucket(2), 2], None),
        ([bucket(1), 2], None),
        ([2, bucket(1)], None),
        ([bucket(1), 2, bucket(1, 9)], None),
        ([2, bucket(2)], bucket(2)),
        ([2, bucket(3)], bucket(3)),
        ([bucket(3), 2], bucket(3)),
        ([2, 1, bucket(1)], None),
        ([bucket(3), 0], None),
        ([2, 0, bucket(1)], bucket(1)),
    ],
)
def test_a_null_ends_what_stands_before_it_and_what_earlier_generations_write(
    records: list[RegistrationsRecord | int], wins: RegistrationsRecord | None
) -> None:
    merged = Merged[RegistrationsRecord]()
    merge(merged, *records)
    assert merged.winners.get(KEY) == wins


def test_what_is_outdone_is_to_be_written_over() -> None:
    merged = Merged[RegistrationsRecord]()
    assert merge(merged, 2, bucket(1), bucket(2), 1, bucket(1)) == [True, False, True, False, False]


def test_the_latest_nulls_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merged_records, "ENDED_MAX", 2)
    merged = Merged[RegistrationsRecord]()
    for key in ("a", "b", "a", "c"):
        merged.merge(key, None, 2)
    assert [merged.merge(key, bucket(1)) for key in ("a", "b", "c")] == [False, True, False]
