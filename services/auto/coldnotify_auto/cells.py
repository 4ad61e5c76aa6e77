"""Cells: the values of a row's columns, as text for names and as JSON for payloads."""

import math
from collections.abc import Mapping
from typing import NamedTuple


class Cell(NamedTuple):
    """A value that is not null."""

    text: str
    """As names contain it."""
    value: object
    """As payloads contain it: text, number, bool, or JSON in a msgspec.Raw."""


Row = Mapping[str, Cell | None]
"""Cells by column; None is null. A column that is missing is not known."""


def text_cell(text: str) -> Cell:
    """Returns the cell of a text."""
    return Cell(text, text)


def number_of(cell: Cell) -> float | None:
    """Returns the cell's number; None if it is not a finite number."""
    if isinstance(cell.value, bool):
        return None
    try:
        number = float(cell.text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
