"""What `make test` runs, and which exit status it has."""

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from coldnotify_testkit import suite
from coldnotify_testkit.byte_code import keeping_byte_code


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [(0, 0, 0), (0, 5, 0), (5, 0, 0), (5, 5, 5), (1, 0, 1), (0, 1, 1), (1, 5, 1), (5, 3, 3), (3, 1, 3)],
)
def test_the_status_is_that_of_the_run_that_failed(first: int, second: int, both: int) -> None:
    assert suite.status_of_both(first, second) == both


@pytest.mark.parametrize(
    ("some_alone", "arguments", "statuses", "runs", "status"),
    [
        (True, [], [1, 0], 2, 1),
        (True, ["-k", "x"], [5, 0], 2, 0),
        (True, [], [2], 1, 2),
        (True, ["--alone=without"], [0], 1, 0),
        (False, [], [0], 1, 0),
        (False, [], [1], 1, 1),
    ],
)
def test_the_second_run_follows_unless_the_first_was_interrupted(
    some_alone: bool,
    arguments: list[str],
    statuses: list[int],
    runs: int,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[Sequence[str]] = []

    def run(argv: Sequence[str]) -> int:
        begun.append(argv)
        return statuses[len(begun) - 1]

    monkeypatch.setattr(suite, "_run", run)
    monkeypatch.setattr(suite, "some_are_alone", lambda: some_alone)
    assert suite.main(arguments) == status
    assert len(begun) == runs
    assert all(list(argv[len(argv) - len(arguments) :]) == arguments for argv in begun)


def test_workers_go_with_the_cores() -> None:
    assert "-n3" in suite.beside_each_other([], 2)
    assert "-n2" in suite.beside_each_other([], 1)
    assert "-n6" in suite.beside_each_other(["-m", "pure"], 2)
    assert suite.one_by_one(["-x"]) == [sys.executable, "-m", "pytest", "--alone=only", "-x"]


def test_the_tree_says_whether_there_is_anything_to_run_alone(tmp_path: Path) -> None:
    tests = tmp_path / "services" / "matcher" / "tests"
    tests.mkdir(parents=True)
    (tests / "test_one.py").write_text("def test_alone(): pass\n")
    assert not suite.some_are_alone(tmp_path)
    (tests / "test_two.py").write_text(f"@pytest.mark.{'alone'}\ndef test_two(): pass\n")
    assert suite.some_are_alone(tmp_path)


def test_byte_code_is_kept() -> None:
    assert keeping_byte_code({"PYTHONDONTWRITEBYTECODE": "1", "HOME": "/"}) == {"HOME": "/"}
