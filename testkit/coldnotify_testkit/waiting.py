"""Waiting for conditions, never for seconds: `wait_for` in threads, `until` on an event loop."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

WAIT_S = 100.0
"""What is waited for takes milliseconds to seconds; a machine that others keep busy must not fail a test."""
_LOOK_S = 0.02


def wait_for(condition: Callable[[], T | None], what: str = "the condition", timeout_s: float = WAIT_S) -> T:
    """The first true value of `condition`. Raises AssertionError, which says what never came."""
    deadline_s = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline_s, f"{what}: not within {timeout_s:g} s"
        time.sleep(_LOOK_S)
    return value


async def until(condition: Callable[[], T | None], what: str = "the condition", timeout_s: float = WAIT_S) -> T:
    """As `wait_for`, while the event loop goes on."""
    deadline_s = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline_s, f"{what}: not within {timeout_s:g} s"
        await asyncio.sleep(_LOOK_S)
    return value
