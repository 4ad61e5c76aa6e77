"""Faults of channels: messages that are read slowly, removed unread, or damaged on Kafka's disk."""

import secrets
from collections.abc import Iterable
from contextlib import ExitStack

from coldnotify import Message, Missed
from coldnotify.message import position_text
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.topics import TopicNames
from confluent_kafka import OFFSET_END, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from coldnotify_testkit.drills.injection import quota
from coldnotify_testkit.drills.scene import CHANNELS_TAIL_BYTES_MAX, DOMAIN, GROUP, WAIT_S, Scene
from coldnotify_testkit.stack import notify
from coldnotify_testkit.waiting import wait_for

TOPICS = TopicNames()

_FILM_BYTES = 60_000
_BEHIND = 60
"""The number of clients, each in a block of its own. ChannelsCatchUpSlow fires above 50."""
_BLOCK_OFFSETS = 1_000
"""The number of offsets in a block of a log of channels, as in the matcher's `kept_blocks`."""


def _write_messages(scene: Scene, channel: str, values: Iterable[bytes], *, group: str = GROUP) -> int:
    """Uncompressed. In which partition they are."""
    # Small batches: a quota counts whole ones.
    producer = Producer({"bootstrap.servers": scene.up.kafka, "batch.size": 16_384})
    partition = partition_of(
        DOMAIN, group, len(producer.list_topics(TOPICS.channels_1d, WAIT_S).topics[TOPICS.channels_1d].partitions)
    )
    for value in values:
        producer.produce(TOPICS.channels_1d, value, f"{DOMAIN}/{group}/{channel}".encode(), partition=partition)
        producer.poll(0)
    assert producer.flush(60) == 0
    return partition


def messages_are_read_slowly(scene: Scene, stack: ExitStack) -> None:
    """a quota limits matchers to reading 20 kB/s, and 30,000 messages are sent"""
    stack.enter_context(quota(scene, "coldnotify-logs-reader"))
    _write_messages(scene, "many", (b"%d" % number for number in range(30_000)))


def many_come_back_from_different_days(scene: Scene, stack: ExitStack) -> None:
    """60 clients come back, each to another part of 75,000 messages, and a quota limits reading these to 20 kB/s"""
    group, told = f"group-{secrets.token_hex(4)}", list[Message]()
    partition = _write_messages(scene, "days", (b"%d" % number for number in range(75_000)), group=group)
    with notify(scene.up, "newest", None, group=group) as client:
        # Who is told the last one comes behind all others.
        client.channel("days", since="newest").subscribe(told.append)
        wait_for(lambda: told, "the messages are followed", WAIT_S)
    assert partition == partition_of(DOMAIN, group, int(scene.value("max(coldnotify_matcher_partitions)")))
    first = told[0].offset - 74_999
    stack.enter_context(quota(scene, "coldnotify-block-reader"))
    for number in range(_BEHIND):
        client = stack.enter_context(notify(scene.up, f"behind-{number}", None, group=group))
        client.channel("days", since=position_text(told[0].epoch, first + number * _BLOCK_OFFSETS)).subscribe(print)


def a_log_is_damaged_on_disk(scene: Scene, stack: ExitStack) -> None:
    """a client is away while messages are sent, and a bit of them is turned on Kafka's disk"""
    group, missed = f"group-{secrets.token_hex(4)}", list[Missed]()
    words = secrets.token_hex(20).encode()
    for away in (True, False):
        with notify(scene.up, "torn", scene.directory / f"{group}.state", group=group) as client:
            client.channel("torn", since="now").subscribe(lambda _: None, on_missed=missed.append)
            assert client.wait_caught_up(timeout_s=WAIT_S), client.status
            if not away:
                wait_for(lambda: missed, "it is told that messages may be missing", WAIT_S)
                assert missed[0].reason == "UNREADABLE", missed
                return
        partition = _write_messages(scene, "torn", [b'"%s"' % words], group=group)
        # What comes behind it is all that matchers keep in memory.
        film = [bytes(_FILM_BYTES)] * (2 * CHANNELS_TAIL_BYTES_MAX // _FILM_BYTES)
        _write_messages(scene, "film", film, group=group)
        stack.callback(_turn_a_bit, scene, partition, words)
        _turn_a_bit(scene, partition, words)


def _turn_a_bit(scene: Scene, partition: int, words: bytes) -> None:
    """Flips a bit of the first of these bytes in Kafka's file. Doing it twice restores the file."""
    for path in scene.up.data.rglob(f"{TOPICS.channels_1d}-{partition}/*.log"):
        text = path.read_bytes()
        place = text.find(words[1:]) - 1
        if place >= 0:
            with path.open("r+b") as file:
                file.seek(place)
                file.write(bytes([text[place] ^ 1]))
            return
    raise AssertionError(f"the message is in no file of partition {partition}")


def messages_are_removed_unread(scene: Scene, _stack: ExitStack) -> None:
    """a client is away while messages are sent and removed, the first of them no longer in matchers' memory"""
    state = scene.directory / f"{secrets.token_hex(4)}.state"
    missed: list[Missed] = []
    for away in (True, False):
        with notify(scene.up, "away", state) as client:
            client.channel("removed", since="now").subscribe(lambda _: None, on_missed=missed.append)
            assert client.wait_caught_up(timeout_s=WAIT_S), client.status
            if not away:
                wait_for(lambda: missed, "it is told that messages may be missing", WAIT_S)
                return
        partition = _write_messages(scene, "removed", [b"1"])
        _write_messages(scene, "film", [bytes(_FILM_BYTES)] * (2 * CHANNELS_TAIL_BYTES_MAX // _FILM_BYTES))
        everything = TopicPartition(TOPICS.channels_1d, partition, OFFSET_END)
        admin = AdminClient({"bootstrap.servers": scene.up.kafka})
        admin.delete_records([everything])[everything].result(WAIT_S)
