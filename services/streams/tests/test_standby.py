"""The warm standby over a real Kafka: it takes over what it followed without a load, and harms nobody."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import cast

import pytest
from coldnotify_matcher.engine import Engine, Rules
from coldnotify_matcher.matcher_job import MatcherJob
from coldnotify_matcher.matcher_partition import MatcherPartition
from coldnotify_matcher.record_headers import HeadersReader
from coldnotify_matcher.run_topics import topics_of
from coldnotify_matcher.settings import MatcherSettings
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.topics import TopicNames
from coldnotify_streams.core.actions import Action, Follow, Unfollow
from coldnotify_streams.core.events import ReaderFailed
from coldnotify_streams.core.following import RETRY_AFTER_S, FollowedPartitions
from coldnotify_streams.core.partition_progress import OwningPhase
from coldnotify_streams.standby import Standby as Reading
from coldnotify_testkit.engine_bench import CLUSTER, answered
from coldnotify_testkit.kafka import free_port
from coldnotify_testkit.matcher_process import (
    DOMAIN,
    GROUP,
    OTHER_GROUP,
    PARTITION,
    PARTITIONS,
    MatcherProcess,
    Player,
    records_of,
    wait_halves,
)
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import Producer

TOPICS = TopicNames()
JOB_TOPICS = topics_of(TOPICS)
headers_of = HeadersReader(TOPICS)

pytestmark = pytest.mark.kafka
CLIENT = f"/v1/domains/{DOMAIN}/groups/{GROUP}/clients/client-1"


class Standby:
    """What is followed, and the reader that reads it."""

    def __init__(self, settings: MatcherSettings) -> None:
        job = MatcherJob(CLUSTER, "a", rules=Rules(), registrations_max=100)
        self.following = FollowedPartitions(job)
        self.reading = Reading(settings, "group", JOB_TOPICS, headers_of)
        self.now_s = 100.0

    @property
    def partitions(self) -> dict[int, MatcherPartition]:
        return cast(dict[int, MatcherPartition], self.following.partitions)

    def do(self, actions: Iterable[Action]) -> None:
        for action in actions:
            if isinstance(action, Follow):
                self.reading.begin(action.partition)
            elif isinstance(action, Unfollow):
                self.reading.drop(action.partition)

    def follow(self, numbers: Iterable[int]) -> None:
        self.do(self.following.follow(numbers, self.now_s))

    def take(self, number: int) -> MatcherPartition | None:
        partition, actions = self.following.take(number)
        self.do(actions)
        return cast(MatcherPartition | None, partition)

    def turn(self) -> None:
        event = self.reading.take()
        if event is not None:
            self.do(self.following.on_event(event, self.now_s, 0))


@pytest.fixture
def standby(bootstrap: str) -> Iterator[Standby]:
    one = Standby(MatcherSettings(kafka=bootstrap))
    yield one
    one.reading.stop()
    one.reading.join(60)


def following(process: MatcherProcess) -> set[int]:
    """The partitions that it follows, and has read to their ends."""
    items = process.json("/v1/partitions")["items"]
    return {one["partition"] for one in items if one["phase"] == "following" and one["read_to_end"]}


def write(bootstrap: str, topic: str, key: bytes, value: bytes | None) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    producer.produce(topic, value, key, PARTITION)
    assert producer.flush(60) == 0


def test_a_standby_takes_over_what_it_followed_and_nothing_is_lost(
    bootstrap: str, player: Player, tmp_path: Path
) -> None:
    with (
        MatcherProcess(bootstrap, tmp_path / "a", matcher_id="a", matcher_standby=True) as first,
        MatcherProcess(bootstrap, tmp_path / "b", matcher_id="b", matcher_standby=True) as second,
    ):
        both = (first, second)
        wait_halves(first, second)
        wait_for(lambda: all(following(m) == set(range(PARTITIONS)) - m.owned() for m in both), "each follows the rest")
        owner, other = both if PARTITION in first.owned() else both[::-1]
        player.open("camera", "lamp")
        player.wait_opened()
        player.version("camera", 1)
        player.wait_told("camera", 1)
        owner.kill()
        player.version("camera", 2)
        player.publish("camera", b"nonsense")
        player.publish("x", b'{"version":3}', group=OTHER_GROUP, partition=PARTITION)
        player.request(unregister={"request": 5, "objects": ["lamp"]}, register={"request": 5, "objects": ["late"]})
        player.request(register={"request": 6, "objects": ["late"]})
        player.wait_told("camera", 2)
        player.wait(lambda items: 6 in [answer.request for answer in answered(items)], "an answer")
        wait_for(lambda: other.owned() == set(range(PARTITIONS)), "all partitions at the one that is left")

        assert re.search(rf"partition taken over.*followed=True.*partition={PARTITION}\b", plain(other.log))
        assert "late" in [one["object"] for one in other.json(CLIENT)["registrations"]["items"]]
        rejected = [r for n in range(1) for r in records_of(bootstrap, TOPICS.rejected, n)]
        assert [value for _, value, _ in rejected] == [b"nonsense"]
        home = partition_of(DOMAIN, OTHER_GROUP, PARTITIONS)
        wait_for(lambda: records_of(bootstrap, TOPICS.objects, home), "the stray moved")

        with MatcherProcess(bootstrap, tmp_path / "a", matcher_id="a", matcher_standby=True) as again:
            wait_for(lambda: again.owned() and not again.owned() & other.owned(), "its share given back")
            wait_for(lambda: following(other) == again.owned(), "what was given up is followed anew")
            player.version("camera", 3)
            player.wait_told("camera", 3)
    assert player.told("camera") == sorted(player.told("camera"))


def test_without_the_setting_nothing_is_followed(bootstrap: str, tmp_path: Path) -> None:
    with (
        MatcherProcess(bootstrap, tmp_path / "a", matcher_id="a") as first,
        MatcherProcess(bootstrap, tmp_path / "b", matcher_id="b") as second,
    ):
        wait_for(lambda: first.owned() and second.owned() and first.ready and second.ready, "both serve")
        assert {one["phase"] for one in first.json("/v1/partitions")["items"]} == {"owned"}
        assert "following" not in plain(first.log) + plain(second.log)


def test_a_followed_partition_holds_the_state_of_its_topics(bootstrap: str, standby: Standby) -> None:
    key = f"{DOMAIN}/{GROUP}/camera".encode()
    write(bootstrap, TOPICS.objects, key, b'{"version":4}')
    standby.follow({PARTITION})
    standby.follow({PARTITION})

    read_on(standby, PARTITION)
    write(bootstrap, TOPICS.objects, key, b'{"version":5}')
    wait_for(lambda: turned(standby) and newest(standby) == 5, "the next version")

    one = standby.take(PARTITION)
    assert one is not None
    assert one.phase is OwningPhase.FOLLOWING
    assert one.positions == {TOPICS.objects: 2, TOPICS.registrations: 0, TOPICS.sessions: 0}
    assert standby.take(PARTITION) is None
    write(bootstrap, TOPICS.objects, key, b'{"version":6}')
    standby.follow({PARTITION})
    wait_for(lambda: turned(standby) and newest(standby) == 6, "followed anew, from the beginning")


def test_a_partition_with_a_record_that_cannot_be_handled_is_not_followed_and_the_others_are(
    bootstrap: str, standby: Standby, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raising(self: Engine, key: bytes | None, *more: object, **others: object) -> None:
        raise ValueError("by design")

    monkeypatch.setattr(Engine, "on_object", raising)
    write(bootstrap, TOPICS.objects, f"{DOMAIN}/{GROUP}/camera".encode(), b'{"version":4}')
    other = (PARTITION + 1) % PARTITIONS
    standby.follow({PARTITION, other})

    read_on(standby, other)
    wait_for(lambda: turned(standby) and PARTITION not in standby.partitions, "its giving up that one")
    standby.follow({PARTITION, other})
    assert set(standby.partitions) == {other}


def test_a_reader_that_fails_is_replaced_later_and_fails_nobody(
    bootstrap: str, standby: Standby, monkeypatch: pytest.MonkeyPatch
) -> None:
    standby.follow({PARTITION})
    read_on(standby, PARTITION)
    standby.reading._events.put(ReaderFailed(OSError("gone")))
    wait_for(lambda: turned(standby) and not standby.partitions, "its giving up")
    standby.follow({PARTITION})
    assert not standby.partitions, "not at once"
    standby.now_s += RETRY_AFTER_S
    standby.follow({PARTITION})
    read_on(standby, PARTITION)


def test_without_kafka_it_neither_waits_nor_fails() -> None:
    one = Standby(MatcherSettings(kafka=f"127.0.0.1:{free_port()}"))
    one.follow({1, 2})
    one.turn()
    one.reading.stop()
    one.reading.join(60)


def turned(standby: Standby) -> bool:
    standby.turn()
    return True


def read_on(standby: Standby, number: int) -> None:
    wait_for(lambda: turned(standby) and not standby.partitions[number].behind, "read to its end")


def newest(standby: Standby) -> int:
    obj = standby.partitions[PARTITION].engine.state.objects.get(f"{DOMAIN}/{GROUP}/camera")
    return -1 if obj is None else obj.version


def plain(log: Path) -> str:
    """Without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", log.read_text())
