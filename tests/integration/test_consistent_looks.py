"""Looks at objects that have all that was acknowledged before them, with a real Kafka."""

from uuid import uuid4

import pytest
from coldnotify.http_publisher import HttpPublisher
from coldnotify_testkit.stack import Up, get_json

pytestmark = pytest.mark.kafka

DOMAIN = "animal.observer"
ROUNDS = 30


def test_a_publish_is_seen_at_once(up: Up) -> None:
    group = f"looks-{uuid4().hex[:5]}"
    objects = f"{up.http_url}/v1/domains/{DOMAIN}/groups/{group}/objects"
    with HttpPublisher(up.http_url) as publisher:
        for version in range(1, ROUNDS + 1):
            publisher.publish(DOMAIN, group, "a", version=version)
            assert get_json(f"{objects}/a?consistent=1")["version"] == version
            named = get_json(f"{objects}?names=a,b&consistent=1")
            assert [one["version"] for one in named["items"]] == [version, None]
            (found,) = get_json(f"{objects}?query=not%20has%20Room&consistent=1")["items"]
            assert found["version"] == version
