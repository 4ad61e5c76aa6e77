"""Real observations: the penguins that were measured in the Palmer Archipelago from 2007 to 2009, by island.

The data set of Gorman, Williams and Fraser (2014), https://doi.org/10.1371/journal.pone.0090081, as the PyPI package
palmerpenguins carries it. Only its file is read: the package itself would load pandas, which no OU needs.
"""

import csv
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

KINDS = {
    "body-mass": "Body Mass (g)",
    "flipper-length": "Flipper Length (mm)",
    "culmen-length": "Culmen Length (mm)",
    "delta-15-n": "Delta 15 N (o/oo)",
}
"""Kind of data -> its column."""


class Observation(NamedTuple):
    """One measurement of one bird."""

    individual: str
    date: str
    value: float


def observations(island: str, kind: str) -> list[Observation]:
    """Returns measurements of `kind` on `island` (Biscoe, Dream, Torgersen). Raises KeyError, FileNotFoundError."""
    column = KINDS[kind]
    with _file().open(newline="") as file:
        return [
            Observation(row["Individual ID"], row["Date Egg"], float(row[column]))
            for row in csv.DictReader(file)
            if row["Island"] == island and row[column] != "NA"
        ]


def _file() -> Path:
    package = find_spec("palmerpenguins")
    if package is None or not package.submodule_search_locations:
        raise FileNotFoundError("the package palmerpenguins is missing: pip install 'coldnotify-server[demo]'")
    return Path(package.submodule_search_locations[0]) / "data" / "penguins-raw.csv"
