"""What strangers hold open holds up no service's stop: real processes, each ends within what docs/operating.md says."""

import json
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.request import Request

import pytest
from coldnotify_kafka.broker import EmbeddedBroker, free_port
from coldnotify_testkit.command import RunningCommand, http_status
from coldnotify_testkit.fetching import fetch
from coldnotify_testkit.waiting import WAIT_S

pytestmark = pytest.mark.kafka

PUBLISH_S, OUTCOME_S = 10, 2
LIMITS_S = {"http": PUBLISH_S + OUTCOME_S + 2, "gateway": 10, "matcher": 10, "usage": 10}
"""docs/operating.md, "Stopping and draining": of the matcher and the usage job it says some seconds."""
_EXIT_S = 3.0
"""For the end of an interpreter, on a machine that others keep busy."""
CLEAN_END = b"\r\n0\r\n\r\n"
"""Of an answer in chunks: it is whole."""
GROUP = "/v1/domains/d/groups/g"
EVENTS = "GET /v1/events?domain=d&group=g&object=o HTTP/1.1\r\nHost: localhost\r\n\r\n"
OUTCOME = f"GET {GROUP}/outcomes?partition={{partition}}&offsets=1000000&wait_s=10 HTTP/1.1\r\nHost: localhost\r\n\r\n"
SYNC = json.dumps({"domain": "d", "group": "g", "client": "c", "registrations": ["o"], "wait_s": 60})


class Stranger:
    """A connection that has said something, and reads what it is told."""

    def __init__(self, port: int, said: str, until: bytes = b"") -> None:
        """Returns once what it was told has `until` in it."""
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)
        self._socket.sendall(said.encode())
        self.told = b""
        while until not in self.told:
            data = self._socket.recv(65536)
            assert data, f"ended with {self.told!r}"
            self.told += data

    def read_to_end(self) -> bytes:
        """All that it was told, the connection is closed then. Raises ConnectionError where it was cut off."""
        with self._socket:
            while data := self._socket.recv(65536):
                self.told += data
        return self.told


class Parts:
    """One of each service, by its name, with the port that strangers reach."""

    def __init__(self, services: dict[str, RunningCommand], ports: dict[str, int]) -> None:
        self.services, self.ports = services, ports
        url = f"http://127.0.0.1:{ports['http']}{GROUP}/objects/o"
        answer = fetch(Request(url, b'{"version": 1}', method="POST"))
        assert answer.status == 200, answer.text
        self.partition = answer.json()["partition"]

    def stop(self, name: str) -> None:
        """SIGTERM; it ends in order, within its limit."""
        service, began_s = self.services[name], time.monotonic()
        service.send(signal.SIGTERM)
        assert service.process.wait(WAIT_S) == 0, service.output
        took_s = time.monotonic() - began_s
        assert took_s < LIMITS_S[name] + _EXIT_S, f"{name} took {took_s:.1f} s"


@pytest.fixture
def parts(fresh_kafka: EmbeddedBroker, tmp_path: Path) -> Iterator[Parts]:
    names = {
        "matcher": "matcher_port",
        "gateway": "gateway_web_port",
        "http": "http_port",
        "usage": "usage_port",
        "gateway_devices": "gateway_port",
        "gateway_admin": "gateway_http_port",
    }
    ports = {name: free_port() for name in names}
    where = {setting: str(ports[name]) for name, setting in names.items()}
    where |= {
        "kafka": fresh_kafka.bootstrap,
        "matcher": f"127.0.0.1:{ports['matcher']}",
        "gateway_http": f"127.0.0.1:{ports['gateway_admin']}",
        "http_gateways": f"http://127.0.0.1:{ports['gateway']}",
        "http_publish_timeout_s": str(PUBLISH_S),
        "http_look_timeout_s": str(OUTCOME_S),
    }
    with ExitStack() as stack:
        services = {
            name: stack.enter_context(RunningCommand(tmp_path / name, name, **where))
            for name in ("matcher", "gateway", "http", "usage")
        }
        for name, port in (("matcher", "matcher"), ("gateway", "gateway_admin"), ("http", "http"), ("usage", "usage")):
            services[name].wait_port_ready(ports[port])
        yield Parts(services, ports)


