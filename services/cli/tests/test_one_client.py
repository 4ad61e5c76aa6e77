"""`coldnotify client` against a played HTTP service: what is asked, what is printed, what is confirmed first."""

import json
from collections.abc import Iterator

import pytest
from aiohttp import web
from coldnotify_common.http.web import error_response
from coldnotify_testkit.command import coldnotify
from coldnotify_testkit.served_routes import served_in_a_thread

Asked = list[tuple[str, str, str]]
DONE = {"domain": "d", "group": "g", "client": "c", "was_online": True, "was_registered": 3}


@pytest.fixture(scope="module")
def asked() -> Asked:
    return []


@pytest.fixture(scope="module")
def node(asked: Asked) -> Iterator[str]:
    async def client(request: web.Request) -> web.Response:
        asked.append((request.method, request.rel_url.raw_path_qs, await request.text()))
        if request.match_info["client"] == "nobody":
            return error_response(404, "client: d/g/nobody is not known")
        if request.method == "GET":
            return web.json_response({"online": True, "registered": 3})
        return web.json_response({**DONE, "outcome": "forgotten" if request.method == "DELETE" else "disconnected"})

    routes = [web.route("*", "/v1/domains/d/groups/g/clients/{client}", client)]
    with served_in_a_thread(routes) as port:
        yield f"127.0.0.1:{port}"


def test_a_client_is_disconnected(node: str, asked: Asked) -> None:
    done = coldnotify("client", "disconnect", "d", "g", "c", "--yes", "--reason", "disk full", "--http", node)
    assert (done.returncode, done.stdout) == (0, "d/g/c is disconnected; it may come back\n"), done.stderr
    assert asked.pop() == ("PATCH", "/v1/domains/d/groups/g/clients/c?reason=disk+full", '{"online": false}')


def test_a_client_is_forgotten_once_that_is_confirmed(node: str, asked: Asked) -> None:
    asked.clear()
    done = coldnotify("client", "forget", "d", "g", "c", "--http", node, stdin="n\n")
    assert done.returncode == 1
    assert "d/g/c is online and registered for 3. Forget it?" in done.stderr
    assert [method for method, _, _ in asked] == ["GET"]
    done = coldnotify("client", "forget", "d", "g", "c", "--http", node, stdin="y\n")
    assert done.stdout.strip() == "d/g/c is forgotten; if it comes back, it registers again (its session was ended)"
    assert asked[-1][:2] == ("DELETE", "/v1/domains/d/groups/g/clients/c")
    done = coldnotify("client", "forget", "d", "g", "c", "--yes", "--json", "--http", node)
    assert json.loads(done.stdout)["outcome"] == "forgotten"


def test_an_unknown_client_is_an_error(node: str) -> None:
    done = coldnotify("client", "forget", "d", "g", "nobody", "--yes", "--http", node)
    assert (done.returncode, "is not known" in done.stderr) == (1, True)
