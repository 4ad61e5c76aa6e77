"""The shell: it does what a run wants in order, and throws what went wrong where the run had asked."""

import pytest
from coldnotify_common.errors import ServiceError
from coldnotify_common.stop import StopFlag
from coldnotify_matcher.settings import MatcherSettings
from coldnotify_matcher.worker import MatcherWorker
from coldnotify_streams import worker as stream_worker
from coldnotify_streams.core.actions import AskEnds, Doing, Flush, Offset, TakenIn, WriteRecords
from coldnotify_streams.errors import RunFailure
from coldnotify_streams.worker import committable
from coldnotify_testkit.kafka import free_port
from coldnotify_testkit.matcher_process import worker_of
from coldnotify_testkit.waiting import wait_for


def offline() -> MatcherWorker:
    return MatcherWorker(MatcherSettings(kafka=f"127.0.0.1:{free_port()}"), StopFlag())


def test_an_error_is_raised_where_the_question_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    worker, caught = offline(), []

    def unknown(*_: object, **__: object) -> None:
        raise ServiceError("nobody knows")

    def step() -> Doing[None]:
        try:
            yield WriteRecords([object()])  # type: ignore[list-item]
        except AttributeError as error:
            caught.append(type(error))
        caught.append((yield Flush()))
        yield TakenIn()
        yield AskEnds([("topic", 0)], uncommitted=False)

    monkeypatch.setattr(stream_worker, "log_ends", unknown)
    with pytest.raises(RunFailure, match="nobody knows"):
        worker._drive(step())
    assert caught == [AttributeError, []]


def test_offsets_are_committed_with_their_marks() -> None:
    (one,) = committable([Offset("topic", 1, 7, "id")])
    assert (one.topic, one.partition, one.offset, one.metadata) == ("topic", 1, 7, "id")


@pytest.mark.kafka
def test_a_worker_that_hangs_is_not_ready(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_worker, "HUNG_AFTER_S", 1.0)
    with worker_of(bootstrap) as worker:
        with worker.lock:
            wait_for(lambda: "nothing has been done for" in (worker.readiness() or ""), "its saying so")
        wait_for(lambda: worker.readiness() is None, "its going on")
