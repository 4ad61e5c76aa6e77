"""Runs long work of an event loop in slices, so that other tasks run between two of them."""

import asyncio
import time
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")

SLICE_S = 0.002
"""Length of a slice. Two of the costliest items, which cannot be split, take less than this."""


class Slices:
    """Runs all long work of one event loop. One piece at a time continues beyond its first slice.

    So no other task waits for more than one slice, however many pieces there are.
    """

    def __init__(self, slice_s: float = SLICE_S) -> None:
        self._slice_s = slice_s
        self._long = asyncio.Lock()

    async def all(self, items: Iterable[T]) -> list[T]:
        """Returns the items of an iterable that does its work item by item. Raises what the iterable raises."""
        made: list[T] = []
        work = iter(items)
        if self._some(work, made):
            return made
        async with self._long:
            while True:
                await asyncio.sleep(0)
                if self._some(work, made):
                    return made

    def _some(self, work: "Iterable[T]", made: list[T]) -> bool:
        """Runs one slice. Returns true if it was the last one."""
        until_s = time.perf_counter() + self._slice_s
        for one in work:
            made.append(one)
            if time.perf_counter() >= until_s:
                return False
        return True
