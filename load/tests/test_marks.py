"""Marks in payloads."""

import json

import pytest
from coldnotify_load.marks import BYTES_MIN, Mark, boot_id, mark_of, payload_of, stamp_of

MARK = Mark("0123abcd", "89abcdef", 7, 12, 1_795_872_900_639, 84_000_000_000)


@pytest.mark.parametrize("size", [BYTES_MIN, 140, 65_536])
def test_a_payload_has_its_size_and_is_json(size: int) -> None:
    payload = payload_of(MARK, size)
    assert len(payload) == size
    assert isinstance(json.loads(payload), str)
    assert stamp_of(payload) == mark_of(payload) == MARK


def test_the_longest_mark_fits_the_least_size() -> None:
    longest = Mark("f" * 8, "f" * 8, 10**9 - 1, 10**12 - 1, 10**16 - 1, 10**19 - 1)
    assert len(payload_of(longest, 0)) <= BYTES_MIN
    assert mark_of(payload_of(longest, BYTES_MIN)) == longest


@pytest.mark.parametrize("payload", [b"", b"null", b'"cnb "', b'"cnb 0123abcd 1 2 3 4 5 "', b'{"a": 1}', b"\xff"])
def test_other_payloads_have_none(payload: bytes) -> None:
    assert stamp_of(payload) is None


def test_a_number_is_the_load_tests_stamp() -> None:
    assert stamp_of(b"31") == 31


def test_the_boot_id_stays() -> None:
    assert boot_id() == boot_id()
    assert len(boot_id()) == 8
