"""The clock for ages counts sleep, which the monotonic one does not."""

import time

import pytest
from coldnotify_common import steady


def test_it_is_the_clock_that_counts_sleep() -> None:
    before_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before_s <= steady.steady_s() <= time.clock_gettime(time.CLOCK_BOOTTIME)


def test_elsewhere_it_is_the_monotonic_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steady, "_BOOTTIME", None)
    before_s = time.monotonic()
    assert before_s <= steady.steady_s() <= time.monotonic()
