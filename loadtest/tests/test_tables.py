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


def test_a_table_in_markdown() -> None:
    table = Table("T", ("a", "b"), (("1", "2"),), "note")
    assert table.markdown() == "**T**\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nnote"
    assert "only tried" in origin(result("E1", [], quick=True))


def test_the_report_has_tables_plots_and_fills_the_docs(tmp_path: Path) -> None:
    rows = [e1_row(server, per_s, 3.0 * per_s) for server in ("ColdNotify", "<b>") for per_s in (1, 2, 2)]
    (tmp_path / "E1.json").write_text(json.dumps(result("E1", rows)))
    docs = tmp_path / "docs/performance.md"
    docs.parent.mkdir()
    docs.write_text("before\n<!-- E1 -->\nformer tables\n<!-- /E1 -->\nafter\n")
    page = report.write(tmp_path, docs).read_text()
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert (tmp_path / "E1-latency.png").read_bytes().startswith(b"\x89PNG")
    assert 'src="E1-latency.png"' in page
    assert "Parameters: clients 10." in page
    assert "Versions: kafka 4.3.1, nats-server 2.15.2." in page
    filled = docs.read_text()
    assert filled.startswith("before\n<!-- E1 -->\n2020-01-01, commit abc")
    assert filled.endswith("<!-- /E1 -->\nafter\n")
    assert "former tables" not in filled
    assert "](performance/E1-latency.png)" in filled
    assert (docs.parent / "performance/E1-latency.png").exists()
    assert "| 100 |" in filled, "memory of all roles together"
    report.write(tmp_path, docs)
    assert docs.read_text() == filled


def test_of_a_part_only_its_own_tables_are_put_into_the_docs(tmp_path: Path) -> None:
    """The others stay, with the origin that they have; so do images that the part did not draw."""
    docs = tmp_path / "performance.md"
    docs.write_text("<!-- isolation -->\n<!-- /isolation -->\n")
    pairs: list[dict[str, object]] = [
        {"part": "pairs", "way": way, "mode": "refused", "where": "same", "p99_ratio": 1.25}
        for way in ("http", "kafka-user", "kafka")
    ]
    uneven = {"part": "uneven", "nodes": 3, "agreed_per_s": 150.0, "whole_after_s": 1.75}

    def filled(*rows: dict[str, object], commit: str) -> str:
        report.fill(docs, [{**result("isolation", list(rows)), "commit": commit}], {"isolation": []})
        return docs.read_text()

    both = filled(*pairs, uneven, commit="first")
    docs.write_text(both.replace("\n<!-- /", "\n\n![stays](a.png)\n<!-- /"))
    merged = filled({**uneven, "whole_after_s": 3.25}, commit="second")
    before, after = merged.split("**All publishers")
    assert "commit first" in before
    assert "| http | refused | same |" in before
    assert "3.25 |" in after
    assert "This table: 2020-01-01, commit second" in after
    assert "1.75 |" not in merged
    assert merged.endswith("\n\n![stays](a.png)\n<!-- /isolation -->\n")
    assert filled({**uneven, "whole_after_s": 3.25}, commit="second") == merged
    assert "This table" not in filled(*pairs, uneven, commit="third")


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
            "part": "churn",
            "kafka_nodes": nodes,
            "series": [(at_s, 2.0, 10), (at_s + 0.5, 3.0, 10), (at_s + 4.0, 9.0, 1)],
        }
        for nodes in (1, 3)
        for at_s in (0.0, 10.0)
    ]
    drawn = draw(result("queries", rows), tmp_path)
    assert [path.name for path, _ in drawn] == ["queries-churn.png"]
    assert not draw(result("queries", [{"part": "churn", "kafka_nodes": 1}]), tmp_path)


def test_what_is_no_result_is_named(tmp_path: Path) -> None:
    (tmp_path / "E1.json").write_text("[]")
    with pytest.raises(ValueError, match=r"E1\.json"):
        report.write(tmp_path)
    (tmp_path / "E1.json").unlink()
    docs = tmp_path / "performance.md"
    docs.write_text("no markers")
    with pytest.raises(ValueError, match="<!-- E1 -->"):
        report.fill(docs, [result("E1", [])], {"E1": []})
