"""A fault of work queues: a worker stands still."""

import secrets
import threading
import time
from contextlib import ExitStack

from coldnotify import LeasedMessage
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.topics import TopicNames
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from coldnotify_testkit.drills.scene import DOMAIN, GROUP, WAIT_S, Scene
from coldnotify_testkit.stack import notify

TOPIC = TopicNames().channels_1d
_AGE_S = 7_200
"""ShareWaitsLong fires above an hour."""


def a_worker_stands_still_with_an_old_task(scene: Scene, stack: ExitStack) -> None:
    """a worker stands still with a task that was sent two hours ago"""
    goes_on, done, channel = threading.Event(), threading.Event(), f"old-{secrets.token_hex(4)}"

    def work(task: LeasedMessage) -> None:
        goes_on.wait()
        task.done(WAIT_S)
        done.set()

    client = stack.enter_context(notify(scene.up, "worker", None))
    client.channel(channel, share="workers", since="now").subscribe(work)
    assert client.wait_caught_up(timeout_s=WAIT_S), client.status
    stack.callback(done.wait, WAIT_S)
    stack.callback(goes_on.set)
    stack.callback(_stamp, scene, "LogAppendTime")
    _stamp(scene, "CreateTime")
    producer = Producer({"bootstrap.servers": scene.up.kafka})
    partitions = producer.list_topics(TOPIC, WAIT_S).topics[TOPIC].partitions
    producer.produce(
        TOPIC,
        b"1",
        f"{DOMAIN}/{GROUP}/{channel}",
        partition_of(DOMAIN, GROUP, len(partitions)),
        timestamp=int((time.time() - _AGE_S) * 1000),
    )
    assert producer.flush(WAIT_S) == 0


def _stamp(scene: Scene, by: str) -> None:
    """Has Kafka keep the time of its producers, or stamp messages itself."""
    said = ConfigEntry("message.timestamp.type", by, incremental_operation=AlterConfigOpType.SET)
    admin = AdminClient({"bootstrap.servers": scene.up.kafka})
    resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[said])
    admin.incremental_alter_configs([resource])[resource].result(WAIT_S)
