import asyncio
import os
import signal
import threading

import pytest
from coldnotify_common.stop import StopFlag, stop_event, stop_flag


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_sets_the_flag_and_wakes_every_waiter(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with stop_flag() as stop:
        assert not stop.wait(0)
        woken: list[bool] = []
        waiters = [threading.Thread(target=lambda: woken.append(stop.wait(60))) for _ in range(2)]
        for waiter in waiters:
            waiter.start()
        os.kill(os.getpid(), number)
        assert stop.wait(60)
        for waiter in waiters:
            waiter.join(60)
        assert woken == [True, True]
        os.kill(os.getpid(), number)  # a second one changes nothing
        assert stop.is_set()
    assert signal.getsignal(number) == before


def test_the_flag_can_be_set_by_a_thread_and_survives_being_set_after_its_end() -> None:
    flag = StopFlag()
    flag.set()
    flag.set()
    assert flag.wait()
    flag.close()
    flag.set()


async def test_a_signal_sets_the_event_of_a_loop() -> None:
    with stop_event() as stop:
        assert not stop.is_set()
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(stop.wait(), 60)
