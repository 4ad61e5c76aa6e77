"""Asking the HTTP service from a back-end, against a played one: what it is asked, and what is made of its answers.

Stands for: http_requests
"""

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from coldnotify.http_client import (
    AskAgain,
    AskError,
    CallbackState,
    ExplainedStep,
    FoundObject,
    HttpClient,
    LackedVersion,
    LackingClient,
    Newest,
    NewestChanged,
    NotAllowed,
    NothingKnown,
)
from coldnotify.http_publisher import Published
from coldnotify_testkit.answering import answering

GROUP = "/v1/domains/d/groups/g"
RAISING = {"state": "parked", "since_ms": 7, "failures": 3, "error": "KeyError: 'fps'"}
LACKING = {
    "object": "a/b", "version": 2, "incarnation": 0, "wanted_version": 1, "published": True, "exact": False,
    "registered": 5, "by_query": 1, "applied": 3, "lacking": 2, "asleep": 1, "pending": 0, "parked": 1,
    "told_at_least": 1, "position": 8, "next": None,
    "items": [
        {"client": "c", "state": "asleep", "since_ms": 5, "last_seen_ms": None, "cursor": 3, "callbacks": None},
        {"client": "d", "state": "live", "since_ms": 7, "last_seen_ms": 9, "cursor": 8, "callbacks": RAISING},
    ],
}  # fmt: skip
EXPLAINED = {
    "domain": "d", "group": "g", "client": "c", "object": None, "verdict": "asleep", "words": "it is not connected",
    "timeline": [{"when_ms": 5, "step": "gateway", "text": "not connected; last seen then"}],
    "lacking": [{"object": "a/b", "version": 2, "since_ms": None, "callbacks": None}],
    "gateways_silent": ["#1: no answer"],
}  # fmt: skip


