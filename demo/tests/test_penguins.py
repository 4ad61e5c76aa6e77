"""The data set is what its package says it is."""

import subprocess
import sys

import pytest
from coldnotify_demo.penguins import KINDS, Observation, observations


def test_all_measured_birds_are_returned() -> None:
    birds = {island: len(observations(island, "body-mass")) for island in ("Biscoe", "Dream", "Torgersen")}
    assert birds == {"Biscoe": 167, "Dream": 124, "Torgersen": 51}


def test_a_row_matches_the_file() -> None:
    assert observations("Torgersen", "culmen-length")[0] == Observation("N1A1", "2007-11-11", 39.1)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_values(kind: str) -> None:
    assert all(row.value > 0 for row in observations("Biscoe", kind))


def test_an_unknown_kind_is_an_error() -> None:
    with pytest.raises(KeyError, match="humidity"):
        observations("Biscoe", "humidity")


def test_pandas_is_not_loaded() -> None:
    code = """
import sys
from coldnotify_demo.penguins import observations
observations("Dream", "body-mass")
print("pandas" in sys.modules)
"""
    assert subprocess.check_output([sys.executable, "-c", code], timeout=60) == b"False\n"
