"""What a package index shows of the two packages that a unit installs."""

import tomllib
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("package", ["schemas", "clients/python"])
def test_a_package_says_what_it_is_and_where_it_runs(package: str) -> None:
    project = tomllib.loads((REPOSITORY / package / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert len((REPOSITORY / package / project["readme"]).read_text(encoding="utf-8")) > 200
    assert {"Typing :: Typed", "Programming Language :: Python :: 3.11"} <= set(project["classifiers"])
    assert len(project["keywords"]) >= 4
    assert "urls" not in project, "it names no address"
