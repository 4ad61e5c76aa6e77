"""Random schedules, as the command plays them, and what it says.

Stands for: clock, client, gateway, group, kafka, link, main, matcher, matcher_readers, promises, schedule, scripted
Stands for: second_opinion, trace, truth, world, describing, memberships, sets, chatting, messages, witness
"""

import os
import re
import subprocess
import sys
from unittest.mock import patch

import pytest
from coldnotify_schemas.topics import TopicNames
from coldnotify_simulation.schedule import play
from coldnotify_simulation.syncing import Syncing

PLAY = """
from coldnotify_simulation.schedule import play
for seed in range(1, 31):
    for line in play(seed).world.trace.lines():
        print("seed", seed, line)
"""


def run(*args: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *args],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        env=os.environ | environment,
    )


def simulate(*args: str) -> "subprocess.CompletedProcess[str]":
    return run("-m", "coldnotify_simulation", *args)


def test_the_promises_hold_in_random_schedules() -> None:
    done = simulate("--seeds", "1-200")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "200 schedules" in done.stdout
    assert "0 broke a promise" in done.stdout
    of_queries = next(line for line in done.stdout.splitlines() if line.startswith("of queries:"))
    assert all(int(count) for count in re.findall("[0-9]+", of_queries)), of_queries
    of_channels = next(line for line in done.stdout.splitlines() if line.startswith("of channels:"))
    assert all(int(count) for count in re.findall("[0-9]+", of_channels)), of_channels


def test_the_promises_hold_with_conditions() -> None:
    done = simulate("--seeds", "1-20", "--conditions")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broke a promise" in done.stdout
    answers = re.search("of conditions: ([0-9]+) answers; of sets: ([0-9]+) answers", done.stdout)
    assert answers is not None, done.stdout
    assert int(answers[1]) > 50
    assert int(answers[2]) > 5


def test_the_promises_hold_with_shares() -> None:
    done = simulate("--seeds", "1-12", "--shares")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broke a promise" in done.stdout
    said = re.search("of shares: ([0-9]+) hand-outs, ([0-9]+) callbacks, ([0-9]+) answered as settled", done.stdout)
    assert said is not None, done.stdout
    assert all(int(count) > 100 for count in said.groups()), said[0]


def test_a_seed_is_the_same_schedule_whatever_the_order_of_sets() -> None:
    first, second = (run("-c", PLAY, PYTHONHASHSEED=seed) for seed in ("1", "2"))
    assert first.returncode == second.returncode == 0, first.stderr
    # What the parts log beside that has the time of day.
    traces = [[line for line in done.stdout.splitlines() if line.startswith("seed ")] for done in (first, second)]
    assert len(traces[0]) > 1000
    assert traces[0] == traces[1]


def test_the_checker_judges_topics_as_of_the_end_of_the_history() -> None:
    """The device that wakes by sync is given its time after that, in which retention goes on."""
    with patch.object(Syncing, "settle", lambda self: self.world.kafka.recreate(TopicNames().objects)):
        play(1)


@pytest.mark.parametrize("seeds", ["x", "1-x", "-"])
def test_invalid_seeds_are_reported(seeds: str) -> None:
    done = simulate(f"--seeds={seeds}")
    assert done.returncode == 2
    assert "--seeds" in done.stderr
