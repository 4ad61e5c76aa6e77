"""An installation moves to more partitions while clients, back-ends and faults go on."""

import threading
from pathlib import Path

import pytest
from coldnotify_checker.histories import Event, Killed, MissedTold, Subscribe
from coldnotify_fault import moving

CLIENT = "camera.control/north/ou-1"


@pytest.mark.kafka
@pytest.mark.timeout(900)
def test_no_promise_is_broken_by_a_move(tmp_path: Path) -> None:
    outcome, pause_s = moving.run(moving.plan(1, 8), tmp_path / "moves", threading.Event())
    assert outcome.clean, (outcome.verdict.violations, outcome.missing, outcome.trouble)
    assert not outcome.verdict.not_judged
    counted = outcome.verdict.statistics
    assert counted.fresh
    assert counted.messages
    assert counted.missed["lost"]
    assert counted.indeterminate, "back-ends call while the old topics are shut"
    assert pause_s


def test_a_loss_is_told_once() -> None:
    lost: list[Event] = [
        MissedTold(t=t, client=CLIENT, channel=f"{CLIENT}/orders", before=3, reason="lost") for t in (9, 11, 13)
    ]
    moving.assert_told_once(lost[:2], 10e-6)
    with pytest.raises(AssertionError, match="twice"):
        moving.assert_told_once(lost, 10e-6)
    moving.assert_told_once([*lost[:2], Killed(t=12, client=CLIENT), lost[2]], 10e-6)
    again = Subscribe(t=12, client=CLIENT, channel=f"{CLIENT}/orders", since="now")
    moving.assert_told_once([*lost[:2], again, lost[2]], 10e-6)
