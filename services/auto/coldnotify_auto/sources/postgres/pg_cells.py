"""Cells of PostgreSQL's values, which come as texts. Pure."""

import re
from collections.abc import Mapping

import msgspec

from coldnotify_auto.cells import Cell

_BOOL, _JSON = 16, frozenset((114, 3802))
_WHOLE = frozenset((20, 21, 23, 26))
_NUMBERS = frozenset((700, 701, 1700))
_JSON_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")


def pg_cell(text: str | None, type_oid: int) -> Cell | None:
    """Returns the cell of a value: numbers, bool and JSON keep their type, all else is text."""
    if text is None:
        return None
    if type_oid == _BOOL:
        return Cell("true", True) if text == "t" else Cell("false", False)
    if type_oid in _WHOLE:
        return Cell(text, int(text))
    if type_oid in _JSON:
        return Cell(text, msgspec.Raw(text.encode()))
    if type_oid in _NUMBERS and _JSON_NUMBER.fullmatch(text):
        return Cell(text, msgspec.Raw(text.encode()))
    return Cell(text, text)


def pg_row(values: Mapping[str, str | None], types: Mapping[str, int]) -> dict[str, Cell | None]:
    """Returns the cells of the columns that are known, and of these only those with a type in `types`."""
    return {name: pg_cell(values[name], oid) for name, oid in types.items() if name in values}
