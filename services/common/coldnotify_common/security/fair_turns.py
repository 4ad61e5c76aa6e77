"""Places of a bounded resource: callers wait for a free place, in turn by identity, not by number of requests."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from coldnotify_common.security.shared import Shared, Who


class Turns:
    """Places of one event loop. A free place goes to the waiting caller whose turn it is."""

    def __init__(self, number: int, of_one: int) -> None:
        """`number`: places in all; `of_one`: places that one caller may have."""
        self._places = Shared(number, of_one)
        self._waiting: dict[Who, deque[asyncio.Future[None]]] = {}
        """Waiting requests by caller, in the order of the callers' turns."""

    @property
    def taken(self) -> int:
        """The number of places taken."""
        return self._places.taken

    @asynccontextmanager
    async def turn(self, who: Who, within_s: float) -> AsyncIterator[None]:
        """Holds a place until the end of the block. Raises TimeoutError if none was free in time."""
        await self._take(who, within_s)
        try:
            yield
        finally:
            self._places.give_back(who)
            self._go_behind(who)
            self._go_on()

    async def _take(self, who: Who, within_s: float) -> None:
        if who not in self._waiting and self._places.take(who) is None:
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(who, deque()).append(turn)
        try:
            async with asyncio.timeout(within_s):
                await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                self._places.give_back(who)  # the place was given at the same moment
            else:
                self._forget(who, turn)
            self._go_on()
            raise

    def _forget(self, who: Who, turn: "asyncio.Future[None]") -> None:
        own = self._waiting[who]
        own.remove(turn)
        if not own:
            del self._waiting[who]

    def _go_behind(self, who: Who) -> None:
        """Moves a caller behind the others, after its turn."""
        own = self._waiting.pop(who, None)
        if own:
            self._waiting[who] = own

    def _go_on(self) -> None:
        for who in list(self._waiting):
            if self._places.full(who) is not None:
                continue
            self._places.take(who)
            self._waiting[who].popleft().set_result(None)
            self._go_behind(who)
            if self._places.taken >= self._places.number:
                return
