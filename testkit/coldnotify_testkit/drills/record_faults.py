"""Faults of records in the topics: nonsense, records of a later release, versions below the newest."""

import threading
import time
from contextlib import ExitStack

from coldnotify.publisher import Publisher
from coldnotify_schemas.internal_pb2 import Beat, Request
from coldnotify_schemas.internal_protocol import FORMAT
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.removals import REMOVES_HEADER
from coldnotify_schemas.topics import TopicNames
from confluent_kafka import Producer

from coldnotify_testkit.drills.injection import repeated
from coldnotify_testkit.drills.scene import DOMAIN, GROUP, WAIT_S, Scene
from coldnotify_testkit.stack import Recorder, notify
from coldnotify_testkit.waiting import wait_for

TOPICS = TopicNames()


def nonsense_is_published(scene: Scene, _stack: ExitStack) -> None:
    """a record with a misspelt field is published"""
    producer = Producer({"bootstrap.servers": scene.up.kafka})
    producer.produce(TOPICS.objects, b'{"verson": 1}', f"{DOMAIN}/{GROUP}/camera-config".encode())
    assert producer.flush(60) == 0


def strangers_write_into_our_topics(scene: Scene, _stack: ExitStack) -> None:
    """a request and inbox records are written that no process of ColdNotify would write"""
    producer = Producer({"bootstrap.servers": scene.up.kafka})
    producer.produce(TOPICS.requests, b"?", partition=0)
    for inbox in range(
        len(producer.list_topics(TOPICS.notifications, timeout=60).topics[TOPICS.notifications].partitions)
    ):
        producer.produce(TOPICS.notifications, b"?", partition=inbox)
    assert producer.flush(60) == 0


def a_later_release_has_written(scene: Scene, stack: ExitStack) -> None:
    """a session's record has the format of a later release"""
    producer = Producer({"bootstrap.servers": scene.up.kafka})
    key = b"drilled.domain/a/client"
    partition = partition_of("drilled.domain", "a", int(scene.value("max(coldnotify_matcher_partitions)")))

    def write(value: bytes | None) -> None:
        producer.produce(TOPICS.sessions, value, key, partition)
        assert producer.flush(60) == 0

    stack.callback(write, None)
    write(b'{"format": 4, "generation": 1}')


def versions_are_below_the_newest(scene: Scene, stack: ExitStack) -> None:
    """a back-end numbers its versions, and one of them was published without a number"""
    publisher = stack.enter_context(Publisher(kafka=scene.up.kafka))
    publisher.publish("numbered.versions", GROUP, "camera-config")
    numbers = iter(range(1, 1 << 30))

    def publish(stopping: threading.Event) -> None:
        publisher.publish("numbered.versions", GROUP, "camera-config", version=next(numbers))
        stopping.wait(0.2)

    stack.enter_context(repeated(publish))


def nulls_remove_nothing(scene: Scene, stack: ExitStack) -> None:
    """again and again a null names an older version than its object's newest"""
    producer = Producer({"bootstrap.servers": scene.up.kafka})
    key = f"{DOMAIN}/{GROUP}/kept".encode()
    with Publisher(kafka=scene.up.kafka) as publisher:
        where = publisher.publish(DOMAIN, GROUP, "kept", version=2).partition

    def write(stopping: threading.Event) -> None:
        producer.produce(TOPICS.objects, None, key, partition=where, headers={REMOVES_HEADER: b"0/1"})
        producer.flush(60)
        stopping.wait(0.5)

    stack.enter_context(repeated(write))


def a_gateways_clock_is_wrong(scene: Scene, stack: ExitStack) -> None:
    """the Beats of a gateway are stamped ten minutes too early"""
    producer = Producer({"bootstrap.servers": scene.up.kafka})
    beat = Request(format=FORMAT, gateway=2, beat=Beat()).SerializeToString()

    def write(behind_ms: int) -> None:
        producer.produce(TOPICS.requests, beat, partition=0, timestamp=time.time_ns() // 1_000_000 - behind_ms)
        producer.flush(60)

    def keep_writing(stopping: threading.Event) -> None:
        write(600_000)
        stopping.wait(1)

    stack.callback(write, 0)
    stack.enter_context(repeated(keep_writing))


def old_news_is_published(scene: Scene, _stack: ExitStack) -> None:
    """200 publishes arrive a minute after their timestamp"""
    producer = Producer({"bootstrap.servers": scene.up.kafka})
    ago_ms = time.time_ns() // 1_000_000 - 60_000
    told = Recorder()
    with notify(scene.up, "late", None) as ou:
        ou.register("old").subscribe(told)
        wait_for(lambda: len(told.seen) > 0, "registered", WAIT_S)
        for version in range(200):
            producer.produce(
                TOPICS.objects, b'{"version": %d}' % version, f"{DOMAIN}/{GROUP}/old".encode(), timestamp=ago_ms
            )
            producer.flush(60)
        wait_for(told.reaches("old", 199), "told", WAIT_S)
