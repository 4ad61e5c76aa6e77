"""Turns of threads: permits, pace, deadlines; against a service that has an agreement, in real time.

That the pace settles at the agreement is test_pacing's, in virtual time.
"""

import threading
import time

import pytest
from coldnotify._publishing.turns import NoTurn, PublisherTurns, TurnRefused


def test_without_a_permit_a_turn_is_waited_for_until_the_deadline() -> None:
    turns = PublisherTurns("fixed", 1)
    with turns.turn(time.monotonic() + 60), pytest.raises(NoTurn), turns.turn(time.monotonic() + 0.05):
        pass
    with turns.turn(time.monotonic() + 60):
        pass


def test_a_waiter_is_woken_when_a_permit_is_returned() -> None:
    turns, done = PublisherTurns("fixed", 1), threading.Event()

    def wait() -> None:
        with turns.turn(time.monotonic() + 60):
            done.set()

    with turns.turn(time.monotonic() + 60):
        thread = threading.Thread(target=wait)
        thread.start()
        assert not done.is_set()
    assert done.wait(60)
    thread.join()


@pytest.mark.parametrize("error", [ValueError("bad"), KeyboardInterrupt()])
def test_a_failure_keeps_no_permit_and_sets_no_pace(error: BaseException) -> None:
    turns = PublisherTurns("fixed", 1)
    for _ in range(3):
        with pytest.raises(type(error)), turns.turn(time.monotonic() + 60):
            raise error
    assert (turns.interval_s, turns.refused) == (0, 0)


def refused_for(turns: PublisherTurns, retry_after_s: float) -> None:
    with pytest.raises(TurnRefused), turns.turn(time.monotonic() + 60):
        raise TurnRefused(ValueError("too much"), retry_after_s)


def test_after_a_refusal_the_next_turn_waits_as_long_as_it_said() -> None:
    turns = PublisherTurns("fixed", 10)
    refused_for(turns, 600)
    with pytest.raises(NoTurn), turns.turn(time.monotonic() + 0.05):
        pass
    turns, begun_s = PublisherTurns("fixed", 10), time.monotonic()
    refused_for(turns, 0.2)
    with turns.turn(begun_s + 60):
        assert time.monotonic() - begun_s > 0.1
    assert turns.refused == 1
    assert turns.interval_s > 0
