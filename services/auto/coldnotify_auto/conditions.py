"""Conditions of rules: `status changes`, `kind = 'camera' and fps > 0`."""

import re
from dataclasses import dataclass

from coldnotify_auto.cells import Row, number_of
from coldnotify_auto.changes import RowRejected

EXPECTED = 'conditions such as "status changes" or "kind = \'camera\' and fps > 0"'

_CLAUSE = re.compile(
    r"""\s*(?P<column>[A-Za-z_][A-Za-z0-9_]*)\s*
    (?: (?P<changes>\bchanges\b)
      | (?P<compare><=|>=|!=|=|<|>)\s*(?P<literal>'(?:[^']|'')*'|-?\d+(?:\.\d+)?|true|false|null)
    )\s*""",
    re.VERBOSE,
)
_AND = re.compile(r"and\b")


@dataclass(frozen=True, slots=True)
class _Clause:
    column: str
    compare: str
    """An operator; "" for `changes`."""
    literal: str | float | bool | None = None


class Condition:
    """All clauses must hold."""

    def __init__(self, text: str) -> None:
        """Raises ValueError with the place of the fault."""
        clauses, at = [], 0
        while True:
            found = _CLAUSE.match(text, at)
            if found is None:
                raise ValueError(
                    f"{text[at:].strip()!r} is not COLUMN changes, or COLUMN = VALUE (=, !=, <, <=, >, >=)"
                )
            clauses.append(_clause(found))
            at = found.end()
            if at == len(text):
                break
            joint = _AND.match(text, at)
            if joint is None:
                raise ValueError(f"expected `and` before {text[at:]!r}")
            at = joint.end()
        self.text = text
        self._clauses = tuple(clauses)
        self.columns = frozenset(one.column for one in clauses)
        self.watched = frozenset(one.column for one in clauses if not one.compare)
        """Columns of `changes`: they need the old row."""

    def holds(self, row: Row, old: Row | None) -> bool:
        """Returns true if it holds for a change. `old` is None for a row that was not there: then all has changed.

        Raises RowRejected if a column is not known, or is not a number where one is compared."""
        return all(_holds(one, row, old) for one in self._clauses)

    def holds_for_deletion(self, old: Row) -> bool:
        """Returns true if the comparisons hold for a row that was deleted."""
        return all(_holds(one, old, None) for one in self._clauses if one.compare)

    @property
    def compared(self) -> frozenset[str]:
        """Columns that are compared with values."""
        return frozenset(one.column for one in self._clauses if one.compare)


def _clause(found: re.Match[str]) -> _Clause:
    column, compare, said = found["column"], found["compare"], found["literal"]
    if compare is None:
        return _Clause(column, "")
    literal: str | float | bool | None
    if said.startswith("'"):
        literal = said[1:-1].replace("''", "'")
    elif said in ("true", "false"):
        literal = said == "true"
    else:
        literal = None if said == "null" else float(said)
    if compare not in ("=", "!=") and not (isinstance(literal, float) and not isinstance(literal, bool)):
        raise ValueError(f"{column} {compare} {said}: only numbers can be compared with {compare}")
    return _Clause(column, compare, literal)


def _holds(clause: _Clause, row: Row, old: Row | None) -> bool:
    if clause.column not in row:
        raise RowRejected(f"when: column {clause.column} is not known")
    cell = row[clause.column]
    if not clause.compare:
        if old is None:
            return True
        if clause.column not in old:
            raise RowRejected(f"when: the old value of column {clause.column} is not known")
        return old[clause.column] != cell
    if clause.literal is None or cell is None:
        return (
            (cell is None) == (clause.literal is None)
            if clause.compare == "="
            else (clause.compare == "!=" and (cell is None) != (clause.literal is None))
        )
    if isinstance(clause.literal, bool):
        return (cell.value is clause.literal) == (clause.compare == "=")
    if isinstance(clause.literal, str):
        return (cell.text == clause.literal) == (clause.compare == "=")
    number = number_of(cell)
    if number is None:
        if clause.compare in ("=", "!="):
            return clause.compare == "!="
        raise RowRejected(f"when: {clause.column} is {cell.text[:40]!r}, and not a number")
    return {
        "=": number == clause.literal,
        "!=": number != clause.literal,
        "<": number < clause.literal,
        "<=": number <= clause.literal,
        ">": number > clause.literal,
        ">=": number >= clause.literal,
    }[clause.compare]
