"""Publishing over HTTP, against a played service: what it is asked, and what becomes of its answers."""

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from coldnotify.http_publisher import Described, DescriptionConflict, HttpPublisher, Published, PublishError

DESCRIBED = {"description": {"a": 1}, "version": 5, "revision": "0000004d.7"}
PATH = "/v1/domains/d/groups/g/objects/a%2Fb"


class Service:
    """Answers with what the test says, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Any]] = []
        self.token: str | None = None
        self.status = 200
        self.answer: Any = DESCRIBED
        service = self

        class Handler(BaseHTTPRequestHandler):
            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                service.asked.append((self.command, self.path, json.loads(body) if body else None))
                service.token = self.headers.get("Authorization")
                said = json.dumps(service.answer).encode()
                self.send_response(service.status)
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
    assert publisher.publish("d", "g", "a/b", 7, {"x": 1}, deleted=True) == Published(7, 3, 41)
    publisher.publish("d", "g", "a/b")
    record = {"version": 7, "payload": {"x": 1}, "deleted": True}
    assert service.asked == [("POST", f"{PATH}?outcome=no", record), ("POST", f"{PATH}?outcome=no", {})]
    assert service.token == "Bearer t"


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
    with pytest.raises(ValueError, match="description: is no JSON"):
        HttpPublisher("127.0.0.1:1").describe("d", "g", "o", {"a": float("nan")})
