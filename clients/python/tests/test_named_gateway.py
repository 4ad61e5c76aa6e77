"""The directory that names gateways, over real HTTP."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from coldnotify import Connection, Notify, State
from coldnotify._core.document.document import ClientIdentity
from coldnotify._core.session.reconnect import Address
from coldnotify._named_gateway import HOME_OUT_S, NamedGateway, NoGateway, ask_directory, requests_of
from coldnotify.testing import FakeService

ME = ClientIdentity("animal.observer", "region-1", "observer-1")


class Answers:
    """A directory: the answers that it is to give, and the questions that it got."""

    def __init__(self) -> None:
        self.status = 200
        self.body: Any = {"address": "gw1:55000", "home_ready": True}
        self.retry_after: str | None = None
        self.asked: list[tuple[str, dict[str, list[str]], str | None]] = []


@contextmanager
def directory() -> Iterator[tuple[str, Answers]]:
    answers = Answers()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            answers.asked.append((url.path, parse_qs(url.query), self.headers.get("Authorization")))
            body = answers.body if isinstance(answers.body, bytes) else json.dumps(answers.body).encode()
            self.send_response(answers.status)
            if answers.retry_after is not None:
                self.send_header("Retry-After", answers.retry_after)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Nothing is logged."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", answers
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def ask(url: str, home: str | None = None, *, token: str | None = None, web: bool = False) -> NamedGateway:
    connection = Connection("ws://gw9" if web else None, home=home, directory=url)
    requests = requests_of(url, token, None)
    return ask_directory(requests, ME, connection.gateways().home, connection.named, 5, web=web)


def test_it_is_asked_for_this_client_and_names_an_address() -> None:
    with directory() as (url, answers):
        assert ask(url, token="mine") == (Address("gw1", 55000), 0.0)
        assert ask(f"{url}/", "gw0") == (Address("gw1", 55000), 0.0)
    whose = {"domain": ["animal.observer"], "group": ["region-1"], "client": ["observer-1"]}
    assert answers.asked == [
        ("/v1/gateway", whose, "Bearer mine"),
        ("/v1/gateway", whose | {"home": ["gw0:55000"]}, None),
    ]


def test_web_clients_are_named_web_addresses() -> None:
    with directory() as (url, answers):
        answers.body = {"address": "gw1:55003"}
        named = ask(url, web=True).address
        answers.body = {"address": "wss://gw2/push"}
        assert str(ask(url, web=True).address) == "wss://gw2:443/push"
    assert str(named) == "ws://gw1:55003/v1/connect"
    assert answers.asked[0][1]["listener"] == ["web"]


def test_it_says_for_how_long_the_home_takes_nobody() -> None:
    with directory() as (url, answers):
        answers.body = {"address": "gw1", "home_ready": False, "until": 1000 * (time.time() + 300)}
        assert ask(url, "gw0").home_out_s == pytest.approx(300, abs=5)
        answers.body = {"address": "gw1", "home_ready": False}
        assert ask(url, "gw0").home_out_s == HOME_OUT_S
        assert ask(url).home_out_s == 0


def test_a_refusal_says_when_to_ask_again() -> None:
    with directory() as (url, answers):
        answers.status, answers.retry_after, answers.body = 503, "17", {"error": "no gateway is ready"}
        with pytest.raises(NoGateway, match="directory: no gateway is ready") as refused:
            ask(url)
        assert refused.value.retry_after_s == 17


@pytest.mark.parametrize("body", [b"no JSON", {"address": "a b"}, {}, {"address": "ftp://x"}, ["gw1"]])
def test_an_answer_that_names_nothing_is_an_error(body: object) -> None:
    with directory() as (url, answers):
        answers.body = body
        with pytest.raises(NoGateway, match="directory: "):
            ask(url)
    with pytest.raises(NoGateway, match="directory: "):
        ask(url)


@pytest.mark.parametrize("url", ["gw1:55000", "ftp://x", "http://"])
def test_its_url_is_checked(url: str) -> None:
    with pytest.raises(ValueError, match="directory: "):
        Connection(directory=url)


def test_a_client_that_knows_no_address_comes_by_the_directory() -> None:
    with FakeService() as service, directory() as (url, answers):
        host, port = "127.0.0.1", service.port
        answers.body = {"address": f"{host}:{port}"}
        connection = Connection(directory=url)
        notify = Notify(ME.domain, ME.group, ME.client, state=State(None), connection=connection)
        try:
            assert notify.connect(30)
            assert notify.status.address == f"{host}:{port}"
        finally:
            notify.disconnect()
    assert len(answers.asked) == 1
