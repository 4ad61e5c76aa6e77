"""Templates: names with columns in braces, as 'camera-{id}'."""

from string import Formatter

from coldnotify_auto.cells import Row
from coldnotify_auto.changes import RowRejected

EXPECTED = "a name with columns in braces, such as 'camera-{id}'"


class Template:
    """A name with columns in it; {{ and }} stand for braces."""

    def __init__(self, text: str) -> None:
        """Raises ValueError with the fault."""
        self.text = text
        self._pieces: list[tuple[str, str | None]] = []
        for before, column, form, conversion in Formatter().parse(text):
            if column == "":
                raise ValueError("a pair of braces contains no column")
            if form or conversion:
                raise ValueError(f"{{{column}}} must contain nothing but a column's name")
            self._pieces.append((before, column))
        self.columns = frozenset(column for _, column in self._pieces if column is not None)

    def fill(self, row: Row, field: str) -> str:
        """Returns the name for a row. `field` is for the words. Raises RowRejected for a null or unknown column."""
        filled = []
        for before, column in self._pieces:
            filled.append(before)
            if column is not None:
                cell = row.get(column)
                if cell is None:
                    fault = "is null" if column in row else "is not known"
                    raise RowRejected(f"{field}: column {column} {fault}")
                filled.append(cell.text)
        return "".join(filled)
