"""Regular expressions of queries: what is found, what is refused, and that none can take long or grow without bound."""

import pytest
from coldnotify_matcher.engine.interests.by_query import expressions
from coldnotify_matcher.engine.interests.by_query.expressions import InvalidExpression, check_expression, found_in


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("am", "lamp", True),
        ("^am", "lamp", False),
        ("^l.*p$", "lamp", True),
        ("(?i)LAMP", "a lamp", True),
        ("é", "café", True),
        ("^.$", "é", True),
        ("", "", True),
        ("a\\.b", "axb", False),
        ("\x00", "a\x00b", True),
    ],
)
def test_what_is_found(pattern: str, text: str, found: bool) -> None:
    check_expression(pattern)
    assert found_in(pattern, text) is found


@pytest.mark.parametrize("pattern", ["(", "a**", "(?=x)", "\\1", "x{1001}", "(x{100}){100}", "[\\pL\\pN]{300}"])
def test_what_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidExpression, match=r"."):
        check_expression(pattern)


def test_one_over_which_others_would_go_back_and_forth_for_years() -> None:
    check_expression("^(a+)+$")
    assert not found_in("^(a+)+$", "a" * 255 + "b")


def test_how_many_are_kept_is_bounded() -> None:
    for number in range(expressions.EXPRESSIONS_KEPT_MAX + 10):
        assert found_in(f"^{number}$", str(number))
    assert expressions._compiled.cache_info().currsize == expressions.EXPRESSIONS_KEPT_MAX
    assert found_in("^0$", "0")
