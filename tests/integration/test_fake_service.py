"""FakeService's HTTP port answers as the real HTTP service does: the same calls are put to both, and compared.

Numbers that a service makes itself (offsets, times ...) may differ, and so may the words of errors.
"""

import http.client
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

import pytest
from coldnotify import Connection, Notification, Notify, State
from coldnotify.http_client import FoundObject, HttpClient, NewestChanged
from coldnotify.http_publisher import HttpPublisher, NeverApplied, NotApplied
from coldnotify.testing import FakeService
from coldnotify_testkit.stack import Up
from coldnotify_testkit.waiting import WAIT_S, wait_for

pytestmark = pytest.mark.kafka

DOMAIN = "animal.observer"
OWN = {
    "partition", "offset", "position", "generation", "revision", "cursor", "error", "now_ms", "published_ms",
    "described_ms", "since_ms", "last_seen_ms", "clock_ms", "reason",
    "words", "timeline", "client_state", "object_state", "gateways_silent",
}  # fmt: skip
"""Fields whose values each service makes itself."""


class Service(NamedTuple):
    """The real one, or the fake."""

    device_port: int
    http: str
    group: str

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Returns status and JSON; bytes are sent as they are."""
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        with closing(http.client.HTTPConnection(self.http, timeout=WAIT_S)) as connection:
            connection.request(method, f"/v1/domains/{DOMAIN}/groups/{self.group}{path}", data)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

    @contextmanager
    def client(self, name: str, *objects: str, query: str | None = None, raises: bool = False) -> Iterator[Notify]:
        """A client that is connected and has taken what there is."""

        def callback(notification: Notification) -> None:
            if raises and notification.payload == {"raise": True}:
                raise KeyError("fps")

        connection = Connection("127.0.0.1", self.device_port, ack_delay_s=0.05)
        notify = Notify(DOMAIN, self.group, name, State(None), connection, tries_max=1)
        for object_ in objects:
            notify.register(object_).subscribe(callback)
        if query is not None:
            notify.register_query(query).subscribe(callback)
        with notify:
            assert notify.wait_caught_up(WAIT_S)
            yield notify


@pytest.fixture
def group(request: pytest.FixtureRequest) -> str:
    """A group for each test, because the real service is shared."""
    return str(request.node.name)


@pytest.fixture
def real(up: Up, group: str) -> Service:
    return Service(up.gateway[1], up.report["http"], group)


@pytest.fixture
def faked() -> Iterator[FakeService]:
    with FakeService() as service:
        yield service


@pytest.fixture
def fake(faked: FakeService, group: str) -> Service:
    return Service(faked.port, faked.http, group)


def compared(said: Any) -> Any:
    """The part of an answer that must be the same."""
    if isinstance(said, dict):
        own = {*OWN, "version"} if "revision" in said else OWN  # a description's version is the time
        return {name: "its own" if name in own else compared(value) for name, value in said.items()}
    return [compared(one) for one in said] if isinstance(said, list) else said


CALLS: list[tuple[str, str, object]] = [
    ("POST", "/objects/a%2Fb", {"version": 5, "payload": {"fps": 5}, "source": "ops"}),
    ("POST", "/objects/a%2Fb", {"version": 5, "payload": {"fps": 5}, "source": "ops"}),
    ("POST", "/objects/a%2Fb", {"version": 4}),
    ("POST", "/objects/a%2Fb?outcome=no", {"version": 6, "payload": {"fps": 6}}),
    ("POST", "/objects/gone", {"version": 1, "deleted": True, "priority": "high", "expires_at": 4102444800000}),
    ("POST", "/objects?outcome=yes", {"objects": {"m1": {"version": 1}, "a/b": {"version": 1}}}),
    ("POST", "/objects", [{"object": "m2", "version": 2}, {"object": "m2", "version": 3}]),
    ("POST", "/objects", {}),
    ("POST", "/objects", {"objects": {"m3": {"version": -1}}}),
    ("POST", "/objects", [{"object": "m3"}, {"version": 1}]),
    ("POST", "/objects", [{"object": "m3", "fps": 5}]),
    ("POST", "/objects", [{"object": ""}]),
    ("POST", "/objects/o", b"{"),
    ("POST", "/objects/o", [1]),
    ("POST", "/objects/o", {"version": "1"}),
    ("POST", "/objects/o", {"fps": 1}),
    ("POST", "/objects/o", {"incarnation": 1}),
    ("POST", "/objects/o", {"deleted": 1}),
    ("POST", "/objects/o", {"priority": "low"}),
    ("POST", "/objects/o", {"source": "a b"}),
    ("POST", "/objects/o", {"payload": "x" * 5000}),
    ("POST", "/objects/o?outcome=maybe", {}),
    ("POST", "/objects/o?clock_ms=1", {"version": 1}),
    ("POST", "/objects/o?clock_ms=x", {"version": 1}),
    ("POST", "/objects/%FF", {}),
    ("GET", "/objects/a%2Fb", None),
    ("GET", "/objects/gone", None),
    ("GET", "/objects/nothing", None),
    ("GET", "/objects?limit=2", None),
    ("GET", "/objects?limit=2&after=gone", None),
    ("GET", "/objects?limit=0", None),
    ("GET", "/objects/a%2Fb/lacking", None),
    ("GET", "/objects/a%2Fb/lacking?version=5", None),
    ("GET", "/objects/a%2Fb/lacking?version=7", None),
    ("GET", "/objects/a%2Fb/lacking?version=x", None),
    ("GET", "/objects/nothing/lacking", None),
    ("GET", "/clients/nobody/explanation", None),
    ("GET", "/clients/nobody/explanation?object=a%2Fb", None),
    ("GET", "/outcomes?offsets=1", None),
    ("GET", "/outcomes?partition=0&offsets=x", None),
    ("PUT", "/objects/lamp/description", {"Room": 410, "on": True}),
    ("PATCH", "/objects/lamp/description", {"on": None, "Kind": "lamp"}),
    ("PATCH", "/objects/lamp/description?if_revision=none", {"on": True}),
    ("PATCH", "/objects/lamp/description", {"on": [1]}),
    ("GET", "/objects/lamp/description", None),
    ("GET", "/objects/lamp", None),
    ("DELETE", "/objects/lamp/description", None),
    ("GET", "/objects/lamp/description", None),
    ("GET", "/objects/nothing/description", None),
    ("POST", "/channels/tasks", {"payload": {"look": "north"}, "id": "1", "to": ["solar"]}),
    ("POST", "/channels/tasks", {"payload_base64": "/w==", "id": "2"}),
    ("POST", "/channels/tasks", {}),
    ("POST", "/channels/tasks", {"payload": 1, "look": 1}),
    ("POST", "/channels/tasks", {"payload_base64": "?"}),
    ("POST", "/channels/tasks", {"payload": 1, "id": ""}),
    ("POST", "/channels?in_order=yes", {"messages": [{"channel": "t", "payload": 1, "id": "3"}]}),
    ("POST", "/channels", {"messages": [{"channel": "t", "payload": 1, "id": "4"}, {"channel": "t"}]}),
    ("POST", "/channels", {"messages": 1}),
    ("POST", "/resets", {"object": "a/b", "newest": {"version": 5}}),
    ("POST", "/resets", {"object": "a/b", "newest": {"version": 6}, "payload": {"fps": 1}}),
    ("POST", "/resets", {"object": "a/b", "newest": {"version": 6}, "payload": {"fps": 1}}),
    ("POST", "/resets", {"object": "a/b", "newest": {"version": 0, "incarnation": 1}, "version": 3}),
    ("POST", "/resets", {"object": "nothing", "newest": {"version": 6}}),
    ("POST", "/resets", {"object": "a/b"}),
    ("POST", "/resets", {"object": "a/b", "newest": {"version": 3, "incarnation": 2}, "fps": 1}),
    ("POST", "/resets", b"{"),
    ("POST", "/channels/tasks", b"{"),
    ("POST", "/channels/tasks", [1]),
    ("POST", "/channels", b"{"),
    ("POST", "/channels", [1]),
    ("POST", "/objects", b"{"),
    ("PUT", "/objects/lamp/description", b"{"),
    ("PUT", "/objects/lamp/description", [1]),
    ("POST", "/objects/a%2Fb", {"version": 9}),
    ("GET", "/objects/a%2Fb", None),
]


def test_the_same_calls_have_the_same_answers(real: Service, fake: Service) -> None:
    differ = []
    for method, path, body in CALLS:
        one, other = (service.ask(method, path, body) for service in (real, fake))
        if compared(one[1]) != compared(other[1]) or one[0] != other[0]:
            differ.append(f"{method} {path} {body}\n  {one}\n  {other}")
    assert not differ, "\n".join(differ)


RAISE = {"raise": True}


def test_the_ledger_has_the_same_answers(real: Service, fake: Service) -> None:
    """One client has it, one's callbacks raise, one sleeps, one is registered for something else."""
    looks = (
        "/objects/camera/lacking",
        "/objects/camera/lacking?limit=1",
        "/objects/camera/lacking?version=1",
        "/clients/has/explanation?object=camera",
        "/clients/raises/explanation?object=camera",
        "/clients/sleeps/explanation?object=camera",
        "/clients/sleeps/explanation",
        "/clients/other/explanation?object=camera",
        "/clients/other/explanation",
        "/clients/other/explanation?object=nothing",
        "/objects/camera",
        "/objects",
    )
    answers = []
    for service in (real, fake):
        publisher = HttpPublisher(service.http)
        publisher.publish(DOMAIN, service.group, "camera", version=1)
        with service.client("sleeps", "camera"):
            pass
        with (
            service.client("has", "camera"),
            service.client("raises", "camera", raises=True),
            service.client("other", "another"),
        ):
            receipt = publisher.publish(DOMAIN, service.group, "camera", RAISE, version=2)
            assert receipt.applied_by(1, WAIT_S) >= (1, 2)
            client = HttpClient(service.http)

            def settled(client: HttpClient = client, group: str = service.group) -> bool:
                behind = client.who_lacks(DOMAIN, group, "camera")
                return (behind.applied, behind.parked, behind.asleep) == (1, 1, 1)

            wait_for(settled, "two lack it, one of them parked")
            answers.append([service.ask("GET", path) for path in looks])
    for path, one, other in zip(looks, *answers, strict=True):
        assert (path, one[0], compared(one[1])) == (path, other[0], compared(other[1]))


