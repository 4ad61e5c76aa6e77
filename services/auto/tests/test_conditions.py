"""Conditions: which changes of a row are published."""

import msgspec
import pytest
from coldnotify_auto.cells import Cell, Row, text_cell
from coldnotify_auto.changes import RowRejected
from coldnotify_auto.conditions import Condition

OLD: Row = {"status": text_cell("off"), "fps": Cell("5", 5), "on": Cell("t", True), "none": None}
NEW: Row = {**OLD, "status": text_cell("it's"), "price": Cell("1.50", msgspec.Raw(b"1.50"))}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("status changes", True),
        ("fps changes", False),
        ("status changes and fps > 4", True),
        ("status changes and fps > 5", False),
        ("status = 'it''s'", True),
        ("status != 'off'", True),
        ("fps = 5.0", True),
        ("fps<=5and fps >= 5", True),
        ("price < 1.6", True),
        ("on = true", True),
        ("on = false", False),
        ("none = null", True),
        ("none != null", False),
        ("fps = null", False),
        ("fps != null", True),
        ("none = 'x'", False),
        ("none != 'x'", True),
        ("none > 1", False),
        ("status = 1", False),
    ],
)
def test_a_condition_holds_or_not(text: str, holds: bool) -> None:
    assert Condition(text).holds(NEW, OLD) is holds


def test_in_a_new_row_everything_has_changed() -> None:
    assert Condition("fps changes").holds(NEW, None)
    assert Condition("fps changes and on = true").holds_for_deletion(OLD)
    assert not Condition("fps changes and on = false").holds_for_deletion(OLD)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "'' is not COLUMN changes"),
        ("status", "'status' is not COLUMN changes"),
        ("status changes or fps = 1", "expected `and` before 'or fps = 1'"),
        ("fps > 'x'", "only numbers can be compared"),
        ("fps > true", "only numbers can be compared"),
        ("status changes and", "'' is not COLUMN"),
    ],
)
def test_other_texts_are_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Condition(text)


def test_a_value_that_cannot_be_judged_rejects_the_row() -> None:
    with pytest.raises(RowRejected, match='when: status is "it\'s", and not a number'):
        Condition("status > 1").holds(NEW, OLD)
    with pytest.raises(RowRejected, match="column other is not known"):
        Condition("other = 1").holds(NEW, OLD)
    with pytest.raises(RowRejected, match="the old value of column price is not known"):
        Condition("price changes").holds(NEW, OLD)
