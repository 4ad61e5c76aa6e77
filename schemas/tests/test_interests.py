"""Interests are values, and the digest of those by name is that of the names."""

import pytest
from coldnotify_schemas.digest import digest, object_digest
from coldnotify_schemas.interests import Interest, Kind, by_name, digest_of
from coldnotify_schemas.names import InvalidName

NAMES = ["camera-config", "a/b c", "größe", "x" * 255]


def test_an_interest_is_its_kind_and_its_text() -> None:
    assert by_name("camera-config") == Interest(Kind.NAME, "camera-config")
    assert len({by_name(name) for name in [*NAMES, *NAMES]}) == len(NAMES)


@pytest.mark.parametrize("text", ["", "x" * 256, "\ud800"])
def test_a_text_that_is_no_name_is_none_by_name(text: str) -> None:
    with pytest.raises(InvalidName, match="object: "):
        by_name(text)


def test_the_digest_of_interests_by_name_is_that_of_their_names() -> None:
    assert [by_name(name).hash for name in NAMES] == [object_digest(name) for name in NAMES]
    assert digest_of(map(by_name, NAMES)) == digest(NAMES)
    assert digest_of([]) == 0
