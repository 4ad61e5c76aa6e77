"""The conditions that decide are named, with what the object says instead."""

import pytest
from coldnotify_matcher.engine.interests.by_query.deciding import deciding
from coldnotify_matcher.engine.interests.by_query.query import CanonicalQuery, query_of
from coldnotify_matcher.engine.interests.by_query.tree import Tree
from coldnotify_schemas.descriptions import Description
from coldnotify_testkit.queries import DESCRIPTIONS, TREES
from hypothesis import given, settings
from hypothesis import strategies as st

LAMP: Description = {"Kind": "lamp", "Room": 411.0}


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("Kind = lamp AND Room = 410", "Room = 410 is false, it is 411"),
        ("Kind = lamp AND Room = 411", 'Kind = "lamp" is true, it is "lamp"; Room = 411 is true, it is 411'),
        ("Room = 410 OR Kind LIKE amp", 'Kind LIKE "amp" is true, it is "lamp"'),
        ("NOT (has Dark OR Kind = lamp)", 'Kind = "lamp" is true, it is "lamp"'),
        ("has Dark", "HAS Dark is false, there is no Dark"),
        ("NAME STARTS WITH 'door-'", 'NAME STARTS WITH "door-" is false'),
    ],
)
def test_in_words(query: str, words: str) -> None:
    query = query.replace("LIKE amp", "LIKE 'amp'")
    assert deciding(query_of(query), "lamp-1", LAMP)[1] == words


@settings(deadline=None)
@given(tree=TREES, name=st.text(max_size=3), description=DESCRIPTIONS)
def test_something_decides_every_query(tree: Tree, name: str, description: dict[str, str | float | bool]) -> None:
    query = CanonicalQuery(tree)
    fits, words = deciding(query, name, description)
    assert fits is query.matches(name, description)
    assert words
