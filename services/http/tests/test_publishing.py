"""The endpoints over real HTTP, with a publisher that does what the test says.

Stands for: request_parts, write_answers
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from coldnotify.publisher import Newest, Outcome, Published, PublishError, PublishTimeout
from coldnotify_common.http.web import json_errors
from coldnotify_http.bodies import Named
from coldnotify_http.metrics import Metrics
from coldnotify_http.publishing import PublishEndpoints
from coldnotify_http.settings import HttpSettings
from prometheus_client import CollectorRegistry

SETTINGS = HttpSettings(http_publishes_max=1000, http_body_timeout_s=0.5, http_body_bytes_max=100_000)
OBJECTS = "/v1/domains/d/groups/g/objects"


class FakePublisher:
    def __init__(self) -> None:
        self.seen: list[tuple[str, str, Sequence[Named]]] = []
        self.traceparents: list[str | None] = []
        self.failures: dict[str, PublishError] = {}
        self.called = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def publish_records_async(
        self, domain: str, group_id: str, records: Sequence[Named], *, traceparent: str | None = None
    ) -> list[Published | PublishError]:
        self.traceparents.append(traceparent)
        self.seen.append((domain, group_id, records))
        self.called.set()
        await self.go_on.wait()
        return [self.failures.get(name) or Published(r.version or 7, 3, 40 + i) for i, (name, r) in enumerate(records)]


class FakeOutcomes:
    def __init__(self) -> None:
        self.answers: dict[str, Outcome] = {}
        self.items: list[Mapping[str, Any] | str] = []
        self.asked: list[tuple[str, str, list[tuple[str, int]]]] = []

    async def of(self, domain: str, group: str, published: Sequence[tuple[Named, Published]]) -> list[Outcome]:
        self.asked.append((domain, group, [(name, one.offset) for (name, _), one in published]))
        return [self.answers.get(name, Outcome("published")) for (name, _), _ in published]

    async def decided(self, domain: str, group: str, published: Published, id_: str | None) -> Mapping[str, Any] | str:
        self.asked.append((domain, group, [("", published.offset)]))
        return self.items.pop(0)


class Service:
    def __init__(
        self,
        publisher: FakePublisher,
        outcomes: FakeOutcomes,
        registry: CollectorRegistry,
        url: str,
        client: ClientSession,
    ) -> None:
        self.publisher, self.outcomes, self.registry, self.url = publisher, outcomes, registry, url
        self.client = client

    async def post(self, path: str, data: Any = None, **headers: str) -> tuple[int, Any]:
        async with self.client.post(self.url + path, data=data, headers=headers) as response:
            return response.status, await response.json()

    def metric(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    publisher, outcomes, registry = FakePublisher(), FakeOutcomes(), CollectorRegistry()
    app = web.Application(middlewares=[json_errors], client_max_size=SETTINGS.http_body_bytes_max)
    app.add_routes(PublishEndpoints(publisher, SETTINGS, Metrics(registry), outcomes).routes())
    async with TestServer(app) as server, ClientSession() as client:
        yield Service(publisher, outcomes, registry, f"http://{server.host}:{server.port}", client)


async def test_one_object_is_answered_with_what_kafka_said(service: Service) -> None:
    about: dict[str, object] = {"domain": "d", "group": "g", "partition": 3, "offset": 40, "outcome": "published"}
    assert await service.post(OBJECTS + "/cams/north", b'{"version": 42}') == (
        200,
        {**about, "object": "cams/north", "version": 42},
    )
    assert await service.post(OBJECTS + "/o") == (200, {**about, "object": "o", "version": 7})
    assert service.outcomes.asked == [("d", "g", [("cams/north", 40)]), ("d", "g", [("o", 40)])]
    assert service.metric("coldnotify_http_publishes_total", outcome="acknowledged") == 2
    assert service.metric("coldnotify_http_publish_seconds_count") == 2
    assert service.metric("coldnotify_http_publishes_under_way") == 0


async def test_the_outcome_is_returned_and_never_fails_an_acknowledged_publish(service: Service) -> None:
    service.outcomes.answers = {
        "published": Outcome("published", Newest(7)),
        "repeated": Outcome("repeated", Newest(7)),
        "altered": Outcome("altered", Newest(7, 0, 1000)),
        "stale": Outcome("stale", Newest(1 << 62, 3, 2000)),
        "rejected": Outcome("rejected", None, "record: is null"),
        "unknown": Outcome.unknown("matcher h:1: no answer within 2 s"),
    }
    more: dict[str, dict[str, object]] = {
        "altered": {"newest": {"version": 7, "published_ms": 1000}},
        "stale": {"newest": {"version": 1 << 62, "version_text": str(1 << 62), "incarnation": 3, "published_ms": 2000}},
        "rejected": {"reason": "record: is null"},
        "unknown": {"reason": "matcher h:1: no answer within 2 s"},
    }
    for name in service.outcomes.answers:
        status, answer = await service.post(f"{OBJECTS}/{name}")
        said = {key: value for key, value in answer.items() if key in ("outcome", "newest", "reason")}
        assert (status, said) == (200, {"outcome": name, **more.get(name, {})})
        assert service.metric("coldnotify_http_outcome_seconds_count", outcome=name) == 1


async def test_waiting_for_the_outcome_can_be_declined_and_is_optional_for_batches(service: Service) -> None:
    service.outcomes.answers = {"b": Outcome("stale", Newest(9))}
    service.publisher.failures = {"bad": PublishError("refused", indeterminate=False)}
    status, answer = await service.post(OBJECTS + "/b?outcome=no")
    assert (status, "outcome" in answer, service.outcomes.asked) == (200, False, [])
    assert (await service.post(OBJECTS + "/bad?outcome=yes"))[1]["outcome"] == "not published"
    assert service.outcomes.asked == []
    _, answer = await service.post(OBJECTS + "?outcome=yes", b'{"objects": {"a": {}, "bad": {}, "b": {}}}')
    assert [result["outcome"] for result in answer["results"]] == ["published", "not published", "stale"]
    assert service.outcomes.asked == [("d", "g", [("a", 40), ("b", 42)])]
    for path in (OBJECTS, OBJECTS + "/o"):
        status, answer = await service.post(path + "?outcome=maybe", b"[]")
        assert (status, answer["field"]) == (400, "outcome")


async def test_the_trace_context_goes_with_the_record_and_a_bad_one_harms_nothing(service: Service) -> None:
    good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    for given in (good, good + "-x", ""):
        assert (await service.post(OBJECTS + "/o", traceparent=given))[0] == 200
    assert (await service.post(OBJECTS, b'{"objects": {"o": {}}}', traceparent=good))[0] == 200
    assert service.publisher.traceparents == [good, None, None, good]


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        (OBJECTS + "/o", b'{"version": -1}', "version"),
        (OBJECTS + "/", b"{}", "object"),
        ("/v1/domains/a%20b/groups/g/objects/o", b"{}", "domain"),
        ("/v1/domains/d/groups/a%2Fb/objects/o", b"{}", "group"),
        (OBJECTS, b"[5]", "objects"),
    ],
)
async def test_a_bad_request_names_the_field_and_sends_nothing(
    service: Service, path: str, body: bytes, field: str
) -> None:
    status, answer = await service.post(path, body)
    assert (status, answer["field"]) == (400, field)
    assert answer["error"].startswith(f"{field}: ")
    assert service.publisher.seen == []
    assert service.metric("coldnotify_http_bad_requests_total") == 1


async def test_many_are_answered_one_by_one(service: Service) -> None:
    assert await service.post(OBJECTS, b'{"objects": {"a": {"version": 1}, "b": {}}}') == (
        200,
        {
            "domain": "d",
            "group": "g",
            "results": [
                {"object": "a", "version": 1, "partition": 3, "offset": 40},
                {"object": "b", "version": 7, "partition": 3, "offset": 41},
            ],
        },
    )


async def test_one_bad_among_many_is_named_and_none_is_sent(service: Service) -> None:
    status, answer = await service.post(OBJECTS, b'{"objects": {"a": {"version": 1}, "b": {"version": -1}}}')
    assert (status, answer["object"], answer["field"]) == (400, "b", "version")
    assert answer["error"].startswith("b: version: ")
    assert service.publisher.seen == []


async def test_an_unacknowledged_publish_is_503_with_what_is_known(service: Service) -> None:
    service.publisher.failures = {
        "slow": PublishTimeout("no answer", indeterminate=True),
        "bad": PublishError("refused", indeterminate=False),
    }
    status, answer = await service.post(OBJECTS + "/slow")
    assert (status, answer["error"], answer["outcome"]) == (503, "no answer", "unknown: it may be published")
    status, answer = await service.post(OBJECTS + "/bad")
    assert (status, answer["outcome"]) == (503, "not published")
    status, answer = await service.post(OBJECTS, b'{"objects": {"slow": {}, "good": {}}}')
    assert status == 503
    assert answer["error"].startswith("1 of 2 ")
    assert [result.get("version") for result in answer["results"]] == [None, 7]
    assert service.metric("coldnotify_http_publishes_total", outcome="indeterminate") == 2
    assert service.metric("coldnotify_http_publishes_total", outcome="refused") == 1


async def test_a_body_that_is_too_large_is_413(service: Service) -> None:
    status, answer = await service.post(OBJECTS + "/o", b'{"payload": "' + b"x" * SETTINGS.http_body_bytes_max + b'"}')
    assert status == 413
    assert str(SETTINGS.http_body_bytes_max) in answer["error"]
    assert service.publisher.seen == []


async def test_a_body_that_does_not_come_is_408(service: Service) -> None:
    async def slowly() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(60)

    status, answer = await asyncio.wait_for(service.post(OBJECTS + "/o", slowly()), 50)
    assert status == 408
    assert "nothing was done" in answer["error"]


async def test_beyond_the_limit_publishers_are_told_to_come_back(service: Service) -> None:
    service.publisher.go_on.clear()
    first = asyncio.ensure_future(service.post(OBJECTS, b'{"objects": {"a": {}, "b": {}}}'))
    await service.publisher.called.wait()
    assert service.metric("coldnotify_http_publishes_under_way") == 2
    body = b"[" + b",".join(b'{"object":"o"}' for _ in range(999)) + b"]"
    async with service.client.post(service.url + OBJECTS, data=body) as response:
        assert response.status == 503
        assert int(response.headers["Retry-After"]) >= 1
        assert (await response.json())["outcome"] == "not published"
    service.publisher.go_on.set()
    assert (await first)[0] == 200
    assert (await service.post(OBJECTS, body))[0] == 200


async def test_other_methods_and_paths_are_refused_in_json(service: Service) -> None:
    async with service.client.get(service.url + OBJECTS + "/o") as response:
        assert response.status == 405
        assert response.headers["Allow"] == "POST"
        assert "error" in await response.json()
    assert (await service.post("/v2"))[0] == 404


async def test_a_version_by_a_clock_that_was_wrong_is_refused_with_the_time_here(service: Service) -> None:
    now_ms = time.time_ns() // 1_000_000
    for path, body in ((f"{OBJECTS}/o", b"{}"), (OBJECTS, b'{"objects":{"o":{}}}')):
        for clock_ms in (now_ms + 2 * 3_600_000, 5):
            status, answer = await service.post(f"{path}?clock_ms={clock_ms}", body)
            assert (status, answer["field"]) == (400, "clock_ms")
            assert now_ms <= answer["clock_ms"] <= now_ms + 3_600_000
        assert (await service.post(f"{path}?clock_ms=soon", body))[1]["field"] == "clock_ms"
        assert service.publisher.seen == []
        assert (await service.post(f"{path}?clock_ms={now_ms}", body))[0] == 200
        service.publisher.seen.clear()


async def test_a_publish_with_a_condition_is_answered_once_that_is_decided(service: Service) -> None:
    service.outcomes.items = [
        {"outcome": "published", "object": "o", "newest": {"version": 6}},
        {"outcome": "refused", "object": "o", "reason": "if_version: another", "newest": {"version": 7}},
    ]
    status, answer = await service.post(OBJECTS + "/o", b'{"if_version": 5}')
    assert (status, answer["version"], answer["offset"]) == (200, 6, 40)
    status, answer = await service.post(OBJECTS + "/o", b"", **{"If-Match": '"5"'})
    assert (status, answer["outcome"], answer["newest"]) == (409, "refused", {"version": 7})
    for outcome in ("published", "refused"):
        assert service.metric("coldnotify_http_outcome_seconds_count", outcome=outcome) == 1
    status, answer = await service.post(OBJECTS + "/o?outcome=no", b'{"if_version": 5}')
    assert (status, answer["field"]) == (400, "outcome")
    assert (await service.post(OBJECTS, b'{"objects": {"o": {"if_version": 5}}}'))[0] == 400
    assert len(service.publisher.seen) == 2
