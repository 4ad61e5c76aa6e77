"""The table."""

import json
from pathlib import Path

from coldnotify_checker import Verdict
from coldnotify_fault import report
from coldnotify_fault.campaign import Outcome
from coldnotify_fault.command import said


def outcome(seed: int, *, calm_s: float | None = 2.0) -> Outcome:
    verdict = Verdict()
    verdict.statistics.publishes = 10
    verdict.statistics.catch_up_s_max = float(seed)
    return Outcome(seed, 3, {"gateway_killed": 2}, verdict, calm_s, [] if calm_s else ["c lacks o"])


def test_every_seed_has_its_line_and_all_have_one(tmp_path: Path) -> None:
    rows = [report.row_of(outcome(1)), report.row_of(outcome(2, calm_s=None))]
    report.write(tmp_path / "table.md", rows)
    table = (tmp_path / "table.md").read_text()
    assert "| 1 | 3 | 2 | 10 | 0 | 0 | 0 | 0 | 0 | 1.0 | 2.0 | 0 |" in table
    assert "| 2 | 3 | 2 | 10 | 0 | 0 | 0 | 0 | 0 | 2.0 | never | 0 |" in table
    assert "| all | 3 | 4 | 20 | 0 | 0 | 0 | 0 | 0 | 2.0 | 2.0 | 0 |" in table
    assert "| gateway killed | 4 |" in table
    assert json.loads((tmp_path / "table.json").read_text())["totals"]["not_caught_up"] == [2]


def test_what_is_wrong_is_said() -> None:
    assert "clean" in said(outcome(1))
    bad = outcome(1, calm_s=None)
    bad.verdict.add("P1", "lost")
    assert not bad.clean
    assert "NOT CLEAN" in said(bad)
    assert "P1: lost" in said(bad)
    assert "c lacks o" in said(bad)
