"""`coldnotify hook` against a played HTTP service. With a real one it is in services/hooks/tests/test_webhooks.py."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import web
from coldnotify_testkit.command import coldnotify
from coldnotify_testkit.served_routes import served_in_a_thread

HOOKS = "/v1/domains/d/groups/g/hooks"
SHOWN = {"name": "n", "url": "https://e.example/", "objects": ["a", "b"], "format": "json", "suspended_ms": None}
Asked = list[tuple[str, str, Any]]


@pytest.fixture(scope="module")
def asked() -> Asked:
    return []


@pytest.fixture(scope="module")
def node(asked: Asked) -> Iterator[str]:
    async def answer(request: web.Request) -> web.Response:
        body = await request.text()
        asked.append((request.method, request.path, json.loads(body) if body else None))
        if request.path.endswith("/test"):
            return web.json_response({"name": "n", "applied": False, "words": "status 500"})
        if request.method in ("PUT", "POST"):
            return web.json_response({**SHOWN, "secret": "whsec_x"}, status=201)
        if request.method == "DELETE":
            return web.json_response({"name": "n", "removed": True})
        query = {
            "name": "q",
            "url": "https://e.example/",
            "query": "X",
            "format": "json",
            "suspended_ms": 1_700_000_000_000,
        }
        return web.json_response({"items": [SHOWN, query]})

    routes = [web.route("*", HOOKS, answer), web.route("*", HOOKS + "/{tail:.*}", answer)]
    with served_in_a_thread(routes) as port:
        yield f"127.0.0.1:{port}"


def test_a_hook_is_set_and_its_secret_is_printed(node: str, asked: Asked) -> None:
    flags = ("--object", "a", "--object", "b", "--format", "cloudevents")
    done = coldnotify("hook", "set", "d", "g", "n", "https://e.example/", *flags, http=node)
    assert done.returncode == 0, done.stderr
    body = {"url": "https://e.example/", "format": "cloudevents", "objects": ["a", "b"]}
    assert asked[-1] == ("PUT", f"{HOOKS}/n", body)
    assert done.stdout == "n: set\nsecret: whsec_x\nIt is not shown again.\n"


def test_hooks_are_listed_with_what_they_want_and_since_when_they_are_suspended(node: str) -> None:
    lines = coldnotify("hook", "list", "d", "g", http=node).stdout.splitlines()
    assert lines[0] == "n  https://e.example/  a, b"
    assert lines[1].startswith("q  https://e.example/  query X  suspended since 2023-11-14")
    assert json.loads(coldnotify("hook", "list", "d", "g", "--json", http=node).stdout)[0] == SHOWN


def test_the_others_ask_and_a_test_that_fails_is_a_failure(node: str, asked: Asked) -> None:
    assert coldnotify("hook", "rotate", "d", "g", "n", http=node).stdout.startswith("n: rotated\nsecret: whsec_x")
    assert asked[-1] == ("POST", f"{HOOKS}/n/rotate", None)
    done = coldnotify("hook", "test", "d", "g", "n", http=node)
    assert (done.returncode, done.stdout) == (1, "n: not applied: status 500\n")
    assert coldnotify("hook", "remove", "d", "g", "n", http=node).stdout == "n: removed\n"
    assert asked[-1] == ("DELETE", f"{HOOKS}/n", None)
