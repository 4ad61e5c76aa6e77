"""An installation moves to more partitions while clients, back-ends and faults go on."""

import threading
from pathlib import Path

import pytest
from coldnotify_fault import moving


@pytest.mark.kafka
def test_no_promise_is_broken_by_a_move(tmp_path: Path) -> None:
    outcome, pause_s = moving.run(moving.plan(1, 16), tmp_path / "moves", threading.Event())
    assert outcome.clean, (outcome.verdict.violations, outcome.missing, outcome.trouble)
    assert outcome.verdict.statistics.messages
    assert pause_s
