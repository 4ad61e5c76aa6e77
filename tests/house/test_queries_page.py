"""The page about queries: its examples are queries, fit what the page says they fit, and fail as it says they fail."""

import re
import shlex
from pathlib import Path

import pytest
from coldnotify_cli.described import parse_assignments
from coldnotify_matcher.engine.interests.by_query.language import (
    DEPTH_MAX,
    KEYWORDS,
    NODES_MAX,
    STEPS_MAX,
    InvalidQuery,
)
from coldnotify_matcher.engine.interests.by_query.query import query_of
from coldnotify_matcher.engine.interests.by_query.query_places import BYTES_MAX, PLACES_MAX
from coldnotify_matcher.engine.interests.by_query.query_places import STEPS_MAX as PARTITION_STEPS_MAX
from coldnotify_matcher.engine.interests.by_query.sets import MEMBERS_MAX
from coldnotify_schemas.descriptions import (
    DESCRIPTION_BYTES_MAX,
    KEY_CHARS_MAX,
    KEYS_MAX,
    TEXT_BYTES_MAX,
    Description,
    check_description,
)
from coldnotify_schemas.protocol import QUERY_BYTES_MAX

TEXT = (Path(__file__).parents[2] / "docs" / "queries.md").read_text(encoding="utf-8")
FENCED = re.findall(r"^```query\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`([^`]+)`")


def rows(*heading: str) -> list[list[str]]:
    """The cells of the table with this heading."""
    _, found, rest = TEXT.partition(f"\n| {' | '.join(heading)} |\n")
    assert found, f"there is no table {heading}"
    table = rest.partition("\n\n")[0].splitlines()[1:]
    return [[cell.strip() for cell in line.removeprefix("|").removesuffix("|").split(" |")] for line in table]


def code(cell: str) -> list[str]:
    """What stands as code in a cell."""
    return _CODE.findall(cell)


def objects() -> dict[str, Description]:
    """By name, those of the examples."""
    found = {}
    for name, said in rows("object", "description"):
        words = shlex.split(code(said)[0]) if said else []
        found[code(name)[0]] = check_description(parse_assignments(words))
    return found


EXAMPLES = [(code(query)[0], code(fits)) for query, fits, _ in rows("query", "fits", "because")]
WRONG = [(code(query)[0], error) for query, error in rows("query", "error")]


@pytest.mark.parametrize(("query", "fits"), EXAMPLES, ids=[query for query, _ in EXAMPLES])
def test_an_example_fits_what_the_page_says(query: str, fits: list[str]) -> None:
    matches = query_of(query).matches
    assert [name for name, description in objects().items() if matches(name, description)] == fits


@pytest.mark.parametrize(("query", "error"), WRONG, ids=[query for query, _ in WRONG])
def test_what_is_wrong_is_told_as_the_page_says(query: str, error: str) -> None:
    with pytest.raises(InvalidQuery) as raised:
        query_of(query)
    assert str(raised.value) == error


def test_what_stands_alone_is_a_query() -> None:
    assert len(FENCED) == 2
    for query in FENCED:
        query_of(query)
    assert query_of(FENCED[1]).matches(
        "o", {"path": "a/b", "said": 'He said "no"', "share": r"\\server", "at": "12:30"}
    )


def test_every_keyword_has_an_example() -> None:
    words = {word.upper() for query, _ in EXAMPLES for word in re.findall(r"\w+", query)}
    assert KEYWORDS - words <= {"FALSE"}


def test_the_limits_are_those_of_the_code() -> None:
    lines = (Path(__file__).parents[2] / "docs" / "limits.md").read_text(encoding="utf-8").splitlines()
    table = {cells[0].removeprefix("| "): cells[1] for line in lines if len(cells := line.split(" | ")) == 3}
    assert table["a description"] == (
        f"{KEYS_MAX} keys, {DESCRIPTION_BYTES_MAX // 1024} KiB of JSON; "
        f"a key {KEY_CHARS_MAX} characters, a text {TEXT_BYTES_MAX} bytes"
    )
    of_query = table["a query"]
    assert of_query.startswith(f"{QUERY_BYTES_MAX // 1024} KiB; {NODES_MAX} conditions")
    assert f"; {DEPTH_MAX} parentheses" in of_query
    assert table["the regular expressions of a query together"].startswith(f"{STEPS_MAX:,} steps")
    (of_partition,) = (words for what, words in table.items() if what.startswith("registered queries of a partition"))
    assert of_partition.startswith(f"{PLACES_MAX:,}; {BYTES_MAX // 2**20} MiB; {PARTITION_STEPS_MAX:,}. ")
    (members,) = (words for what, words in table.items() if what.startswith("members of a partition's sets"))
    assert members.startswith(f"{MEMBERS_MAX:,};")
