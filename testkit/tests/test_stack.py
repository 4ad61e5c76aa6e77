"""A stack that tests share outlives their kills."""

import time
from pathlib import Path

import pytest
from coldnotify_cli.supervisor import DEATHS_MAX
from coldnotify_testkit import stack
from coldnotify_testkit.stack import Up


def test_the_kill_that_would_be_too_many_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_s: list[float] = []
    monkeypatch.setattr(stack, "DEATHS_WINDOW_S", 0.5)
    monkeypatch.setattr("os.kill", lambda pid, number: at_s.append(time.monotonic()))
    up = Up(tmp_path)
    up.report, up.shared = {"pids": {"matcher": 1, "gateway": 2}}, True
    for _ in range(3 * DEATHS_MAX):
        up.kill("matcher")
    for first, too_many in zip(at_s, at_s[DEATHS_MAX - 1 :], strict=False):
        assert too_many > first + 0.5
