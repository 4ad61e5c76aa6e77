"""Parses and bounds numbers in a URL's query. An error names the parameter and its allowed values."""

import re

from coldnotify_schemas import whole_numbers

from coldnotify_common.http.web import BadRequest

_SHOWN_CHARS = 80
_DECIMAL = re.compile(r"[0-9]{1,19}(?:\.[0-9]{0,19})?(?:[eE][+-]?[0-9]{1,3})?")


def whole_number(name: str, text: str, *, minimum: int = 0, maximum: int) -> int:
    """Returns the whole number in `text`. Raises BadRequest, which names the parameter."""
    value = whole_numbers.whole_number(text, maximum, minimum=minimum)
    if value is None:
        raise BadRequest(name, f"{text[:_SHOWN_CHARS]!r} is not a whole number from {minimum} to {maximum}")
    return value


def seconds(name: str, text: str, *, maximum: float) -> float:
    """Returns the time in `text`, in s, at least 0. Raises BadRequest, which names the parameter."""
    # float() alone accepts the digits of all scripts, underscores and spaces.
    value = float(text) if _DECIMAL.fullmatch(text) else -1.0
    if not 0 <= value <= maximum:
        raise BadRequest(name, f"{text[:_SHOWN_CHARS]!r} is not a number from 0 to {maximum:g}")
    return value
