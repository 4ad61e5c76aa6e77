"""Queries: what they say of objects, which agrees with a naive reading of what was written."""

import pytest
from coldnotify_matcher.engine.interests.by_query.language import InvalidQuery
from coldnotify_matcher.engine.interests.by_query.query import CanonicalQuery, query_of
from coldnotify_matcher.engine.interests.by_query.tree import Tree
from coldnotify_schemas.descriptions import Description
from coldnotify_testkit.queries import DESCRIPTIONS, NAMES, PATIENT, TREES, naive
from hypothesis import given

LAMP: Description = {"Control/Level": 0.5, "Kind": "lamp", "Room": 410.0, "on": True}


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ('Room = 410 AND Kind = "lamp" AND has Control/Level', True),
        ("Room = '410'", False),
        ("Room = 410.0", True),
        ("Kind = lamp", True),
        ("kind = lamp", False),
        ("Kind LIKE 'am'", True),
        ("Room LIKE '4'", False),
        ("on = true", True),
        ("on = 1", False),
        ("on = 'true'", False),
        ("on < 2", False),
        ("Kind < 5", False),
        ("Control/Level >= 0.5 and Control/Level < 1", True),
        ("Missing < 5", False),
        ("not Missing < 5", True),
        ("Missing != 5", True),
        ("Missing = x", False),
        ("Kind in (heater, lamp)", True),
        ("NAME = 'lamp-1'", True),
        ("NAME STARTS WITH 'lamp'", True),
        ("NAME BETWEEN 'lamp-1' AND 'lamp-2'", True),
        ("NAME BETWEEN 'a' AND 'lamp-1'", False),
        ("NAME LIKE '[0-9]$'", True),
    ],
)
def test_what_a_query_says_of_a_lamp(text: str, fits: bool) -> None:
    assert query_of(text).matches("lamp-1", LAMP) is fits


def test_a_word_that_is_a_number_also_equals_its_text() -> None:
    assert query_of("Room = 410").matches("x", {"Room": "410"})
    assert not query_of("Room = 410").matches("x", {"Room": "410.0"})
    assert not query_of("on = 1").matches("x", {"on": True})


def test_two_that_mean_the_same_have_one_text() -> None:
    assert query_of("a=1 and b=2").text == query_of("b = 2 AND a = 1").text == "a = 1 AND b = 2"


def test_what_is_no_query() -> None:
    with pytest.raises(InvalidQuery, match="line 1, column 4"):
        query_of("a =")


@PATIENT
@given(TREES, NAMES, DESCRIPTIONS)
def test_it_agrees_with_a_naive_reading(tree: Tree, name: str, description: Description) -> None:
    assert CanonicalQuery(tree).matches(name, description) is naive(tree, name, description)
