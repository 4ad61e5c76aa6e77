"""Regular expressions of queries, by RE2: any expression takes time linear to the text, and bounded memory."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import re2

EXPRESSION_BYTES_MAX = 256 * 1024
"""Memory that one may take, for its program and its cache of texts. An expression that needs more is refused."""
EXPRESSIONS_KEPT_MAX = 512
"""Number of compiled ones; RE2's module keeps its latest 128, too. So they take 160 MiB at most, and hardly any takes
more than 5 KiB. Others are compiled again when they are needed, in some 20 us."""


class InvalidExpression(ValueError):
    """RE2 does not understand the expression; the message is RE2's."""


def check_expression(pattern: str) -> int:
    """Returns its steps: the time for a text of 256 bytes grows with them, by up to 3.5 us each. Raises
    InvalidExpression."""
    return int(_compiled(pattern).programsize)


def found_in(pattern: str, text: str) -> bool:
    """Returns true if the expression, which was checked, is found anywhere in the text."""
    return _compiled(pattern).search(text.encode()) is not None


def finder_of(pattern: str) -> Callable[[str], bool]:
    """Returns what says whether the expression is found in a text, to be kept: it is compiled once. Raises
    InvalidExpression."""
    search = _compile(pattern).search
    return lambda text: search(text.encode()) is not None


@lru_cache(maxsize=EXPRESSIONS_KEPT_MAX)
def _compiled(pattern: str) -> Any:
    return _compile(pattern)


def _compile(pattern: str) -> Any:
    options = re2.Options()
    options.max_mem = EXPRESSION_BYTES_MAX
    options.never_capture = True
    options.log_errors = False
    try:
        # Bytes, as the texts are: for a str RE2's module would also count the characters before the match.
        return re2.compile(pattern.encode(), options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        words = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise InvalidExpression(words) from None
