"""Lists over all groups of a matcher, over a real port."""

import json
import threading
import urllib.request
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode

import pytest
from coldnotify_matcher.looking import list_endpoints, overview, state_endpoints
from coldnotify_testkit.engine_bench import DOMAIN, GROUP, PARTITION, EngineBench
from coldnotify_testkit.served_routes import served_in_a_thread


@pytest.fixture
def port(bench: EngineBench, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(overview, "SUMS_KEPT_S", 0)
    worker: Any = SimpleNamespace(partitions={PARTITION: bench.partition}, followed={}, lock=threading.RLock())
    shown = list_endpoints.routes(SimpleNamespace(worker=worker))
    with served_in_a_thread(shown) as port:
        yield port


def ask(port: int, path: str, body: object = None, **query: object) -> Any:
    data = b"" if body is None else json.dumps(body).encode()
    url = f"http://127.0.0.1:{port}/v1/{path}?{urlencode(query)}"
    with urllib.request.urlopen(urllib.request.Request(url, data, method="POST"), timeout=30) as response:
        return json.loads(response.read())


def names(port: int, body: object = None, **query: object) -> list[str]:
    return [one["client"] for one in ask(port, "clients", body, **query)["items"]]


def error(port: int, path: str, body: object = None, **query: object) -> str:
    with pytest.raises(HTTPError) as raised:
        ask(port, path, body, **query)
    assert raised.value.code == 400
    return str(json.loads(raised.value.read())["error"])


def test_groups_with_their_sums_are_found_by_id_state_and_time(port: int) -> None:
    body = ask(port, "groups")
    (group,) = body["items"]
    assert (group["domain"], group["group"], group["clients"], group["online"]) == (DOMAIN, GROUP, 3, 2)
    assert (group["lacking"], group["overdue"], group["place"]) == (2, 2, [f"{DOMAIN}/{GROUP}"] * 2)
    assert (body["count"], body["more"], body["partitions"], body["partial"]) == (1, False, [PARTITION], False)
    found = {"id": GROUP.upper(), "state": "behind", "since_ms": group["last_seen_ms"]}
    for name, value in found.items():
        assert ask(port, "groups", **{name: value})["count"] == 1
    for name, value in {"id": "elsewhere", "state": "asleep", "until_ms": 5}.items():
        assert ask(port, "groups", **{name: value})["items"] == []
    assert ask(port, "groups", {"overdue_s": 10**9}, state="overdue")["count"] == 1
    assert ask(port, "groups", {"overdue_s": 10**10}, state="overdue")["count"] == 0


@pytest.mark.parametrize("locked_s", [0, 60])
def test_clients_are_sorted_and_filtered(port: int, monkeypatch: pytest.MonkeyPatch, locked_s: float) -> None:
    monkeypatch.setattr(state_endpoints, "LOCKED_S", locked_s)
    assert names(port) == names(port, sort="group") == ["c1", "c2", "c3"]
    assert names(port, order="desc") == ["c3", "c2", "c1"]
    assert names(port, sort="lacking") == ["c2", "c1", "c3"]
    assert names(port, sort="registered", order="desc") == ["c1", "c3", "c2"]
    assert names(port, sort="last_seen") == ["c3", "c1", "c2"], "what is connected was seen last"
    assert names(port, sort="state", order="desc")[-1] == "c3"
    for state, found in (
        ("asleep", ["c3"]),
        ("online", ["c1", "c2"]),
        ("live", ["c1", "c2"]),
        ("behind", ["c1", "c3"]),
    ):
        assert names(port, state=state) == found
    assert names(port, id=f"{GROUP}/C2") == ["c2"]
    assert names(port, until_ms=1) == []
    assert names(port, since_ms=1) == ["c1", "c2", "c3"]


def test_pages_follow_each_other_from_the_place_of_the_last(port: int) -> None:
    for sort in ("client", "lacking", "last_seen"):
        for order in ("asc", "desc"):
            seen: list[str] = []
            after: dict[str, object] = {}
            while True:
                body = ask(port, "clients", limit=1, sort=sort, order=order, **after)
                seen += [one["client"] for one in body["items"]]
                assert body["count"] == 3
                if not body["more"]:
                    break
                after = {"after": json.dumps(body["items"][-1]["place"])}
            assert seen == names(port, sort=sort, order=order)


def test_only_what_may_be_listed(port: int) -> None:
    assert names(port, {"domains": ["other", DOMAIN[:3] + "*"]}) == ["c1", "c2", "c3"]
    for path, query in (("groups", {}), ("clients", {}), ("search", {"text": "c"})):
        assert ask(port, path, {"domains": ["other"]}, **query)["count"] == 0
    assert names(port, {"clients": [f"{DOMAIN}/{GROUP}/{name}" for name in ("c3", "c1", "gone")]}) == ["c1", "c3"]


def test_names_are_found_in_all_that_is_there(port: int) -> None:
    def found(text: str, **query: object) -> list[tuple[str, str | None]]:
        return [(one["kind"], one["name"]) for one in ask(port, "search", text=text, **query)["items"]]

    assert found("C1") == [("client", "c1")]
    assert ("group", None) in found(GROUP)
    assert found("b")[-1] == ("object", "b")
    assert found("nowhere") == []
    (first,) = ask(port, "search", text="c", limit=1)["items"]
    assert [name for _, name in found("c", after=json.dumps(first["place"]), limit=1)] != [first["name"]]


def test_a_pass_that_takes_too_long_ends_and_says_so(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "PASS_S_MAX", -1)
    monkeypatch.setattr(list_endpoints, "PASS_S_MAX", -1)
    for path, query in (("groups", {}), ("clients", {}), ("clients", {"sort": "lacking"}), ("search", {"text": "c"})):
        assert ask(port, path, **query)["partial"] is True


def test_one_pass_is_for_all_who_ask_within_two_seconds(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "SUMS_KEPT_S", 3600)
    before = ask(port, "groups")
    monkeypatch.setattr(overview, "PASS_S_MAX", -1)
    assert ask(port, "groups")["items"] == before["items"]
    assert ask(port, "groups")["partial"] is False
    assert ask(port, "groups", {"overdue_s": 7})["partial"] is True


def test_an_error_names_what_is_wrong(port: int) -> None:
    assert error(port, "clients", sort="x").startswith("sort: 'x' is not one of client, ")
    assert error(port, "groups", state="live").startswith("state: 'live' is not one of ")
    assert error(port, "search").startswith("text: is missing")
    assert error(port, "clients", {"clients": 5}).startswith("clients: ")
    assert error(port, "clients", {"other": 5}).startswith("body: ")
