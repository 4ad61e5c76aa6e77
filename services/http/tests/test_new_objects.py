"""Publishes of new objects while a tenant has as many as were agreed: a played matcher is asked over a real port."""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from coldnotify.publisher import Outcome, Published
from coldnotify_common.http.web import json_errors
from coldnotify_common.tenancy.gate import GateRefused
from coldnotify_http.bodies import Named
from coldnotify_http.metrics import Metrics
from coldnotify_http.new_objects import NewObjects
from coldnotify_http.node_client import NodeClient
from coldnotify_http.publishing import PublishEndpoints
from coldnotify_http.settings import HttpSettings
from prometheus_client import CollectorRegistry

OBJECTS = "/v1/domains/d/groups/g/objects"
FULL = GateRefused("acme", "objects_max", 2, 2, 10.0)


class Tenants:
    def __init__(self) -> None:
        self.full: GateRefused | None = None
        self.refused = 0

    def full_of_objects(self, domain: str) -> GateRefused | None:
        assert domain == "d"
        return self.full

    def refuse_objects(self, refused: GateRefused, publishes: int) -> None:
        assert refused == self.full
        self.refused += publishes


class Matcher:
    """Knows two objects."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.status = 200

    async def missing(self, request: web.Request) -> web.Response:
        names = (await request.json())["objects"]
        self.asked.append(names)
        if self.status != 200:
            return web.json_response({"error": "because"}, status=self.status)
        return web.json_response({"missing": [name for name in names if name not in ("a", "b")]})


class NoKafka:
    def __init__(self) -> None:
        self.published: list[str] = []

    async def publish_records_async(
        self, domain: str, group_id: str, records: Sequence[Named], *, traceparent: str | None = None
    ) -> list[Published]:
        self.published += [name for name, _ in records]
        return [Published(1, 0, 0) for _ in records]

    async def of(self, domain: str, group: str, published: Sequence[tuple[Named, Published]]) -> list[Outcome]:
        return [Outcome("published") for _ in published]

    async def decided(self, domain: str, group: str, published: Published, id_: str | None) -> str:
        return "nobody is asked"


class Service:
    def __init__(self, url: str, client: ClientSession, registry: CollectorRegistry) -> None:
        self._url, self._client, self.registry = url, client, registry
        self.tenants, self.kafka, self.matcher = Tenants(), NoKafka(), Matcher()

    async def post(self, path: str, body: object) -> tuple[int, Any, str | None]:
        async with self._client.post(self._url + path, data=json.dumps(body)) as response:
            return response.status, await response.json(), response.headers.get("Retry-After")


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    registry = CollectorRegistry()
    played, app = web.Application(), web.Application(middlewares=[json_errors])
    async with ClientSession() as client:
        made = Service("", client, registry)
        played.add_routes([web.post("/v1/domains/d/groups/g/missing", made.matcher.missing)])
        async with TestServer(played) as matcher:
            settings, metrics = HttpSettings(matcher=f"127.0.0.1:{matcher.port}"), Metrics(registry)
            asking = NodeClient(settings)
            new = NewObjects(made.tenants, asking, metrics)
            app.add_routes(PublishEndpoints(made.kafka, settings, metrics, made.kafka, new_objects=new).routes())
            async with TestServer(app) as server:
                made._url = f"http://{server.host}:{server.port}"
                yield made
            await asking.close()


async def test_a_tenant_below_its_limit_is_not_asked_about(service: Service) -> None:
    assert (await service.post(f"{OBJECTS}/new", {}))[0] == 200
    assert service.matcher.asked == []


async def test_a_new_object_is_refused_and_one_that_is_there_is_not(service: Service) -> None:
    service.tenants.full = FULL
    assert (await service.post(f"{OBJECTS}/a", {}))[0] == 200
    status, answer, retry_after = await service.post(f"{OBJECTS}/new", {})
    assert (status, retry_after) == (429, "10")
    assert answer == {
        "error": "tenant acme is above its agreement: objects_max is 2; there are 2, and object new is none of them",
        "outcome": "not published",
        "tenant": "acme",
        "limit": "objects_max",
        "allowed": 2,
        "measured": 2,
        "retry_after_s": 10.0,
    }
    assert (await service.post(f"{OBJECTS}/new", {"deleted": True}))[0] == 200, "that is no object more"
    assert service.matcher.asked == [["a"], ["new"]]
    assert (service.kafka.published, service.tenants.refused) == (["a", "new"], 1)
    sample = service.registry.get_sample_value("coldnotify_http_publishes_total", {"outcome": "above_agreement"})
    assert sample == 1


async def test_a_batch_of_new_objects_is_refused_as_a_whole(service: Service) -> None:
    service.tenants.full = FULL
    assert (await service.post(OBJECTS, {"objects": {"a": {}, "b": {}}}))[0] == 200
    status, answer, _ = await service.post(OBJECTS, {"objects": {"a": {}, "new": {}, "b": {}}})
    assert (status, answer["limit"]) == (429, "objects_max")
    assert (service.kafka.published, service.tenants.refused) == (["a", "b"], 3)
    assert service.matcher.asked == [["a", "b"], ["a", "b", "new"]]


@pytest.mark.parametrize("status", [503, 404, 400])
async def test_a_new_object_is_accepted_if_no_matcher_can_tell(service: Service, status: int) -> None:
    """404: a matcher of an earlier release."""
    service.tenants.full, service.matcher.status = FULL, status
    assert (await service.post(f"{OBJECTS}/new", {}))[0] == 200
    assert service.kafka.published == ["new"]


async def test_invalid_bodies_are_refused_before_limits_are_checked(service: Service) -> None:
    service.tenants.full = FULL
    assert (await service.post(f"{OBJECTS}/new", {"verson": 1}))[0] == 400
    assert service.matcher.asked == []
