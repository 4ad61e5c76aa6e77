"""What a publisher above its tenant's agreement is told, over real HTTP."""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from coldnotify.publisher import Outcome, Published
from coldnotify_common.http.web import json_errors
from coldnotify_common.tenancy.gate import Admitted, GateRefused
from coldnotify_http.bodies import Named
from coldnotify_http.describing import DescribingEndpoints
from coldnotify_http.metrics import Metrics
from coldnotify_http.node_client import NodeClient
from coldnotify_http.publishing import PublishEndpoints
from coldnotify_http.refusals import refusal
from coldnotify_http.request_parts import Bodies
from coldnotify_http.settings import HttpSettings
from prometheus_client import CollectorRegistry

REFUSED = GateRefused("acme", "in_per_s", 10.0, 41.23456, 1.20001)
OBJECTS = "/v1/domains/d/groups/g/objects"


class Tenants:
    def __init__(self) -> None:
        self.asked: list[tuple[str, int, int]] = []
        self.refuses = False

    def admit(self, domain: str, publishes: int, size_bytes: int) -> Admitted | GateRefused:
        self.asked.append((domain, publishes, size_bytes))
        return REFUSED if self.refuses else Admitted("acme")


class NoKafka:
    def __init__(self) -> None:
        self.published = 0

    async def publish_records_async(
        self, domain: str, group_id: str, records: Sequence[Named], *, traceparent: str | None = None
    ) -> list[Published]:
        self.published += len(records)
        return [Published(1, 0, 0) for _ in records]

    async def of(self, domain: str, group: str, published: Sequence[tuple[Named, Published]]) -> list[Outcome]:
        return [Outcome("published") for _ in published]

    async def decided(self, domain: str, group: str, published: Published, id_: str | None) -> str:
        return "nobody is asked"


class Service:
    def __init__(self, url: str, client: ClientSession, tenants: Tenants, kafka: NoKafka, registry: CollectorRegistry):
        self._url, self._client = url, client
        self.tenants, self.kafka, self.registry = tenants, kafka, registry

    async def ask(self, method: str, path: str, body: object) -> tuple[int, Any, str | None]:
        async with self._client.request(method, self._url + path, data=json.dumps(body)) as response:
            return response.status, await response.json(), response.headers.get("Retry-After")


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    tenants, kafka, registry, settings = Tenants(), NoKafka(), CollectorRegistry(), HttpSettings(matcher="127.0.0.1:1")
    metrics, asking = Metrics(registry), NodeClient(settings)
    app = web.Application(middlewares=[json_errors])
    app.add_routes(PublishEndpoints(kafka, settings, metrics, kafka, admission=tenants).routes())
    app.add_routes(DescribingEndpoints(asking, asking, metrics, Bodies(settings), tenants).routes())
    async with TestServer(app) as server, ClientSession() as client:
        yield Service(f"http://{server.host}:{server.port}", client, tenants, kafka, registry)
    await asking.close()


async def test_a_refusal_says_everything(service: Service) -> None:
    service.tenants.refuses = True
    status, answer, retry_after = await service.ask("POST", f"{OBJECTS}/o", {"version": 1})
    assert (status, retry_after) == (429, "2")
    assert answer == {
        "error": "tenant acme is above its agreement: in_per_s is 10; 41.2 were asked for",
        "outcome": "not published",
        "tenant": "acme",
        "limit": "in_per_s",
        "allowed": 10.0,
        "measured": 41.235,
        "retry_after_s": 1.201,
    }
    status, answer, _ = await service.ask("POST", OBJECTS, {"objects": {"a": {}, "b": {}}})
    assert (status, answer["limit"]) == (429, "in_per_s")
    assert service.kafka.published == 0
    assert service.registry.get_sample_value("coldnotify_http_publishes_total", {"outcome": "above_agreement"}) == 3


@pytest.mark.parametrize(("method", "body"), [("PUT", {"a": 1}), ("PATCH", {"a": 1}), ("DELETE", None)])
async def test_a_description_is_a_publish_too(service: Service, method: str, body: object) -> None:
    service.tenants.refuses = True
    status, answer, retry_after = await service.ask(method, f"{OBJECTS}/o/description", body)
    assert (status, retry_after, answer["outcome"], answer["tenant"]) == (429, "2", "not written", "acme")
    labels = {"change": "description", "outcome": "above_agreement"}
    assert service.registry.get_sample_value("coldnotify_http_changes_total", labels) == 1
    assert service.tenants.asked[0][:2] == ("d", 1)


async def test_a_tenant_is_asked_for_as_much_as_stands_in_kafka(service: Service) -> None:
    assert (await service.ask("POST", f"{OBJECTS}/oo", {"version": 1}))[0] == 200
    assert (await service.ask("POST", OBJECTS, {"objects": {"a": {}, "b": {}}}))[0] == 200
    one, many = len('{"version": 1}') + len("d/g/oo"), len('{"objects": {"a": {}, "b": {}}}') + 2 * len("d/g/")
    assert service.tenants.asked == [("d", 1, one), ("d", 2, many)]


async def test_invalid_requests_cost_nothing(service: Service) -> None:
    assert (await service.ask("POST", f"{OBJECTS}/o", {"verson": 1}))[0] == 400
    assert (await service.ask("PUT", f"{OBJECTS}/o/description", {"a b": 1}))[0] == 400
    assert service.tenants.asked == []


def test_one_second_is_the_least_that_the_header_says() -> None:
    response = refusal(REFUSED._replace(retry_after_s=0.0001))
    assert response.headers["Retry-After"] == "1"
    assert json.loads(response.text or "")["retry_after_s"] == 0.001
