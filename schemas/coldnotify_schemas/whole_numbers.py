"""Whole numbers that strangers write as text: ASCII digits alone, and no more of them than a number of 63 bits has.

int() takes the digits of all scripts, signs, spaces and underscores; it raises for some of what isdigit() calls digits
(a raised 2) and for very many; and its time grows with the square of their number.
"""

_DIGITS_MAX = 19
WHOLE_NUMBER_MAX = (1 << 63) - 1


def whole_number(text: str | bytes, maximum: int = WHOLE_NUMBER_MAX, *, minimum: int = 0) -> int | None:
    """Returns the number in `text` if it is a whole number from `minimum` to `maximum`, else None. Raises nothing."""
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX):
        return None
    number = int(text)
    return number if minimum <= number <= maximum else None


def offset_in_epoch(text: bytes, epoch: int, most: int) -> int | None:
    """Returns the offset in `epoch/offset`, at most `most`; None: it is of another epoch, or nothing of this form."""
    said_epoch, slash, said_offset = text.partition(b"/")
    return whole_number(said_offset, most) if slash and said_epoch == b"%08x" % epoch else None
