"""At the port that publishers, devices and browsers reach: connections that ask nothing, and pages from elsewhere."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, ClientTimeout, TCPConnector
from coldnotify_common.errors import SettingError
from coldnotify_common.memory import Ebb
from coldnotify_common.security.certificates import Authority
from coldnotify_http.app import HttpService
from coldnotify_http.open_files import SILENT_MAX
from coldnotify_http.settings import HttpSettings
from coldnotify_testkit.waiting import until
from prometheus_client import CollectorRegistry

LIMIT_S = 60
GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
Stranger = tuple[asyncio.StreamReader, asyncio.StreamWriter]
TRICKLED = b"POST /v1/sync HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{"


@pytest.fixture(autouse=True)
def kafka_is_asked_for_a_short_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is none, and an event loop ends only behind the thread that asks."""
    monkeypatch.setattr("coldnotify_http.app._KAFKA_LOOK_TIMEOUT_S", 0.3)


async def end(reader: asyncio.StreamReader) -> bytes:
    """The first of what comes before the connection is closed."""
    try:
        return await reader.read(12)
    except ConnectionResetError:
        return b""


@pytest.mark.parametrize("secure", [False, True])
async def test_a_silent_connection_is_closed_while_others_are_served(
    secure: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coldnotify_http.app._SILENT_S", 3.0)
    tls = {}
    if secure:
        certificate, key = Authority(tmp_path).server("http", ["localhost"])
        tls = {"tls_certificate": str(certificate), "tls_key": str(key)}
    service = HttpService(
        HttpSettings(kafka="127.0.0.1:1", http_port=0, http_body_timeout_s=1, **tls),  # type: ignore[arg-type]
        CollectorRegistry(),
    )
    await service.start()
    try:
        silent = [await asyncio.open_connection("127.0.0.1", service.port) for _ in range(3)]
        silent[1][1].write(b"GET /healthz HT")
        silent[2][1].write(TRICKLED)
        trusting = ssl.create_default_context(cafile=str(tmp_path / "ca.pem")) if secure else True
        async with ClientSession(connector=TCPConnector(ssl=trusting), timeout=ClientTimeout(LIMIT_S)) as http:
            url = f"http{'s' if secure else ''}://localhost:{service.port}/healthz"
            async with http.get(url) as answer:
                assert answer.status == 200
            async with asyncio.timeout(LIMIT_S / 2):
                ends = [await end(reader) for reader, _ in silent]
            # A process that stood still for long has both due at once, the answer and the end.
            assert [one in (b"", b"HTTP/1.1 408") for one in ends] == [True] * 3
            assert ends[:2] == [b"", b""]
            async with http.get(url) as answer:
                assert answer.status == 200
        for _, writer in silent:
            writer.close()
    finally:
        await service.stop()


@pytest.mark.parametrize(("auth", "others_name"), [("none", 421), ("token", 401)])
async def test_pages_from_elsewhere_may_link_to_the_console_and_nothing_else(
    auth: str, others_name: int, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s" * 32)
    settings = HttpSettings(
        kafka="127.0.0.1:1", http_port=0, http_gateways="127.0.0.1:1", http_hosts="ours.example", auth=auth,
        auth_token_algorithm="HS256", auth_token_key=str(secret),
    )  # fmt: skip
    service = HttpService(settings, CollectorRegistry())
    await service.start()
    try:
        url = f"http://127.0.0.1:{service.port}"
        async with ClientSession(url, timeout=ClientTimeout(LIMIT_S)) as http:

            async def status(path: str, **headers: str) -> int:
                sent = {name.replace("_", "-"): value for name, value in headers.items()}
                async with http.get(path, headers=sent) as answer:
                    return answer.status

            link = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}
            assert [await status(path, **link) for path in ("/", "/metrics", "/healthz")] == [200] * 3
            for path in ("/v1/overview", "/v1/console/events", "/v1/domains/d/groups/g/clients", "/console/console.js"):
                assert await status(path, **link) == 403, path
            assert await status("/", Sec_Fetch_Site="same-site", Sec_Fetch_Mode="no-cors") == 403
            assert await status("/v1/sync", **link) != 403, "a gateway knows which pages are welcome"
            overview = "/v1/overview"
            own = await status(overview, Sec_Fetch_Site="same-origin")
            assert own == (200 if auth == "none" else 401)
            assert await status(overview, Host="evil.example") == others_name, "where a page could show no proof"
            assert await status("/v1/sync", Host="evil.example") == 405
            for host in ("ours.example", f"OURS.example:{service.port}", f"localhost:{service.port}", "[::1]"):
                assert await status(overview, Host=host) == own, host
    finally:
        await service.stop()


@asynccontextmanager
async def serving(**settings: Any) -> AsyncIterator[tuple[HttpService, CollectorRegistry]]:
    """The service, whose Kafka is away."""
    registry = CollectorRegistry()
    service = HttpService(HttpSettings(kafka="127.0.0.1:1", http_port=0, **settings), registry)
    await service.start()
    try:
        yield service, registry
    finally:
        await service.stop()


async def connect(service: HttpService, address: str, says: bytes = b"") -> Stranger:
    stranger = await asyncio.open_connection("127.0.0.1", service.port, local_addr=(address, 0))
    stranger[1].write(says)
    return stranger


async def test_a_slow_request_is_answered_while_one_address_floods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coldnotify_http.open_files.SILENT_MAX", 10)
    async with serving() as (service, _), asyncio.timeout(LIMIT_S):
        slow = await connect(service, "127.0.0.3", GET[:10])
        flood = [await connect(service, "127.0.0.2") for _ in range(100)]
        assert [await end(reader) for reader, _ in flood[:91]] == [b""] * 91
        slow[1].write(GET[10:])
        assert await end(slow[0]) == b"HTTP/1.1 200"
        for _, writer in (slow, *flood):
            writer.close()


async def test_a_balancer_says_whose_connections_it_passes_on_and_each_address_has_its_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("coldnotify_common.security.shares.SHARE_PERCENT", 1)
    networks = {"balancers": "127.0.0.7", "gateway_addresses_exempt": "192.0.2.2"}
    async with serving(**networks) as (service, registry), asyncio.timeout(LIMIT_S):
        strangers, silent_share = [], SILENT_MAX // 100
        for address in ("192.0.2.1", "192.0.2.2"):
            header = f"PROXY TCP4 {address} 127.0.0.1 1 2\r\n".encode()
            for _ in range(silent_share + 5):
                strangers.append(await connect(service, "127.0.0.7", header + GET))
                assert await end(strangers[-1][0]) == b"HTTP/1.1 200"
        held = [service.shares.of(address) for address in ("192.0.2.1", "192.0.2.2", "127.0.0.7")]
        assert held == [silent_share, silent_share + 5, 0]
        for _, writer in strangers:
            writer.close()
        wrong = await connect(service, "127.0.0.7", GET)
        assert await end(wrong[0]) == b""
        assert registry.get_sample_value("coldnotify_http_bad_requests_total") == 1
        wrong[1].close()


def test_a_network_that_is_none_is_named() -> None:
    for settings, names in (
        (HttpSettings(balancers="10.0.0.1/8"), "COLDNOTIFY_BALANCERS / --balancers"),
        (
            HttpSettings(gateway_addresses_exempt="10.0.0.1/8"),
            "COLDNOTIFY_GATEWAY_ADDRESSES_EXEMPT / --gateway-addresses-exempt",
        ),
    ):
        with pytest.raises(SettingError, match=f"{names}: 10.0.0.1/8"):
            HttpService(settings, CollectorRegistry())


async def test_a_flood_that_comes_and_goes_between_two_looks_gives_its_memory_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[int] = []

    class Seen(Ebb):
        def tick(self, connections: int, now_s: float, peak: int) -> bool:
            looks.append(peak)
            return super().tick(connections, now_s, peak)

    monkeypatch.setattr("coldnotify_http.app.Ebb", Seen)
    async with serving() as (service, _):
        port = service.port
        flood = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
        for _, writer in flood:
            writer.write(GET)
        assert [await end(reader) for reader, _ in flood] == [b"HTTP/1.1 200"] * 20
        for _, writer in flood:
            writer.close()
        await until(lambda: max(looks, default=0) >= 20, "a look that knows of all")
