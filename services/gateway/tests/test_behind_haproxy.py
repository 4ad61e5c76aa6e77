"""Behind a real HAProxy, with the configuration of docker-compose.yml, clients have addresses of their own."""

import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from select import select

import pytest
from coldnotify_common.security.certificates import Authority
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_kafka.broker.free_ports import free_port
from coldnotify_testkit.device_frames import hello
from coldnotify_testkit.fetching import fetch
from coldnotify_testkit.gateway_process import GatewayProcess, MatcherOnKafka
from coldnotify_testkit.raw_client import RawClient
from coldnotify_testkit.waiting import WAIT_S, wait_for

CONFIGURATION = Path(__file__).parents[3] / "docker-compose.haproxy.cfg"
HAPROXY = shutil.which("haproxy")
pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(HAPROXY is None, reason="there is no haproxy (Debian's package haproxy has it)"),
]

FLOOD, DEVICE, BALANCER = "127.0.0.2", "127.0.0.3", "127.0.0.1"
SILENT_MAX = 50


@contextmanager
def balancer(gateway: GatewayProcess, directory: Path) -> Iterator[tuple[int, int]]:
    """A running HAProxy before this gateway: its ports for TCP, and for WebSocket and HTTP."""
    tcp, web, status = free_port(), free_port(), free_port()
    text = CONFIGURATION.read_text(encoding="utf-8")
    # What is the container's: names, and the ports that they have there.
    text = re.sub(r"^resolvers docker\n(    .*\n)+", "", text, flags=re.MULTILINE)
    text = text.replace(" resolvers docker init-addr last,libc,none", "")
    text = re.sub(r"^    server gateway-2 .*\n", "", text, flags=re.MULTILINE)
    http_port = gateway.event("gateway started")["http_port"]
    for was, now in (
        ("bind :55000", f"bind 127.0.0.1:{tcp}"),
        ("bind :55003", f"bind 127.0.0.1:{web}"),
        ("bind :8404", f"bind 127.0.0.1:{status}"),
        ("gateway-1:55000", f"127.0.0.1:{gateway.port}"),
        ("gateway-1:55003", f"127.0.0.1:{gateway.web_port}"),
        ("check port 55001", f"check port {http_port}"),
        ("maxconn 40000", "maxconn 1000"),
    ):
        assert was in text
        text = text.replace(was, now)
    file = directory / "haproxy.cfg"
    file.write_text(text, encoding="utf-8")
    assert HAPROXY is not None
    with (directory / "haproxy.log").open("wb") as output:
        process = subprocess.Popen([HAPROXY, "-db", "-f", str(file)], stdout=output, stderr=output)
    try:

        def up() -> bool:
            assert process.poll() is None, (directory / "haproxy.log").read_text()
            try:
                return fetch(f"http://127.0.0.1:{status}/healthz", WAIT_S).status == 200
            except OSError:
                return False

        wait_for(up, "HAProxy sees the gateway")
        yield tcp, web
    finally:
        process.kill()
        process.wait(WAIT_S)


@pytest.mark.parametrize("secure", [False, True])
def test_each_client_has_its_own_address_and_a_flood_of_one_keeps_nobody_out(
    secure: bool, fresh_kafka: EmbeddedBroker, tmp_path: Path
) -> None:
    settings = {
        "balancers": BALANCER,
        "gateway_unidentified_max": SILENT_MAX,
        "gateway_handshake_s": 600,
    }
    authority = Authority(tmp_path / "certs")
    certificate, key = authority.server("gateway", ["localhost", "127.0.0.1"])
    context = ssl.create_default_context(cafile=str(authority.directory / "ca.pem"))
    if secure:
        settings |= {"tls_certificate": certificate, "tls_key": key}
    dropped = "coldnotify_gateway_connections_dropped_unidentified_total"
    with (
        MatcherOnKafka(fresh_kafka.bootstrap, 8),
        GatewayProcess(fresh_kafka.bootstrap, **settings) as gateway,
        balancer(gateway.wait_ready(), tmp_path) as (tcp, web),
        ExitStack() as stack,
    ):

        def flood(port: int, count: int) -> list[socket.socket]:
            address = ("127.0.0.1", port)
            return [
                stack.enter_context(socket.create_connection(address, WAIT_S, source_address=(FLOOD, 0)))
                for _ in range(count)
            ]

        def slowly(plain: socket.socket) -> socket.socket:
            flood(tcp, 3 * SILENT_MAX)
            wait_for(lambda: gateway.metric(dropped) >= 2 * SILENT_MAX, "the flood drives out itself")
            return context.wrap_socket(plain, server_hostname="localhost") if secure else plain

        device = stack.enter_context(RawClient(tcp, address=DEVICE, wrap=slowly))
        device.send(hello("slow", domain="d", group="g"))
        device.until("caught_up")
        (shown,) = gateway.json("/v1/sessions")["items"]
        assert (shown["client"], shown["address"]) == ("slow", DEVICE)

        slow = stack.enter_context(socket.create_connection(("127.0.0.1", web), WAIT_S, source_address=(DEVICE, 0)))
        silent = flood(web, 3 * SILENT_MAX)
        wait_for(lambda: len(select(silent, [], [], 0)[0]) >= 2 * SILENT_MAX, "most of the flood is dropped")
        asking = stack.enter_context(context.wrap_socket(slow, server_hostname="localhost")) if secure else slow
        asking.sendall(b"GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n")
        assert asking.recv(4096).startswith(b"HTTP/1.1 404 ")
        assert gateway.metric("coldnotify_gateway_proxy_headers_malformed_total") == 0
