"""One trace from the publisher to the gateway's delivery, with everything real and a collector that is played."""

import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from coldnotify_schemas.partitioner import partition_of
from coldnotify_testkit.stack import Recorder, Stacks, Up, notify
from coldnotify_testkit.waiting import WAIT_S, wait_for
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

DOMAIN, GROUP = "animal.observer", "traced"
ABOVE = "b7ad6b7169203331"
"""The publisher's own span."""
_TRIES = 3


class Collector:
    """Takes spans by OTLP over HTTP, on a port of its own."""

    def __init__(self) -> None:
        spans = self.spans = list[tuple[str, Span]]()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                    about = {one.key: one.value.string_value for one in resource.resource.attributes}
                    for scope in resource.scope_spans:
                        spans.extend((about["service.name"], span) for span in scope.spans)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def steps(self, trace: int) -> list[tuple[str, str, bytes, bytes]]:
        """(service, name, span id, id of the one above) of a trace, in the order in which they began."""
        spans = [(service, one) for service, one in list(self.spans) if one.trace_id == bytes.fromhex(f"{trace:032x}")]
        spans.sort(key=lambda one: one[1].start_time_unix_nano)
        return [(service, one.name, one.span_id, one.parent_span_id) for service, one in spans]

    def has(self, trace: int, count: int) -> bool:
        """Whether so many steps of it are there."""
        return len(self.steps(trace)) >= count

    def close(self) -> None:
        """Takes nothing more."""
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    one = Collector()
    monkeypatch.setenv("COLDNOTIFY_TRACE_ENDPOINT", one.url)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
    yield one
    one.close()


def traceparent(trace: int, *, sampled: bool = True) -> str:
    return f"00-{trace:032x}-{ABOVE}-{int(sampled):02}"


def post(up: Up, version: int, header: str) -> None:
    url = f"{up.http_url}/v1/domains/{DOMAIN}/groups/{GROUP}/objects/camera"
    request = urllib.request.Request(url, f'{{"version": {version}}}'.encode(), {"traceparent": header})
    with urllib.request.urlopen(request, timeout=WAIT_S):
        pass


def produce_into_a_wrong_partition(up: Up, version: int, header: str) -> None:
    topic = up.topics.objects
    count = len(AdminClient({"bootstrap.servers": up.kafka}).list_topics(topic, WAIT_S).topics[topic].partitions)
    producer = Producer({"bootstrap.servers": up.kafka})
    producer.produce(
        topic,
        key=f"{DOMAIN}/{GROUP}/camera",
        value=f'{{"version": {version}}}',
        partition=(partition_of(DOMAIN, GROUP, count) + 1) % count,
        headers={"traceparent": header},
    )
    assert producer.flush(WAIT_S) == 0


def traced(
    collector: Collector, first: int, count: int, publish: Callable[[int, str], object]
) -> list[tuple[str, str, bytes, bytes]]:
    """The steps of a publish whose version is its trace's number.

    Tried again: a client that has to be caught up meanwhile is told by a page, which belongs to no trace.
    """
    for version in range(first, first + _TRIES):
        publish(version, traceparent(version))
        with suppress(AssertionError):
            wait_for(partial(collector.has, version, count), "its trace", WAIT_S / _TRIES)
            return collector.steps(version)
    raise AssertionError(f"no trace of {count} steps: {[collector.steps(first + i) for i in range(_TRIES)]}")


def test_a_publish_is_one_trace_from_the_publisher_to_the_delivery(
    stacks: Stacks, collector: Collector, tmp_path: Path
) -> None:
    with stacks.running(tmp_path) as up:
        told = Recorder()
        client = notify(up, "oslo", tmp_path / "oslo", group=GROUP)
        client.register("camera").subscribe(told)
        client.connect()
        client.wait_caught_up(timeout_s=WAIT_S)
        try:
            post(up, 1, traceparent(1, sampled=False))
            post(up, 2, "no trace context")

            steps = traced(collector, 3, 3, lambda version, header: post(up, version, header))
            assert [step[:2] for step in steps] == [
                ("coldnotify-http", "publish"),
                ("coldnotify-matcher", "match"),
                ("coldnotify-gateway", "deliver"),
            ]
            assert [above for *_, above in steps] == [bytes.fromhex(ABOVE), steps[0][2], steps[1][2]]

            with up.publisher() as publisher:
                steps = traced(
                    collector,
                    10,
                    2,
                    lambda version, header: publisher.publish(
                        DOMAIN, GROUP, "camera", version=version, traceparent=header
                    ),
                )
            assert [(name, above) for _, name, _, above in steps] == [
                ("match", bytes.fromhex(ABOVE)),
                ("deliver", steps[0][2]),
            ]

            steps = traced(collector, 20, 3, lambda *publish: produce_into_a_wrong_partition(up, *publish))
            assert [name for _, name, _, _ in steps] == ["match", "match", "deliver"]

            assert collector.steps(1) == [], "it was not sampled"
            wait_for(told.reaches("camera", 20), "all the same, the client was told")
        finally:
            client.disconnect()
