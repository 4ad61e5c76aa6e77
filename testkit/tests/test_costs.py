"""What a test takes is noted: of its own process, and of those below it, also of one that still runs."""

from pathlib import Path

import pytest
from coldnotify_testkit.costs import Cost, by_module, main, note_long, read

pytest_plugins = ["pytester"]

FILE = """
import os, subprocess, sys, time
import pytest

BUSY = "import time\\nwhile time.process_time() < 0.2: pass\\nprint(1, flush=True)\\ninput()"
running = []

def test_itself():
    until = time.process_time() + 0.2
    while time.process_time() < until: pass

@pytest.mark.stack
def test_below():
    running.append(subprocess.Popen([sys.executable, "-c", BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE))
    running[0].stdout.readline()

def test_nothing(): pass

def test_end():
    with running.pop() as one: one.communicate(b"\\n")
"""


def test_a_line_a_test(pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    pytester.makeini("[pytest]\nmarkers =\n  stack: x\n  pure: x\nasyncio_default_fixture_loop_scope = function\n")
    pytester.makepyfile(test_one=FILE)
    file = pytester.path / "costs"
    pytester.runpytest_subprocess("-p", "coldnotify_testkit.costs", f"--costs={file}").assert_outcomes(passed=4)
    costs = {name.rpartition("::")[2]: cost for name, cost in read(file).items()}
    assert list(costs) == ["test_itself", "test_below", "test_nothing", "test_end"]
    # It is counted in hundredths, where it begins and where it ends.
    assert costs["test_itself"].own_core_s >= 0.18
    # Of others the kernel says hundredths.
    assert costs["test_below"].below_core_s >= 0.18, "it runs still"
    (whole,) = by_module(read(file)).values()
    assert whole.core_s == pytest.approx(sum(cost.core_s for cost in costs.values()))
    assert whole.begun_s == costs["test_itself"].begun_s
    capsys.readouterr()
    assert main([str(file)]) == 0
    assert "test_one.py::test_below" in capsys.readouterr().out


def test_modules_that_take_long_are_noted_the_longest_first(tmp_path: Path) -> None:
    note_long({"a": Cost(0, 40, 1, 1), "b": Cost(0, 3, 1, 1), "c": Cost(0, 50, 1, 1)}, tmp_path / "long")
    assert (tmp_path / "long").read_text() == "50\tc\n40\ta\n"
