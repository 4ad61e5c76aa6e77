"""A publisher with an outbox is killed: what it had accepted is sent over HTTP, in batches and in order."""

import sys
from pathlib import Path

import pytest
from coldnotify.http_publisher import HttpPublisher
from coldnotify_schemas.partitioner import partition_of
from coldnotify_testkit.fetching import fetch
from coldnotify_testkit.killed_writers import write_though_killed
from coldnotify_testkit.stack import PARTITIONS, Up
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

DOMAIN, GROUP = "outbox.http", "g"
MESSAGES = 600
KILLS = 3
LIMIT_S = 300

CHILD = f"""
import sys
from coldnotify.http_publisher import HttpPublisher
url, directory, begin = sys.argv[1:]
publisher = HttpPublisher(url, outbox=directory)
for number in range(int(begin), {MESSAGES}):
    publisher.send("{DOMAIN}", "{GROUP}", "numbers", number, id=str(number))
    publisher.publish("{DOMAIN}", "{GROUP}", "object-%d" % (number % 5), version=number + 1)
    print(number, flush=True)
publisher.close(0)
"""


def records(up: Up, topic: str) -> list[Message]:
    """Those of the group, in the order of the log."""
    consumer = Consumer(
        {"bootstrap.servers": up.kafka, "group.id": up.topics.group("test"), "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition(topic, partition_of(DOMAIN, GROUP, PARTITIONS), OFFSET_BEGINNING)])
    found: list[Message] = []
    while (message := consumer.poll(LIMIT_S)) is not None and message.error() is None:
        key = message.key()
        if isinstance(key, bytes) and key.startswith(f"{DOMAIN}/{GROUP}/".encode()):
            found.append(message)
    consumer.close()
    return found


def test_killed_at_any_moment_all_that_was_accepted_is_there_in_order(up: Up, tmp_path: Path) -> None:
    command = [sys.executable, "-c", CHILD, up.http_url, str(tmp_path / "out")]
    write_though_killed(command, MESSAGES, kills=KILLS, seed=20261123, timeout_s=LIMIT_S)
    with HttpPublisher(up.http_url, outbox=tmp_path / "out") as publisher:
        assert publisher.flush(LIMIT_S) == 0, publisher.outbox_last_error

    ids = []
    for message in records(up, up.topics.channels_1d):
        said = dict(message.headers() or [])["id"]
        assert isinstance(said, bytes)
        ids.append(int(said))
    # What was under way when the kill came is sent again with the same id: that is told to nobody.
    assert list(dict.fromkeys(ids)) == list(range(MESSAGES)), "each, in order"
    newest = {}
    for message in records(up, up.topics.objects):
        key = message.key()
        assert isinstance(key, bytes)
        name = key.decode().rpartition("/")[2]
        path = f"/v1/domains/{DOMAIN}/groups/{GROUP}/objects/{name}"
        newest[name] = fetch(f"{up.http_url}{path}").json()["version"]
    assert newest == {f"object-{number}": MESSAGES - 4 + number for number in range(5)}
