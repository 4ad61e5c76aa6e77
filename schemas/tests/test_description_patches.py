"""Patches: parsed and checked, put together, and the header of what they made."""

import json

import pytest
from coldnotify_schemas.description_patches import (
    PATCH_BYTES_MAX,
    composed,
    encode_patch,
    parse_description_patch,
    request_header,
    request_in,
)
from coldnotify_schemas.descriptions import merge_patch
from coldnotify_schemas.records import InvalidRecord


def test_two_together_do_what_both_do() -> None:
    first, second = {"a": 1, "b": None, "c": "x"}, {"a": None, "c": "y", "d": True}
    both = composed(encode_patch(first), encode_patch(second))
    assert both is not None
    start = {"a": 0, "b": 2, "e": 5}
    assert merge_patch(start, json.loads(both)) == merge_patch(merge_patch(start, first), second)
    assert composed(b"", both) == composed(both, b"") == both


def test_two_that_are_too_long_together_stay_two() -> None:
    one = encode_patch({f"a{number}": "x" * 200 for number in range(30)})
    other = encode_patch({f"b{number}": "x" * 200 for number in range(30)})
    more = composed(one, other)
    assert more is not None
    assert composed(more, encode_patch({f"c{number}": "x" * 200 for number in range(30)})) is None


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (b"[]", "patch"),
        (b"{", "patch"),
        (b"null", "patch"),
        (b'{"1": 1}', "description"),
        (b'{"a": [1]}', "description"),
        (b'{"a": "%s"}' % (b"x" * 257), "description"),
        (b" " * PATCH_BYTES_MAX + b"{}", "patch"),
    ],
)
def test_a_wrong_one_names_the_field(value: bytes, field: str) -> None:
    with pytest.raises(InvalidRecord, match=f"^{field}: "):
        parse_description_patch(value)


@pytest.mark.parametrize("patch", [None, [1], {1: 2}, {"a": object()}, {"a": [1]}])
def test_a_wrong_one_of_an_application_names_the_field(patch: object) -> None:
    with pytest.raises(InvalidRecord, match=r"^description: "):
        encode_patch(patch)  # type: ignore[arg-type]


def test_a_null_stays_in_a_parsed_patch() -> None:
    assert parse_description_patch(b'{"b": null, "a": 1}') == {"a": 1.0, "b": None}


def test_the_header_names_a_request_of_its_epoch() -> None:
    _, value = request_header(77, 9)
    assert request_in(value, 77, 9) == 9
    assert (
        request_in(value, 77, 8) == request_in(value, 78, 9) == request_in(b"", 77, 9) == request_in(b"9", 77, 9) == -1
    )
