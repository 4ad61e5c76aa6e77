"""From rows to tables and reports.

Stands for: tables, captions, plots, report
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from coldnotify_loadtest import report
from coldnotify_loadtest.captions import origin
from coldnotify_loadtest.experiments import EXPERIMENTS
from coldnotify_loadtest.tables import Table, at, figure, medians

Draw = Callable[[dict[str, Any], Path], list[tuple[Path, str]]]

MACHINE = {"processor": "a fast one", "cores": 2, "memory_gib": 4.0, "kernel": "6", "load_before": 0.1}


@pytest.fixture
def draw() -> Draw:
    from coldnotify_loadtest.plots import draw  # with matplotlib: each worker that collects would import it

    return draw


def result(name: str, rows: list[dict[str, Any]], *, quick: bool = False) -> dict[str, Any]:
    return {
        "experiment": name,
        "title": EXPERIMENTS[name].title,
        "quick": quick,
        "error": "",
        "parameters": {"clients": 10},
        "at": "2020-01-01",
        "commit": "abc",
        "changed": False,
        "machine": MACHINE,
        "versions": {"kafka": "4.3.1", "nats-server": "nats-server: v2.15.2", "redis-server": "not installed"},
        "rows": rows,
    }


def e1_row(server: str, per_s: float, p50_ms: float) -> dict[str, Any]:
    used = {"gateway": {"cpu_s": 1, "memory_mib": 30.0}, "broker": {"cpu_s": 1, "memory_mib": 70.0}}
    return {"server": server, "durability": "none", "per_s": per_s, "p50_ms": p50_ms, "used": used}


def test_figures_have_three_digits_that_matter() -> None:
    said = [figure(value) for value in (None, "x", 3, 12345, 0.1234, 12.34, 123.4, 1234.5)]
    assert said == ["-", "x", "3", "12,345", "0.12", "12.3", "123", "1,234"]


def test_paths_and_medians() -> None:
    rows = [{"a": "x", "b": {"c": n, "d": 1}} for n in (5, 1, 3)] + [{"a": "y"}]
    assert at(rows[0], "b.c") == 5
    assert at(rows[0], "b.*") == 6
    assert at(rows[3], "b.c") is None
    assert medians(rows, ("a",), ("b.c",)) == [("x", 3), ("y", None)]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_its_tables(name: str) -> None:
    assert report.tables_of(result(name, []))


def test_a_table_as_csv() -> None:
    table = Table("T", ("a", "b, c"), (("1", "2,345.5"), ("x, y", "-")), "note")
    assert table.csv(["said"]) == '# T\n# note\n# said\na,"b, c"\n1,2345.5\n"x, y",\n'
    assert "only tried" in origin(result("E1", [], quick=True))


def test_the_report_has_tables_and_plots_and_fills_the_docs(tmp_path: Path) -> None:
    rows = [e1_row(server, per_s, 3.0 * per_s) for server in ("ColdNotify", "<b>") for per_s in (1, 2, 2)]
    (tmp_path / "E1.json").write_text(json.dumps(result("E1", rows)))
    docs = tmp_path / "docs/measurements"
    page = report.write(tmp_path, docs).read_text()
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert (tmp_path / "E1-latency.png").read_bytes().startswith(b"\x89PNG")
    assert 'src="E1-latency.png"' in page
    assert "Parameters: clients 10." in page
    assert "Versions: kafka 4.3.1, nats-server 2.15.2." in page
    assert (docs / "E1-latency.png").exists()
    kept = (docs / "E1-1.csv").read_text()
    assert "# 2020-01-01, commit abc" in kept
    assert ",100\n" in kept, "memory of all roles together"


def test_a_table_without_rows_leaves_the_file_that_is_there(tmp_path: Path) -> None:
    report.keep(tmp_path, result("isolation", [{"part": "uneven", "nodes": 3, "whole_after_s": 1.75}]), [])
    (first,) = tmp_path.glob("*.csv")
    report.keep(tmp_path, result("isolation", [{"part": "pairs", "way": "http", "p99_ratio": 1.25}]), [])
    assert "1.75" in first.read_text()
    assert len(list(tmp_path.glob("*.csv"))) == 2


def test_a_plot_is_left_out_where_there_is_nothing_to_draw(tmp_path: Path, draw: Draw) -> None:
    row = {"server": "x", "durability": "none", "case": "unchanged wake", "bytes": 88}
    drawn = draw(result("wire", [row]), tmp_path)
    assert [(path.name, label) for path, label in drawn] == [("wire-wake.png", "bytes, both ways")]
    assert drawn[0][0].read_bytes().startswith(b"\x89PNG")
    assert not draw(result("wire", [{**row, "case": "idle hour"}]), tmp_path)
    assert not draw(result("E1", [{**e1_row("x", 1, 2), "p50_ms": None, "used": {}}]), tmp_path)


def test_a_series_is_a_line_for_each_case(tmp_path: Path, draw: Draw) -> None:
    rows = [
        {
            "part": "changes",
            "condition": condition,
            "series": [(at_s, 2.0, 10), (at_s + 0.5, 3.0, 10), (at_s + 4.0, 9.0, 1)],
        }
        for condition in ("value", "range")
        for at_s in (0.0, 10.0)
    ]
    drawn = draw(result("queries", rows), tmp_path)
    assert [path.name for path, _ in drawn] == ["queries-changes.png"]
    assert not draw(result("queries", [{"part": "changes", "condition": "value"}]), tmp_path)


def test_an_invalid_result_is_named(tmp_path: Path) -> None:
    (tmp_path / "E1.json").write_text("[]")
    with pytest.raises(ValueError, match=r"E1\.json"):
        report.write(tmp_path)
