"""Faults of what services read from Kafka: it comes too slowly for them, or is gone before they read it."""

import secrets
import threading
import time
from contextlib import ExitStack

from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.topics import TopicNames
from confluent_kafka import OFFSET_END, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from coldnotify_testkit.drills.alert_watch import wait_quiet
from coldnotify_testkit.drills.injection import another_matcher, quota, repeated, standing_still
from coldnotify_testkit.drills.scene import DOMAIN, WAIT_S, Scene
from coldnotify_testkit.stack import get_json
from coldnotify_testkit.waiting import wait_for

TOPICS = TopicNames()

_TAKEOVER_SLOW_S = 30


def the_inbox_is_emptied(scene: Scene, stack: ExitStack) -> None:
    """the records of the gateway's inbox are deleted before it reads them, again and again"""
    pid = scene.up.report["pids"]["gateway"]
    gateway = get_json(f"http://{scene.up.report['gateways_http'][0]}/v1/gateway")
    admin = AdminClient({"bootstrap.servers": scene.up.kafka})
    everything = [TopicPartition(TOPICS.notifications, gateway["inbox"], OFFSET_END)]

    def lose(stopping: threading.Event) -> None:
        # What comes first is in the gateway's socket already; what follows within the second is lost.
        with standing_still(pid):
            stopping.wait(1)
            for deleted in admin.delete_records(everything).values():
                deleted.result(WAIT_S)
        stopping.wait(1)

    stack.enter_context(repeated(lose))


def _publish_many(scene: Scene, partition: int, partitions: int, count: int, payload: str) -> None:
    group = next(g for g in map("group-{}".format, range(10_000)) if partition_of(DOMAIN, g, partitions) == partition)
    # Small batches: a quota counts whole ones.
    producer = Producer({"bootstrap.servers": scene.up.kafka, "batch.size": 16_384})
    for version in range(count):
        value = b'{"version": %d, "payload": "%s"}' % (time.time_ns(), payload.encode())
        producer.produce(TOPICS.objects, value, f"{DOMAIN}/{group}/many-{version % 100}".encode(), partition=partition)
        producer.poll(0)
    assert producer.flush(60) == 0


def what_is_read_is_throttled(scene: Scene, stack: ExitStack) -> None:
    """a quota limits matchers to reading 20 kB/s of publishes, and 12,000 objects are published"""
    stack.enter_context(another_matcher(scene, "standby", "--matcher-standby"))
    lag = "coldnotify_matcher_lag_standby"
    wait_for(lambda: scene.watcher.query(lag), "the standby follows", WAIT_S)
    followed = int(scene.watcher.query(lag)[0]["metric"]["partition"])
    partitions = int(scene.value("max(coldnotify_matcher_partitions)"))
    # It is to catch up, and not to be gone.
    stack.callback(wait_quiet, scene, {"StandbyLags"}, "clear")
    stack.enter_context(quota(scene, "coldnotify-compacted-reader", "coldnotify-standby-reader"))
    _publish_many(scene, followed, partitions, 12_000, "x" * 100)


def loading_is_throttled(scene: Scene, stack: ExitStack) -> None:
    """the matcher is killed and loads 3 MB under a quota of 20 kB/s, for 33 s"""
    partitions = int(scene.value("max(coldnotify_matcher_partitions)"))
    _publish_many(scene, 0, partitions, 3000, secrets.token_hex(500))
    with quota(scene, "coldnotify-compacted-reader"):
        before = scene.up.kill("matcher")
        loading = 'coldnotify_matcher_partitions_owned{job="matcher"} == 0'
        wait_for(lambda: scene.watcher.query(loading), "it loads", WAIT_S)
        time.sleep(_TAKEOVER_SLOW_S + 3)
        assert scene.watcher.query(loading)
    scene.up.wait_ready(other_than=before, timeout_s=WAIT_S)
