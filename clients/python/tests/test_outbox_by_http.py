"""What an outbox's records become as requests, and what becomes of each, by what a played service answers."""

import base64
import json
from typing import Any

import pytest
from coldnotify._core.publishing.outgoing import Outgoing, message_of, version_of
from coldnotify._outbox.outbox_delivery import NotYet, RejectedForEver, WrongClock
from coldnotify._publishing import outbox_by_http
from coldnotify._publishing.outbox_by_http import ClockRefused, HttpCarrier
from coldnotify._publishing.published import PublishError, PublishRejected
from coldnotify_schemas.protocol import PUBLISHES_PER_REQUEST_MAX
from coldnotify_schemas.wrong_clocks import clock_fault

NOW_MS = 1_800_000_000_000
AWAY = PublishError("away", indeterminate=False)


class Service:
    """Takes all there is; `fails`: by name, what one by one is answered with; `many_fails`: what several are."""

    def __init__(self) -> None:
        self.requests: list[list[str]] = []
        """Of each request, the names in it; of one by one in a list of its own."""
        self.bodies: list[Any] = []
        self.clocks: list[int | None] = []
        """What each request said."""
        self.fails: dict[str, Exception] = {}
        self.many_fails: Exception | None = None
        self.results: dict[str, dict[str, Any]] = {}
        self.carrier = HttpCarrier(self.post, self.post_many, self.patch)

    def _judge(self, clock_ms: int | None) -> None:
        self.clocks.append(clock_ms)
        if clock_ms is not None and clock_fault(clock_ms, NOW_MS) is not None:
            raise ClockRefused("clock_ms: is wrong", NOW_MS)

    def post(self, outgoing: Outgoing, body: dict[str, object], clock_ms: int | None) -> dict[str, Any]:
        self._judge(clock_ms)
        self.requests.append([outgoing.name])
        self.bodies.append(body)
        if outgoing.name in self.fails:
            raise self.fails[outgoing.name]
        return {"partition": 1, "offset": len(self.requests)}

    def patch(self, outgoing: Outgoing) -> None:
        self.requests.append([f"describe:{outgoing.name}"])
        if (error := self.fails.get(f"describe:{outgoing.name}")) is not None:
            raise error

    def post_many(self, first: Outgoing, body: bytes, clock_ms: int | None) -> dict[str, Any]:
        self._judge(clock_ms)
        said = json.loads(body)
        records = said["messages"] if first.is_message else said
        names = [one["channel" if first.is_message else "object"] for one in records]
        self.requests.append(names)
        self.bodies.append(records)
        if self.many_fails is not None:
            raise self.many_fails
        results = [self.results.get(name, {"partition": 1, "offset": n}) for n, name in enumerate(names)]
        return {"results": results}


def versions(*names: str, domain: str = "d", group: str = "g") -> list[Outgoing]:
    return [version_of(domain, group, name, 7, {"x": name}) for name in names]


def messages(*names: str) -> list[Outgoing]:
    return [message_of("d", "g", name, name.encode(), id=f"id-{name}", to=["t"], expires_at=5) for name in names]


def described(name: str) -> Outgoing:
    return version_of("d", "g", name, 7, description={"a": 1})


def test_a_patch_is_merged_before_its_version_is_published_alone() -> None:
    service = Service()
    service.fails["describe:c"] = ValueError("description: has 65 keys")
    batch = [*versions("a"), described("b"), described("c"), *versions("d", "e")]
    outcomes = service.carrier.carry(batch)
    assert service.requests == [["a"], ["describe:b"], ["b"], ["describe:c"], ["d", "e"]]
    assert [type(one) for one in outcomes] == [tuple, tuple, RejectedForEver, tuple, tuple]


def test_successive_publishes_to_one_group_are_one_request() -> None:
    service = Service()
    batch = [*versions("a", "b"), *versions("c", group="h"), *messages("m", "n"), *versions("a")]
    assert service.carrier.carry(batch) == [(1, 0), (1, 1), (1, 2), (1, 0), (1, 1), (1, 4)]
    assert service.requests == [["a", "b"], ["c"], ["m", "n"], ["a"]]
    assert service.bodies[0][0] == {"object": "a", "version": 7, "payload": {"x": "a"}}
    payload = base64.b64encode(b"m").decode()
    message = {"channel": "m", "id": "id-m", "payload_base64": payload, "to": ["t"], "expires_at": 5}
    assert service.bodies[2][0] == message
    assert service.bodies[3] == {"version": 7, "payload": {"x": "a"}}, "one alone goes as ever"


