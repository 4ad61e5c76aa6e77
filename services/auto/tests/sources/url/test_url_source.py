"""Addresses as sources, with a real web server: conditional requests, bounds, changes only.

Stands for: conditional_get
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from coldnotify_auto.row_rules import Naming
from coldnotify_auto.source import RunStopped
from coldnotify_auto.sources.url.conditional_get import ConditionalGet, FetchFailed, check_url
from coldnotify_auto.sources.url.url_source import UrlSource
from coldnotify_auto.templates import Template
from coldnotify_testkit.collecting_outlet import CollectingOutlet

Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def served(answers: list[Answer]) -> Iterator[str]:
    """A server that gives these answers, the last one again and again."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
            answer(self)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/x"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def answer(status: int, body: bytes = b"", **headers: str) -> Answer:
    def give(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        for name, value in {"content_length": str(len(body)), **headers}.items():
            request.send_header(name.replace("_", "-"), value)
        request.end_headers()
        request.wfile.write(body)

    return give


def conditional(request: BaseHTTPRequestHandler) -> None:
    """304 for the tag "1", else its content."""
    if request.headers["If-None-Match"] == '"1"' and request.headers["If-Modified-Since"] == "yesterday":
        request.send_response(304)
        request.end_headers()
    else:
        answer(200, b'{"t": 1}\n', etag='"1"', last_modified="yesterday")(request)


def followed(url: str, outlet: CollectingOutlet) -> CollectingOutlet:
    naming = Naming(Template("d"), Template("g"), Template("o"))
    with pytest.raises(RunStopped):
        UrlSource("s", url, naming, every_s=0.01, timeout_s=5).run(outlet)
    return outlet


def test_an_answer_is_published_when_it_has_changed() -> None:
    answers = [answer(200, b"1"), answer(200, b"1"), answer(500), answer(200, b"2"), answer(410), answer(200, b"2")]
    with served(answers) as url:
        first = followed(url, CollectingOutlet(lambda outlet: len(outlet.changes) >= 4))
        assert first.told == [("o", b"1"), ("o", b"2"), ("o", None), ("o", b"2")]
        again = followed(url, first.again(lambda outlet: outlet.reason is None))
    assert again.changes == []


def test_an_unchanged_answer_is_not_sent_again() -> None:
    with served([conditional]) as url:
        get = ConditionalGet(url, timeout_s=5, bytes_max=100)
        fetched = get.fetch()
        assert fetched is not None
        assert fetched.body == b'{"t": 1}\n'
        assert get.fetch() is None
        assert get.fetch() is None


def endless(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.end_headers()
    try:
        while True:
            request.wfile.write(b"x")
    except OSError:
        pass


def test_answers_have_bounds() -> None:
    with served([answer(200, b"x" * 101)]) as url:
        with pytest.raises(FetchFailed, match="more than 100 bytes"):
            ConditionalGet(url, timeout_s=5, bytes_max=100).fetch()
        assert ConditionalGet(url, timeout_s=5, bytes_max=101).fetch()
    with served([endless]) as url, pytest.raises(FetchFailed, match=r"as a whole within 0\.1 s|more than"):
        ConditionalGet(url, timeout_s=0.1, bytes_max=10_000_000).fetch()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (answer(404), "answered 404"),
        (answer(204), "answered 204, expected 200"),
        (answer(304), "answered 304"),
        (answer(200, b"12", content_length="5"), "answered 2 of 5 bytes"),
        (answer(302, location="ftp://h/x"), "is redirected to 'ftp://h/x', which is not a URL"),
    ],
)
def test_other_answers_are_refused(given: Answer, words: str) -> None:
    with served([given]) as url, pytest.raises(FetchFailed, match=words):
        ConditionalGet(url, timeout_s=5, bytes_max=100).fetch()


def test_nobody_there_is_said() -> None:
    with pytest.raises(FetchFailed, match="URLError"):
        ConditionalGet("http://127.0.0.1:1/", timeout_s=5, bytes_max=100).fetch()


@pytest.mark.parametrize("url", ["ftp://x/", "http:///x", "http://u:p@h/", "x", "http://h/a b"])
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"is not a URL|contains"):
        check_url(url)