def test_a_query_finds_the_same_members(real: Service, fake: Service, faked: FakeService) -> None:
    """Of the fake the test says who is a member."""
    found = []
    for service in (real, fake):
        publisher = HttpPublisher(service.http)
        for name, room in (("lamp-1", 410), ("lamp-2", 411), ("lamp-3", 410)):
            publisher.describe(DOMAIN, service.group, name, {"Room": room})
        publisher.publish(DOMAIN, service.group, "lamp-1", version=7)
        for name in ("lamp-1", "lamp-3"):
            faked.enter(DOMAIN, service.group, "Room = 410", name)

        def find(service: Service = service) -> list[FoundObject]:
            return list(HttpClient(service.http).find(DOMAIN, service.group, "Room = 410", limit=5))

        wait_for(lambda find=find: [one.version for one in find()] == [7, None], "both are found")  # type: ignore[misc]
        found.append(find())
    assert found[0] == found[1]


def test_the_clients_in_python_are_answered_the_same(real: Service, fake: Service) -> None:
    for service in (real, fake):
        publisher, client = HttpPublisher(service.http), HttpClient(service.http)
        receipts = publisher.publish_many(DOMAIN, service.group, {"m1": {"version": 5}, "m2": {"payload": 1}})
        assert [receipt.outcome(WAIT_S).outcome for receipt in receipts] == ["published", "published"]
        with pytest.raises(NotApplied, match="0 of 0 registered clients"):
            receipts[0].applied_by(0.9, timeout_s=1)
        (stale,) = publisher.publish_many(DOMAIN, service.group, {"m1": {"version": 4}})
        with pytest.raises(NeverApplied):
            stale.applied_by(1, WAIT_S)
        newest = stale.outcome(WAIT_S).newest
        assert newest is not None
        with service.client("m", "m1"):
            assert client.reset(DOMAIN, service.group, "m1", {"fps": 1}, newest=newest).applied_by(1.0, WAIT_S) == (
                1,
                0,
            )
            assert client.explain(DOMAIN, service.group, "m", "m1").verdict == "applied"
        with pytest.raises(NewestChanged) as changed:
            client.reset(DOMAIN, service.group, "m1", newest=newest)
        assert changed.value.newest is not None
        assert changed.value.newest[:2] == (0, 1)
        assert client.explain(DOMAIN, service.group, "nobody").verdict == "unknown_client"
