"""What a matcher does when topics are made anew, grow, or are not there, seen from outside its process."""

from pathlib import Path

import pytest
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.engine_bench import opened
from coldnotify_testkit.kafka import reset_topics
from coldnotify_testkit.matcher_process import PARTITIONS, MatcherProcess, Player, records_of
from coldnotify_testkit.waiting import wait_for
from confluent_kafka.admin import AdminClient, NewPartitions

TOPICS = TopicNames()

pytestmark = pytest.mark.kafka


def add_partitions(admin: AdminClient, topic: str, total: int) -> None:
    for answer in admin.create_partitions([NewPartitions(topic, total)]).values():
        answer.result(60)


def test_recreated_topics_are_read_from_their_beginning(bootstrap: str, player: Player, tmp_path: Path) -> None:
    with MatcherProcess(bootstrap, tmp_path / "log") as process:
        process.wait_serving()
        for session in range(1, 4):
            player.open("camera", session=session)
            player.wait_opened(session)
        player.version("camera", 100)
        player.wait_told("camera", 100)

        reset_topics(bootstrap)

        wait_for(lambda: "all state dropped" in process.log.read_text(), "its noticing")
        again = Player(bootstrap)
        try:
            process.wait_serving()
            again.open("camera")
            again.wait_opened()
            assert opened(again.items)[0].HasField("epoch")
            again.version("camera", 1)
            again.wait_told("camera", 1)
            assert again.told("camera") == [1]
        finally:
            again.close()


def test_more_inboxes_are_noticed(bootstrap: str, player: Player, tmp_path: Path) -> None:
    with MatcherProcess(bootstrap, tmp_path / "log") as process:
        process.wait_serving()
        add_partitions(AdminClient({"bootstrap.servers": bootstrap}), TOPICS.notifications, 20)

        wait_for(lambda: "recreated or resized" in process.log.read_text(), "its noticing")
        process.wait_serving()
        assert len(records_of(bootstrap, TOPICS.notifications, 19)) >= PARTITIONS, "takeovers are said there, too"


def test_without_topics_it_is_not_ready_and_says_why(kafka: EmbeddedBroker, tmp_path: Path) -> None:
    reset_topics(kafka.bootstrap)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    for answer in admin.delete_topics([TOPICS.sessions]).values():
        answer.result(30)
    with MatcherProcess(kafka.bootstrap, tmp_path / "log") as process:
        wait_for(lambda: "coldnotify topics apply" in process.log.read_text(), "its saying what is missing")
        assert not process.ready
        reset_topics(kafka.bootstrap)
        process.wait_serving()
