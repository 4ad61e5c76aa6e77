"""Each door of the HTTP service with each grant: none, own, and the right to publish to the domain."""

import re
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import jwt
import pytest
from aiohttp import ClientSession, web
from coldnotify.publisher import Published, Sent
from coldnotify_common.http.web_auth import authorized
from coldnotify_common.security.authentication import Authenticator, AuthSettings
from coldnotify_http.app import _OPEN_PATHS, HttpService
from coldnotify_http.bodies import Named
from coldnotify_http.message_bodies import NamedMessage
from coldnotify_http.metrics import Metrics
from coldnotify_http.settings import HttpSettings
from coldnotify_testkit.served_routes import served, served_alone
from prometheus_client import CollectorRegistry
from yarl import URL

SECRET = "s" * 32
GROUP = "/v1/domains/d/groups/g"
GRANTS: dict[str, dict[str, Any]] = {
    "none": {"sub": "d/g/u-7"},
    "own": {"sub": "d/g/u-7", "sensor": "d/g/u-7"},
    "own of all": {"sensor": "d/g/*"},
    "own elsewhere": {"sensor": ["d/h/u-7", "e/g/u-7"]},
    "may publish": {"publish": ["d"]},
}
MAY_PUBLISH_OWN = {
    *(("POST", "/objects"), ("POST", "/objects/{object}"), ("POST", "/channels"), ("POST", "/channels/{channel}")),
    *((method, "/objects/{object}/description") for method in ("PUT", "PATCH", "DELETE")),
}
"""The doors that are open to `own`."""


