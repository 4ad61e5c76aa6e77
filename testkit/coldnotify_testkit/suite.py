"""Runs the tests: one by one those that must be alone, then the others by several workers.

`python -m coldnotify_testkit.suite [pytest's arguments]` is `make test`. Exit status: pytest's, of the run that failed.
`--alone=without` leaves the first run out, as does a tree in which no test is marked so.
"""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from coldnotify_testkit.byte_code import keeping_byte_code

WORKERS_PER_CORE = 1.5
"""Tests wait more than half of their time, for Kafka or for each other. Of two cores (that others used, too) three
workers took 1.2 and four 1.5, and were done in 187 and 166 s. With four there are moments at which a service waits many
seconds for a core."""
PURE_WORKERS_PER_CORE = 3
"""For `-m pure`, where no broker comes with each worker: 5,587 tests took 90 s with two a core, 74 with three."""
_INTERRUPTED, _NONE_SELECTED = 2, 5
"""pytest's exit statuses."""
_ALONE = re.compile(r"\bmark\.alone\b")
_ROOT = Path(__file__).parents[2]


def beside_each_other(arguments: Sequence[str], cores: int) -> list[str]:
    """The command for those that may: all tests of a module by one worker, in the order that `order` gives."""
    workers = max(2, int(cores * (PURE_WORKERS_PER_CORE if "pure" in arguments else WORKERS_PER_CORE)))
    spread = [f"-n{workers}", "--dist=loadfile", "--no-loadscope-reorder"]
    return [sys.executable, "-m", "pytest", *spread, "--alone=without", *arguments]


def one_by_one(arguments: Sequence[str]) -> list[str]:
    """The command for those that must be alone."""
    return [sys.executable, "-m", "pytest", "--alone=only", *arguments]


def some_are_alone(root: Path = _ROOT) -> bool:
    """Returns true if a file of tests has the mark. Looking for it is quicker than collecting all tests in vain."""
    files = (file for tests in root.glob("**/tests") if ".venv" not in tests.parts for file in tests.rglob("test_*.py"))
    return any(_ALONE.search(file.read_text(encoding="utf-8")) for file in files)


def status_of_both(first: int, second: int) -> int:
    """0 if both are well; nothing selected is well if the other selected something."""
    bad = [status for status in (first, second) if status not in (0, _NONE_SELECTED)]
    return bad[0] if bad else min(first, second)


def main(arguments: Sequence[str]) -> int:
    """Both runs; the second one also if the first failed, but not if it was interrupted."""
    apart = "--alone=without" not in arguments and some_are_alone()
    first = _run(one_by_one(arguments)) if apart else _NONE_SELECTED
    if first == _INTERRUPTED:
        return first
    return status_of_both(first, _run(beside_each_other(arguments, len(os.sched_getaffinity(0)))))


def _run(argv: Sequence[str]) -> int:
    # pytest rewrites and compiles some 280 modules, each worker all of them, as each service does with its own. Without
    # the kept files a worker takes 8 core-seconds before its first test, with them 3.
    with subprocess.Popen(argv, env=keeping_byte_code(os.environ)) as tests:
        while True:
            try:
                return tests.wait()
            except KeyboardInterrupt:
                # Ctrl-C reaches pytest, too, which ends its workers and their brokers: that is waited for.
                continue


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
