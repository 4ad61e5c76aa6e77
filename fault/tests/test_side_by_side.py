from pathlib import Path

import pytest
from coldnotify_fault.command import main
from coldnotify_fault.schedule import NEED_KAFKA, TAKE_KAFKA, FaultKind
from coldnotify_fault.side_by_side import SEED_BESIDE, kinds_beside


def test_the_installation_beside_leaves_kafka_alone() -> None:
    kinds = kinds_beside(list(FaultKind))
    assert FaultKind.MATCHER_KILLED in kinds
    assert not set(kinds) & (NEED_KAFKA | TAKE_KAFKA)


def test_both_schedules_can_be_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "--seeds=4", "--seconds=5", "--installations=2", f"--directory={tmp_path}"]) == 0
    seeds = {line.split()[0] for line in capsys.readouterr().out.splitlines()}
    assert seeds == {"4", str(4 + SEED_BESIDE)}
