"""Every port behind a real nginx and a real HAProxy, with the configurations of docs/proxies.md."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest
from coldnotify import Connection, Notify, State
from coldnotify_testkit.balancers import MISSING, balancer, documented
from coldnotify_testkit.paho_device import PahoDevice
from coldnotify_testkit.server_sent_events import ServerSentEvent, events_of
from coldnotify_testkit.stack import Recorder, Up
from coldnotify_testkit.waiting import wait_for

pytestmark = pytest.mark.kafka

LIMIT_S = 120
DOMAIN, GROUP = "animal.observer", "proxies"
WEB, TCP = 8080, 8055
"""What the configurations listen on."""
DEFAULTS = """
events {}
http { server { listen 8080; location / { proxy_pass http://127.0.0.1:55002; } } }
"""
"""Of nginx."""
LARGE = 1_700_000_000_000_000_001
PROXIES = [
    pytest.param(name, marks=pytest.mark.skipif(why is not None, reason=str(why))) for name, why in MISSING.items()
]


def port_of(up: Up, kind: str) -> int:
    said = up.report[kind]
    return int(str(said[0] if isinstance(said, list) else said).rpartition(":")[2])


@contextmanager
def before(up: Up, kind: str, proxy: str, directory: Path, configuration: str = "") -> Iterator[dict[int, int]]:
    """A proxy before a port of the stack, by its name in the ready report; where it has TCP, before the gateway's."""
    behind = {55002: port_of(up, kind), 55000: up.gateway[1]}
    with balancer(proxy, configuration or documented(proxy), behind, directory) as ports:
        yield ports


def ask(url: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(url, data, {"Content-Type": "application/json"}), timeout=LIMIT_S) as answer:
        return json.load(answer)


def publish(up: Up, name: str, version: int) -> None:
    asked = f"{up.http_url}/v1/domains/{DOMAIN}/groups/{GROUP}/objects/{name}"
    assert ask(asked, {"version": version})["outcome"] == "published"


@contextmanager
def stream(url: str) -> Iterator[Iterator[ServerSentEvent]]:
    """The events of a stream, as they come."""
    with urlopen(url, timeout=LIMIT_S) as answer:
        assert answer.headers["Content-Type"] == "text/event-stream"
        yield events_of(answer)


def is_told_live(up: Up, port: int, name: str) -> None:
    query = urlencode({"domain": DOMAIN, "group": GROUP, "object": name})
    with stream(f"http://127.0.0.1:{port}/v1/events?{query}") as told:
        assert next(told).data == {"object": name, "version": None}
        assert next(told).name == "caught-up"
        publish(up, name, LARGE)
        assert next(told).data == {"object": name, "version": LARGE, "version_text": str(LARGE)}


@pytest.mark.skipif(MISSING["nginx"] is not None, reason=str(MISSING["nginx"]))
@pytest.mark.parametrize("kind", ["http", "web"])
def test_nginx_holds_no_stream_back_as_it_is_by_itself(up: Up, kind: str, tmp_path: Path) -> None:
    with before(up, kind, "nginx", tmp_path, DEFAULTS) as ports:
        is_told_live(up, ports[WEB], f"defaults-{kind}")
        if kind == "http":
            with stream(f"http://127.0.0.1:{ports[WEB]}/v1/console/events") as told:
                assert "now_ms" in next(told).data


@pytest.mark.parametrize("proxy", PROXIES)
@pytest.mark.parametrize("kind", ["http", "web"])
def test_devices_and_pages_are_told_through_it(up: Up, kind: str, proxy: str, tmp_path: Path) -> None:
    name = f"{proxy}-{kind}"
    with before(up, kind, proxy, tmp_path) as ports:
        web = f"http://127.0.0.1:{ports[WEB]}"
        assert ask(f"{web}/v1/openapi.json")["openapi"] == "3.1.0"
        is_told_live(up, ports[WEB], name)
        asked = {"domain": DOMAIN, "group": GROUP, "client": f"sync-{name}", "registrations": [name]}
        synced = ask(f"{web}/v1/sync", asked)
        assert [one["version"] for one in synced["notifications"]] == [LARGE]
        told = Recorder()
        address = f"ws://127.0.0.1:{ports[WEB]}"
        client = Notify(DOMAIN, GROUP, f"ws-{name}", State(None), Connection(address, keepalive_s=1, silence_grace_s=1))
        client.register(name).subscribe(told)
        client.connect()
        try:
            wait_for(lambda: told.newest(name) == LARGE, "it is told the newest")
            publish(up, name, LARGE + 1)
            wait_for(lambda: told.newest(name) == LARGE + 1, "and what is published")
        finally:
            client.disconnect()
        with PahoDevice(ports[WEB], f"{DOMAIN}/{GROUP}/mqtt-{name}", websocket=True) as device:
            device.subscribe(name)
            device.wait_told(name, b'{"version":%d}' % (LARGE + 1))


@pytest.mark.parametrize("proxy", PROXIES)
def test_whoever_publishes_or_looks_in_is_answered_through_it(up: Up, proxy: str, tmp_path: Path) -> None:
    group = f"{DOMAIN}/groups/{GROUP}"
    with before(up, "http", proxy, tmp_path) as ports:
        base = f"http://127.0.0.1:{ports[WEB]}/v1/domains/{group}"
        many = {"objects": {f"{proxy}/{i}": {"version": i, "payload": "x" * 3000} for i in range(1000)}}
        assert len(ask(f"{base}/objects", many)["results"]) == 1000, "3 MB in a request"
        shown = ask(f"{base}/objects/{proxy}%2F7")
        assert (shown["object"], shown["version"]) == (f"{proxy}/7", 7), "names keep their slashes"
        with stream(f"http://127.0.0.1:{ports[WEB]}/v1/console/events") as told:
            assert "now_ms" in next(told).data
    for kind, path in (("gateways_http", "/v1/gateway"), ("matcher", "/v1/partitions")):
        with before(up, kind, proxy, tmp_path) as ports:
            assert ask(f"http://127.0.0.1:{ports[WEB]}{path}")


@pytest.mark.skipif(MISSING["haproxy"] is not None, reason=str(MISSING["haproxy"]))
def test_units_are_told_over_tcp_through_haproxy(up: Up, tmp_path: Path) -> None:
    told = Recorder()
    with before(up, "http", "haproxy", tmp_path) as ports:
        client = Notify(DOMAIN, GROUP, "tcp", State(None), Connection("127.0.0.1", port=ports[TCP], keepalive_s=1))
        client.register("tcp").subscribe(told)
        client.connect()
        try:
            wait_for(lambda: told.seen, "nothing was published yet")
            publish(up, "tcp", 5)
            wait_for(lambda: told.newest("tcp") == 5, "it is told")
        finally:
            client.disconnect()
