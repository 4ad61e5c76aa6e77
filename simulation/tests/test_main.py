"""Random schedules, as the command plays them, and what it says.

Stands for: clock, client, gateway, group, kafka, link, main, matcher, matcher_readers, promises, schedule, scripted
Stands for: second_opinion, trace, truth, world, describing, memberships, sets
"""

import os
import re
import subprocess
import sys

import pytest


def simulate(*args: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "coldnotify_simulation", *args],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": "0"},
    )


def test_the_promises_hold_in_random_schedules() -> None:
    done = simulate("--seeds", "1-200")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "200 schedules" in done.stdout
    assert "0 broke a promise" in done.stdout
    of_queries = next(line for line in done.stdout.splitlines() if line.startswith("of queries:"))
    assert all(int(count) for count in re.findall("[0-9]+", of_queries)), of_queries


@pytest.mark.parametrize("seeds", ["x", "1-x", "-"])
def test_wrong_seeds_are_said(seeds: str) -> None:
    done = simulate(f"--seeds={seeds}")
    assert done.returncode == 2
    assert "--seeds" in done.stderr
