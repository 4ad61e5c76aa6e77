"""Work of an event loop that takes long, in slices: between two of them everybody else has a turn."""

import asyncio
import time
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")

SLICE_S = 0.002
"""Then others have their turn. Two of the costliest items, which are looked at as a whole, take less than this."""


class Slices:
    """Of one event loop, and of all who have such work there: one of them at a time goes on beyond its first slice.

    So however many they are, nobody else waits for more than one slice.
    """

    def __init__(self, slice_s: float = SLICE_S) -> None:
        self._slice_s = slice_s
        self._long = asyncio.Lock()

    async def all(self, items: Iterable[T]) -> list[T]:
        """What an iterable gives, which does its work item by item. Raises what that raises."""
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
        """One slice of it. Whether that was the last one."""
        until_s = time.perf_counter() + self._slice_s
        for one in work:
            made.append(one)
            if time.perf_counter() >= until_s:
                return False
        return True
