"""What `make test` runs, and which exit status it has."""

import sys
from collections.abc import Sequence

import pytest
from coldnotify_testkit import suite


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [(0, 0, 0), (0, 5, 0), (5, 0, 0), (5, 5, 5), (1, 0, 1), (0, 1, 1), (1, 5, 1), (5, 3, 3), (3, 1, 3)],
)
def test_the_status_is_that_of_the_run_that_failed(first: int, second: int, both: int) -> None:
    assert suite.status_of_both(first, second) == both


@pytest.mark.parametrize(
    ("arguments", "statuses", "runs", "status"),
    [
        ([], [1, 0], 2, 1),
        (["-k", "x"], [5, 0], 2, 0),
        ([], [2], 1, 2),
        (["--alone=without"], [0], 1, 0),
    ],
)
def test_the_second_run_follows_unless_the_first_was_interrupted(
    arguments: list[str], statuses: list[int], runs: int, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Sequence[str]] = []

    def run(argv: Sequence[str]) -> int:
        begun.append(argv)
        return statuses[len(begun) - 1]

    monkeypatch.setattr(suite, "_run", run)
    assert suite.main(arguments) == status
    assert len(begun) == runs
    assert all(list(argv[len(argv) - len(arguments) :]) == arguments for argv in begun)


def test_workers_go_with_the_cores() -> None:
    assert "-n3" in suite.beside_each_other([], 2)
    assert "-n2" in suite.beside_each_other([], 1)
    assert suite.one_by_one(["-x"]) == [sys.executable, "-m", "pytest", "--alone=only", "-x"]
