"""Faults of tenants: one floods, one is not measured by anybody, one has an invalid record."""

import threading
import time
from contextlib import ExitStack, suppress
from urllib.request import urlopen

from coldnotify_schemas.topics import TopicNames
from confluent_kafka import Producer

from coldnotify_testkit.drills.injection import repeated, standing_still
from coldnotify_testkit.drills.scene import GROUP, Scene

TOPICS = TopicNames()


def a_tenant_floods(scene: Scene, stack: ExitStack) -> None:
    """a tenant publishes 20 times a second and may do so once a second; a verdict says the same"""
    producer = Producer({"bootstrap.servers": scene.up.kafka})
    stack.callback(_write_tenant, scene, "flooding", None)
    _write_tenant(scene, "flooding", b'{"domains": ["flooding.domain"], "in_per_s": 1}')
    url = f"{scene.up.http_url}/v1/domains/flooding.domain/groups/{GROUP}/objects/camera-config"

    def publish(stopping: threading.Event) -> None:
        with suppress(OSError), urlopen(url, data=b"{}", timeout=30):
            pass
        now_ms = time.time_ns() // 1_000_000
        value = b'{"at_ms": %d, "until_ms": %d, "per_min": {"publishes": 60}}' % (now_ms, now_ms + 20_000)
        producer.produce(TOPICS.verdicts, value, b"flooding")
        producer.flush(60)
        stopping.wait(0.05)

    stack.enter_context(repeated(publish))


def nobody_measures_tenants(scene: Scene, stack: ExitStack) -> None:
    """there is a tenant, and nothing makes verdicts"""
    usage = scene.up.report["pids"].get("usage")
    if usage is not None:
        stack.enter_context(standing_still(usage))
    stack.callback(_write_tenant, scene, "unmeasured", None)
    _write_tenant(scene, "unmeasured", b'{"domains": ["unmeasured.domain"]}')


def tenants_are_written_by_hand(scene: Scene, stack: ExitStack) -> None:
    """a tenant's record has a negative rate"""
    stack.callback(_write_tenant, scene, "by-hand", None)
    _write_tenant(scene, "by-hand", b'{"domains": ["by.hand"], "in_per_s": -1}')


def _write_tenant(scene: Scene, name: str, value: bytes | None) -> None:
    producer = Producer({"bootstrap.servers": scene.up.kafka})
    producer.produce(TOPICS.tenants, value, name.encode())
    assert producer.flush(60) == 0
