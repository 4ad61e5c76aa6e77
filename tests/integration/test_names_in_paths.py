"""Whatever a domain, group, object or channel is called, HTTP reaches it: each name is one segment of the path."""

import json
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import quote

import pytest
from coldnotify_testkit.stack import Up
from coldnotify_testkit.waiting import wait_for

pytestmark = pytest.mark.kafka

NAMES = (
    *("history", "lacking", "description", "a/history", "a/lacking", "a/description", "history/history"),
    *(".", "..", "a/..", "../a", "a/./b", "/", "//", "a/", "/a", "a b", "a?b=c", "a#b", "a%2Fb", "%2e%2e", "a\nb"),
    *("objects/a", "channels/a", "a/objects/b", "a:b", "ä/雪"),
)
SCOPES = (
    *(("objects", "objects"), ("channels", "channels"), ("groups", "objects"), ("history", "lacking"), ("..", ".")),
    ("paths", "named"),
)


def ask(up: Up, path: str, body: Any = None, method: str = "GET") -> tuple[int, dict[str, Any]]:
    """The answer, once it is not that the service is busy."""

    def answered() -> tuple[int, dict[str, Any]] | None:
        status, said = ask_once(up, path, body, method)
        return None if status == 503 else (status, said)

    answer: tuple[int, dict[str, Any]] = wait_for(answered, f"{method} {path} is answered")
    return answer


def ask_once(up: Up, path: str, body: Any, method: str) -> tuple[int, dict[str, Any]]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(up.http_url + path, data, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def wait_known(up: Up, path: str) -> None:
    """Once the matcher has read it."""
    wait_for(lambda: ask(up, path)[0] == 200, f"{path} is known")


def path_of(domain: str, group: str, *parts: str) -> str:
    names = ["domains", domain, "groups", group, *parts]
    return "/v1/" + "/".join(quote(part, safe="") for part in names)


@pytest.mark.parametrize("name", NAMES)
def test_an_object_and_a_channel_of_any_name(up: Up, name: str) -> None:
    base = path_of("paths", "named", "objects", name)
    status, said = ask(up, base, {"version": 7, "payload": name}, "POST")
    assert (status, said["object"], said["version"]) == (200, name, 7), said

    def shown() -> dict[str, Any]:
        return ask(up, base)[1]

    wait_for(lambda: shown().get("version") == 7, "the object is known")
    assert shown()["object"] == name
    status, said = ask(up, base + "/description", {"kind": name}, "PUT")
    assert (status, said["object"]) == (200, name), said
    assert ask(up, base + "/description")[1]["description"] == {"kind": name}
    assert ask(up, base + "/lacking")[1]["object"] == name

    def in_history() -> bool:
        """Reading it has a limit, after which it says how far it came."""
        history = ask(up, base + "/history")[1]
        return history["object"] == name and 7 in [one["version"] for one in history["items"]]

    wait_for(in_history, "its history")
    channel = path_of("paths", "named", "channels", name)
    status, said = ask(up, channel, {"payload": name}, "POST")
    assert (status, said["channel"]) == (200, name), said
    wait_for(lambda: ask(up, channel)[1].get("last") is not None, "the channel is known")
    assert ask(up, channel)[1]["channel"] == name


@pytest.mark.parametrize(("domain", "group"), SCOPES)
def test_a_domain_and_a_group_of_any_name(up: Up, domain: str, group: str) -> None:
    for kind in ("object", "channel"):
        path = path_of(domain, group, f"{kind}s", "a/b")
        status, said = ask(up, path, {"payload": 1}, "POST")
        assert status == 200, said
        assert [said[field] for field in ("domain", "group", kind)] == [domain, group, "a/b"]
        wait_known(up, path)
    path = path_of(domain, group, "objects", "a/b", "description")
    assert ask(up, path, {"kind": "x"}, "PUT")[1]["object"] == "a/b"


def test_a_slash_as_it_is_is_part_of_the_name_where_no_other_path_is_meant(up: Up) -> None:
    base = path_of("paths", "plain", "objects")
    for name in ("a", "a/b", "a/history"):
        assert ask(up, f"{base}/{name}", {"version": 1}, "POST")[1]["object"] == name
    for name in ("a", "a/b", "a%2Fhistory"):
        wait_known(up, f"{base}/{name}")
    assert ask(up, f"{base}/a/history")[1]["object"] == "a"
    assert ask(up, f"{base}/a%2Fhistory")[1]["object"] == "a/history"