def half_body(method: str, path: str, kind: str = "application/json") -> str:
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: 1000\r\n\r\n{{"


def ends_cleanly(stranger: Stranger) -> bool:
    return stranger.read_to_end().endswith(CLEAN_END)


def is_told_why(stranger: Stranger) -> bool:
    told = stranger.read_to_end()
    return told.startswith(b"HTTP/1.1 503") and b"the service is stopping" in told


def test_the_http_service_stops_though_streams_and_halves_are_open(parts: Parts) -> None:
    port = parts.ports["http"]
    streams = [
        Stranger(port, EVENTS, b"event: caught-up"),
        Stranger(port, EVENTS, b"event: caught-up"),
        Stranger(port, "GET /v1/console/events HTTP/1.1\r\nHost: localhost\r\n\r\n", b"data: "),
    ]
    halves = [
        Stranger(port, half_body("POST", f"{GROUP}/objects/o")),
        Stranger(port, half_body("POST", "/v1/sync")),
        Stranger(port, half_body("PATCH", f"{GROUP}/objects/o/description")),
    ]
    waiting = Stranger(port, f"POST /v1/sync HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(SYNC)}\r\n\r\n{SYNC}")
    # A body that nobody reads, behind its answer.
    refused = Stranger(port, half_body("POST", "/nothing"), b"404")
    head = Stranger(port, "GET /healthz HTTP/1.1\r\nHost: loc")
    outcome = Stranger(port, OUTCOME.format(partition=parts.partition))
    parts.stop("http")
    assert [ends_cleanly(one) for one in streams] == [True] * 3
    assert [is_told_why(one) for one in halves] == [True] * 3
    assert is_told_why(waiting)
    assert outcome.read_to_end().startswith(b"HTTP/1.1 200"), "what was asked is answered"
    assert (head.read_to_end(), refused.read_to_end().count(b"HTTP/1.1")) == (b"", 1)


def test_a_gateway_stops_though_streams_and_halves_are_open(parts: Parts) -> None:
    port, admin = parts.ports["gateway"], parts.ports["gateway_admin"]
    stream = Stranger(port, EVENTS, b"event: caught-up")
    waiting = Stranger(port, f"POST /v1/sync HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(SYNC)}\r\n\r\n{SYNC}")
    half = Stranger(port, half_body("POST", "/v1/sync"))
    heads = [Stranger(one, "GET /healthz HTTP/1.1\r\nHost: loc") for one in (port, admin)]
    refused = Stranger(admin, half_body("POST", "/nothing"), b"404")
    parts.stop("gateway")
    assert ends_cleanly(stream)
    assert is_told_why(half)
    # It has its cursor, or had not been told it yet.
    assert waiting.read_to_end().startswith((b"HTTP/1.1 200", b"HTTP/1.1 503"))
    assert [one.read_to_end() for one in heads] == [b"", b""]
    assert refused.read_to_end().count(b"HTTP/1.1") == 1


def test_ports_for_looking_in_hold_up_no_stop(parts: Parts) -> None:
    for name in ("matcher", "usage"):
        port = parts.ports[name]
        head = Stranger(port, "GET /healthz HTTP/1.1\r\nHost: loc")
        refused = Stranger(port, half_body("POST", "/nothing"), b"404")
        asked = []
        if name == "matcher":
            half = Stranger(port, half_body("PUT", f"{GROUP}/objects/o/description"))
            asked = [half, Stranger(port, OUTCOME.format(partition=parts.partition))]
        parts.stop(name)
        assert head.read_to_end() == b""
        assert refused.read_to_end().count(b"HTTP/1.1") == 1
        assert [one.read_to_end()[:12] for one in asked] == [b"HTTP/1.1 503"] * len(asked)


def test_a_hangup_stops_no_service(parts: Parts) -> None:
    for name, service in parts.services.items():
        service.send(signal.SIGHUP)
        assert http_status(parts.ports["gateway_admin" if name == "gateway" else name], "/readyz") == 200
        # With exit code 0: the hangup came before.
        parts.stop(name)
