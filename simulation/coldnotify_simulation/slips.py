"""Slips: a few lines such as a programmer gets wrong, made in the source of one function of the product.

A slip counts as found once a random schedule breaks a promise with it. The seeds begin close to one that finds it
today. What schedules draw may change, so that further ones are played until one finds it.
"""

import __future__

import inspect
import logging
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from types import FunctionType, ModuleType

import structlog

from coldnotify_simulation.promises import Broken
from coldnotify_simulation.schedule import ScheduleFailed, play

SEEDS_MAX = 600
"""Each slip is found by one seed in 1 to 800."""


@dataclass(frozen=True)
class Slip:
    """`wrong` in the place of `right`, in the source of one method, or of one function of a module."""

    owner: type | ModuleType
    method: str
    right: str
    wrong: str
    first_seed: int
    meters: bool = False
    """It is played with MQTT devices."""
    conditions: bool = False
    """It is played with publishes that have a condition."""
    shares: bool = False
    """It is played with workers that are members of shares."""

    def make(self) -> None:
        """Makes the slip, from here on, in this process."""
        function: FunctionType = vars(self.owner)[self.method]
        source = textwrap.dedent(inspect.getsource(function))
        right, wrong = textwrap.dedent(self.right), textwrap.dedent(self.wrong)
        lines = textwrap.indent(right, "    ") if right.endswith("\n") else right
        assert source.count(lines) == 1, f"{self.method} is another one by now: say the slip anew"
        slipped = source.replace(lines, textwrap.indent(wrong, "    ") if right.endswith("\n") else wrong)
        made: dict[str, object] = {}
        flags = function.__code__.co_flags & __future__.annotations.compiler_flag
        code = compile(slipped, f"<slipped {self.method}>", "exec", flags=flags, dont_inherit=True)
        exec(code, function.__globals__, made)
        setattr(self.owner, self.method, made[self.method])


def run_alone(test: str, slip: str) -> None:
    """Asserts that a slip is found, in its own process: the file of a test, which ends with `find`."""
    done = subprocess.run(
        [sys.executable, test, slip],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("found by"), done.stdout


def find(slips: Mapping[str, Slip], name: str) -> int:
    """The command of a test's child process: play with the slip until a promise is broken. Its exit code."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    slip = slips[name]
    slip.make()
    for played, seed in enumerate(range(slip.first_seed, slip.first_seed + SEEDS_MAX), start=1):
        try:
            play(seed, meters=slip.meters, conditions=slip.conditions, shares=slip.shares)
        except ScheduleFailed as failed:
            if isinstance(failed.__cause__, Broken):
                print(f"found by the {played}. seed: {failed}")
                return 0
            raise
    print(f"not found in {SEEDS_MAX} schedules")
    return 1
