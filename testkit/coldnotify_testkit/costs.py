"""A pytest plugin that measures what each test costs: `--costs FILE`, then `python -m coldnotify_testkit.costs FILE`.

With `--long`, the latter writes down which modules take long, for `order`.

A line a test, its values apart by tabs: begin (s since the epoch), wall time in s, core-seconds of the process that
runs the test, core-seconds of the processes below it, the worker, the test. A fixture counts for the test that it is
made or ended for; a broker that many share, for those that run meanwhile.
"""

import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from coldnotify_testkit.order import LONG_MODULES

_TICKS_A_S = os.sysconf("SC_CLK_TCK")
_SHOWN = 40
_LONG_S = 15.0
"""A module that takes longer, of a whole run by all workers, is to begin early."""


class Cost(NamedTuple):
    """The cost of one test, or the sum over several."""

    begun_s: float
    wall_s: float
    own_core_s: float
    below_core_s: float

    @property
    def core_s(self) -> float:
        """Core-seconds of all processes."""
        return self.own_core_s + self.below_core_s


def pytest_addoption(parser: pytest.Parser) -> None:
    """--costs."""
    parser.addoption("--costs", type=Path, default=None, help="append what each test costs to this file")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Appends a line; short ones are written as a whole, so that workers share the file."""
    file: Path | None = item.config.option.costs
    if file is None:
        return (yield)
    # To look at all processes takes a few ms, as some of these tests do.
    below_core_s = _waited_for_core_s if item.get_closest_marker("pure") is not None else _below_core_s
    begun_s, own_s, below_s = time.time(), _own_core_s(), below_core_s()
    try:
        return (yield)
    finally:
        values = (begun_s, time.time() - begun_s, _own_core_s() - own_s, below_core_s() - below_s)
        worker = os.environ.get("PYTEST_XDIST_WORKER", "-")
        line = "\t".join([*(f"{value:.3f}" for value in values), worker, item.nodeid])
        with file.open("a", encoding="utf-8") as lines:
            lines.write(line + "\n")


def _own_core_s() -> float:
    times = os.times()
    return times.user + times.system


def _below_core_s() -> float:
    """Returns the core-seconds of all processes below this one, including those that have ended, if somebody waited for
    them.
    """
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            try:
                fields = (directory / "stat").read_text(errors="replace").rpartition(")")[2].split()
            except OSError:  # it has just ended
                continue
            parents[int(directory.name)] = int(fields[1])
            used[int(directory.name)] = sum(int(field) for field in fields[11:15]) / _TICKS_A_S
    return _waited_for_core_s() + sum(used[pid] for pid in used if _is_below(pid, parents))


def _waited_for_core_s() -> float:
    times = os.times()
    return times.children_user + times.children_system


def _is_below(pid: int, parents: dict[int, int]) -> bool:
    while (pid := parents.get(pid, 0)) > 1:
        if pid == os.getpid():
            return True
    return False


def read(file: Path) -> dict[str, Cost]:
    """Returns the costs, by the test's name."""
    costs = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        *numbers, _, name = line.split("\t")
        costs[name] = Cost(*map(float, numbers))
    return costs


def by_module(costs: dict[str, Cost]) -> dict[str, Cost]:
    """The sums."""
    parts: dict[str, list[Cost]] = defaultdict(list)
    for name, cost in costs.items():
        parts[name.partition("::")[0]].append(cost)
    return {
        module: Cost(min(cost.begun_s for cost in some), *(sum(column) for column in list(zip(*some, strict=True))[1:]))
        for module, some in parts.items()
    }


def note_long(modules: dict[str, Cost], file: Path = LONG_MODULES) -> None:
    """Writes down those that take long, the longest first."""
    long = sorted((cost.wall_s, module) for module, cost in modules.items() if cost.wall_s > _LONG_S)
    file.write_text("".join(f"{seconds:.0f}\t{module}\n" for seconds, module in reversed(long)), encoding="utf-8")


def main(arguments: list[str]) -> int:
    """The dearest modules and tests."""
    costs = read(Path(arguments[0]))
    if "--long" in arguments:
        note_long(by_module(costs))
        return 0
    for what, some in (("modules", by_module(costs)), ("tests", costs)):
        total = sum(cost.core_s for cost in some.values())
        print(f"{len(some)} {what}, {total:.0f} core-s, of them {sum(c.below_core_s for c in some.values()):.0f} below")
        for name, cost in sorted(some.items(), key=lambda one: -one[1].core_s)[:_SHOWN]:
            print(f"{cost.wall_s:8.1f} s {cost.own_core_s:7.1f} +{cost.below_core_s:7.1f} core-s  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
