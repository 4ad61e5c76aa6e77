"""Tenants over HTTP: who may see and set what. With a real Kafka it is in tests/integration/test_tenants.py."""

import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from coldnotify_common.http.web import Handler, json_errors
from coldnotify_common.http.web_auth import IDENTITY
from coldnotify_common.security.identity import Identity
from coldnotify_common.settings import ServiceSettings
from coldnotify_common.tenancy.tenancy import Tenancy
from coldnotify_http import tenant_endpoints
from coldnotify_http.request_parts import Bodies
from coldnotify_http.settings import HttpSettings
from coldnotify_http.tenant_endpoints import TenantEndpoints

OPERATOR = Identity("ada", publishes=("*",))
THEIRS = Identity("bob", publishes=("a.one",))
OTHERS = Identity("eve", publishes=("b",))


class Service:
    def __init__(self, url: str, client: ClientSession) -> None:
        self._url, self._client = url, client

    async def ask(self, method: str, path: str, who: Identity, body: object = None) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body)
        async with self._client.request(method, self._url + path, data=data, headers={"Who": who.name}) as response:
            return response.status, await response.json()


@pytest.fixture
def tenancy() -> Tenancy:
    tenancy = Tenancy(ServiceSettings(kafka="127.0.0.1:1"), "http")
    tenancy.on_tenant(b"acme", b'{"domains": ["a.one", "a.two"], "in_per_s": 5}')
    tenancy.on_tenant(b"held", b'{"domains": ["held"], "in_bytes_per_s": 5, "principal": "user-7"}')
    return tenancy


@pytest.fixture
async def service(tenancy: Tenancy, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Service]:
    monkeypatch.setattr(tenant_endpoints, "_KAFKA_S", 0.5)
    people = {one.name: one for one in (OPERATOR, THEIRS, OTHERS)}

    @web.middleware
    async def identified(request: web.Request, handler: Handler) -> web.StreamResponse:
        request[IDENTITY] = people[request.headers["Who"]]
        return await handler(request)

    app = web.Application(middlewares=[json_errors, identified])
    app.add_routes(TenantEndpoints(tenancy, ServiceSettings(kafka="127.0.0.1:1"), Bodies(HttpSettings())).routes())
    async with TestServer(app) as server, ClientSession() as client:
        yield Service(f"http://{server.host}:{server.port}", client)


@pytest.mark.parametrize("who", [THEIRS, OTHERS])
async def test_only_operators_list_and_set(service: Service, who: Identity) -> None:
    for method, path in (("GET", ""), ("PUT", "/acme"), ("DELETE", "/acme")):
        status, answer = await service.ask(method, f"/v1/tenants{path}", who, {})
        assert (status, answer["field"]) == (403, "tenant")
        assert "is no operator" in answer["error"]


async def test_a_tenant_is_shown_to_operators_and_to_its_own(service: Service) -> None:
    shown = {"tenant": "acme", "domains": ["a.one", "a.two"], "in_per_s": 5.0, "now": None}
    assert await service.ask("GET", "/v1/tenants/acme", OPERATOR) == (200, shown)
    assert await service.ask("GET", "/v1/tenants/acme", THEIRS) == (200, shown)
    unknown = await service.ask("GET", "/v1/tenants/nobody", OTHERS)
    others = await service.ask("GET", "/v1/tenants/acme", OTHERS)
    assert (others[0], unknown[0]) == (403, 403), "whether there is one is not told"
    assert (await service.ask("GET", "/v1/tenants/acme/usage", OTHERS))[0] == 403
    assert (await service.ask("GET", "/v1/tenants/nobody", OPERATOR))[0] == 404
    assert (await service.ask("GET", "/v1/tenants/a%20b", OPERATOR))[1]["field"] == "tenant"
    assert (await service.ask("GET", "/v1/tenants/default", OTHERS))[0] == 403
    assert (await service.ask("GET", "/v1/tenants/default", OPERATOR))[0] == 200


@pytest.mark.parametrize(
    ("name", "body", "status", "field"),
    [
        ("new", {"domains": ["a.one"]}, 409, "domains"),
        ("new", {"domains": ["c"], "in_per_s": -1}, 400, "in_per_s"),
        ("new", {"domains": ["c"], "in_per_sec": 1}, 400, "record"),
        ("new", {"domains": ["c"], "principal": "user-8"}, 400, "principal"),
        ("held", {"domains": ["held"], "principal": None}, 400, "principal"),
        ("new", [1], 400, "record"),
        ("a b", {"domains": ["c"]}, 400, "tenant"),
    ],
)
async def test_an_invalid_agreement_names_the_field(
    service: Service, name: str, body: object, status: int, field: str
) -> None:
    answer = await service.ask("PUT", f"/v1/tenants/{name}", OPERATOR, body)
    assert (answer[0], answer[1]["field"]) == (status, field)


async def test_without_kafka_it_is_said(service: Service) -> None:
    assert (await service.ask("PUT", "/v1/tenants/new", OPERATOR, {"domains": ["c"]}))[0] == 503
    assert (await service.ask("DELETE", "/v1/tenants/acme", OPERATOR))[0] == 503
    assert (await service.ask("GET", "/v1/tenants/acme/usage", OPERATOR))[0] == 503
    for last in ("0", "x", "100000"):
        assert (await service.ask("GET", f"/v1/tenants/acme/usage?last={last}", OPERATOR))[1]["error"].startswith(
            "last"
        )


async def test_a_tenant_with_a_quota_in_kafka_can_only_be_removed_by_the_command(service: Service) -> None:
    status, answer = await service.ask("DELETE", "/v1/tenants/held", OPERATOR)
    assert (status, answer["field"]) == (409, "principal")
    assert (await service.ask("DELETE", "/v1/tenants/nobody", OPERATOR))[0] == 404


async def test_present_usage_is_shown(service: Service, tenancy: Tenancy) -> None:
    verdict = {
        "at_ms": int(time.time() * 1000),
        "until_ms": 1,
        "per_s": {"publishes": 7.12345},
        "exceeded": ["in_per_s"],
    }
    tenancy.on_verdict(b"acme", json.dumps(verdict).encode())
    _, shown = await service.ask("GET", "/v1/tenants/acme", THEIRS)
    assert shown["now"]["per_s"]["publishes"] == 7.123
    assert shown["now"]["exceeded"] == ["in_per_s"]
