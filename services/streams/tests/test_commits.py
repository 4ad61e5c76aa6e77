"""Which offsets are committed: of what is durable, each once, with the topic's id, and again where it failed."""

import pytest
from coldnotify_matcher.run_topics import topics_of
from coldnotify_schemas import internal_pb2
from coldnotify_schemas.topics import TopicNames
from coldnotify_streams.core import commits as module
from coldnotify_streams.core.actions import Offset
from coldnotify_streams.core.commits import Commits
from coldnotify_streams.core.events import NotCommitted
from coldnotify_streams.core.partition_progress import PendingRequests
from coldnotify_streams.errors import RunFailure
from coldnotify_testkit.engine_bench import EngineBench

TOPICS = TopicNames()
JOB_TOPICS = topics_of(TOPICS)


@pytest.fixture(autouse=True)
def always_due(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COMMIT_EVERY_S", 0.0)


def new(marks: dict[str, str] | None = None) -> Commits:
    return Commits(JOB_TOPICS, marks or {})


def offset_of(offsets: list[Offset], topic: str) -> int | None:
    return next((tp.offset for tp in offsets if tp.topic == topic), None)


def test_requests_that_wait_for_objects_are_not_committed() -> None:
    commits, partition = new(), EngineBench().partition
    partition.requests_position = 9
    partition.pending.append(PendingRequests({TOPICS.objects: 100}, [(6, internal_pb2.Request())]))
    commits.note(partition)
    assert offset_of(commits.take_due(1.0), TOPICS.requests) == 6

    partition.pending.clear()
    commits.note(partition)
    assert offset_of(commits.take_due(1.0), TOPICS.requests) == 9


def test_unchanged_offsets_are_committed_again_only_after_a_failure_or_when_old(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commits, partition = new(), EngineBench().partition
    partition.requests_position = 9

    def taken() -> int | None:
        commits.note(partition)
        return offset_of(commits.take_due(1.0), TOPICS.requests)

    assert [taken(), taken()] == [9, None]
    assert taken() is None
    commits.on_refused(NotCommitted("timed out", fenced=False))
    commits.check()
    assert [taken(), taken()] == [9, None]
    monkeypatch.setattr(module, "COMMIT_ALL_EVERY_S", -1.0)
    commits.take_due(1.0)  # finds that it is time to
    assert taken() == 9


def test_taken_offsets_are_among_the_last_until_forgotten() -> None:
    commits, partition = new({TOPICS.requests: "the-id"}), EngineBench().partition
    partition.requests_position = 9
    commits.note(partition)
    commits.take_due(1.0)
    assert commits.last_of([partition.number + 1]) == []
    last = commits.last_of([partition.number])
    assert {(tp.topic, tp.mark) for tp in last} == {(TOPICS.requests, "the-id"), (TOPICS.objects, "")}
    commits.forget([partition.number])
    assert commits.last_of([partition.number]) == []


def test_a_group_that_goes_on_without_this_member_ends_the_run() -> None:
    commits = new()
    commits.on_refused(NotCommitted("another has its name", fenced=True))
    with pytest.raises(RunFailure, match=r"^committing: "):
        commits.check()