def test_versions_of_a_clock_that_was_wrong_are_numbered_anew_and_the_others_of_their_request_are_not() -> None:
    service = Service()

    def clocked(name: str, clock_ms: int) -> Outgoing:
        return version_of("d", "g", name, clock_ms)._replace(clock_ms=clock_ms)

    ahead, never_set = NOW_MS + 2 * 3_600_000, 5
    batch = [clocked("a", NOW_MS), *versions("b"), clocked("c", ahead)]
    first, second, third = service.carrier.carry(batch)
    assert isinstance(third, WrongClock)
    assert third.service_ms == NOW_MS
    assert [type(first), type(second)] == [NotYet, NotYet]
    assert isinstance(service.carrier.carry([clocked("c", ahead)])[0], WrongClock)
    outcomes = service.carrier.carry([clocked("a", NOW_MS), clocked("d", never_set)])
    assert isinstance(outcomes[1], WrongClock)
    assert service.clocks == [ahead, ahead, NOW_MS, never_set]
    assert service.requests == [["a"]]


def test_the_request_carries_high_priority() -> None:
    service = Service()
    high = [message_of("d", "g", "m", 1, id="i", priority="high"), version_of("d", "g", "o", 7, priority="high")]
    service.carrier.carry([*high, *messages("n")])
    said = [one for body in service.bodies for one in (body if isinstance(body, list) else [body])]
    assert [one.get("priority") for one in said] == ["high", "high", None]


def test_a_request_has_at_most_so_many_records() -> None:
    service = Service()
    service.carrier.carry(versions(*map(str, range(PUBLISHES_PER_REQUEST_MAX + 2))))
    assert [len(names) for names in service.requests] == [PUBLISHES_PER_REQUEST_MAX, 2]


def test_a_request_has_at_most_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    (part,) = {len(json.dumps(one)) for one in ({"object": n, "version": 7, "payload": {"x": n}} for n in "abcde")}
    monkeypatch.setattr(outbox_by_http, "REQUEST_BYTES_MAX", 2 * part + 1)
    service = Service()
    service.carrier.carry(versions(*"abcde"))
    assert service.requests == [["a", "b"], ["c", "d"], ["e"]]


@pytest.mark.parametrize("error", [ValueError("payload: x"), PublishRejected("domain: y"), LookupError("no such path")])
def test_a_refused_batch_is_sent_one_by_one_and_only_the_wrong_publish_is_set_aside(error: Exception) -> None:
    service = Service()
    service.many_fails, service.fails = error, {"b": ValueError("payload: x")}
    one, two, three = service.carrier.carry(messages("a", "b", "c"))
    assert (one, three) == ((1, 2), (1, 4))
    assert isinstance(two, RejectedForEver)
    assert service.requests == [["a", "b", "c"], ["a"], ["b"], ["c"]]


def test_an_indeterminate_publish_ends_the_batch() -> None:
    service = Service()
    service.many_fails = AWAY
    (only,) = service.carrier.carry([*messages("a", "b"), *versions("c")])
    assert isinstance(only, NotYet)
    assert service.requests == [["a", "b"]], "and it stays in front of what follows"
    service.many_fails, service.requests = None, []
    service.results = {"b": {"channel": "b", "error": "Kafka", "outcome": "unknown: it may be published"}}
    one, two, three = service.carrier.carry([*messages("a", "b", "c"), *versions("d", "e")])
    assert (one, three) == ((1, 0), (1, 2))
    assert isinstance(two, NotYet)
    assert service.requests == [["a", "b", "c"]]


@pytest.mark.parametrize("results", [None, [], [{"offset": 1}, {"offset": 2}], "ab", [1, 2]])
def test_an_answer_that_is_none_is_asked_for_once_more(results: object) -> None:
    """One by one: each repeat says the same, so that it changes nothing."""
    service = Service()
    service.carrier = HttpCarrier(service.post, lambda _first, _body, _clock: {"results": results}, service.patch)
    outcomes = service.carrier.carry(messages("a", "b"))
    assert outcomes == [(1, 1), (1, 2)] or [type(one) for one in outcomes] == [NotYet]


def test_a_service_that_goes_is_not_asked_on() -> None:
    service = Service()
    service.fails = {"a": AWAY}
    (only,) = service.carrier.carry([*versions("a"), *messages("b")])
    assert isinstance(only, NotYet)
    service.carrier.stop()
    assert service.carrier.carry(versions("c", "d")) == []
    assert service.requests == [["a"]]
