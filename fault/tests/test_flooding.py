"""The tenants of a campaign: what publishers were told becomes what the history says."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from coldnotify_checker.histories import Publish, Published, read_histories
from coldnotify_fault.flooding import TENANTS, Flood, FloodRefusal, answered, post
from coldnotify_fault.history import HistoryFile
from coldnotify_schemas.tenants import tenant_of
from coldnotify_testkit.waiting import wait_for

REFUSED = json.dumps({"limit": "in_per_s", "retry_after_s": 0.25}).encode()
ANSWERS = {
    "/good": (200, b"{}"),
    "/refused": (429, REFUSED),
    "/mute": (429, b"no JSON"),
    "/wrong": (400, b"{}"),
    "/broken": (503, b"{}"),
}


class Service(BaseHTTPRequestHandler):
    """Answers by path; publishes to the flood's domain by turns."""

    posts = 0

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        Service.posts += 1
        status, body = ANSWERS.get(self.path, ANSWERS["/refused" if Service.posts % 2 else "/good"])
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Service)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join(60)
    server.server_close()


def test_answers_contain_what_a_publisher_knows_of_its_call(url: str) -> None:
    assert post(f"{url}/good", b"{}") == "acknowledged"
    assert post(f"{url}/wrong", b"{}") == "failed"
    assert post(f"{url}/broken", b"{}") == "unknown"
    assert post("http://127.0.0.1:1/", b"{}") == "unknown"
    assert post(f"{url}/refused", b"{}") == FloodRefusal("in_per_s", 0.25)
    assert answered(post(f"{url}/mute", b"{}")) == {"outcome": "failed", "refused": "", "retry_after_s": None}


def test_a_flood_records_its_answers(url: str, tmp_path: Path) -> None:
    history = HistoryFile(tmp_path / "run.jsonl")
    flood = Flood(url, history)
    wait_for(lambda: Service.posts > 20, "it publishes")
    flood.stop()
    history.close()
    events = read_histories([tmp_path / "run.jsonl"])
    answers = [event for event in events if isinstance(event, Published)]
    assert len(answers) == sum(isinstance(event, Publish) for event in events)
    assert {(one.outcome, one.refused) for one in answers} == {("acknowledged", None), ("failed", "in_per_s")}


def test_each_tenant_of_a_campaign_is_valid() -> None:
    for name, fields in TENANTS.items():
        assert tenant_of(name, fields).name == name
