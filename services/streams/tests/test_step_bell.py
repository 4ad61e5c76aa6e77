"""The bell between the worker's thread and the event loop of the HTTP port."""

import asyncio
import threading

from coldnotify_streams.step_bell import StepBell


async def test_a_ring_from_another_thread_wakes_all_who_wait_for_it() -> None:
    bell = StepBell()
    waiting = [asyncio.ensure_future(bell.next_ring().wait()) for _ in range(3)]
    threading.Thread(target=bell.ring).start()
    assert await asyncio.wait_for(asyncio.gather(*waiting), 60) == [True] * 3
    assert not bell.next_ring().is_set()


async def test_no_ring_is_missed_between_asking_for_it_and_waiting() -> None:
    bell = StepBell()
    ring = bell.next_ring()
    bell.ring()
    bell.ring()
    await asyncio.wait_for(ring.wait(), 60)


def test_ringing_is_harmless_once_nobody_waits() -> None:
    bell = StepBell()
    bell.ring()

    async def wait_and_go() -> None:
        bell.next_ring()

    asyncio.run(wait_and_go())
    bell.ring()
