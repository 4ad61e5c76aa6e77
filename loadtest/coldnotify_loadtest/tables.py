"""Makes tables from the rows of results: medians over repeats, a line for each combination of keys. Pure."""

import csv
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from statistics import median
from typing import Any

Row = Mapping[str, Any]
Columns = Mapping[str, str]

LATENCY = {"mean ms": "mean_ms", "median": "p50_ms", "p95": "p95_ms", "p99": "p99_ms", "std": "std_ms"}
CPU = {
    "CPU us a publish": "cpu_us_per_publish.*",
    "matcher": "cpu_us_per_publish.matcher",
    "gateway": "cpu_us_per_publish.gateway",
}
SERVER = {"server": "server", "a publish survives": "durability"}
"""Columns of several experiments."""


@dataclass(frozen=True)
class Table:
    """Ready to be printed."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def csv(self, said: Sequence[str]) -> str:
        """Returns CSV: the title, the note and `said` as comments, numbers without commas."""
        head = (self.title, *((self.note,) if self.note else ()), *said)
        text = StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows([_plain(cell) for cell in row] for row in self.rows)
        return "".join(f"# {line}\n" for line in head) + text.getvalue()


@dataclass(frozen=True)
class Shape:
    """The contents of a table. Its columns by their titles, each with a path as `at` reads it."""

    title: str
    keys: Columns
    """The columns in which the lines differ."""
    values: Columns
    """The columns of medians."""
    only: Callable[[Row], bool] = lambda row: True


def figure(value: Any) -> str:
    """A number with three digits that matter, thousands with commas; "-" for none."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _plain(cell: str) -> str:
    """A cell as CSV has it: numbers without commas, nothing for none."""
    if cell == "-":
        return ""
    return cell.replace(",", "") if re.fullmatch(r"-?\d{1,3}(,\d{3})+(\.\d+)?", cell) else cell


def at(row: Row, path: str) -> Any:
    """A value by a path with dots; "*" adds up all that is there; None where it is not."""
    value: Any = row
    names = path.split(".")
    for index, name in enumerate(names):
        if name == "*":
            rest = ".".join(names[index + 1 :])
            values = [at(one, rest) if rest else one for one in value.values()]
            return sum(one for one in values if one is not None) if values else None
        if not isinstance(value, Mapping) or name not in value:
            return None
        value = value[name]
    return value


def medians(rows: Sequence[Row], keys: Sequence[str], values: Sequence[str]) -> list[tuple[Any, ...]]:
    """A line for each combination of `keys`, in the order of appearance: the keys, then each value's median."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(at(row, key) for key in keys), []).append(row)
    lines = []
    for key, members in groups.items():
        found = [[value for row in members if (value := at(row, path)) is not None] for path in values]
        lines.append((*key, *(median(one) if one else None for one in found)))
    return lines


def tables(rows: Sequence[Row], shapes: Sequence[Shape], note: str = "") -> list[Table]:
    """One for each shape; the note is below each."""
    made = []
    for shape in shapes:
        shown = [row for row in rows if shape.only(row)]
        lines = medians(shown, tuple(shape.keys.values()), tuple(shape.values.values()))
        cells = tuple(tuple(figure(value) for value in line) for line in lines)
        made.append(Table(shape.title, (*shape.keys, *shape.values), cells, note))
    return made
