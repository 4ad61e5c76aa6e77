"""The checker's reading of queries. That it agrees with the service's is tested there, for trees at random."""

import pytest
from coldnotify_checker.queries import Description, NotUnderstood, read_query

LAMP: Description = {"Control/Level": 0.5, "Kind": "lamp", "Room": 410, "on": True}


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ('Room = 410 AND Kind = "lamp" AND has Control/Level', True),
        ("Room = '410'", False),
        ("Room=411 or Kind in (heater, lamp)", True),
        ("on = true and not on = 1", True),
        ("Control/Level >= 0.5 and Control/Level < 1", True),
        ("Missing < 5 or Missing = x", False),
        ("Missing != 5", True),
        ("`Room` = 410", True),
        ("Kind LIKE 'am'", True),
        ("NAME LIKE '[0-9]$' AND NAME STARTS WITH 'lamp' AND NAME BETWEEN 'lamp-1' AND 'lamp-2'", True),
        ("NAME = 'lamp-2'", False),
    ],
)
def test_queries_match_a_lamp_by_its_description(text: str, fits: bool) -> None:
    assert read_query(text)("lamp-1", LAMP) is fits


@pytest.mark.parametrize(
    "text", ["", "Room", "Room =", "(Room = 1", "Room < x", "Room = 1 Kind = 2", "a LIKE '('", "?"]
)
def test_an_invalid_query_is_not_understood(text: str) -> None:
    with pytest.raises(NotUnderstood, match="query"):
        read_query(text)
