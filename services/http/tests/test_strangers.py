"""Connections that ask nothing are bounded at the port that publishers, devices and browsers reach."""

import asyncio
import ssl
from pathlib import Path

import pytest
from aiohttp import ClientSession, ClientTimeout, TCPConnector
from coldnotify_common.certificates import Authority
from coldnotify_http.app import HttpService
from coldnotify_http.settings import HttpSettings
from prometheus_client import CollectorRegistry

LIMIT_S = 60
TRICKLED = b"POST /v1/sync HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{"


async def end(reader: asyncio.StreamReader) -> bytes:
    """The first of what comes before the connection is closed."""
    try:
        return await reader.read(12)
    except ConnectionResetError:
        return b""


@pytest.mark.parametrize("secure", [False, True])
async def test_who_asks_nothing_is_closed_while_others_are_served(
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
