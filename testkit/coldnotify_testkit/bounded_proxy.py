"""A proxy in front of an HTTP port that ends answers without an end: a stream of events after its first event.

So that what reads an answer to its end, as Schemathesis does, can ask for streams, too.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import NamedTuple
from urllib.parse import urlsplit

STREAM = "text/event-stream"
FIRST_EVENT_S = 100.0
"""The longest wait for an answer, and for its next bytes. Long, because a busy machine is not an error."""
FIRST_EVENT_BYTES_MAX = 1024 * 1024
"""A first event that is longer has no end."""
_OF_ONE_HOP = ("connection", "transfer-encoding", "keep-alive")


class BoundedProxy(NamedTuple):
    """One that runs."""

    url: str
    answers: Counter[tuple[str, int]]
    """The number of answers, by path and status."""


@contextmanager
def in_front_of(url: str) -> Iterator[BoundedProxy]:
    """A proxy for the port with this URL; it answers 504 where the port has not sent a whole first event in time."""
    target = urlsplit(url).netloc
    counted: Counter[tuple[str, int]] = Counter()

    class Handler(_Handler):
        port = target
        answers = counted

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield BoundedProxy(f"http://127.0.0.1:{server.server_port}", counted)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    port: str
    answers: Counter[tuple[str, int]]
    protocol_version = "HTTP/1.1"

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        there = HTTPConnection(self.port, timeout=FIRST_EVENT_S)
        try:
            there.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in _OF_ONE_HOP:
                    there.putheader(name, value)
            there.endheaders(body)
            answer = there.getresponse()
            data = first_event(answer) if STREAM in (answer.getheader("Content-Type") or "") else answer.read()
        except (OSError, HTTPException, ValueError) as error:
            self.send_error(504, type(error).__name__, str(error))
            return
        finally:
            there.close()
        self.answers[urlsplit(self.path).path, answer.status] += 1
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in (*_OF_ONE_HOP, "content-length"):
                self.send_header(name, value)
        if answer.status >= 200 and answer.status != 204:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def __getattr__(self, name: str) -> Callable[[], None]:
        """Whatever the method is called."""
        if name.startswith("do_"):
            return self._pass_on
        raise AttributeError(name)

    def log_message(self, *_arguments: object) -> None:
        """Logs nothing, because requests are drawn at random."""


def first_event(answer: HTTPResponse) -> bytes:
    """A stream of events to the end of its first one that has data. Raises ValueError where it has none."""
    taken, event = b"", b""
    for line in iter(answer.readline, b""):
        taken += line
        if line.strip():
            event += line
        elif b"\ndata:" in b"\n" + event:
            return taken
        else:  # a comment, or how soon to come back
            event = b""
        if len(taken) > FIRST_EVENT_BYTES_MAX:
            raise ValueError(f"the first event is longer than {FIRST_EVENT_BYTES_MAX} bytes")
    raise ValueError(f"the stream ended before its first event: {taken[:200]!r}")
