"""Long work in slices: others have turns between them, and of several that have such work one goes on at a time."""

import asyncio
from collections.abc import Iterator

import pytest
from coldnotify_common.slices import Slices

LIMIT_S = 60.0


async def test_others_have_a_turn_between_any_two_slices() -> None:
    slices, order = Slices(slice_s=0), ["begun"]  # each item is a slice

    def work(name: str) -> Iterator[str]:
        for number in range(4):
            order.append(f"{name}{number}")
            yield f"{name}{number}"

    async def bystander() -> None:
        while len(order) < 8:
            order.append("-")
            await asyncio.sleep(0)

    async with asyncio.timeout(LIMIT_S):
        watching = asyncio.create_task(bystander())
        made = await asyncio.gather(slices.all(work("a")), slices.all(work("b")))
        await watching
    assert list(made) == [[f"{name}{number}" for number in range(4)] for name in "ab"]
    turns = "".join(one[0] for one in order[1:])
    assert "aaa" not in turns.replace("b", ""), "a bystander comes between two slices"
    assert turns.replace("-", "") == "abaaabbb", "beyond the first slice there is one at a time"


async def test_short_work_waits_for_nobody_and_what_fails_is_told() -> None:
    slices = Slices(slice_s=LIMIT_S)
    async with asyncio.timeout(LIMIT_S), slices._long:
        assert await slices.all(range(3)) == [0, 1, 2]

    def fails() -> Iterator[int]:
        yield 1
        raise ValueError("two")

    with pytest.raises(ValueError, match="two"):
        await slices.all(fails())
    with pytest.raises(ValueError, match="two"):
        await Slices(slice_s=0).all(fails())