class Written:
    """A publisher that writes nothing."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str | None]] = []
        """Names and sources."""

    async def publish_records_async(
        self, _domain: str, _group: str, records: Sequence[Named], *, traceparent: str | None = None
    ) -> list[Published]:
        self.seen += [(name, record.source) for name, record in records]
        return [Published(7, 3, 40) for _ in records]

    async def send_messages_async(
        self, _domain: str, _group: str, messages: Sequence[NamedMessage], *, traceparent: str | None = None
    ) -> list[Sent]:
        self.seen += [(name, message.said.source) for name, message in messages]
        return [Sent(3, 40, "id") for _ in messages]


class Doors:
    def __init__(self, url: str, written: Written, routes: Sequence[web.AbstractRouteDef]) -> None:
        self._url, self.written = url, written
        self.routes = {
            (one.method, re.sub(r"\{(\w+):[^}]*\}", r"{\1}", one.path))
            for one in routes
            if isinstance(one, web.RouteDef)
        }

    async def ask(self, grant: str, method: str, path: str, body: object = None) -> tuple[int, Any]:
        signed = jwt.encode({**GRANTS[grant], "exp": time.time() + 600}, SECRET, "HS256")
        headers = {"Authorization": f"Bearer {signed}"}
        async with (
            ClientSession(headers=headers) as http,
            http.request(method, URL(self._url + path, encoded=True), json=body) as answer,
        ):
            return answer.status, await answer.json()


@pytest.fixture
async def doors(tmp_path: Path) -> AsyncIterator[Doors]:
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    auth = AuthSettings(
        auth="token",
        auth_token_algorithm="HS256",
        auth_token_key=str(secret),
        auth_token_rule="sub:{domain}/{group}/{client} publish:{publish} "
        "sensor:{domain}/{group}/{client}=>own:units/{client}/",
    )

    async def matcher(request: web.Request) -> web.Response:
        written.seen.append((request.match_info["object"], None))
        return web.json_response({"version": 7})

    written = Written()
    described = web.route("*", GROUP + "/objects/{object:(?s:.+)}/description", matcher)
    async with served(described) as address:
        service = HttpService(HttpSettings(matcher=address), CollectorRegistry())
        routes = service.routes(written, Metrics(CollectorRegistry()))  # type: ignore[arg-type]
        async with served_alone(routes, authorized(Authenticator(auth), _OPEN_PATHS)) as url:
            yield Doors(url, written, routes)
        service._overview.stop()
        service._passing_on.stop()
        await service._passing_on.close()
        for client in (service._asking, service._changing):
            await client.close()
        await service._outcomes.close()


async def publishes(doors: Doors, grant: str, name: str, **more: object) -> dict[str, tuple[int, Any]]:
    """The answer of each door to a publish to this name."""
    escaped = name.replace("/", "%2F")
    ask = doors.ask
    source = {key: value for key, value in more.items() if key == "source"}
    return {
        "publish": await ask(grant, "POST", f"{GROUP}/objects/{name}?outcome=no", {"version": 1, **more}),
        "delete": await ask(grant, "POST", f"{GROUP}/objects/{name}?outcome=no", {"deleted": True, **more}),
        "publish many": await ask(grant, "POST", f"{GROUP}/objects", {"objects": {name: {"version": 1, **more}}}),
        "send": await ask(grant, "POST", f"{GROUP}/channels/{name}", {"payload": 1, **source}),
        "send many": await ask(
            grant, "POST", f"{GROUP}/channels", {"messages": [{"channel": name, "payload": 1, **source}]}
        ),
        "describe": await ask(grant, "PUT", f"{GROUP}/objects/{escaped}/description", {"a": 1}),
        "describe a part": await ask(grant, "PATCH", f"{GROUP}/objects/{name}/description", {"a": None}),
        "describe no more": await ask(grant, "DELETE", f"{GROUP}/objects/{escaped}/description"),
    }


@pytest.mark.parametrize(
    ("grant", "name", "status"),
    [
        ("none", "units/u-7/t", 403),
        ("none", "lamp", 403),
        ("own", "units/u-7/t", 200),
        ("own", "units/u-7/t/u", 200),
        ("own", "units/u-8/t", 403),
        ("own", "units/u-7x/t", 403),
        ("own", "lamp", 403),
        ("own elsewhere", "units/u-7/t", 403),
        ("own of all", "units/u-8/t", 200),
        ("own of all", "lamp", 403),
        ("may publish", "units/u-8/t", 200),
        ("may publish", "lamp", 200),
    ],
)
async def test_each_door_that_publishes_is_open_for_the_names_of_the_grant(
    doors: Doors, grant: str, name: str, status: int
) -> None:
    answers = await publishes(doors, grant, name)
    assert {door: answer[0] for door, answer in answers.items()} == dict.fromkeys(answers, status), answers
    refused = status == 403
    owner = name.split("/")[1] if grant.startswith("own") and not refused else None
    assert doors.written.seen == ([] if refused else [(name, owner)] * 5 + [(name, None)] * 3)
    if refused and grant.startswith("own") and grant != "own elsewhere":
        for door, (_, body) in answers.items():
            field = "channel" if door.startswith("send") else "object"
            assert body["field"] == field, door
            assert re.match(f"{field}: '{name}' is not below units/(u-7|\\*)/, where alone", body["error"]), door


async def test_an_owner_is_the_source_and_nobody_else_is(doors: Doors) -> None:
    for grant, source, status in (("own", "u-7", 200), ("own", "u-8", 403), ("own of all", "u-8", 403)):
        answers = await publishes(doors, grant, "units/u-7/t", source=source)
        assert {answer[0] for door, answer in answers.items() if "describe" not in door} == {status}, (grant, source)
    assert (await publishes(doors, "own", "units/u-7/t", source="u-8"))["publish"][1] == {
        "error": "source: 'u-8' may not publish here: it has to be u-7", "field": "source",
    }  # fmt: skip
    assert {source for _, source in doors.written.seen} == {"u-7", None}


async def test_a_batch_with_one_strange_name_is_refused(doors: Doors) -> None:
    objects = [{"object": "units/u-7/t"}, {"object": "units/u-8/t"}]
    messages = [{"channel": one["object"], "payload": 1} for one in objects]
    for path, body in (("/objects", objects), ("/channels", {"messages": messages})):
        assert (await doors.ask("own", "POST", GROUP + path, body))[0] == 403
    assert doors.written.seen == []


async def test_own_does_not_begin_versions_over(doors: Doors) -> None:
    status, body = await doors.ask("own", "POST", f"{GROUP}/objects/units/u-7/t", {"incarnation": 1})
    assert (status, body["field"]) == (400, "incarnation")


@pytest.mark.parametrize(
    "name", ["units/u-7", "units/u-7/%2e%2e/u-8/t", "units/u-7%2Ft", "units/u%2D7/t", "units/%75-7/t"]
)
async def test_the_name_that_is_described_is_the_one_that_is_checked(doors: Doors, name: str) -> None:
    for end in ("description", "descriptio%6E"):
        status, _ = await doors.ask("own", "PUT", f"{GROUP}/objects/{name}/{end}", {"a": 1})
        assert status == (403 if name == "units/u-7" else 200)
    assert all(said.startswith("units/u-7/") for said, _ in doors.written.seen)


async def test_every_other_door_stays_closed(doors: Doors) -> None:
    """Resets, changes of clients, lists, the ledger, outcomes, the console, and whatever is added."""
    closed = set()
    for method, path in doors.routes:
        where = path.removeprefix("/v1/domains/{domain}/groups/{group}")
        if path in _OPEN_PATHS or (method, where) in MAY_PUBLISH_OWN or (method, path) == ("GET", "/v1/docs"):
            continue
        filled = path.replace("{domain}", "d").replace("{group}", "g").replace("{client}", "u-7")
        filled = re.sub(r"\{\w+\}", "units/u-7/t", filled)
        for grant in ("none", "own", "own of all"):
            assert (await doors.ask(grant, method, filled))[0] == 403, (method, path, grant)
        closed.add((method, where))
    assert len(closed) > 25
    assert {("POST", "/resets"), ("DELETE", "/clients/{client}"), ("GET", "/objects/{object}/description")} <= closed
    assert ("GET", "/v1/console/events") in closed
    assert doors.written.seen == []
