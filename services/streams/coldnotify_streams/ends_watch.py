"""Answers the run's questions about ends (`LookAtEnds`) in its own thread, so that no step waits for them."""

import queue
import threading
from collections.abc import Callable

import structlog
from coldnotify_common.errors import ServiceError
from coldnotify_common.paced import Paced
from coldnotify_common.steady import steady_s

from coldnotify_streams.core.actions import LookAtEnds
from coldnotify_streams.core.events import EndsSeen, ReaderFailed
from coldnotify_streams.log_ends import LogEnds
from coldnotify_streams.readers import EventReceiver, hand_on

_paced = Paced(structlog.get_logger())


class EndsWatch(threading.Thread):
    """Asks Kafka for the ends passed to `look`, and puts them into `events` as `EndsSeen`."""

    def __init__(self, new_ends: Callable[[], LogEnds], events: EventReceiver) -> None:
        """`new_ends`: creates the client that the thread asks with."""
        super().__init__(name="ends-watch", daemon=True)
        self._new_ends = new_ends
        self._events = events
        self._stopping = threading.Event()
        self._asked: queue.SimpleQueue[LookAtEnds | None] = queue.SimpleQueue()

    def look(self, asked: LookAtEnds) -> None:
        """Asks for these ends, soon."""
        self._asked.put(asked)

    def stop(self) -> None:
        """Ask the thread to end."""
        self._stopping.set()
        self._asked.put(None)

    def run(self) -> None:
        """The thread."""
        ends: LogEnds | None = None
        try:
            while (asked := self._asked.get()) is not None and not self._stopping.is_set():
                ends = ends or self._new_ends()
                if not hand_on(self._events, _seen(ends, asked), self._stopping.is_set):
                    break
        except BaseException as error:
            hand_on(self._events, ReaderFailed(error), self._stopping.is_set)
        if ends is not None:
            ends.close()


def _seen(ends: LogEnds, asked: LookAtEnds) -> EndsSeen:
    at_s = steady_s()  # before Kafka is asked: what is acknowledged meanwhile may be missing
    try:
        return EndsSeen(at_s, ends.uncommitted(asked.places))
    except ServiceError as error:
        _paced.log("cannot read the ends of the topics", level="warning", error=str(error))
        return EndsSeen(at_s, {})
