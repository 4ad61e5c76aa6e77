"""Rings whenever the worker has taken in what its readers had: for an event loop in which somebody waits for that."""

import asyncio
from contextlib import suppress


class StepBell:
    """One thread rings, one event loop waits; no lock is needed, and ringing where nobody waits costs nothing."""

    def __init__(self) -> None:
        self._next: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def next_ring(self) -> asyncio.Event:
        """Is set with the next ring. Called in the loop; whoever looks after this call misses no ring."""
        waiting = self._next
        if waiting is None:
            waiting = self._next = (asyncio.get_running_loop(), asyncio.Event())
        return waiting[1]

    def ring(self) -> None:
        """Called in the worker's thread."""
        waiting = self._next
        if waiting is None:
            return
        self._next = None  # the loop puts another one there only from now on
        loop, event = waiting
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(event.set)
