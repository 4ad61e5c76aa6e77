"""Both OUs' applications, as processes, against the client library's own test service."""

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from coldnotify.testing import FakeService
from coldnotify_demo.company import Company
from coldnotify_demo.penguins import observations

LIMIT_S = 60.0


class Web:
    """An HTTP server that gives the same content to every GET, and keeps what is sent to it."""

    def __init__(self) -> None:
        self.content = b""
        self.refusals = 0
        self.posted: list[tuple[str, Any]] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self, content: bytes) -> None:
                status = 200
                if outer.refusals:
                    outer.refusals -= 1
                    status = 503
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def do_GET(self) -> None:
                self.answer(outer.content)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.posted.append((self.path, json.loads(body)))
                self.answer(b"")

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def web() -> Iterator[Web]:
    server = Web()
    yield server
    server.close()


@pytest.fixture
def company(tmp_path: Path) -> Iterator[Company]:
    company = Company(tmp_path, lambda _name, _words: None)
    yield company
    company.close()


def start_configuration_unit(company: Company, service: FakeService, web: Web, directory: Path) -> None:
    company.start(
        "ou",
        "coldnotify_demo.configuration_unit",
        "--group=region-1",
        f"--gateway=127.0.0.1:{service.port}",
        f"--backend={web.url}",
        f"--directory={directory}",
        "ou",
        "camera",
    )


def versions(company: Company) -> list[int | None]:
    return [event["version"] for event in company["ou"].said("told")]


def test_a_configuration_is_fetched_replaced_and_removed(company: Company, web: Web, tmp_path: Path) -> None:
    copy = tmp_path / "ou" / "camera.yaml"
    with FakeService() as service:
        start_configuration_unit(company, service, web, tmp_path / "ou")
        assert company.wait_until(lambda: versions(company) == [None], LIMIT_S), "never published"
        assert company.wait_until(lambda: company["ou"].said("caught up"), LIMIT_S)
        web.content = b"fps: 1"
        service.publish("animal.observer", "region-1", "camera", version=1)
        assert company.wait_until(lambda: versions(company) == [None, 1], LIMIT_S)
        assert copy.read_bytes() == b"fps: 1"
        with service.lock:
            service.service.publish("animal.observer", "region-1", "camera", version=2, deleted=True)
        service.wake()
        assert company.wait_until(lambda: versions(company) == [None, 1, 2], LIMIT_S)
        assert not copy.exists()
        company.stop("ou")


def test_a_failed_fetch_is_retried_and_a_restart_repeats_no_version(company: Company, web: Web, tmp_path: Path) -> None:
    with FakeService() as service:
        web.content, web.refusals = b"fps: 1", 2
        service.publish("animal.observer", "region-1", "camera", version=1)
        start_configuration_unit(company, service, web, tmp_path / "ou")
        assert company.wait_until(lambda: versions(company) == [1], LIMIT_S)
        assert web.refusals == 0
        assert company.wait_until(lambda: company["ou"].said("caught up"), LIMIT_S)
        company.stop("ou")
        start_configuration_unit(company, service, web, tmp_path / "ou")
        assert company.wait_until(lambda: len(company["ou"].said("caught up")) == 2, LIMIT_S)
        company.stop("ou")
        assert versions(company) == [1]


def test_observations_are_uploaded_when_asked_for_and_only_then(company: Company, web: Web, tmp_path: Path) -> None:
    group = ("penguin.observations", "palmer-archipelago")
    with FakeService() as service:
        service.publish(*group, "requests/body-mass", version=1)  # its payload has expired
        company.start(
            "ou",
            "coldnotify_demo.observation_unit",
            f"--gateway=127.0.0.1:{service.port}",
            f"--directory={tmp_path}",
            "Torgersen",
            "body-mass",
            "culmen-length",
        )
        assert company.wait_until(lambda: company["ou"].said("caught up"), LIMIT_S)
        assert web.posted == []
        # In one order: when the last one has been answered, nothing of the others is on its way any more.
        service.publish(*group, "requests/flipper-length", {"upload_to": f"{web.url}/f"})
        service.publish(*group, "requests/culmen-length", {"upload_to": f"{web.url}/c"})
        assert company.wait_until(lambda: company["ou"].said("uploaded"), LIMIT_S)
        company.stop("ou")
    ((path, rows),) = web.posted
    assert path == "/c/torgersen"
    assert rows == [row._asdict() for row in observations("Torgersen", "culmen-length")]
