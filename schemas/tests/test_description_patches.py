"""Patches: parsed and checked, and the header of what they made."""

import pytest
from coldnotify_schemas.description_patches import (
    PATCH_BYTES_MAX,
    parse_description_patch,
    request_header,
    request_in,
)
from coldnotify_schemas.records import InvalidRecord


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


def test_a_null_stays_in_a_parsed_patch() -> None:
    assert parse_description_patch(b'{"b": null, "a": 1}') == {"a": 1.0, "b": None}


def test_the_header_names_a_request_of_its_epoch() -> None:
    _, value = request_header(77, 9)
    assert request_in(value, 77, 9) == 9
    assert (
        request_in(value, 77, 8) == request_in(value, 78, 9) == request_in(b"", 77, 9) == request_in(b"9", 77, 9) == -1
    )
