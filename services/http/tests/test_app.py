"""The service as a process, with a real Kafka."""

import asyncio
import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import Request

import pytest
from aiohttp import ClientError, ClientSession
from coldnotify_common.tenancy.tenancy import NOT_READ_YET
from coldnotify_kafka.broker import EmbeddedBroker, free_port
from coldnotify_kafka.broker.freezing import freeze, thaw
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.child import ServiceProcess
from coldnotify_testkit.fetching import fetch
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import Consumer, TopicPartition

TOPICS = TopicNames()


class Running(ServiceProcess):
    """The service, on a free port."""

    http_port = 0

    def __init__(self, kafka: str, output: Path, **settings: object) -> None:
        self.http_port = free_port()
        super().__init__("http", output, {"kafka": kafka, "http_port": self.http_port, **settings})

    def post(self, path: str, body: object = None) -> tuple[int, Any]:
        data = json.dumps(body).encode() if body is not None else b""
        answer = fetch(Request(self.url + path, data=data, method="POST"))
        return answer.status, json.loads(answer.text)


@contextmanager
def http_service(kafka: str, **settings: object) -> Iterator[Running]:
    with TemporaryDirectory() as directory, Running(kafka, Path(directory, "log"), **settings) as running:
        running.wait_for(lambda: running.get("/healthz") == (200, "ok\n"), "it answers")
        yield running


def record_at(kafka: str, partition: int, offset: int) -> dict[str, Any]:
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "test", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(TOPICS.objects, partition, offset)])
        message = consumer.poll(60)
        assert message is not None
        assert message.error() is None
        return {"key": (message.key() or b"").decode(), **json.loads(message.value() or b"")}
    finally:
        consumer.close()


@pytest.mark.kafka
def test_an_acknowledged_publish_is_in_kafka(fresh_kafka: EmbeddedBroker) -> None:
    with http_service(fresh_kafka.bootstrap, http_publish_timeout_s=60) as service:
        wait_for(lambda: service.get("/readyz") == (200, "ready\n"))
        status, answer = service.post("/v1/domains/d/groups/g/objects/cams%2Fnorth", {"version": 4, "payload": [1]})
        assert (status, answer["version"]) == (200, 4)
        record = record_at(fresh_kafka.bootstrap, answer["partition"], answer["offset"])
        assert record == {"key": "d/g/cams/north", "version": 4, "payload": [1]}
        status, answer = service.post("/v1/domains/d/groups/g/objects", {"objects": {"a": {"version": 1}, "b": {}}})
        assert status == 200
        for result in answer["results"]:
            record = record_at(fresh_kafka.bootstrap, result["partition"], result["offset"])
            assert record["key"] == f"d/g/{result['object']}"
        assert 'coldnotify_http_publishes_total{outcome="acknowledged"} 3.0' in service.get("/metrics")[1]
        # As each start does, which is nothing to warn of.
        assert {event["level"] for event in service.events if event.get("reason") == NOT_READ_YET} <= {"info"}
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(60) == 0


@pytest.mark.kafka
@pytest.mark.own_broker("suspends Kafka")
async def test_a_stop_finishes_what_is_under_way(own_kafka: EmbeddedBroker) -> None:
    def start() -> Any:
        context = http_service(own_kafka.bootstrap, http_publish_timeout_s=60)
        return context, context.__enter__()

    context, service = await asyncio.to_thread(start)
    try:
        acknowledged: list[int] = []
        refused = 0
        enough = asyncio.Event()

        async def publish(client: ClientSession, first: int) -> None:
            nonlocal refused
            for i in range(first, 100_000, 20):
                try:
                    url = f"{service.url}/v1/domains/d/groups/g/objects/o{i}"
                    async with client.post(url, json={"version": i}) as response:
                        assert response.status == 200
                        acknowledged.append((await response.json())["offset"])
                        if len(acknowledged) == 100:
                            enough.set()
                except ClientError:  # not a single one is cut off between its request and its answer ...
                    refused += 1
                    return

        async with ClientSession() as client:
            publishers = [asyncio.ensure_future(publish(client, i)) for i in range(20)]
            await enough.wait()
            freeze(own_kafka.pid)
            try:
                under_way = "coldnotify_http_publishes_under_way 20.0"
                await asyncio.to_thread(wait_for, lambda: under_way in service.get("/metrics")[1])
                service.process.send_signal(signal.SIGTERM)
                await asyncio.to_thread(wait_for, lambda: takes_nothing_more(service))
            finally:
                thaw(own_kafka.pid)
            await asyncio.wait_for(asyncio.gather(*publishers), 100)
        assert await asyncio.to_thread(service.process.wait, 60) == 0
        # ... so all that Kafka has was answered.
        assert refused == 20
        ends = await asyncio.to_thread(end_offsets, own_kafka.bootstrap)
        assert len(acknowledged) == len(set(acknowledged)) == ends
    finally:
        await asyncio.to_thread(context.__exit__, None, None, None)


def takes_nothing_more(service: Running) -> bool:
    return service.get("/healthz")[0] == 0


def end_offsets(kafka: str) -> int:
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "test", "enable.auto.commit": False})
    try:
        partitions = consumer.list_topics(TOPICS.objects, timeout=60).topics[TOPICS.objects].partitions
        return sum(consumer.get_watermark_offsets(TopicPartition(TOPICS.objects, p), timeout=60)[1] for p in partitions)
    finally:
        consumer.close()


@pytest.mark.kafka
@pytest.mark.own_broker("suspends Kafka")
def test_while_kafka_stands_still_publishers_are_told_that_the_outcome_is_unknown(own_kafka: EmbeddedBroker) -> None:
    with http_service(own_kafka.bootstrap, http_publish_timeout_s=2) as service:
        wait_for(lambda: service.post("/v1/domains/d/groups/g/objects/o")[0] == 200)
        freeze(own_kafka.pid)
        try:
            status, answer = service.post("/v1/domains/d/groups/g/objects/o", {"version": 1})
            assert status == 503
            assert answer["outcome"] == "unknown: it may be published"
            wait_for(lambda: service.get("/readyz")[0] == 503)
            assert service.get("/healthz")[0] == 200
        finally:
            thaw(own_kafka.pid)
        wait_for(lambda: service.get("/readyz")[0] == 200)
        wait_for(lambda: service.post("/v1/domains/d/groups/g/objects/o")[0] == 200)


def test_without_kafka_it_starts_says_why_it_is_not_ready_and_stops() -> None:
    with http_service("127.0.0.1:1", http_publish_timeout_s=0.5) as service:
        wait_for(lambda: "coldnotify.objects" in service.get("/readyz")[1])
        status, answer = service.post("/v1/domains/d/groups/g/objects/o")
        assert (status, answer["outcome"]) == (503, "not published")
        foreign = Request(f"{service.url}/v1/domains/d/groups/g/objects/o", b"{}", {"Origin": "https://evil.example"})
        assert fetch(foreign).status == 403
        service.process.send_signal(signal.SIGINT)
        assert service.process.wait(60) == 0


def test_a_port_in_use_is_one_clear_line(tmp_path: Path) -> None:
    with http_service("127.0.0.1:1") as service:
        port = service.http_port
        with Running("127.0.0.1:1", tmp_path / "log", http_port=port) as second:
            assert second.process.wait(100) == 1
            events = [json.loads(line)["event"] for line in second.output.splitlines()]  # no traceback: each is JSON
    assert (
        events[-1] == f"COLDNOTIFY_HTTP_PORT / --http-port: cannot listen on 127.0.0.1:{port}: Address already in use"
    )
