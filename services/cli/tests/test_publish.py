"""`coldnotify publish` with a real Kafka, and a played HTTP service that says what it has changed.

Stands for: outcome_lines
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from coldnotify_checker.histories import Publish, read_lines
from coldnotify_common.http.web import error_response
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.command import coldnotify
from coldnotify_testkit.served_routes import served_in_a_thread
from confluent_kafka import Consumer, TopicPartition

TOPICS = TopicNames()


@pytest.mark.kafka
def test_a_publish_prints_where_kafka_has_it(fresh_kafka: EmbeddedBroker) -> None:
    done = coldnotify(
        *("publish", "d", "g", "cams/north", "--version", "7", "--payload", '{"fps": 5}', "--source", "c1"),
        *("--expires-at", "99", "--deleted"),
        kafka=fresh_kafka.bootstrap,
        http="127.0.0.1:1",
    )
    assert done.returncode == 0, done.stderr
    words = done.stdout.split()
    assert words[::2] == ["version", "partition", "offset", "outcome"]
    version, partition, offset, outcome = words[1::2]
    assert (version, outcome) == ("7", "unknown")
    assert done.stderr.startswith("outcome not known: no HTTP service at http://127.0.0.1:1 (--http): ")
    consumer = Consumer({"bootstrap.servers": fresh_kafka.bootstrap, "group.id": "test", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPICS.objects, int(partition), int(offset))])
    message = consumer.poll(60)
    consumer.close()
    assert message is not None
    assert message.key() == b"d/g/cams/north"
    assert json.loads(message.value() or b"") == {
        "version": 7,
        "payload": {"fps": 5},
        "source": "c1",
        "expires_at": 99,
        "deleted": True,
    }


@pytest.mark.kafka
def test_the_history_says_the_priority(fresh_kafka: EmbeddedBroker, tmp_path: Path) -> None:
    path = tmp_path / "publish.jsonl"
    done = coldnotify(
        *("publish", "d", "g", "alarm", "--priority", "high", "--history", str(path)),
        kafka=fresh_kafka.bootstrap,
        http="127.0.0.1:1",
    )
    assert done.returncode == 0, done.stderr
    begun, _ = read_lines(path)
    assert isinstance(begun, Publish)
    assert begun.priority == "high"


@pytest.mark.kafka
def test_a_description_is_written_in_front_of_the_version(fresh_kafka: EmbeddedBroker) -> None:
    done = coldnotify(
        *("publish", "d", "g", "lamp", "--describe", "Room=410", "--describe", "Kind=lamp", "--json"),
        kafka=fresh_kafka.bootstrap,
        http="127.0.0.1:1",
    )
    shown = json.loads(done.stdout)
    consumer = Consumer({"bootstrap.servers": fresh_kafka.bootstrap, "group.id": "test", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPICS.objects, shown["partition"], shown["offset"] - 1)])
    message = consumer.poll(60)
    consumer.close()
    assert message is not None
    assert message.key() == b"describe:d/g/lamp"
    assert json.loads(message.value() or b"") == {"description": {"Kind": "lamp", "Room": 410}}


@pytest.mark.kafka
def test_without_a_version_it_is_the_time(fresh_kafka: EmbeddedBroker) -> None:
    before_ms = int(time.time() * 1000)
    done = coldnotify("publish", "d", "g", "o", "--json", kafka=fresh_kafka.bootstrap, http="127.0.0.1:1")
    shown = json.loads(done.stdout)
    assert before_ms <= shown["version"] <= time.time() * 1000
    assert (shown["outcome"], "no HTTP service" in shown["reason"]) == ("unknown", True)


NEWEST = {"version": 1_700_000_000_000, "incarnation": 1, "published_ms": 1_600_000_000_000}
ITEMS: dict[str, dict[str, Any]] = {
    "published": {"outcome": "published", "newest": {"version": 2, "published_ms": 1}},
    "repeated": {"outcome": "repeated", "newest": {"version": 2, "published_ms": 1}},
    "altered": {"outcome": "altered", "newest": {"version": 2, "published_ms": 1_600_000_000_000}},
    "stale": {"outcome": "stale", "newest": NEWEST},
    "rejected": {"outcome": "rejected", "reason": "record: is null"},
    "unknown": {"outcome": "unknown", "reason": "the matcher has read up to offset 7 so far"},
}
"""What the played HTTP service says of a publish to the group of this name."""


@pytest.fixture
def node() -> Iterator[str]:
    async def outcomes(request: web.Request) -> web.Response:
        group = request.match_info["group"]
        if group == "forbidden":
            return error_response(403, "domain: nobody may not publish to 'd'", field="domain")
        assert int(request.query["partition"]) >= 0
        return web.json_response({"items": [{"offset": int(request.query["offsets"]), **ITEMS[group]}]})

    routes = [web.get("/v1/domains/d/groups/{group}/outcomes", outcomes)]
    with served_in_a_thread(routes) as port:
        yield f"127.0.0.1:{port}"


@pytest.mark.kafka
def test_publish_prints_the_outcome_and_fails_if_nothing_changed(fresh_kafka: EmbeddedBroker, node: str) -> None:
    said = {}
    for group in ITEMS:
        publish = ("publish", "d", group, "o", "--version", "2")
        done = coldnotify(*publish, kafka=fresh_kafka.bootstrap, http=node)
        assert done.stdout.split()[-2:] == ["outcome", group]
        said[group] = (done.returncode, done.stderr)
    assert said["published"] == said["repeated"] == (0, "")
    assert said["unknown"] == (0, "outcome not known: the matcher has read up to offset 7 so far\n")
    code, words = said["stale"]
    assert code == 1
    assert words.startswith(
        "Error: d/stale/o version 2: is stale: the newest is version 1700000000000 of incarnation 1"
    )
    assert "since 2020-09-13 12:26:40+00:00" in words
    assert "`coldnotify object reset`" in words
    assert words.count("\n") == 1
    code, words = said["altered"]
    assert (code, "clients that have the version are not told" in words) == (1, True)
    assert said["rejected"] == (1, "Error: d/rejected/o version 2: is rejected: record: is null\n")

    done = coldnotify(*publish[:2], "stale", "o", "--version=2", "--json", kafka=fresh_kafka.bootstrap, http=node)
    shown = json.loads(done.stdout)
    assert (done.returncode, shown["version"], shown["outcome"], shown["newest"]) == (1, 2, "stale", NEWEST)
    done = coldnotify("publish", "d", "forbidden", "o", kafka=fresh_kafka.bootstrap, http=node)
    assert (done.returncode, "may not publish" in done.stderr) == (0, True)
