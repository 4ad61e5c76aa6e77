"""Names: what is one, and that the error says which field is at fault."""

import pytest
from coldnotify_schemas.names import InvalidName, ObjectKey, check_name, check_object, object_key, parse_object_key
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 64, "..."])
def test_a_name(name: str) -> None:
    assert check_name("domain", name) == name


@pytest.mark.parametrize("name", ["", "x" * 65, "a b", "a/b", "ü", "a\n", "²"])
def test_no_name(name: str) -> None:
    with pytest.raises(InvalidName, match=r"^group: "):
        check_name("group", name)


@pytest.mark.parametrize("name", ["a", "folder/file", "/", "ü" * 127, "x" * 255, " ", "\x00"])
def test_an_object(name: str) -> None:
    assert check_object(name) == name


@pytest.mark.parametrize("name", ["", "x" * 256, "ü" * 128, "\ud800"])
def test_no_object(name: str) -> None:
    with pytest.raises(InvalidName, match=r"^object: "):
        check_object(name)


def test_a_key_there_and_back() -> None:
    key = object_key("animal.observer", "region-1", "folder/file/ü")
    assert parse_object_key(key.encode()) == ObjectKey("animal.observer", "region-1", "folder/file/ü")


@pytest.mark.parametrize(
    ("key", "field"),
    [
        (None, "key"),
        (b"", "key"),
        (b"a/b", "key"),
        (b"\xff/b/c", "key"),
        (b"a b/c/d", "domain"),
        (b"a//d", "group"),
        (b"a/b/", "object"),
        (b"a/b/" + b"x" * 256, "object"),
    ],
)
def test_no_key(key: bytes | None, field: str) -> None:
    with pytest.raises(InvalidName, match=f"^{field}: "):
        parse_object_key(key)


@given(st.binary(max_size=40))
def test_any_bytes_are_a_key_or_an_invalid_name(key: bytes) -> None:
    try:
        parsed = parse_object_key(key)
    except InvalidName:
        return
    assert object_key(*parsed).encode() == key
