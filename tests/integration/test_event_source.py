"""A browser's own EventSource: whatever is killed, stopped or not there yet, its page need not do anything."""

from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlencode

import pytest
from coldnotify.publisher import Publisher
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_kafka.broker.free_ports import free_port
from coldnotify_testkit import balancers
from coldnotify_testkit.balancers import balancer, documented
from coldnotify_testkit.browser import MISSING, Browser
from coldnotify_testkit.gateway_process import GatewayProcess
from coldnotify_testkit.http_process import HttpProcess
from coldnotify_testkit.matcher_process import MatcherProcess

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(MISSING is not None, reason=str(MISSING)),
    pytest.mark.timeout(600),
]

DOMAIN, GROUP = "animal.observer", "pages"
CLOSED = 2
"""EventSource.CLOSED: it never comes back."""
FOLLOW = """
window.pages = {};
for (const [way, url] of Object.entries(arguments[0])) {
  const page = window.pages[way] = { source: new EventSource(url), newest: null, counts: {}, words: null };
  const count = (event) => { page.counts[event.type] = (page.counts[event.type] ?? 0) + 1; };
  page.source.onmessage = (event) => { page.newest = JSON.parse(event.data).version; };
  for (const type of ["error", "caught-up", "heartbeat", "unavailable"]) page.source.addEventListener(type, count);
  page.source.addEventListener("unavailable", (event) => { page.words = JSON.parse(event.data).error; });
}
"""
SHOWN = """Object.entries(window.pages).map(([way, page]) => [way, page.source.readyState, page.newest, page.counts])"""


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>a page</title><p>It looks.")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def page() -> Iterator[str]:
    """A page of an origin of its own."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Page)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Service:
    """A matcher, a gateway and an HTTP service, each on the same ports whenever it is started."""

    def __init__(self, kafka: EmbeddedBroker, directory: Path) -> None:
        self._kafka, self._directory = kafka.bootstrap, directory
        self.web_port, self.http_port = free_port(), free_port()
        self._matcher_port = free_port()

    def matcher(self) -> MatcherProcess:
        return MatcherProcess(self._kafka, self._directory / "matcher.log", matcher_port=self._matcher_port)

    def gateway(self) -> GatewayProcess:
        return GatewayProcess(self._kafka, gateway_web_port=self.web_port, gateway_web_origins="*")

    def http(self) -> HttpProcess:
        return HttpProcess(
            self._directory / "http.log",
            self.http_port,
            kafka=self._kafka,
            http_gateways=f"127.0.0.1:{self.web_port}",
            matcher=f"127.0.0.1:{self._matcher_port}",
        )


def wait_for_all(window: Browser, condition: str, what: str) -> None:
    """Until it holds of every `page`; none may have given up meanwhile."""
    some_closed = f"Object.values(window.pages).some((page) => page.source.readyState == {CLOSED})"
    try:
        window.wait_for(f"{some_closed} || Object.values(window.pages).every((page) => {condition})", what)
    finally:
        shown: Any = window.run(f"return {SHOWN}")
    assert not window.run(f"return {some_closed}"), f"{what}: {shown}"


def test_it_is_told_the_newest_whatever_was_away(
    fresh_kafka: EmbeddedBroker, page: str, window: Browser, tmp_path: Path
) -> None:
    service = Service(fresh_kafka, tmp_path)
    query = urlencode({"domain": DOMAIN, "group": GROUP, "object": "camera"})
    ports = {"gateway": service.web_port, "http": service.http_port}
    with ExitStack() as stack, Publisher(fresh_kafka.bootstrap) as publisher:
        for name, why in balancers.MISSING.items():
            if why is None:
                behind = {55002: service.http_port, 55000: free_port()}
                listening = stack.enter_context(balancer(name, documented(name), behind, tmp_path))
                ports[name] = listening[8080]
        ways = {way: f"http://127.0.0.1:{port}/v1/events?{query}" for way, port in ports.items()}
        relayed = f"page.source.url.startsWith('http://127.0.0.1:{service.web_port}/')"
        away = f"({relayed} || page.counts.unavailable > page.before)"
        note = "for (const page of Object.values(window.pages)) page.before = page.counts.unavailable ?? 0"

        publisher.publish(DOMAIN, GROUP, "camera", version=1)
        window.open(page)
        window.run(FOLLOW, ways)
        http = service.http()
        stack.callback(lambda: http.kill())
        window.run(note)
        wait_for_all(window, away, "before there is a gateway, the HTTP service says so")
        gateway = service.gateway()
        stack.callback(lambda: gateway.__exit__(None, None, None))
        wait_for_all(window, "page.source.readyState == 1", "before there is a matcher, the streams begin")
        matcher = stack.enter_context(service.matcher())
        wait_for_all(window, "page.newest == 1 && page.counts['caught-up']", "they are told the newest")
        wait_for_all(window, "page.counts.heartbeat", "and that somebody is there")

        window.run(note)
        gateway.__exit__(None, None, None)
        publisher.publish(DOMAIN, GROUP, "camera", version=2)
        wait_for_all(window, away, "while the gateway is dead, the HTTP service says so")
        words = window.run("return window.pages.http.words")
        assert words == "no gateway can be reached, see COLDNOTIFY_HTTP_GATEWAYS / --http-gateways"
        gateway = service.gateway()
        wait_for_all(window, "page.newest == 2", "a gateway was killed, and is there again")

        window.run(note)
        assert gateway.stop() == 0
        publisher.publish(DOMAIN, GROUP, "camera", version=3)
        wait_for_all(window, away, "while the gateway is stopped")
        gateway.__exit__(None, None, None)
        gateway = service.gateway()
        wait_for_all(window, "page.newest == 3", "a gateway was stopped, and is there again")

        errors = "for (const page of Object.values(window.pages)) page.before = page.counts.error ?? 0"
        for version, end in ((4, "kill"), (5, "stop")):
            window.run(errors)
            getattr(http, end)()
            publisher.publish(DOMAIN, GROUP, "camera", version=version)
            wait_for_all(window, f"{relayed} || page.counts.error > page.before + 1", "they try, and nobody is there")
            http = service.http()
            wait_for_all(window, f"page.newest == {version}", f"the HTTP service is there again after {end}")

        matcher.kill()
        publisher.publish(DOMAIN, GROUP, "camera", version=6)
        stack.enter_context(service.matcher())
        wait_for_all(window, "page.newest == 6", "a matcher was killed, and is there again")


def test_what_will_never_work_is_final(fresh_kafka: EmbeddedBroker, page: str, window: Browser, tmp_path: Path) -> None:
    service = Service(fresh_kafka, tmp_path)
    with service.gateway() as gateway, service.http() as http:
        gateway.wait_ready()
        http.wait_ready()
        wrong = urlencode({"domain": DOMAIN, "group": "not a name", "object": "camera"})
        ports = {"gateway": service.web_port, "http": service.http_port}
        window.open(page)
        window.run(FOLLOW, {way: f"http://127.0.0.1:{port}/v1/events?{wrong}" for way, port in ports.items()})
        window.wait_for(
            f"Object.values(window.pages).every((page) => page.source.readyState == {CLOSED})", "it gives up at once"
        )
