"""Regular expressions of queries, by RE2: whatever the expression, in time linear to the text and in bounded memory."""

from functools import lru_cache
from typing import Any

import re2

EXPRESSION_BYTES_MAX = 256 * 1024
"""Memory that one may take, its program and what it remembers of texts. What would take more is refused."""
EXPRESSIONS_KEPT_MAX = 512
"""Compiled ones; RE2's module keeps its latest 128, too. So they take 160 MiB at most, and hardly any takes more than
5 KiB. Another one is compiled again when it is needed, in some 20 us."""


class InvalidExpression(ValueError):
    """RE2 does not understand the expression; the message is RE2's."""


def check_expression(pattern: str) -> int:
    """Its steps: what a text of 256 bytes can take grows with them, by up to 3.5 us each. Raises InvalidExpression."""
    return int(_compiled(pattern).programsize)


def found_in(pattern: str, text: str) -> bool:
    """Whether the expression is found anywhere in the text. The expression was checked."""
    return _compiled(pattern).search(text.encode()) is not None


@lru_cache(maxsize=EXPRESSIONS_KEPT_MAX)
def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.max_mem = EXPRESSION_BYTES_MAX
    options.never_capture = True
    options.log_errors = False
    try:
        # Bytes, as the texts are: of a text RE2's module would also count the characters before what it found.
        return re2.compile(pattern.encode(), options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        words = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise InvalidExpression(words) from None
