"""Signals an event loop that the worker has taken in everything its readers had."""

import asyncio
from contextlib import suppress


class StepBell:
    """One thread rings and one event loop waits. It needs no lock, and ringing without a waiter costs nothing."""

    def __init__(self) -> None:
        self._next: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def next_ring(self) -> asyncio.Event:
        """Returns an event that the next ring sets. Call it in the loop; a look after this call misses no ring."""
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
