"""The thread that asks Kafka for ends."""

import queue
import time
from collections.abc import Iterable

import pytest
from coldnotify_common.kafka.kafka_clients import KafkaUnavailable
from coldnotify_streams.core.actions import LookAtEnds
from coldnotify_streams.core.events import EndsSeen, ReaderFailed
from coldnotify_streams.ends_watch import EndsWatch
from coldnotify_streams.log_ends import LogEnds

PLACE = ("t", 3)
WAIT_S = 60.0


class Ends(LogEnds):
    """Answers without asking Kafka."""

    def __init__(self, answer: dict[tuple[str, int], int] | Exception) -> None:
        self.answer = answer
        self.asked_at_s = 0.0
        self.closed = False

    def uncommitted(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        self.asked_at_s = time.monotonic()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def close(self) -> None:
        self.closed = True


def watched(ends: Ends) -> object:
    events: queue.Queue[object] = queue.Queue()
    watch = EndsWatch(lambda: ends, events)
    watch.start()
    watch.look(LookAtEnds((PLACE,)))
    event = events.get(timeout=WAIT_S)
    watch.stop()
    watch.join(WAIT_S)
    assert not watch.is_alive()
    assert ends.closed
    return event


def test_the_time_of_an_answer_was_taken_before_kafka_was_asked() -> None:
    ends = Ends({PLACE: 4})
    seen = watched(ends)
    assert isinstance(seen, EndsSeen)
    assert seen.ends == {PLACE: 4}
    assert seen.at_s <= ends.asked_at_s


def test_a_kafka_that_is_away_is_an_answer_without_ends() -> None:
    seen = watched(Ends(KafkaUnavailable("away")))
    assert isinstance(seen, EndsSeen)
    assert seen.ends == {}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_any_other_error_ends_the_run() -> None:
    failed = watched(Ends(ZeroDivisionError("a fault of ours")))
    assert isinstance(failed, ReaderFailed)
    assert isinstance(failed.error, ZeroDivisionError)


def test_a_thread_that_was_asked_nothing_stops() -> None:
    watch = EndsWatch(lambda: Ends({}), queue.Queue())
    watch.start()
    watch.stop()
    watch.join(WAIT_S)
    assert not watch.is_alive()
