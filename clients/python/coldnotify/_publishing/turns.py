"""Turns decide when a thread may publish by HTTP: it needs a permit, and the pace at which nothing is refused."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from coldnotify._forked import in_children
from coldnotify.flow.beginnings import HTTP
from coldnotify.flow.flow_limit import FlowLimit
from coldnotify.flow.pacing import Pacing


class NoTurn(Exception):
    """There was no turn in time."""


class TurnRefused(Exception):
    """A publish was refused, may be sent again after a while, and was not written."""

    def __init__(self, error: Exception, retry_after_s: float) -> None:
        super().__init__(str(error))
        self.error = error
        """Raise this if there is no time for it."""
        self.retry_after_s = retry_after_s


class PublisherTurns:
    """Shared by the threads of one publisher. They wait in turn, independently of other publishers."""

    def __init__(self, controller: str, in_flight_max: int) -> None:
        """Raises ValueError if the controller is unknown."""
        self._begin = partial(FlowLimit.named, controller, in_flight_max, HTTP)
        self._changed = threading.Condition()
        """Guards what follows; notified when a permit is given back."""
        self._limit = self._begin(time.time() - time.monotonic())
        self._pacing = Pacing()
        in_children(self)

    def forked(self) -> None:
        """A child begins with none under way: the requests of its parent's threads are not its own."""
        self._changed = threading.Condition()
        self._limit = self._begin(time.time() - time.monotonic())
        self._pacing = Pacing()

    @property
    def interval_s(self) -> float:
        """Between two publishes; 0: not paced."""
        with self._changed:
            return self._pacing.interval_s

    @property
    def refused(self) -> int:
        """The number of refusals, whether sent again or given up."""
        with self._changed:
            return self._pacing.refused

    @contextmanager
    def turn(self, deadline_s: float) -> Iterator[None]:
        """Waits for a turn, and has it in its block. An error in it is a failure; Refused sets the pace, too.

        Raises NoTurn at the deadline.
        """
        with self._changed:
            while True:
                now_s = time.monotonic()
                pace_s = self._pacing.wait_s(now_s)
                if not pace_s and self._limit.take():
                    break
                if now_s >= deadline_s:
                    raise NoTurn
                # Who waits for the pace is woken for nothing by permits that are given back: it looks again.
                self._changed.wait(min(pace_s, deadline_s - now_s) if pace_s else deadline_s - now_s)
            self._pacing.sent(now_s)
        try:
            yield
        except BaseException as error:
            with self._changed:
                self._limit.failed()
                if isinstance(error, TurnRefused):
                    self._pacing.refuse(time.monotonic(), now_s, error.retry_after_s)
                self._changed.notify_all()
            raise
        with self._changed:
            self._limit.acknowledged(time.monotonic(), now_s)
            self._changed.notify_all()
