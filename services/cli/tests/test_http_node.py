"""The commands that ask the HTTP service, against a played one: what they print, and what they say went wrong.

Stands for: who_lacks, explain, tables
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import web
from coldnotify_common.http.list_pages import page, page_request
from coldnotify_common.http.web import error_response
from coldnotify_testkit.command import coldnotify
from coldnotify_testkit.served_routes import served_in_a_thread

CLIENTS = [f"c{number:04}" for number in range(1500)]
ABOUT = {
    "object": "a/b", "version": 2, "wanted_version": 2, "published_ms": 1_700_000_000_000, "published": True,
    "exact": True, "registered": 2000, "lacking": 1500, "asleep": 7,
}  # fmt: skip
EXPLAINED = {
    "domain": "d", "group": "g", "client": "c", "object": None, "verdict": "asleep", "words": "it is not connected",
    "timeline": [{"when_ms": 1_700_000_000_000, "step": "gateway", "text": "not connected; last seen then"}],
    "lacking": [{"object": "a/b", "version": 2, "since_ms": None}], "gateways_silent": ["h:1: no answer"],
}  # fmt: skip


@pytest.fixture(scope="module")
def node() -> Iterator[str]:
    async def lacking(request: web.Request) -> web.Response:
        name = request.match_info["object"]
        if name == "away":
            return error_response(503, "matcher h:1: partition 3 is being loaded")
        about: dict[str, Any] = ABOUT | {"exact": request.query.get("version") is None}
        if name == "nobody":
            about |= {"lacking": 0}
            return web.json_response({**about, "items": [], "next": None})
        assert name == "a/b"
        limit, after = page_request(request.query)
        return web.json_response({**about, **page(CLIENTS, limit, after, lambda client: {"client": client})})

    async def explanation(request: web.Request) -> web.Response:
        return web.json_response(EXPLAINED | {"object": request.query.get("object")})

    group = "/v1/domains/d/groups/g"
    routes = [
        web.get(f"{group}/objects/{{object:.+}}/lacking", lacking),
        web.get(f"{group}/clients/c/explanation", explanation),
    ]
    with served_in_a_thread(routes) as port:
        yield f"127.0.0.1:{port}"


def test_who_lacks_prints_what_holds_for_all_and_then_everyone(node: str) -> None:
    lines = coldnotify("who-lacks", "d", "g", "a/b", http=node).stdout.splitlines()
    assert lines[0] == ("a/b version 2 (published 2023-11-14 22:13:20+00:00): 1500 of 2000 lack it, 7 of them asleep")
    names = [line.split()[0] for line in lines[1:]]
    assert [name for name in names if name.startswith(("c0", "c1"))] == CLIENTS
    done = coldnotify("who-lacks", "d", "g", "a/b", "--json", "--limit", "1200", http=f"http://{node}/")
    summary, *rows = map(json.loads, done.stdout.splitlines())
    assert summary == ABOUT
    assert [row["client"] for row in rows] == CLIENTS[:1200]


def test_who_lacks_says_nobody_and_at_most(node: str) -> None:
    assert "nobody lacks it, of 2000 registered" in coldnotify("who-lacks", "d", "g", "nobody", http=node).stdout
    about = coldnotify("who-lacks", "d", "g", "a/b", "--version", "1", "--limit", "1", http=node).stdout
    assert "at most 1500 of 2000" in about


def test_explain_prints_a_timeline(node: str) -> None:
    lines = coldnotify("explain", "d", "g", "c", http=node).stdout.splitlines()
    assert lines[0] == "d/g/c: asleep: it is not connected"
    assert lines[1].split("  ")[1:] == ["2023-11-14 22:13:20+00:00", "gateway", "not connected; last seen then"]
    assert lines[2] == "  gateway not asked: h:1: no answer"
    assert lines[-1].split() == ["a/b", "2", "-"]
    assert coldnotify("explain", "d", "g", "c", "a/b", http=node).stdout.startswith("d/g/c and a/b: asleep")
    assert json.loads(coldnotify("explain", "d", "g", "c", "--json", http=node).stdout) == EXPLAINED


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["who-lacks", "d", "g", "away"], 1, "matcher h:1: partition 3 is being loaded"),
        (["explain", "d", "g", "x"], 1, "404"),
        (["explain", "d", "g", "c", "--http", "127.0.0.1:1"], 1, "no HTTP service at http://127.0.0.1:1 (--http): "),
        (["explain", "d", "g", "c", "--http", " "], 2, "COLDNOTIFY_HTTP / --http"),
        (["who-lacks", "d", "g", "o", "--version", "-1"], 2, "--version"),
    ],
)
def test_an_error_is_one_line(node: str, arguments: list[str], code: int, words: str) -> None:
    done = coldnotify(*arguments, http=node)
    assert (done.returncode, done.stdout) == (code, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr
