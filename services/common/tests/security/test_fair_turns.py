"""Who waits for a place: in turn by who they are, for a bounded time, and none is lost with who goes away."""

import asyncio
from contextlib import suppress

import pytest
from coldnotify_common.security.fair_turns import Turns

LIMIT_S = 60.0


class Asking:
    """Those who want a place, each holding it until it is let go."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.order: list[str] = []
        self.goes = asyncio.Queue[None]()

    async def ask(self, who: str) -> None:
        async with self.turns.turn(who, LIMIT_S):
            self.order.append(who)
            await self.goes.get()


async def test_who_waits_often_has_a_turn_as_often_as_others() -> None:
    asking = Asking(Turns(2, of_one=1))
    asked = [asyncio.create_task(asking.ask(who)) for who in ("a", "a", "a", "b", "b", "c")]
    await asyncio.sleep(0)
    assert (asking.order, asking.turns.taken) == (["a", "b"], 2)
    for _ in asked:
        asking.goes.put_nowait(None)
    async with asyncio.timeout(LIMIT_S):
        await asyncio.gather(*asked)
    assert asking.order == ["a", "b", "c", "a", "b", "a"]
    assert asking.turns.taken == 0


async def test_waiting_has_an_end_and_takes_nothing_with_it() -> None:
    turns = Turns(1, of_one=1)
    async with turns.turn("a", LIMIT_S):
        with pytest.raises(TimeoutError):
            async with turns.turn("b", 0.01):
                pass
    async with turns.turn("b", LIMIT_S):
        assert turns.taken == 1


async def test_who_is_cancelled_at_the_moment_of_its_turn_gives_it_on() -> None:
    turns = Turns(1, of_one=1)
    entered: list[str] = []

    async def enter(who: str) -> None:
        async with turns.turn(who, LIMIT_S):
            entered.append(who)

    async with turns.turn("a", LIMIT_S):
        cancelled, other = asyncio.create_task(enter("b")), asyncio.create_task(enter("c"))
        await asyncio.sleep(0)
    cancelled.cancel()  # it has the place, and has not run since
    with suppress(asyncio.CancelledError):
        await cancelled
    async with asyncio.timeout(LIMIT_S):
        await other
    assert (entered, turns.taken) == (["c"], 0)
