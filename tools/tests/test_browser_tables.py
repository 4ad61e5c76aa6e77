"""The browser client's errors and phases are those of the Python client."""

import ast

import pytest
from coldnotify_tools import browser_tables
from coldnotify_tools.browser_tables import ERRORS, PHASES, errors_text, phases_text


def test_the_errors_are_the_generated_ones() -> None:
    assert ERRORS.read_text(encoding="utf-8") == errors_text(), "make docs"


def test_the_phases_are_the_generated_ones() -> None:
    assert PHASES.read_text(encoding="utf-8") == phases_text(), "make docs"


def test_an_error_has_its_fields_its_message_and_the_first_paragraph() -> None:
    text = errors_text()
    assert (
        "/** The state cannot be read, written or locked. */\nexport class StateError extends ColdNotifyError {\n"
        '  override name = "StateError";\n}'
    ) in text
    assert "export class OutboxFull extends ColdNotifyError {" in text, "a page has no OutboxError"
    assert "threw ${String(cause)}`, { cause });" in text
    assert "    readonly query: string | null = null,\n" in text
    assert "OutboxDamaged" not in text


def test_an_expression_that_cannot_be_translated_is_refused() -> None:
    with pytest.raises(ValueError, match=r"len\(name\): cannot be translated"):
        browser_tables._expression(ast.parse("len(name)", mode="eval").body)
