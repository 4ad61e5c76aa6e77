"""The short form in which HTTP APIs are described, and what ports answer at /v1/openapi.json."""

from typing import Any

import jsonschema_rs
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from coldnotify_common.http import openapi
from coldnotify_common.http.openapi import PATH, PORTS, document, route

META = {
    "type": "object",
    "required": ["openapi", "info", "paths", "components"],
    "properties": {
        "openapi": {"const": "3.1.0"},
        "info": {"type": "object", "required": ["title", "version"]},
        "paths": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "additionalProperties": {
                    "type": "object",
                    "required": ["operationId", "summary", "responses"],
                    "properties": {"responses": {"type": "object", "propertyNames": {"pattern": "^[1-5][0-9][0-9]$"}}},
                },
            },
        },
    },
}
"""What OpenAPI 3.1 wants of a document, as far as it can go wrong here."""


@pytest.mark.parametrize("kind", PORTS)
def test_a_document_is_one_of_openapi(kind: str) -> None:
    said = document("a port", kind)
    jsonschema_rs.validator_for(META).validate(said)
    for schema in said["components"]["schemas"].values():
        jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})


def test_only_what_the_port_has_is_described() -> None:
    said = document("a port", "matcher", frozenset({("GET", "/v1/partitions"), ("GET", "/x/{any:.+}")}))
    assert list(said["paths"]) == ["/v1/partitions"]
    assert set(said["components"]["schemas"]) == {"Error", "Partition", "Partitions"}
    assert set(said["paths"]["/v1/partitions"]["get"]["responses"]) == {"200", "400", "401", "403", "421", "503"}


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ("int - W.", {"type": "integer", "format": "int64", "maximum": 2**53 - 1}),
        ("long - W.", {"type": "integer", "format": "int64"}),
        ("text? - W.", {"type": ["string", "null"]}),
        ("bool{} - W.", {"type": "object", "additionalProperties": {"type": "boolean"}}),
        ("bool[3] - W.", {"type": "array", "items": {"type": "boolean"}, "maxItems": 3}),
        ("bool[]{} - W.", {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "boolean"}}}),
        ("(a|b)? - W.", {"type": ["string", "null"], "enum": ["a", "b", None]}),
        ("Error? - W.", {"anyOf": [{"$ref": "#/components/schemas/Error"}, {"type": "null"}]}),
        ("any - W.", {}),
    ],
)
def test_a_field_in_short(text: str, schema: dict[str, Any]) -> None:
    assert openapi._field(text) == {**schema, "description": "W."}


def test_times_say_that_they_are_unix_times() -> None:
    assert openapi._field("ms - When.")["description"] == "When. Unix time in ms."


@pytest.mark.parametrize("text", ["int", "no-such - W.", "unknown - W.", ""])
def test_what_is_no_field(text: str) -> None:
    with pytest.raises(ValueError, match="is n"):
        openapi._field(text)


async def test_a_port_answers_it() -> None:
    app = web.Application()
    app.add_routes([route("a port", "service", [web.get("/healthz", lambda _: None)])])  # type: ignore[arg-type, return-value]
    async with TestClient(TestServer(app)) as client:
        answer = await client.get(PATH)
        assert answer.content_type == "application/json"
        said = await answer.json()
    assert list(said["paths"]) == ["/healthz", "/", PATH]
    assert said["info"]["title"] == "ColdNotify: a port"
