"""`coldnotify topics copy`: another prefix and number of partitions, while clients wake and back-ends publish."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from coldnotify import LeasedMessage, Message, Missed
from coldnotify.publisher import PublishError
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.arrival_versions import arrival_header
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.command import coldnotify
from coldnotify_testkit.kafka import delete_topics
from coldnotify_testkit.stack import Recorder, Up, get_json, notify
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import Producer

pytestmark = pytest.mark.kafka

DOMAIN = "animal.observer"
OLD, NEW = "copy-a.", "copy-b."
GROUPS = [f"region-{number}" for number in range(6)]


@pytest.fixture
def bootstrap(kafka: EmbeddedBroker) -> Iterator[str]:
    yield kafka.bootstrap
    for prefix in (OLD, NEW):
        delete_topics(kafka.bootstrap, TopicNames(prefix))


def copy(bootstrap: str, *args: str) -> "subprocess.CompletedProcess[str]":
    return coldnotify(
        "topics", "copy", f"--to-prefix={NEW}", f"--topics-prefix={OLD}", "--partitions=5", *args, kafka=bootstrap
    )


def publish_by_arrival(bootstrap: str, prefix: str, partitions: int, *, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    partition = partition_of(DOMAIN, GROUPS[0], partitions)
    for _ in range(count):
        key = f"{DOMAIN}/{GROUPS[0]}/door".encode()
        producer.produce(TopicNames(prefix).objects, b"{}", key, partition, headers=[arrival_header()])
    assert producer.flush(60) == 0


def version_of_door(up: Up) -> int | None:
    try:
        return int(get_json(f"{up.http_url}/v1/domains/{DOMAIN}/groups/{GROUPS[0]}/objects/door")["version"])
    except OSError:
        return None


def test_all_moves_and_clients_go_on(bootstrap: str, tmp_path: Path) -> None:
    old = Up(tmp_path / "a", "--partitions=2", kafka=bootstrap, topics_prefix=OLD)
    new = old.beside(tmp_path / "b", NEW)
    told = {group: Recorder() for group in GROUPS}
    messages: dict[str, list[Message]] = {group: [] for group in GROUPS}
    missed: dict[str, list[Missed]] = {group: [] for group in GROUPS}
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with ExitStack() as stack:
        old.start()
        stack.callback(lambda: old.running and old.stop())
        clients = {
            group: stack.enter_context(notify(old, "ou", tmp_path / f"{group}.json", group=group)) for group in GROUPS
        }
        for group, client in clients.items():
            client.register("lamp").subscribe(told[group])
            client.channel("alarm", since="oldest").subscribe(messages[group].append, on_missed=missed[group].append)
            assert client.wait_caught_up(60)
        worker, tasks = (
            stack.enter_context(notify(old, "worker", tmp_path / "worker.json", group=GROUPS[0])),
            list[bytes](),
        )

        def do(task: LeasedMessage) -> None:
            task.done(60)
            tasks.append(task.data)

        worker.channel("tasks", share="workers", since="oldest").subscribe(do)
        assert worker.wait_caught_up(60)
        with old.publisher() as publisher:
            publisher.send(DOMAIN, GROUPS[0], "tasks", b"settled")
            for group in GROUPS:
                publisher.publish(DOMAIN, group, "lamp", version=1, payload={"n": 1})
                publisher.send(DOMAIN, group, "alarm", b"1")
        wait_for(lambda: all(told[group].newest("lamp") == 1 for group in GROUPS), "the first version")
        wait_for(lambda: all(messages[group] for group in GROUPS), "the first message")
        wait_for(lambda: tasks == [b"settled"], "the first task is settled")
        with old.publisher() as publisher:
            publisher.publish(DOMAIN, GROUPS[0], "door", version=41)
        publish_by_arrival(bootstrap, OLD, 2, count=3)
        done = copy(bootstrap)
        assert done.returncode == 0, done.stderr + done.stdout
        publish_by_arrival(bootstrap, OLD, 2, count=1)
        with old.publisher() as publisher:
            for group in GROUPS:
                publisher.publish(DOMAIN, group, "lamp", version=2)
                publisher.send(DOMAIN, group, "alarm", b"2")
        done = copy(bootstrap, "--switch")
        assert done.returncode == 0, done.stderr + done.stdout
        print(done.stdout)
        with old.publisher() as publisher, pytest.raises(PublishError) as refused:
            publisher.publish(DOMAIN, GROUPS[0], "lamp", version=3)
        assert not refused.value.indeterminate
        assert old.stop() == 0
        new.start()
        stack.callback(new.stop)
        wait_for(lambda: version_of_door(new) == 45, "each by arrival was a version")
        publish_by_arrival(bootstrap, NEW, 5, count=1)
        wait_for(lambda: version_of_door(new) == 46, "and the next one is the next")
        with new.publisher() as publisher:
            publisher.send(DOMAIN, GROUPS[0], "tasks", b"new")
            for group in GROUPS:
                publisher.publish(DOMAIN, group, "lamp", version=3)
                publisher.send(DOMAIN, group, "alarm", b"3")
        wait_for(lambda: all(told[group].newest("lamp") == 3 for group in GROUPS), "the version after the switch")
        wait_for(lambda: all(messages[group][-1].data == b"3" for group in GROUPS), "the message after the switch")
        wait_for(lambda: len(tasks) == 3, "the share begins with all that is there")
        assert tasks == [b"settled", b"settled", b"new"]
        done = coldnotify("rebalance", "--plan", "--seconds=1", http=new.report["http"])
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("5 partitions, 1 matcher: "), done.stdout
        for group in GROUPS:
            assert told[group].versions("lamp") in ([None, 1, 2, 3], [1, 2, 3], [None, 1, 3]), told[group].versions(
                "lamp"
            )
            assert [one.data for one in messages[group]] in ([b"1", b"2", b"1", b"2", b"3"], [b"1", b"1", b"2", b"3"])
            assert [one.reason.name for one in missed[group]] == ["LOST"]
            state = new.client(DOMAIN, group, "ou")
            assert state["online"], state
