"""The HTTP APIs: each route of each port is described, what is described is there, and the page of it is generated."""

import asyncio
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from aiohttp import web
from coldnotify_common.http.about import about
from coldnotify_common.http.admin import standard_routes
from coldnotify_common.http.openapi import PATH, PORTS, document, route
from coldnotify_common.http.process_facts import ProcessFacts
from coldnotify_gateway.listeners.web.web_site import WebSite
from coldnotify_gateway.session_endpoints import routes as gateway_routes
from coldnotify_gateway.settings import GatewaySettings
from coldnotify_http.app import HttpService
from coldnotify_http.metrics import Metrics
from coldnotify_http.settings import HttpSettings
from coldnotify_matcher.app import _routes as matcher_routes
from coldnotify_matcher.settings import MatcherSettings
from prometheus_client import CollectorRegistry

ROOT = Path(__file__).parents[2]
_PLAIN = {"text/plain", "text/html", "text/css", "text/javascript", "text/event-stream"}

Routes = list[web.AbstractRouteDef]


def _of_http() -> Routes:
    async def routes() -> Routes:
        service = HttpService(HttpSettings(), CollectorRegistry())
        try:
            return service.routes(MagicMock(), Metrics(CollectorRegistry()))
        finally:
            service._overview.stop()
            service._passing_on.stop()
            await service._passing_on.close()

    return asyncio.run(routes())


def _of_devices() -> Routes:
    site = WebSite.__new__(WebSite)
    site._settings, site._shell = GatewaySettings(), MagicMock()
    return site.routes()


def _of_service(more: Iterable[web.AbstractRouteDef] = ()) -> Routes:
    return [*standard_routes(lambda: None), ProcessFacts(lambda: None).route(), *more]


ROUTES: dict[str, Callable[[], Routes]] = {
    "http": _of_http,
    "devices": _of_devices,
    "matcher": lambda: _of_service(matcher_routes(MagicMock(), MatcherSettings())),
    "gateway": lambda: _of_service(gateway_routes(MagicMock())),
    "service": _of_service,
}


def answered(kind: str) -> set[tuple[str, str]]:
    """Method and path of all that a port of this kind has a route for."""
    routes = ROUTES[kind]()
    added = [*routes, route(kind, kind, routes), about(kind, routes)]
    return {
        (one.method.lower(), re.sub(r"\{(\w+):[^}]*\}", r"{\1}", one.path))
        for one in added
        if isinstance(one, web.RouteDef)
    }


def operations(kind: str) -> dict[tuple[str, str], dict[str, Any]]:
    """What is described of such a port."""
    return {
        (method, path): operation
        for path, methods in document(kind, kind)["paths"].items()
        for method, operation in methods.items()
    }


def test_every_kind_of_port_is_looked_at() -> None:
    assert set(ROUTES) == set(PORTS)


@pytest.mark.parametrize("kind", PORTS)
def test_every_route_is_described(kind: str) -> None:
    assert answered(kind) - set(operations(kind)) == set(), "services/common/coldnotify_common/api/"


@pytest.mark.parametrize("kind", PORTS)
def test_everything_that_is_described_is_there(kind: str) -> None:
    assert set(operations(kind)) - answered(kind) == set(), "services/common/coldnotify_common/api/"


@pytest.mark.parametrize("kind", PORTS)
def test_a_port_describes_the_same_as_its_kind(kind: str) -> None:
    asked = frozenset((method.upper(), path) for method, path in answered(kind))
    assert document(kind, kind, asked) == document(kind, kind)


@pytest.mark.parametrize("kind", PORTS)
def test_operations_have_ids_of_their_own(kind: str) -> None:
    ids = [operation["operationId"] for operation in operations(kind).values()]
    assert sorted(set(ids)) == sorted(ids)


@pytest.mark.parametrize("kind", PORTS)
def test_every_parameter_of_a_path_is_described_and_every_other_has_words(kind: str) -> None:
    said = document(kind, kind)
    for (method, path), operation in operations(kind).items():
        found = [
            said["components"]["parameters"][one["$ref"].rpartition("/")[2]] if "$ref" in one else one
            for one in operation["parameters"]
        ]
        assert {one["name"] for one in found if one["in"] == "path"} == set(re.findall(r"\{(\w+)\}", path))
        assert all(one["description"].endswith((".", ":")) for one in found), (method, path)


@pytest.mark.parametrize("kind", PORTS)
def test_every_error_has_a_body_that_says_what_is_wrong(kind: str) -> None:
    components = document(kind, kind)["components"]
    for asked, operation in operations(kind).items():
        for status, one in operation["responses"].items():
            answer = components["responses"][one["$ref"].rpartition("/")[2]] if "$ref" in one else one
            if int(status) < 400 or set(answer.get("content", {})) & _PLAIN:
                continue
            name = answer["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
            assert "error" in components["schemas"][name]["required"], (asked, status)


@pytest.mark.parametrize("kind", PORTS)
def test_what_takes_a_name_says_that_it_may_be_wrong(kind: str) -> None:
    silent = [
        asked
        for asked, operation in operations(kind).items()
        if (operation["parameters"] or "requestBody" in operation) and "400" not in operation["responses"]
    ]
    assert silent == []


@pytest.mark.parametrize("kind", PORTS)
def test_what_has_a_body_says_that_it_may_be_too_slow_and_too_large(kind: str) -> None:
    for asked, operation in operations(kind).items():
        if "requestBody" in operation:
            assert {"408", "413"} <= operation["responses"].keys(), asked


def test_the_page_names_every_path_and_no_other() -> None:
    page = (ROOT / "docs" / "http-api.md").read_text(encoding="utf-8")
    paths = {path for kind in PORTS for _, path in operations(kind) if not path.startswith("/console/")}
    assert set(re.findall(r"`(?:[A-Z]+ )?(/[^`? ]*)`", page)) - {"/", "/console/"} == paths - {"/"}


def test_the_document_does_not_describe_itself_by_a_path_of_its_own() -> None:
    assert all(PATH in document(kind, kind)["paths"] for kind in PORTS)
