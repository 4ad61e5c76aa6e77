"""A client that was away for half a year is forgotten; when it comes back, it and the service agree again."""

import json
import time
from pathlib import Path

import pytest
from coldnotify import Connection, Notify, State
from coldnotify.publisher import Publisher
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.gateway_process import GatewayProcess
from coldnotify_testkit.matcher_process import DOMAIN, GROUP, PARTITION, MatcherProcess, records_of
from coldnotify_testkit.stack import Recorder
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import Producer

TOPICS = TopicNames()

pytestmark = pytest.mark.kafka

OBJECTS = ["camera-config", "humidity"]
HALF_A_YEAR_MS = 181 * 86_400_000
"""A day more than the default of matcher_client_forgotten_after_s."""


def stored(kafka: str, client: str) -> dict[tuple[str, bytes], dict[str, object]]:
    """What compaction would leave of a client: (topic, key) -> record."""
    last = {
        (topic, key or b""): value
        for topic in (TOPICS.registrations, TOPICS.sessions)
        for key, value, _ in records_of(kafka, topic, PARTITION)
        if f"{(key or b'').decode()}/".startswith(f"{DOMAIN}/{GROUP}/{client}/")
    }
    return {where: json.loads(value) for where, value in last.items() if value is not None}


def make_old(kafka: str, client: str) -> None:
    """The client's session record says that it was last seen half a year ago."""
    ((key, record),) = [(key, one) for (topic, key), one in stored(kafka, client).items() if topic == TOPICS.sessions]
    record["last_seen"] = time.time_ns() // 1_000_000 - HALF_A_YEAR_MS
    producer = Producer({"bootstrap.servers": kafka, "acks": "all"})
    producer.produce(TOPICS.sessions, json.dumps(record).encode(), key, PARTITION)
    assert producer.flush(60) == 0


def look_up(process: MatcherProcess, client: str) -> int:
    """The status that the matcher's HTTP port answers with."""
    return process.get(f"/v1/domains/{DOMAIN}/groups/{GROUP}/clients/{client}")[0]


def visit(port: int, client: str, state: Path) -> Recorder:
    """The client connects, is told what it lacks, and leaves."""
    told = Recorder()
    connection = Connection("127.0.0.1", port)
    with Notify(
        domain=DOMAIN, group_id=GROUP, client_id=client, state=State(filename=str(state)), connection=connection
    ) as ou:
        for name in OBJECTS:
            ou.register(name).subscribe(told)
        assert ou.wait_caught_up(90)
        wait_for(lambda: ou.status.pending == 0, "all registrations are settled")
    return told


def test_forgotten_after_half_a_year_and_whole_again(fresh_kafka: EmbeddedBroker, tmp_path: Path) -> None:
    kafka = fresh_kafka.bootstrap
    with GatewayProcess(kafka) as gateway:
        with MatcherProcess(kafka, tmp_path / "before", matcher_id="a") as before:
            before.wait_serving()
            gateway.wait_ready()
            for client in ("gone", "kept"):
                visit(gateway.port, client, tmp_path / f"{client}.json")
                wait_for(
                    lambda client=client: (
                        {one.get("online") for one in stored(kafka, client).values()} == {None, False}
                    ),  # type: ignore[misc]
                    f"it is stored that {client} has left",
                )
            assert look_up(before, "gone") == 200
            before.stop()
        make_old(kafka, "gone")
        with MatcherProcess(kafka, tmp_path / "after", matcher_id="a") as after:
            after.wait_serving()
            wait_for(lambda: look_up(after, "gone") == 404, "it is forgotten")
            wait_for(lambda: stored(kafka, "gone") == {}, "nothing is left of it in Kafka")
            assert look_up(after, "kept") == 200
            assert len(stored(kafka, "kept")) == 2
            with Publisher(kafka=kafka) as publisher:
                for name in OBJECTS:
                    publisher.publish(DOMAIN, GROUP, name, version=7)

            told = visit(gateway.port, "gone", tmp_path / "gone.json")

            assert {name: told.newest(name) for name in OBJECTS} == dict.fromkeys(OBJECTS, 7)
            assert look_up(after, "gone") == 200
            (objects,) = [one["objects"] for one in stored(kafka, "gone").values() if "objects" in one]
            assert sorted(str(name) for name in objects) == OBJECTS  # type: ignore[attr-defined]
