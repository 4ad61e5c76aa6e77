"""The back-end of data on demand: what it publishes is a good record, and it says when it does not know."""

import json
import time

import pytest
from aiohttp import ClientSession, web
from coldnotify_demo.hosting import serving
from coldnotify_demo.observation_backend import REQUEST_LIFETIME_MS, ObservationBackend
from coldnotify_schemas.records import parse_public_record


async def test_asking_publishes_where_to_upload(capsys: pytest.CaptureFixture[str]) -> None:
    published: list[tuple[str, bytes]] = []

    async def take(request: web.Request) -> web.Response:
        published.append((request.path, await request.read()))
        return web.json_response({"version": 7})

    async with serving([web.post("/v1/{rest:.*}", take)], 0) as coldnotify, ClientSession() as session:
        backend = ObservationBackend(session, f"{coldnotify}/v1/domains/d/groups/g")
        async with (
            serving([web.post("/ask/{kind}", backend.ask)], 0) as backend.own_url,
            session.post(f"{backend.own_url}/ask/body-mass") as answer,
        ):
            assert await answer.json() == {"version": 7}
    ((path, body),) = published
    assert path == "/v1/domains/d/groups/g/objects/requests/body-mass"
    record = parse_public_record(body)
    assert record.version is None
    assert json.loads(body)["payload"] == {"upload_to": f"{backend.own_url}/uploads/body-mass"}
    assert abs(json.loads(body)["expires_at"] - REQUEST_LIFETIME_MS - time.time() * 1000) < 60_000
    assert "body-mass (version 7)" in capsys.readouterr().out


async def test_a_survey_is_found_by_what_it_is_about_and_instructions_are_messages() -> None:
    said: list[tuple[str, str, object]] = []

    async def take(request: web.Request) -> web.Response:
        said.append((request.method, request.raw_path, await request.json()))
        return web.json_response({})

    async with serving([web.route("*", "/{rest:.*}", take)], 0) as coldnotify, ClientSession() as session:
        backend = ObservationBackend(session, coldnotify)
        routes = [
            web.post("/survey/{number}/{kind}", backend.survey),
            web.post("/close/{number}", backend.close),
            web.post("/instruct", backend.instruct),
        ]
        async with serving(routes, 0) as backend.own_url:
            for path, body in (("survey/4/body-mass", ""), ("close/4", ""), ("instruct", "count")):
                async with session.post(f"{backend.own_url}/{path}", data=body) as answer:
                    assert answer.status == 204
    survey = {"upload_to": f"{backend.own_url}/uploads/survey-4", "kind": "body-mass"}
    assert said == [
        ("PUT", "/objects/surveys%2F4/description", {"Survey": "open", "Kind": "body-mass"}),
        ("POST", "/objects/surveys%2F4", {"payload": survey}),
        ("PATCH", "/objects/surveys%2F4/description", {"Survey": "closed"}),
        ("POST", "/channels/instructions", {"payload": {"number": 1, "text": "count"}}),
    ]


async def test_a_publish_of_unknown_outcome_is_reported() -> None:
    async def refuse(_request: web.Request) -> web.Response:
        raise web.HTTPServiceUnavailable

    async with serving([web.post("/{rest:.*}", refuse)], 0) as coldnotify, ClientSession() as session:
        backend = ObservationBackend(session, coldnotify)
        async with (
            serving([web.post("/ask/{kind}", backend.ask)], 0) as url,
            session.post(f"{url}/ask/body-mass") as answer,
        ):
            assert answer.status == 502
            assert "ask again" in await answer.text()


async def test_uploads_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    async with ClientSession() as session:
        backend = ObservationBackend(session, "")
        async with serving([web.post("/uploads/{kind}/{unit}", backend.take)], 0) as url:
            for rows in ([{"value": 1.0}, {"value": 2}], []):
                async with session.post(f"{url}/uploads/body-mass/dream", json=rows) as answer:
                    assert answer.status == 204
    assert capsys.readouterr().out.splitlines() == [
        "received 2 observations of body-mass from dream, 1.5 on average",
        "received 0 observations of body-mass from dream",
    ]
