"""A short campaign of real processes, always the same seed: faults of several kinds, and no promise is broken.

Stands for: campaign, services, devices, device_host, publishers, senders, backend_parts, command
"""

import re
from pathlib import Path

import pytest
from coldnotify_fault.command import main, seeds_of
from coldnotify_fault.schedule import schedule

SEED = 26
SECONDS = 16.0
FAULT_EVERY_S = 0.7


@pytest.mark.kafka
@pytest.mark.timeout(900)
def test_no_promise_is_broken_while_parts_are_killed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    faults = schedule(SEED, SECONDS, fault_every_s=FAULT_EVERY_S).faults()
    assert sum(count > 0 for count in faults.values()) >= 5, faults
    code = main(
        [
            f"--seeds={SEED}",
            f"--seconds={SECONDS}",
            f"--fault-every={FAULT_EVERY_S}",
            f"--directory={tmp_path / 'files'}",
            f"--report={tmp_path / 'report.md'}",
        ]
    )
    said = capsys.readouterr().out
    assert code == 0, said
    assert re.search(
        rf"^\| {SEED} \| 1 \| {sum(faults.values())} \| [1-9]", (tmp_path / "report.md").read_text(), re.M
    ), said
    assert not (tmp_path / "files").exists(), "what is clean is removed"


def test_seeds_are_given_as_ranges() -> None:
    assert seeds_of("3") == [3]
    assert seeds_of("1-3,7") == [1, 2, 3, 7]


def test_bad_arguments_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main(["--seeds=x"])
    assert refused.value.code == 2
    assert "--seeds" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--seconds=0"])
    with pytest.raises(SystemExit):
        main(["--brokers=2"])
    with pytest.raises(SystemExit):
        main(["--move", "--installations=2"])


def test_the_steps_of_a_seed_can_be_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "--seeds=4", "--seconds=5", f"--directory={tmp_path}"]) == 0
    assert "publish" in capsys.readouterr().out
