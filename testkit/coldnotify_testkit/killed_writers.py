"""Processes that write numbers one after another, each killed at a drawn one: its successor goes on where it was."""

import random
import signal
import subprocess
from collections.abc import Sequence

_MARGIN = 20
"""No kill comes so close to the beginning or the end."""


def write_though_killed(command: Sequence[str], count: int, *, kills: int, seed: int, timeout_s: float) -> None:
    """Runs `command` again and again, killed in between, until all numbers are written. The number to begin with is its
    last argument.

    The command prints each number below `count` on a line of its own once that is accepted. The last run has to end
    with 0.
    """
    draw = random.Random(seed)
    done = -1
    for end in [*sorted(draw.sample(range(_MARGIN, count - _MARGIN), kills)), None]:
        child = subprocess.Popen([*command, str(done + 1)], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        for line in child.stdout:
            done = int(line)
            if end is not None and done >= end:
                child.send_signal(signal.SIGKILL)
                break
        rest = child.stdout.read().split("\n")
        child.stdout.close()
        assert child.wait(timeout_s) == (0 if end is None else -signal.SIGKILL)
        done = max([done, *(int(one) for one in rest[:-1])])
    assert done == count - 1
