"""The commands about descriptions, against a played HTTP service: what is asked, what is printed, what is wrong use.

Stands for: described, find
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import web
from coldnotify_cli.described import parse_value, show_value
from coldnotify_common.http.list_pages import page, page_request
from coldnotify_common.http.web import error_response
from coldnotify_testkit.command import coldnotify
from coldnotify_testkit.served_routes import served_in_a_thread
from hypothesis import given, settings
from hypothesis import strategies as st

DESCRIPTION = {"Kind": "lamp", "Room": 410, "Floor": "4", "on": True, "note": "by the door"}
LAMPS = [f"lamp/{number:04}" for number in range(1500)]
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
Asked = list[tuple[str, str, Any]]


@pytest.fixture(scope="module")
def asked() -> Asked:
    return []


@pytest.fixture(scope="module")
def node(asked: Asked) -> Iterator[str]:
    async def description(request: web.Request) -> web.Response:
        body = await request.text()
        asked.append((request.method, request.rel_url.raw_path_qs, json.loads(body) if body else None))
        name = request.match_info["object"]
        if name == "away":
            return error_response(503, "nobody serves it", outcome="unknown: it may be written")
        if name == "changed":
            return error_response(409, "if_revision: the description has another revision than 0000004d.7")
        if name == "bad":
            return error_response(400, "description: '9' is not a key", field="description")
        shown = None if request.method == "DELETE" else {} if name == "empty" else DESCRIPTION
        return web.json_response(
            {"object": name, "description": shown, "version": 1_700_000_000_000, "revision": "0000004d.7"}
        )

    async def objects(request: web.Request) -> web.Response:
        if request.query["query"] == "Room =":
            return error_response(400, "query: line 1, column 7: expected a literal", field="query")
        assert request.query["query"] == 'Kind = "lamp"'
        shown: dict[str, Any] = {"lamp/0001": None, "lamp/0002": {}}
        limit, after = page_request(request.query)
        return web.json_response(
            page(
                LAMPS, limit, after,
                lambda name: {"object": name, "version": None, "description": shown.get(name, {"Room": 410})},
            )
        )  # fmt: skip

    group = "/v1/domains/d/groups/g"
    routes = [
        web.route("*", f"{group}/objects/{{object:.+}}/description", description),
        web.get(f"{group}/objects", objects),
    ]
    with served_in_a_thread(routes) as port:
        yield f"127.0.0.1:{port}"


@pytest.mark.parametrize(
    ("arguments", "method", "query", "body"),
    [
        ([], "GET", "", None),
        (
            ["Room=410", "Kind=lamp", "on=true", "empty=", 'Floor="4"', "Location/Room=a=b", "--remove", "old"],
            "PATCH",
            "",
            {"Room": 410, "Kind": "lamp", "on": True, "empty": "", "Floor": "4", "Location/Room": "a=b", "old": None},
        ),
        (["--remove", "a", "--remove", "b"], "PATCH", "", {"a": None, "b": None}),
        (["--replace", "Level=-1.5e3"], "PUT", "", {"Level": -1500.0}),
        (["--replace"], "PUT", "", {}),
        (["--delete", "--if-revision", "0000004d.7"], "DELETE", "?if_revision=0000004d.7", None),
    ],
)
def test_the_command_sends_the_right_request(
    node: str, asked: Asked, arguments: list[str], method: str, query: str, body: Any
) -> None:
    done = coldnotify("describe", "d", "g", "a/b", *arguments, http=node)
    assert done.returncode == 0, done.stderr
    assert asked[-1] == (method, f"/v1/domains/d/groups/g/objects/a%2Fb/description{query}", body)


def test_describe_prints_values_and_times(node: str) -> None:
    assert coldnotify("describe", "d", "g", "o", http=node).stdout == (
        "Kind   lamp\n"
        "Room   410\n"
        'Floor  "4"\n'
        "on     true\n"
        'note   "by the door"\n'
        "since 2023-11-14 22:13:20+00:00, revision 0000004d.7\n"
    )
    assert coldnotify("describe", "d", "g", "empty", http=node).stdout.startswith("(no keys)\nsince ")
    assert coldnotify("describe", "d", "g", "o", "--delete", http=node).stdout == "o: has no description\n"
    shown = json.loads(coldnotify("describe", "d", "g", "o", "--json", http=node).stdout)
    assert (shown["description"], shown["revision"]) == (DESCRIPTION, "0000004d.7")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["o", "Room"], 2, "'Room' is not KEY=VALUE"),
        (["o", "=1"], 2, "'=1' is not KEY=VALUE"),
        (["o", "a=1", "a=2"], 2, "'a=2': a is given twice"),
        (["o", "a=1", "--remove", "a"], 2, "--remove a: the key is set, too"),
        (["o", "a=1", "--delete"], 2, "--delete"),
        (["o", "--replace", "--remove", "a"], 2, "--replace"),
        (["o", "--if-revision", "none"], 2, "--if-revision"),
        (["bad", "9=1"], 2, "description: '9' is not a key"),
        (["changed", "a=1"], 1, "if_revision: the description has another revision"),
        (["away", "a=1"], 1, "nobody serves it (unknown: it may be written)"),
    ],
)
def test_errors_are_printed(node: str, arguments: list[str], code: int, words: str) -> None:
    done = coldnotify("describe", "d", "g", *arguments, http=node)
    assert (done.returncode, done.stdout) == (code, "")
    assert words in done.stderr


def test_find_prints_all_that_fit(node: str) -> None:
    lines = coldnotify("find", "d", "g", "--query", 'Kind = "lamp"', http=node).stdout.splitlines()
    assert [line.split() for line in lines[:4]] == [
        ["object", "version", "description"],
        ["lamp/0000", "-", "Room=410"],
        ["lamp/0001", "-", "-"],
        ["lamp/0002", "-", "(no", "keys)"],
    ]
    assert [line.split()[0] for line in lines[1:]] == LAMPS
    limited = coldnotify("find", "d", "g", "--query", 'Kind = "lamp"', "--limit", "2", "--json", http=node).stdout
    assert [json.loads(line)["description"] for line in limited.splitlines()] == [{"Room": 410}, None]


def test_a_wrong_query_is_wrong_use(node: str) -> None:
    done = coldnotify("find", "d", "g", "--query", "Room =", http=node)
    assert (done.returncode, "query: line 1, column 7: expected" in done.stderr) == (2, True)
    assert coldnotify("find", "d", "g", http=node).returncode == 2


@given(TEXTS | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False))
@settings(deadline=None)
def test_a_printed_value_can_be_typed(value: str | float | bool) -> None:
    again = parse_value(show_value(value))
    assert (type(again) is bool, type(again) is str, again) == (type(value) is bool, type(value) is str, value)
