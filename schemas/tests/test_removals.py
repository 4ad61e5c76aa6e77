"""The header of a null that removes: what it says comes back, what is damaged says nothing, and what it removes."""

import pytest
from coldnotify_schemas.removals import REMOVES_HEADER, Removal, removal_of, removes_header
from hypothesis import given
from hypothesis import strategies as st

EPOCH = 0x4D


@given(st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**63 - 1))
def test_a_removal_is_parsed_back(incarnation: int, version: int, epoch: int, read_to: int) -> None:
    name, value = removes_header(incarnation, version, epoch, read_to)
    assert name == REMOVES_HEADER
    assert removal_of(value) == Removal(incarnation, version, epoch, read_to)


def test_a_removal_by_hand_needs_only_the_version() -> None:
    assert removal_of(b"0/7") == Removal(0, 7, None, 0)


@pytest.mark.parametrize(
    "value",
    [b"", b"7", b"/7", b"0/", b"0/-1", b"0/7@", b"0/7@4d/3", b"0/7@0000004d", b" 0/7", b"0/7\n", b"0/" + b"9" * 20],
)
def test_a_damaged_removal_is_ignored(value: bytes) -> None:
    assert removal_of(value) is None


@pytest.mark.parametrize(
    ("incarnation", "version", "last_offset", "epoch", "removed"),
    [
        (1, 7, 5, EPOCH, True),
        (1, 6, 5, EPOCH, True),
        (0, 9, 5, EPOCH, True),
        (1, 8, 5, EPOCH, False),
        (2, 0, 5, EPOCH, False),
        (1, 7, 6, EPOCH, False),
        (1, 7, 5, EPOCH + 1, False),
    ],
)
def test_it_removes_no_newer_version_and_nothing_after_a_later_record(
    incarnation: int, version: int, last_offset: int, epoch: int, removed: bool
) -> None:
    removal = Removal(1, 7, EPOCH, 5)
    assert removal.removes(incarnation, version, last_offset, epoch) is removed


def test_a_removal_by_hand_compares_versions_only() -> None:
    assert Removal(0, 7, None, 0).removes(0, 7, 99, EPOCH)
