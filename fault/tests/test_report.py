"""The table."""

import json
from collections import Counter
from pathlib import Path

from coldnotify_checker import JudgeVerdict
from coldnotify_fault import report
from coldnotify_fault.campaign import SeedOutcome
from coldnotify_fault.command import said


def outcome(seed: int, *, calm_s: float | None = 2.0) -> SeedOutcome:
    verdict = JudgeVerdict()
    verdict.statistics.publishes = 10
    verdict.statistics.catch_up_s_max = float(seed)
    verdict.statistics.sent, verdict.statistics.messages, verdict.statistics.missed = 7, 5, {"retention": 2}
    verdict.statistics.count_mqtt(told=6, acknowledged=3, wakes=2)
    missing = [] if calm_s else ["c lacks o"]
    counts = Counter(evaluated=7, asked_again=5, served_by_blocks=4, messages_paged=9)
    return SeedOutcome(seed, 3, {"gateway_killed": 2}, verdict, calm_s, missing, counts=counts)


def test_every_seed_has_a_line_and_the_total_has_one(tmp_path: Path) -> None:
    rows = [report.row_of(outcome(1)), report.row_of(outcome(2, calm_s=None))]
    report.write(tmp_path / "table.md", rows)
    table = (tmp_path / "table.md").read_text()
    assert "| 1 | 3 | 2 | 10 | 0 | 0 | 7 | 0 | 0 | 5 | 0 | 7 | 5 | 2 | 0 | 4 | 6 | 3 | 0 | 1.0 | 2.0 | 0 |" in table
    assert "| 2 | 3 | 2 | 10 | 0 | 0 | 7 | 0 | 0 | 5 | 0 | 7 | 5 | 2 | 0 | 4 | 6 | 3 | 0 | 2.0 | never | 0 |" in table
    assert (
        "| all | 3 | 4 | 20 | 0 | 0 | 14 | 0 | 0 | 10 | 0 | 14 | 10 | 4 | 0 | 8 | 12 | 6 | 0 | 2.0 | 2.0 | 0 |" in table
    )
    assert "| gateway killed | 4 |" in table
    assert json.loads((tmp_path / "table.json").read_text())["totals"]["not_caught_up"] == [2]


def test_the_report_names_what_is_wrong() -> None:
    assert "clean" in said(outcome(1))
    words = (
        "7 messages acknowledged, told 5, missed 2 retention, 0 expired, 0 lost; 4 served by blocks, 9 messages paged"
    )
    assert words in said(outcome(1))
    assert "of MQTT devices: 3 publishes acknowledged, told 6, 2 wakes judged" in said(outcome(1))
    bad = outcome(1, calm_s=None)
    bad.verdict.add("P1", "lost")
    assert not bad.clean
    assert "NOT CLEAN" in said(bad)
    assert "P1: lost" in said(bad)
    assert "c lacks o" in said(bad)


def test_broken_promises_for_mqtt_devices_are_counted_for_themselves() -> None:
    bad = outcome(1)
    bad.verdict.add("P1", "lost")
    bad.verdict.add("M8", "not told")
    row = report.row_of(bad)
    assert (row["mqtt_violations"], row["violations"]) == (1, 2)
