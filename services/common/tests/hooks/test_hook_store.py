import json

import pytest
from coldnotify_common.hooks.hook_records import STATUS, encode_hook, hook_of
from coldnotify_common.hooks.hook_store import HookStore
from coldnotify_common.kafka.kafka_clients import KafkaUnavailable, TopicMissing
from coldnotify_common.settings import ServiceSettings, load

pytestmark = pytest.mark.kafka
URL = "https://example.org/"


def hook(group, name):
    return hook_of("d", group, name, {"url": URL, "objects": ["a"]}, None, 1000)


def test_hooks_of_a_group_are_read_with_their_status_and_without_damaged_or_removed_ones(fresh_kafka):
    store = HookStore(load(ServiceSettings, {"COLDNOTIFY_KAFKA": fresh_kafka.bootstrap}))
    assert store.of_group("d", "g", 10) == {}
    one, gone, other = hook("g", "one"), hook("g", "gone"), hook("g2", "other")
    status = {"revision": one.revision, "suspended_ms": 7}
    records = {
        one.key: encode_hook(one),
        f"{one.key}/{STATUS}": json.dumps(status).encode(),
        gone.key: encode_hook(gone),
        "d/g/damaged": b"{",
        "d/g/x/y/z": b"{}",
    }
    store.write("d", "g", records, 10)
    store.write("d", "g2", {other.key: encode_hook(other)}, 10)
    store.write("d", "g", {gone.key: None}, 10)
    found = store.of_group("d", "g", 10)
    assert {name: stored.hook for name, stored in found.items()} == {"one": one}
    assert found["one"].status == status
    assert set(store.of_group("d", "g2", 10)) == {"other"}


def test_a_topic_that_is_missing_and_a_kafka_that_is_away_are_said(fresh_kafka):
    elsewhere = {"COLDNOTIFY_KAFKA": fresh_kafka.bootstrap, "COLDNOTIFY_TOPICS_PREFIX": "nobody."}
    with pytest.raises(TopicMissing):
        HookStore(load(ServiceSettings, elsewhere)).of_group("d", "g", 10)
    away = HookStore(load(ServiceSettings, {"COLDNOTIFY_KAFKA": "127.0.0.1:1"}))
    with pytest.raises(KafkaUnavailable):
        away.of_group("d", "g", 1)
