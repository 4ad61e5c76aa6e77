"""Interests are values, and the digest of those by name is that of the names."""

import re

import pytest
from coldnotify_schemas.digest import digest, object_digest
from coldnotify_schemas.interests import (
    Interest,
    Kind,
    by_name,
    by_query,
    channel_hash,
    channel_of,
    channel_text,
    digest_of,
    expression_of,
    filter_hash,
    pattern_name,
    prefix_expression,
    query_hash,
)
from coldnotify_schemas.names import InvalidName

NAMES = ["camera-config", "a/b c", "größe", "x" * 255]


def test_an_interest_is_its_kind_and_its_text() -> None:
    assert by_name("camera-config") == Interest(Kind.NAME, "camera-config")
    assert len({by_name(name) for name in [*NAMES, *NAMES]}) == len(NAMES)


@pytest.mark.parametrize("text", ["", "x" * 256, "\ud800"])
def test_an_invalid_name_is_refused_as_an_interest_by_name(text: str) -> None:
    with pytest.raises(InvalidName, match="object: "):
        by_name(text)


def test_the_digest_of_interests_by_name_is_that_of_their_names() -> None:
    assert [by_name(name).hash for name in NAMES] == [object_digest(name) for name in NAMES]
    assert digest_of(map(by_name, NAMES)) == digest(NAMES)
    assert digest_of([]) == 0


def test_a_query_never_has_the_hash_of_a_name() -> None:
    query = by_query("Room = 410")
    assert query == Interest(Kind.QUERY, "Room = 410")
    assert query.hash == query_hash("Room = 410") != object_digest("Room = 410")
    assert digest_of([by_name("a"), query]) == (object_digest("a") + query.hash) % (1 << 64)


@pytest.mark.parametrize("text", ["", "x" * 4097, "\ud800"])
def test_a_text_that_cannot_be_sent_is_refused_as_query(text: str) -> None:
    with pytest.raises(InvalidName, match="query: "):
        by_query(text)


def test_a_filter_never_has_the_hash_of_a_name_or_a_query() -> None:
    filter_ = Interest(Kind.FILTER, "a/+")
    assert filter_.hash == filter_hash("a/+")
    assert len({filter_.hash, query_hash("a/+"), channel_hash("a/+"), object_digest("a/+")}) == 4


@pytest.mark.parametrize("prefix", ["alarms/", "a.b+c", "^$|(){}[]*?\\", "ä/-"])
def test_a_pattern_is_told_from_a_channel_of_the_same_name(prefix: str) -> None:
    text = channel_text(pattern_name(prefix_expression(prefix)), ["y", "x"])
    name, attributes = channel_of(text)
    assert channel_text(name, attributes) == text
    assert attributes == ["x", "y"]
    expression = expression_of(name)
    assert expression is not None
    assert expression_of(prefix) is None
    assert channel_hash(text) != channel_hash(channel_text(expression, attributes))
    assert re.search(expression, prefix + "z")
    assert not re.search(expression, "z" + prefix)


@pytest.mark.parametrize("expression", ["", "a\0b", "\ud800", "x" * 4097])
def test_a_text_is_refused_as_a_pattern(expression: str) -> None:
    with pytest.raises(InvalidName, match=r"^pattern: "):
        pattern_name(expression)
