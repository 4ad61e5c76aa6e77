"""Publishing over HTTP, against a played service: what it is asked, and what becomes of its answers."""

import base64
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from coldnotify.http_publisher import (
    Described,
    DescriptionConflict,
    HttpPublisher,
    NotApplied,
    OutboxFull,
    OutboxInUse,
    Published,
    PublishError,
    PublishManyError,
    PublishRejected,
    PublishTimeout,
    RejectedRecord,
    Sent,
)
from coldnotify.testing import FakeService

WAIT_S = 60
DESCRIBED = {"description": {"a": 1}, "version": 5, "revision": "0000004d.7"}
PATH = "/v1/domains/d/groups/g/objects/a%2Fb"


def ledger(*, applied: int, lacking: int) -> dict[str, Any]:
    """An answer about version 7, at offset 41."""
    newest = {"version": 7, "wanted_version": 7, "incarnation": 0, "published": True, "position": 42}
    return {**newest, "applied": applied, "lacking": lacking, "items": []}


class Service:
    """Answers with what the test says, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Any]] = []
        self.token: str | None = None
        self.status = 200
        self.answer: Any = DESCRIBED
        self.retry_after: str | None = None
        self.then: tuple[int, Any] | None = None
        """After the next answer."""
        self.answers: list[tuple[int, Any]] = []
        """Of the next requests, before `answer` counts."""
        self.at_once = self.most_at_once = 0
        service = self

        class Handler(BaseHTTPRequestHandler):
            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                service.asked.append((self.command, self.path, json.loads(body) if body else None))
                service.token = self.headers.get("Authorization")
                if service.answers:
                    service.status, service.answer = service.answers.pop(0)
                service.at_once += 1
                service.most_at_once = max(service.most_at_once, service.at_once)
                said = json.dumps(service.answer).encode()
                self.send_response(service.status)
                if service.retry_after is not None:
                    self.send_header("Retry-After", service.retry_after)
                if service.then is not None:
                    service.status, service.answer = service.then
                service.at_once -= 1  # before it is answered: the next one may come at once
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            do_GET = do_PUT = do_PATCH = do_DELETE = do_POST = handle_any  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def service() -> Iterator[Service]:
    one = Service()
    yield one
    one.server.shutdown()
    one.server.server_close()


def test_a_publish_is_answered_with_what_kafka_said(service: Service) -> None:
    service.answer = {"version": 7, "partition": 3, "offset": 41}
    publisher = HttpPublisher(service.address, token="t")
    assert publisher.publish("d", "g", "a/b", {"x": 1}, version=7, deleted=True) == Published(7, 3, 41)
    publisher.publish("d", "g", "a/b")
    record = {"version": 7, "payload": {"x": 1}, "deleted": True}
    assert service.asked == [("POST", f"{PATH}?outcome=no", record), ("POST", f"{PATH}?outcome=no", {})]
    assert service.token == "Bearer t"


def test_a_receipt_asks_the_same_service(service: Service) -> None:
    publisher = HttpPublisher(service.address, token="t")
    service.answers = [
        (200, {"version": 7, "partition": 3, "offset": 41}),
        (200, {"items": [{"outcome": "published", "reason": None}]}),
        (200, ledger(applied=8, lacking=2)),
        (200, ledger(applied=9, lacking=1)),
    ]
    published = publisher.publish("d", "g", "a/b", version=7)
    assert published.wait(0) is published
    assert published.outcome(WAIT_S).outcome == "published"
    assert published.applied_by(0.9, WAIT_S) == (9, 1)
    paths = [path.partition("?")[0] for _, path, _ in service.asked]
    assert paths == [PATH, "/v1/domains/d/groups/g/outcomes", f"{PATH}/lacking", f"{PATH}/lacking"]
    assert service.token == "Bearer t"


MANY = "/v1/domains/d/groups/g/objects"


def results(*versions: int) -> dict[str, Any]:
    return {"results": [{"version": one, "partition": 3, "offset": one} for one in versions]}


def test_many_are_published_in_order_a_thousand_a_request(service: Service) -> None:
    service.answers = [(200, results(*range(1000))), (200, results(1000))]
    publisher = HttpPublisher(service.address)
    receipts = publisher.publish_many("d", "g", ((f"o{i}", {"version": i, "payload": i}) for i in range(1001)))
    assert receipts == [Published(i, 3, i) for i in range(1001)]
    assert [(method, path, len(body)) for method, path, body in service.asked] == [
        ("POST", f"{MANY}?outcome=no", 1000),
        ("POST", f"{MANY}?outcome=no", 1),
    ]
    assert service.asked[1][2] == [{"object": "o1000", "version": 1000, "payload": 1000}]
    service.answers = [(200, ledger(applied=1, lacking=0))]
    assert receipts[7].applied_by(1, WAIT_S) == (1, 0)
    assert service.asked[-1][1].startswith(f"{MANY}/o7/lacking?version=7")
    assert publisher.publish_many("d", "g", {}) == []


async def test_many_are_published_with_asyncio(service: Service) -> None:
    service.answer = results(7, 8)
    receipts = await HttpPublisher(service.address).publish_many_async("d", "g", {"a": {}, "b": {"deleted": True}})
    assert receipts == [Published(7, 3, 7), Published(8, 3, 8)]
    assert service.asked == [("POST", f"{MANY}?outcome=no", [{"object": "a"}, {"object": "b", "deleted": True}])]


@pytest.mark.parametrize(
    ("objects", "words"),
    [
        ([("a", {}), ("b", {"version": -1})], r"^objects\[1\]: version: -1 is not from 0"),
        ({"a": {}, "": {}}, r"^objects\[1\]: object: "),
        ([("a", {"fps": 5})], r"^objects\[0\]: fps: no version has this field"),
        ([("a", {}), "b"], r"^objects\[1\]: 'b' is not a name with its fields"),
        ([(1, {})], r"^objects\[0\]: object: 1 is not text"),
        ([("a", {"payload": {1}})], r"^objects\[0\]: payload: cannot be written as JSON"),
    ],
)
def test_a_bad_one_of_many_is_named_by_its_place_and_none_is_sent(service: Service, objects: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        HttpPublisher(service.address).publish_many("d", "g", objects)
    assert service.asked == []


def test_each_of_many_has_an_outcome_of_its_own(service: Service) -> None:
    away = {"error": "Kafka is away", "outcome": "unknown: it may be published"}
    failed = {"error": "1 of 1000", "results": [away, *results(*range(1, 1000))["results"]]}
    service.answers = [(503, failed)]
    with pytest.raises(PublishManyError, match="2 of 1001 records were not acknowledged, the first: o0: Kafka") as many:
        HttpPublisher(service.address).publish_many("d", "g", [(f"o{i}", {"version": i}) for i in range(1001)])
    first, *done, last = many.value.outcomes
    assert isinstance(first, PublishError)
    assert isinstance(last, PublishError)
    assert (first.indeterminate, last.indeterminate, str(last)) == (True, False, "not tried: one before it failed")
    assert done == [Published(i, 3, i) for i in range(1, 1000)]
    assert len(service.asked) == 1


def test_one_of_many_that_the_service_refuses_is_named_by_its_place(service: Service) -> None:
    service.answers = [(400, {"error": "b: payload: is too long", "field": "payload", "object": "b"})]
    with pytest.raises(PublishManyError) as many:
        HttpPublisher(service.address).publish_many("d", "g", {"a": {}, "b": {"payload": 5}})
    a, b = many.value.outcomes
    assert isinstance(b, PublishRejected)
    assert str(b) == "objects[1]: b: payload: is too long"
    assert (type(a), str(a)) == (PublishError, f"nothing was written: {b.args[0].replace(': b', ' was refused: b', 1)}")
    service.answers = [(403, {"error": "domain: may not"})]
    with pytest.raises(PublishManyError) as many:
        HttpPublisher(service.address).publish_many("d", "g", {"a": {}})
    assert isinstance(many.value.outcomes[0], PublishRejected)


def test_many_wait_in_the_outbox(tmp_path: Path, service: Service) -> None:
    service.answer = results(1, 2)
    with HttpPublisher(service.address, outbox=tmp_path) as publisher:
        accepted = publisher.publish_many("d", "g", {"a": {"version": 1}, "b": {"version": 2}})
        assert [one.version for one in accepted] == [1, 2]
        assert publisher.flush(WAIT_S) == 0
    assert [one["object"] for one in service.asked[0][2]] == ["a", "b"]


async def test_asyncio_publishes_sends_and_asks_the_same(service: Service) -> None:
    publisher = HttpPublisher(service.address)
    service.answers = [
        (200, {"version": 7, "partition": 3, "offset": 41}),
        (200, ledger(applied=1, lacking=0)),
        (200, {"partition": 3, "offset": 5}),
    ]
    published = await publisher.publish_async("d", "g", "a/b", payload=5)
    assert await published.applied_by_async(1.0, WAIT_S) == (1, 0)
    assert await publisher.send_async("d", "g", "c", {"x": 1}, id="m", to={"t"}) == Sent(3, 5, "m")
    assert [body for method, _, body in service.asked if method == "POST"] == [
        {"payload": 5},
        {"id": "m", "payload": {"x": 1}, "to": ["t"]},
    ]


def test_a_share_of_nobody_is_not_success(service: Service) -> None:
    service.answers = [(200, {"version": 7, "partition": 3, "offset": 41}), (200, ledger(applied=0, lacking=0))]
    published = HttpPublisher(service.address).publish("d", "g", "a/b")
    with pytest.raises(NotApplied, match="0 of 0 registered"):
        published.applied_by(0.9, timeout_s=0)


def test_a_description_is_merged_replaced_removed_and_read(service: Service) -> None:
    publisher = HttpPublisher(f"http://{service.address}/")
    found = Described({"a": 1}, 5, "0000004d.7")
    assert publisher.describe("d", "g", "a/b", {"a": 1, "b": None}) == found
    publisher.describe("d", "g", "a/b", {"a": 1}, replace=True, if_revision="none")
    publisher.describe("d", "g", "a/b", None)
    assert publisher.description("d", "g", "a/b") == found
    assert service.asked == [
        ("PATCH", f"{PATH}/description", {"a": 1, "b": None}),
        ("PUT", f"{PATH}/description?if_revision=none", {"a": 1}),
        ("DELETE", f"{PATH}/description", None),
        ("GET", f"{PATH}/description", None),
    ]


def test_a_description_that_has_changed_says_what_it_is(service: Service) -> None:
    service.status, service.answer = 409, {"error": "if_revision: ...", **DESCRIBED}
    with pytest.raises(DescriptionConflict, match="if_revision") as conflict:
        HttpPublisher(service.address).describe("d", "g", "o", {}, if_revision="0000004d.6")
    assert (conflict.value.found.revision, conflict.value.indeterminate) == ("0000004d.7", False)


@pytest.mark.parametrize(
    ("status", "answer", "error", "indeterminate"),
    [
        (400, {"error": "description: '9' is not a key"}, ValueError, None),
        (404, {"error": "object: d/g/o is not known"}, LookupError, None),
        (403, {"error": "domain: may not"}, PublishError, False),
        (503, {"error": "away", "outcome": "not written"}, PublishError, False),
        (503, {"error": "away", "outcome": "unknown: it may be written"}, PublishError, True),
        (502, "a balancer's page", PublishError, True),
        (200, ["no object"], PublishError, True),
    ],
)
def test_errors_say_whether_it_may_be_done(
    service: Service, status: int, answer: Any, error: type[Exception], indeterminate: bool | None
) -> None:
    service.status, service.answer = status, answer
    with pytest.raises(error) as raised:
        HttpPublisher(service.address).describe("d", "g", "o", {"a": 1})
    assert getattr(raised.value, "indeterminate", None) == indeterminate


def test_nobody_there_and_nobody_who_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(PublishError) as raised:
            HttpPublisher(f"127.0.0.1:{port}", timeout_s=0.2).describe("d", "g", "o", None)
        assert raised.value.indeterminate
    with pytest.raises(PublishError) as raised:
        HttpPublisher(f"127.0.0.1:{port}").describe("d", "g", "o", None)
    assert not raised.value.indeterminate


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="url: ''"):
        HttpPublisher("")
    with pytest.raises(ValueError, match="timeout_s"):
        HttpPublisher(timeout_s=0)
    with pytest.raises(ValueError, match="description: is not JSON"):
        HttpPublisher("127.0.0.1:1").describe("d", "g", "o", {"a": float("nan")})


# -- refusals ----------------------------------------------------------------------------------------------------------

REFUSAL = {"error": "too many objects are on their way to Kafka", "outcome": "not published"}


@pytest.mark.parametrize("status", [429, 503])
def test_a_refused_request_is_retried_and_the_application_sees_a_delay(service: Service, status: int) -> None:
    publisher = HttpPublisher(service.address)
    service.status, service.answer, service.retry_after = status, REFUSAL | {"retry_after_s": 0.05}, "1"
    service.then = (200, {"version": 7, "partition": 3, "offset": 41})
    assert publisher.publish("d", "g", "o", version=7) == Published(7, 3, 41)
    assert (len(service.asked), publisher.refused) == (2, 1)
    assert publisher.interval_s > 0


def test_a_request_refused_for_too_long_raises_a_timeout_with_the_reason(service: Service) -> None:
    publisher = HttpPublisher(service.address, timeout_s=0.5)
    service.status, service.answer, service.retry_after = 503, REFUSAL, "0"
    with pytest.raises(PublishTimeout, match=r"too many objects .*, since 0.5 s; nothing was written") as caught:
        publisher.publish("d", "g", "o", version=7)
    assert not caught.value.indeterminate
    assert len(service.asked) >= 2


@pytest.mark.parametrize(
    ("status", "outcome", "retry_after"),
    [(503, "unknown: it may be published", "1"), (503, "not published", None), (500, "not published", "1")],
)
def test_other_failures_are_raised_at_once(
    service: Service, status: int, outcome: str, retry_after: str | None
) -> None:
    service.status, service.answer, service.retry_after = status, {"error": "e", "outcome": outcome}, retry_after
    with pytest.raises(PublishError) as caught:
        HttpPublisher(service.address).publish("d", "g", "o", version=7)
    assert not isinstance(caught.value, PublishTimeout)
    assert len(service.asked) == 1


def test_descriptions_are_not_sent_again(service: Service) -> None:
    service.status, service.answer, service.retry_after = 503, REFUSAL, "1"
    with pytest.raises(PublishError):
        HttpPublisher(service.address).describe("d", "g", "o", {"a": 1})
    assert len(service.asked) == 1


def test_threads_beyond_what_may_be_sent_at_once_wait_for_their_turn(service: Service) -> None:
    service.answer = {"version": 7, "partition": 3, "offset": 41}
    publisher = HttpPublisher(service.address, in_flight_max=2, flow="fixed", timeout_s=60)
    threads = [threading.Thread(target=publisher.publish, args=("d", "g", f"o{i}")) for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(service.asked), service.most_at_once <= 2) == (20, True)


def test_wrong_numbers_and_controllers_are_told() -> None:
    with pytest.raises(ValueError, match=r"^in_flight_max: 0 is less than 1"):
        HttpPublisher(in_flight_max=0)
    with pytest.raises(ValueError, match=r"^flow: unknown value 'reno', expected one of "):
        HttpPublisher(flow="reno")


def test_a_message_is_sent_with_an_id_of_its_own(service: Service) -> None:
    service.answer = {"partition": 3, "offset": 41}
    publisher = HttpPublisher(service.address)
    sent = publisher.send("d", "g", "a/b", {"look": "north"}, to=["solar"], expires_at=9)
    assert (sent.partition, sent.offset) == (3, 41)
    method, path, body = service.asked[-1]
    assert (method, path) == ("POST", "/v1/domains/d/groups/g/channels/a%2Fb?outcome=no")
    assert body == {"id": sent.id, "payload": {"look": "north"}, "to": ["solar"], "expires_at": 9}
    other = publisher.send("d", "g", "tasks", b"\xff", id="mine", source="ops")
    assert other.id == "mine"
    assert service.asked[-1][2] == {"id": "mine", "payload_base64": "/w==", "source": "ops"}


def test_an_outbox_takes_payloads_up_to_the_services_limit(tmp_path: Path, service: Service):
    with HttpPublisher(service.address, outbox=tmp_path, object_payload_bytes_max=5000) as publisher:
        with pytest.raises(ValueError, match=r"^payload: has 5001 bytes \(at most 5000"):
            publisher.publish("d", "g", "a", b"\xff" * 5001)
        with pytest.raises(ValueError, match=r"^objects\[1\]: payload: has 5001 bytes \(at most 5000"):
            publisher.publish_many("d", "g", {"a": {}, "b": {"payload": b"\xff" * 5001}})
        assert publisher.pending()[0] == 0
    with pytest.raises(ValueError, match=r"^object_payload_bytes_max: 65537 is not from 4096 to 65536"):
        HttpPublisher(service.address, object_payload_bytes_max=65_537)


def test_the_outbox_is_published_once_the_service_is_reachable(tmp_path: Path, service: Service):
    unused = socket.socket()
    unused.bind(("127.0.0.1", 0))
    away = HttpPublisher(f"127.0.0.1:{unused.getsockname()[1]}", outbox=tmp_path)
    with pytest.raises(OutboxInUse, match=r"^outbox: "):
        HttpPublisher(service.address, outbox=tmp_path)
    first = away.publish("d", "g", "a/b", payload={"x": 1}, deleted=True)
    sent = away.send("d", "g", "c", b"\xff", to={"t"})
    away.send("d", "g", "c", None, id="own")
    with pytest.raises(ValueError, match=r"^payload: "):
        away.send("d", "g", "c", {1, 2})
    assert (first.offset, sent.offset, away.pending()[0]) == (-1, -1, 3)
    away.close(0)
    unused.close()
    place = {"partition": 3, "offset": 41}
    service.answer = {"version": 7, **place}
    # One of two is not known to be published: it is sent again, and the other one is not.
    failed = {"error": "1 of 2", "results": [place, {"error": "Kafka", "outcome": "unknown: it may be published"}]}
    service.answers = [(200, service.answer), (503, failed), (200, service.answer)]
    with HttpPublisher(service.address, outbox=tmp_path) as publisher:
        assert publisher.flush(60) == 0
        assert publisher.pending() == (0, 0, 0.0)
        assert publisher.outbox_last_error is None
    own = {"id": "own", "payload_base64": base64.b64encode(b"null").decode()}
    two = [{"channel": "c", "id": sent.id, "payload_base64": base64.b64encode(b"\xff").decode(), "to": ["t"]}]
    assert [body for _, _, body in service.asked] == [
        {"version": first.version, "payload": {"x": 1}, "deleted": True},
        {"messages": [*two, {"channel": "c", **own}]},
        own,
    ]
    channels = "/v1/domains/d/groups/g/channels"
    paths = [
        f"{PATH}?outcome=no&clock_ms={first.version}",
        f"{channels}?outcome=no&in_order=yes",
        f"{channels}/c?outcome=no",
    ]
    assert [path for _, path, _ in service.asked] == paths


@pytest.mark.parametrize("status", [400, 403])
def test_a_permanently_refused_publish_is_set_aside(tmp_path: Path, service: Service, status: int):
    told: list[RejectedRecord] = []
    service.status, service.answer = status, {"error": "domain: may not"}
    service.then = (200, {"version": 7, "partition": 3, "offset": 41})
    with HttpPublisher(service.address, outbox=tmp_path, on_rejected=told.append) as publisher:
        refused = publisher.send("d", "g", "c", 1)
        with pytest.raises(PublishRejected, match="domain: may not"):
            refused.wait(60)  # type: ignore[attr-defined]
        accepted = publisher.send("d", "g", "c", 2)
        assert accepted.wait(60) == Sent(3, 41, accepted.id)  # type: ignore[attr-defined]
    assert [one.id for one in told] == [refused.id]


def test_a_full_outbox_says_so(tmp_path: Path):
    publisher = HttpPublisher("127.0.0.1:1", outbox=tmp_path, outbox_max_records=2)
    publisher.send("d", "g", "c", 1)
    publisher.send("d", "g", "c", 2)
    with pytest.raises(OutboxFull, match=r"^outbox_max_records: "):
        publisher.send("d", "g", "c", 3)
    publisher.close(0)


def test_a_version_comes_behind_its_patch(tmp_path: Path) -> None:
    with FakeService() as fake:
        publisher = HttpPublisher(fake.http)
        publisher.publish("d", "g", "o", 1, version=1, description={"Kind": "lamp", "Room": 410})
        with HttpPublisher(fake.http, outbox=tmp_path / "outbox") as kept:
            kept.publish("d", "g", "o", 2, version=2, description={"Room": None})
            assert kept.flush(60) == 0
        assert publisher.description("d", "g", "o").description == {"Kind": "lamp"}
        with pytest.raises(ValueError, match=r"^description: "):
            publisher.publish("d", "g", "o", 3, version=3, description={"a": [1]})  # type: ignore[dict-item]
