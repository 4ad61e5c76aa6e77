import asyncio
import os
import signal
import sys
import threading
from pathlib import Path

import pytest
from coldnotify_common.stop import StopFlag, stop_event, stop_flag, surviving_hangups
from coldnotify_testkit.terminal import on_a_terminal
from coldnotify_testkit.waiting import WAIT_S, wait_for


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


def test_a_hangup_reloads_and_stops_nothing() -> None:
    before, reloaded = signal.getsignal(signal.SIGHUP), list[str]()
    with stop_flag() as stop, surviving_hangups():
        os.kill(os.getpid(), signal.SIGHUP)
        with surviving_hangups(lambda: reloaded.append("certificates")):
            os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGHUP)
        assert not stop.is_set()
    assert reloaded == ["certificates"]
    assert signal.getsignal(signal.SIGHUP) == before


@pytest.mark.parametrize(("before", "status"), [(signal.SIG_DFL, -signal.SIGTERM), (signal.SIG_IGN, 0)])
def test_a_hangup_stops_whose_terminal_has_gone_unless_it_was_ignored(
    before: signal.Handlers, status: int, tmp_path: Path
) -> None:
    code = """
import pathlib, sys, time
from coldnotify_common.stop import surviving_hangups
hangups = []
with surviving_hangups(lambda: hangups.append(1)), surviving_hangups(lambda: hangups.append(2)):
    pathlib.Path(sys.argv[1]).touch()
    while not hangups:
        time.sleep(0.01)
"""
    ready = tmp_path / "ready"
    with on_a_terminal([sys.executable, "-c", code, str(ready)], before) as (process, end_terminal):
        wait_for(ready.exists, "it is ready")
        end_terminal()
        assert process.wait(WAIT_S) == status
