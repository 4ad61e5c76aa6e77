"""Numbers in a URL's query: parsed and bounded. Whoever asks is told which parameter is wrong, and what it may be."""

from coldnotify_common.web import BadRequest

_SHOWN_CHARS = 80
_DIGITS_MAX = 19
"""Of 63 bits. Longer texts need not be parsed, which takes a time that grows with the square of their length."""


def whole_number(name: str, text: str, *, minimum: int = 0, maximum: int) -> int:
    """The whole number that `text` is. Raises BadRequest, which names the parameter."""
    if text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX and minimum <= (value := int(text)) <= maximum:
        return value
    raise BadRequest(name, f"{text[:_SHOWN_CHARS]!r} is not a whole number from {minimum} to {maximum}")


def seconds(name: str, text: str, *, maximum: float) -> float:
    """The time, from 0 on, that `text` is. Raises BadRequest, which names the parameter."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= maximum:
        raise BadRequest(name, f"{text[:_SHOWN_CHARS]!r} is not a number from 0 to {maximum:g}")
    return value
