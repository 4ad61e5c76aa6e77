"""Waiting for conditions, never for seconds: `wait_for` in threads, `until` on an event loop."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

WAIT_S = 100.0
"""Long, because a machine that others keep busy must not fail a test. What is waited for takes
milliseconds to seconds.
"""
_LOOK_S = 0.02


def wait_for(condition: Callable[[], T | None], what: str = "the condition", timeout_s: float = WAIT_S) -> T:
    """Waits for the first true value of `condition`, and returns it. Raises AssertionError that names `what` if it
    takes too long.
    """
    deadline_s = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline_s, f"{what}: not within {timeout_s:g} s"
        time.sleep(_LOOK_S)
    return value


async def until(condition: Callable[[], T | None], what: str = "the condition", timeout_s: float = WAIT_S) -> T:
    """Does the same as `wait_for`, while the event loop goes on."""
    deadline_s = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline_s, f"{what}: not within {timeout_s:g} s"
        await asyncio.sleep(_LOOK_S)
    return value
