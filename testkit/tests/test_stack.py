"""A stack that tests share outlives their kills; stacks that share a Kafka have prefixes of their own."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from coldnotify_cli.supervisor import DEATHS_MAX
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit import stack
from coldnotify_testkit.stack import Stacks, Up


def test_the_kill_that_would_be_too_many_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_s: list[float] = []
    monkeypatch.setattr(stack, "DEATHS_WINDOW_S", 0.5)
    monkeypatch.setattr("os.kill", lambda pid, number: at_s.append(time.monotonic()))
    up = Up(tmp_path)
    up.report, up.shared = {"pids": {"matcher": 1, "gateway": 2}}, True
    for _ in range(3 * DEATHS_MAX):
        up.kill("matcher")
    for first, too_many in zip(at_s, at_s[DEATHS_MAX - 1 :], strict=False):
        assert too_many > first + 0.5


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, tuple[str, ...], str]]:
    """(prefix, flags, what became of it) of each stack, of which none is started."""
    made: list[tuple[str, tuple[str, ...], str]] = []

    @contextmanager
    def installation(kafka: str, prefix: str, directory: Path, *flags: str, **settings: str) -> Iterator[Up]:
        made.append((prefix, flags, "begun"))
        yield Up(directory, kafka=kafka, topics_prefix=prefix, **settings)
        made.append((prefix, flags, "ended"))

    monkeypatch.setattr(stack, "installation", installation)
    monkeypatch.setattr(stack, "delete_topics", lambda kafka, names: made.append((names.prefix, (), "deleted")))
    return made


def test_stacks_in_one_kafka_have_prefixes_of_their_own(
    installed: list[tuple[str, tuple[str, ...], str]], tmp_path: Path
) -> None:
    stacks = Stacks("kafka:1")
    with stacks.running(tmp_path) as one, stacks.running(tmp_path, "--partitions=8") as other:
        assert one.topics != other.topics
        one.report = other.report = {"kafka": "kafka:1"}
        assert one.in_kafka == {"kafka": "kafka:1", "topics_prefix": one.topics.prefix}
    with stacks.running(tmp_path) as third:
        assert third.topics not in (one.topics, other.topics), "what is deleted may still be there for a moment"
    begun = [(prefix, flags) for prefix, flags, word in installed if word == "begun"]
    assert begun[:2] == [(one.topics.prefix, ("--partitions=2",)), (other.topics.prefix, ("--partitions=8",))]
    ours = TopicNames().prefix
    assert not any(prefix.startswith(("coldnotify", ours)) for prefix, _ in begun), "tests reset topics of that name"


def test_no_more_than_three_stacks_are_in_one_kafka(
    installed: list[tuple[str, tuple[str, ...], str]], tmp_path: Path
) -> None:
    stacks = Stacks("kafka:1")
    with ExitStack() as three:
        for _ in range(3):
            three.enter_context(stacks.running(tmp_path))
        with pytest.raises(AssertionError, match="3 stacks share this Kafka already"), stacks.running(tmp_path):
            pass
    with stacks.running(tmp_path):
        pass
    assert installed[-1][2] == "ended"


def test_a_prefix_that_was_asked_for_is_one_stacks_at_a_time_and_begins_empty(
    installed: list[tuple[str, tuple[str, ...], str]], tmp_path: Path
) -> None:
    stacks = Stacks("kafka:1")
    with (
        stacks.running(tmp_path, topics_prefix="coldnotify."),
        pytest.raises(AssertionError, match=r"coldnotify\. is another stack's"),
        stacks.running(tmp_path, topics_prefix="coldnotify."),
    ):
        pass
    assert [word for prefix, _, word in installed if prefix == "coldnotify."] == ["deleted", "begun", "ended"]
