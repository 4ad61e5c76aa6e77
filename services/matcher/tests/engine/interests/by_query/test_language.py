"""The language: what is a query, and that the error of what is none says line, column and what was expected.

Stands for: tree
"""

from typing import Any

import pytest
from coldnotify_matcher.engine.interests.by_query.language import (
    DEPTH_MAX,
    NODES_MAX,
    InvalidQuery,
    number_of,
    parse,
)
from coldnotify_matcher.engine.interests.by_query.tree import (
    And,
    Compare,
    Constant,
    Equal,
    Has,
    Like,
    NameBetween,
    NameEqual,
    NameLike,
    NameStartsWith,
    Not,
    Or,
    Text,
    Tree,
    Word,
)
from coldnotify_schemas.protocol import QUERY_BYTES_MAX
from coldnotify_testkit.queries import PATIENT, TREES, spelled
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("has Control/Level", Has("Control/Level")),
        ("Room = 410", Equal("Room", Word("410"))),
        ("Room=410", Equal("Room", Word("410"))),
        ("Level > -5", Compare("Level", ">", -5.0)),
        ("Level<=.5e1", Compare("Level", "<=", 5.0)),
        ('Kind = "la\\"m\\\\p"', Equal("Kind", Text('la"m\\p'))),
        ("Kind = 'la\\'m\"p'", Equal("Kind", Text("la'm\"p"))),
        ("Kind = 'two\nlines'", Equal("Kind", Text("two\nlines"))),
        ("on = TRUE", Equal("on", Constant(True))),
        ("on = False", Equal("on", Constant(False))),
        ("on = 'true'", Equal("on", Text("true"))),
        ("at != 12:30", Not(Equal("at", Word("12:30")))),
        ("Kind LIKE '^la'", Like("Kind", "^la")),
        ("Kind in (lamp, 'heater', 7)", Or((Equal("Kind", Word("lamp")), Equal("Kind", Text("heater")),
                                            Equal("Kind", Word("7"))))),
        ("Kind IN (lamp)", Equal("Kind", Word("lamp"))),
        ("`in` = 1", Equal("in", Word("1"))),
        ("`Kind` = 1", Equal("Kind", Word("1"))),
        ("NAME = 'lamp-1'", NameEqual("lamp-1")),
        ("name like 'lamp'", NameLike("lamp")),
        ("NAME STARTS WITH 'lamp/'", NameStartsWith("lamp/")),
        ("NAME BETWEEN 'a' AND 'b' AND c = 1", And((NameBetween("a", "b"), Equal("c", Word("1"))))),
        ("not has a and b=2 or c=3", Or((And((Not(Has("a")), Equal("b", Word("2")))), Equal("c", Word("3"))))),
        ("not not has a", Not(Not(Has("a")))),
        ("has a and (has b or has c)", And((Has("a"), Or((Has("b"), Has("c")))))),
        ("\n has\t\r\n a ", Has("a")),
        (
            'Room = 410 AND Kind = "lamp" AND has Control/Level',
            And((Equal("Room", Word("410")), Equal("Kind", Text("lamp")), Has("Control/Level"))),
        ),
    ],
)  # fmt: skip
def test_a_query(text: str, tree: Tree) -> None:
    assert parse(text) == tree


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("", 1, 1, r"expected a condition: .*, found the end of the query"),
        ("a", 1, 2, r"expected =, !=, <, <=, >, >=, LIKE or IN behind the key 'a', found the end"),
        ("a = ", 1, 5, r"expected a text in quotes, a word, a number, TRUE or FALSE, found the end"),
        ("a = 1 AND\n  b ==", 2, 6, r"expected a text in quotes, .*, found '='"),
        ("a = OR", 1, 5, r"found the keyword OR \(a text of this kind stands in quotes\)"),
        ("with = 1", 1, 1, r"expected a condition: .*the keyword WITH \(a key of this name stands in backquotes\)"),
        ("HAS like", 1, 5, r"expected a key behind HAS, found the keyword LIKE \(a key of this name"),
        ("a = b/c", 1, 5, r"found 'b/c': a text with '/' stands in quotes"),
        ("a LIKE '('", 1, 8, r"expected a regular expression as RE2 has it, found '\(': missing \)"),
        ("a LIKE '(?=x)'", 1, 8, r"expected a regular expression as RE2 has it"),
        ("a LIKE '(.?){200}' or a LIKE '(.?){200}'", 1, 30, r"expected regular expressions of at most 2000 steps"),
        ("a LIKE x", 1, 8, r"expected a text in quotes, found 'x'"),
        ('a LIKE "\\d"', 1, 9, r"""expected \\", \\' or \\\\ in a text, found .*: a \\ is written \\\\$"""),
        ('b = 1 and a = "x', 1, 15, r'expected " at the end of what begins here, found the end of the query'),
        ("`a", 1, 1, r"expected ` at the end"),
        ("NAME != 'x'", 1, 6, r"expected =, LIKE, STARTS WITH or BETWEEN behind NAME .*, found '!='"),
        ("NAME = x", 1, 8, r"expected a text in quotes, found 'x'"),
        ("NAME starts 'x'", 1, 13, r"expected WITH behind STARTS"),
        ("NAME BETWEEN 'x' OR", 1, 18, r"expected AND, and the text before which names end, found the keyword OR"),
        ("(a=1", 1, 5, r"expected AND, OR or '\)', found the end"),
        ("a=1)", 1, 4, r"expected AND, OR or the end of the query, found '\)'"),
        ("a=1 b=2", 1, 5, r"expected AND, OR or the end of the query, found 'b'"),
        ("a < '5'", 1, 5, r"expected a number behind <, found \"'5'\""),
        ("a < 1e999", 1, 5, r"expected a number behind <, found '1e999'"),
        ("a < inf", 1, 5, r"expected a number behind <"),
        ("a ! 1", 1, 3, r"expected a key, a literal, an operator or a parenthesis, found '!'"),
        ("9a = 1", 1, 1, r"expected a key \(.*\), found '9a'"),
        ("`a b` = 1", 1, 1, r"expected a key \(.*\), found 'a b'"),
        ("k" * 129 + " = 1", 1, 1, r"expected a key \(1 to 128"),
        ("'a' = 1", 1, 1, r"expected a condition"),
        ("a IN 1", 1, 6, r"expected '\(' behind IN, found '1'"),
        ("a IN (1 2)", 1, 9, r"expected ',' or '\)', found '2'"),
        ("a IN ()", 1, 7, r"expected a text in quotes, .*, found '\)'"),
        ("ü = 1", 1, 1, r"expected a key, .*, found 'ü'"),
        ("a = 'ü' ü", 1, 9, r"found 'ü'"),
        ("a = '\ud800'", 1, 6, r"expected text, found what is not valid UTF-8"),
    ],
)  # fmt: skip
def test_no_query(text: str, line: int, column: int, words: str) -> None:
    with pytest.raises(InvalidQuery, match=rf"^line {line}, column {column}: .*{words}") as raised:
        parse(text)
    assert (raised.value.line, raised.value.column) == (line, column)


