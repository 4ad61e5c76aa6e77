"""Lists over all matchers, against a played HTTP service: all pages are printed, and what is missing is said.

Stands for: found_pages
"""

import json
from collections.abc import Iterator

import pytest
from aiohttp import web
from coldnotify_testkit.command import coldnotify
from coldnotify_testkit.served_routes import served_in_a_thread

FOUND = [{"kind": "client", "domain": "d", "group": "g", "name": f"c{number}"} for number in range(5)]
GROUP = {
    "domain": "d", "group": "g", "clients": 3, "online": 1, "objects": 2, "lacking": 1, "overdue": 0,
    "oldest_since_ms": None, "publishes": 7, "last_seen_ms": 1_700_000_000_000, "seen_1h": 1,
}  # fmt: skip
ALL = {"partial": False, "partitions": {"counted": 4, "missing": [], "since_ms": None}, "matchers": []}


@pytest.fixture(scope="module")
def node() -> Iterator[str]:
    async def search(request: web.Request) -> web.Response:
        start, missing = int(request.query.get("after", "0")), request.query["text"] == "part"
        next_ = start + 2 if start + 2 < len(FOUND) else None
        partitions = {"counted": 3, "missing": [2], "since_ms": None} if missing else ALL["partitions"]
        shown = {"items": FOUND[start : start + 2], "next": None if next_ is None else str(next_)}
        return web.json_response(ALL | shown | {"partitions": partitions, "partial": missing})

    async def groups(request: web.Request) -> web.Response:
        return web.json_response(ALL | {"items": [GROUP | {"asked": dict(request.query)}], "next": None})

    routes = [web.get("/v1/search", search), web.get("/v1/groups", groups)]
    with served_in_a_thread(routes) as port:
        yield f"127.0.0.1:{port}"


def test_names_of_all_pages_are_printed(node: str) -> None:
    done = coldnotify("search", "c", http=node)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split() for line in done.stdout.splitlines()[1:]] == [list(one.values()) for one in FOUND]
    done = coldnotify("search", "c", "--json", "--limit", "2", http=node)
    assert [json.loads(line) for line in done.stdout.splitlines()] == FOUND[:2]


def test_names_that_may_be_missing_are_said_once_and_the_exit_code_is_1(node: str) -> None:
    done = coldnotify("search", "part", http=node)
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 6
    assert done.stderr.splitlines() == [
        "Error: no matcher answers for partition 2 (of 4): there may be more",
        "Error: there is too much to look at all of it at once: there may be more",
    ]


def test_groups_are_asked_for_as_the_flags_say(node: str) -> None:
    flags = ("--id", "g", "--state", "behind", "--seen-within", "60", "--sort", "clients", "--desc", "--limit", "9")
    asked = json.loads(coldnotify("state", "groups", *flags, "--json", http=node).stdout)["asked"]
    assert int(asked.pop("since_ms")) > 1_700_000_000_000
    assert asked == {"id": "g", "state": "behind", "sort": "clients", "order": "desc", "limit": "9"}
    head, row = coldnotify("state", "groups", http=node).stdout.splitlines()
    assert head.split() == [
        *("domain", "group", "clients", "online", "objects", "lacking", "overdue", "oldest_since", "publishes"),
        "last_seen",
    ]
    assert row.split() == ["d", "g", "3", "1", "2", "1", "0", "-", "7", "2023-11-14", "22:13:20+00:00"]