class Played:
    """Answers one after the other, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        """Paths of GET; path and body of POST."""
        self.answers: list[tuple[int, object]] = []

    def get(self, path: str) -> tuple[int, object]:
        self.asked.append(path)
        return self.answers.pop(0)

    def post(self, path: str, body: Any) -> tuple[int, object]:
        self.asked.append((path, body))
        return self.answers.pop(0)


@pytest.fixture
def played() -> Played:
    return Played()


@pytest.fixture
def client(played: Played) -> Iterator[HttpClient]:
    with answering(played.get, played.post) as address:
        yield HttpClient(address)


def page(*names: str, after: str | None) -> tuple[int, object]:
    items = [{"object": name, "version": None, "description": {"Room": 410}} for name in names]
    return 200, {"query": "Room = 410", "items": items, "next": after}


async def test_objects_are_found_page_by_page(played: Played, client: HttpClient) -> None:
    played.answers = [page("a", "b", after="b"), page("c", after=None)]
    found = client.find("d", "g", "Room = 410")
    assert next(found) == FoundObject("a", None, {"Room": 410})
    assert len(played.asked) == 1
    assert [one.object_id for one in found] == ["b", "c"]
    asked = f"{GROUP}/objects?query=Room+%3D+410&limit"
    assert played.asked == [f"{asked}=1000", f"{asked}=1000&after=b"]
    played.answers = [page("a", "b", after="b"), page("c", after="c")]
    assert [one.object_id async for one in client.find_async("d", "g", "Room = 410", limit=3)] == ["a", "b", "c"]
    assert played.asked[2:] == [f"{asked}=3", f"{asked}=1&after=b"]


async def test_clients_that_lack_a_version_are_counted_and_named(played: Played, client: HttpClient) -> None:
    played.answers = [(200, LACKING)] * 2
    behind = client.who_lacks("d", "g", "a/b", version=1)
    assert (behind.object_id, behind.version, behind.wanted_version, behind.exact) == ("a/b", 2, 1, False)
    assert (behind.registered, behind.applied, behind.lacking, behind.asleep) == (5, 3, 2, 1)
    assert behind.clients == (
        LackingClient("c", "asleep", 5, None, None),
        LackingClient("d", "live", 7, 9, CallbackState("parked", 7, 3, "KeyError: 'fps'")),
    )
    assert await client.who_lacks_async("d", "g", "a/b", version=1) == behind
    assert played.asked == [f"{GROUP}/objects/a%2Fb/lacking?version=1&limit=1000"] * 2


async def test_a_client_is_explained(played: Played, client: HttpClient) -> None:
    played.answers = [(200, EXPLAINED), (200, EXPLAINED)]
    explained = client.explain("d", "g", "c")
    assert (explained.client_id, explained.object_id, explained.verdict) == ("c", None, "asleep")
    assert explained.timeline == (ExplainedStep(5, "gateway", "not connected; last seen then"),)
    assert explained.lacking == (LackedVersion("a/b", 2, None, None),)
    assert explained.gateways_silent == ("#1: no answer",)
    await client.explain_async("d", "g", "c", "a/b")
    assert played.asked == [f"{GROUP}/clients/c/explanation", f"{GROUP}/clients/c/explanation?object=a%2Fb"]


async def test_versions_are_started_over_from_the_newest(played: Played, client: HttpClient) -> None:
    written = 200, {"version": 0, "partition": 3, "offset": 41, "outcome": "published"}
    played.answers = [(200, {"version": 9, "incarnation": 1, "published_ms": 5}), written, written]
    receipt = client.reset("d", "g", "a/b", {"fps": 5})
    assert receipt == Published(0, 3, 41)
    await client.reset_async("d", "g", "a/b", newest=Newest(9), version=4)
    seen = {"object": "a/b", "newest": {"version": 9, "incarnation": 1}, "version": 0, "payload": {"fps": 5}}
    named = {"object": "a/b", "newest": {"version": 9, "incarnation": 0}, "version": 4}
    assert played.asked == [f"{GROUP}/objects/a%2Fb", (f"{GROUP}/resets", seen), (f"{GROUP}/resets", named)]
    about = {"version": 0, "wanted_version": 0, "published": True, "position": 42, "items": []}
    played.answers = [
        (200, {**about, "incarnation": 1, "applied": 1, "lacking": 0}),  # the matcher has not read the reset
        (200, {**about, "incarnation": 2, "applied": 1, "lacking": 0}),
    ]
    assert receipt.applied_by(1.0, 60) == (1, 0)
    assert played.answers == []


def test_a_newest_version_that_has_changed_is_told(played: Played, client: HttpClient) -> None:
    newest = {"version": 10, "incarnation": 0}
    played.answers = [(409, {"error": "newest: another version ...", "field": "newest", "newest": newest})]
    with pytest.raises(NewestChanged, match="newest: another version") as changed:
        client.reset("d", "g", "a/b", newest=Newest(9))
    assert (changed.value.newest, changed.value.indeterminate) == (Newest(10), False)
    played.answers = [(200, {"version": None, "incarnation": 0, "published_ms": None})]
    with pytest.raises(NothingKnown, match="d/g/a/b was never published"):
        client.reset("d", "g", "a/b")


@pytest.mark.parametrize(
    ("status", "answer", "error", "words"),
    [
        (400, {"error": "query: line 1, column 3: ...", "field": "query"}, ValueError, "^query: line 1"),
        (404, {"error": "object: d/g/o is not known"}, NothingKnown, "^object: d/g/o"),
        (404, ["no page"], AskError, "HTTP status 404"),
        (401, {"error": "token: has expired"}, NotAllowed, "127.0.0.1:.*: token: has expired"),
        (403, {"error": "domain: may not"}, NotAllowed, "domain: may not"),
        (429, {"error": "too much", "retry_after_s": 0.5}, AskAgain, "too much"),
        (503, {"error": "no matcher serves this group"}, AskAgain, "no matcher serves"),
        (502, "a balancer's page", AskError, "HTTP status 502"),
        (200, ["no object"], AskError, "its answer is not a JSON object"),
    ],
)
def test_errors_have_the_words_of_the_service(
    played: Played, client: HttpClient, status: int, answer: object, error: type[Exception], words: str
) -> None:
    played.answers = [(status, answer)]
    with pytest.raises(error, match=words) as raised:
        client.who_lacks("d", "g", "o")
    assert not isinstance(raised.value, AskError) or raised.value.status == (None if status == 200 else status)
    assert not isinstance(raised.value, AskAgain) or raised.value.retry_after_s == (0.5 if status == 429 else None)


@pytest.mark.parametrize(
    ("status", "answer", "indeterminate"),
    [
        (503, {"error": "Kafka", "outcome": "unknown: it may be published"}, True),
        (503, {"error": "Kafka", "outcome": "not published"}, False),
        (502, "a balancer's page", True),
    ],
)
def test_a_reset_that_failed_says_whether_it_may_be_made(
    played: Played, client: HttpClient, status: int, answer: object, indeterminate: bool
) -> None:
    played.answers = [(status, answer)]
    with pytest.raises(AskError) as raised:
        client.reset("d", "g", "o", newest=Newest(1))
    assert raised.value.indeterminate is indeterminate


def test_nobody_there_and_nobody_who_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(AskError, match=f"http://127.0.0.1:{port}: timed out") as raised:
            HttpClient(f"127.0.0.1:{port}", timeout_s=0.2).reset("d", "g", "o", newest=Newest(1))
        assert raised.value.indeterminate
    with pytest.raises(AskError, match="refused") as raised:
        HttpClient(f"127.0.0.1:{port}").reset("d", "g", "o", newest=Newest(1))
    assert not raised.value.indeterminate


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: HttpClient(""), "url: ''"),
        (lambda: HttpClient(timeout_s=0), "timeout_s: 0"),
        (lambda: next(HttpClient("h").find("d", "g", "HAS on", limit=0)), "limit: 0"),
        (lambda: HttpClient("h").reset("d", "g", "o", {1}), "payload: cannot be written as JSON"),
        (lambda: HttpClient("h").reset("d", "g", "o", version=-1), "version: -1"),
        (lambda: HttpClient("h").reset("d", "a/b", "o"), "group: "),
    ],
)
def test_bad_arguments_are_named(call: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError, match=f"^{words}"):
        call()