@pytest.mark.parametrize(
    ("within", "beyond", "words"),
    [
        ("a = 1" + " " * (QUERY_BYTES_MAX - 5), "a = 1" + " " * (QUERY_BYTES_MAX - 4), "has 4097 bytes"),
        ("(" * DEPTH_MAX + "has a" + ")" * DEPTH_MAX, "(" * 33 + "has a" + ")" * 33, "at most 32 parentheses and NOTs"),
        ("not " * DEPTH_MAX + "has a", "not " * 33 + "has a", "at most 32 parentheses and NOTs"),
        (" and ".join(["has a"] * (NODES_MAX - 1)), " and ".join(["has a"] * NODES_MAX), "at most 256 conditions"),
        (f"a in ({','.join('1' * 255)})", f"a in ({','.join('1' * 256)})", "at most 256 conditions, literals of an IN"),
    ],
)
def test_limits(within: str, beyond: str, words: str) -> None:
    parse(within)
    with pytest.raises(InvalidQuery, match=words):
        parse(beyond)
    parse(beyond, bounded=False)


@PATIENT
@given(TREES)
def test_what_is_written_is_what_is_read(tree: Tree) -> None:
    assert parse(spelled(tree), bounded=False) == tree


@PATIENT
@given(st.text("abAND ORinHASNAMElike\"'`\\()=!<>,.1/\n", max_size=40) | st.text(max_size=20))
def test_any_text_is_a_query_or_an_invalid_one(text: str) -> None:
    try:
        parse(text)
    except InvalidQuery as raised:
        error = raised
    else:
        return
    assert 1 <= error.line <= text.count("\n") + 1
    assert 1 <= error.column <= len(text.split("\n")[error.line - 1]) + 1
    assert "expected" in error.reason


@pytest.mark.parametrize(
    ("word", "number"),
    [("410", 410.0), ("-1.5e3", -1500.0), ("+.5", 0.5), ("1.", 1.0), ("-0", 0.0), ("1e999", None), ("nan", None),
     ("inf", None), ("1_0", None), ("0x1", None), (".", None), ("1e", None), ("٣", None)],
)  # fmt: skip
def test_which_words_are_numbers(word: str, number: Any) -> None:
    assert number_of(word) == number
    assert str(number_of(word)) == str(number)
