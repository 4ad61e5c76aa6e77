"""Prometheus and probes need no identity, whatever the service asks of others; over TLS only its authority."""

import ssl
from pathlib import Path

import pytest
from aiohttp import ClientSession, TCPConnector
from coldnotify_common.security.certificates import Authority
from coldnotify_http.app import HttpService
from coldnotify_http.settings import HttpSettings
from prometheus_client import CollectorRegistry


@pytest.fixture(autouse=True)
def kafka_is_asked_for_a_short_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is none, and an event loop ends only behind the thread that asks."""
    monkeypatch.setattr("coldnotify_http.app._KAFKA_LOOK_TIMEOUT_S", 0.3)


async def test_metrics_are_open_where_everything_else_wants_a_proof(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.server("http", ["localhost"])
    secret = tmp_path / "secret"
    secret.write_text("s" * 32)
    settings = HttpSettings(
        kafka="127.0.0.1:1",
        http_port=0,
        auth="any",
        auth_token_algorithm="HS256",
        auth_token_key=str(secret),
        tls_certificate=str(certificate),
        tls_key=str(key),
        tls_client_ca=str(tmp_path / "ca.pem"),
        tls_client_certificate="required",
    )
    service = HttpService(settings, CollectorRegistry())
    await service.start()
    try:
        trusting = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
        async with ClientSession(connector=TCPConnector(ssl=trusting)) as http:

            async def status(path: str) -> int:
                async with http.get(f"https://localhost:{service.port}{path}") as answer:
                    return answer.status

            assert [await status(path) for path in ("/metrics", "/healthz", "/readyz")] == [200, 200, 503]
            assert [await status(path) for path in ("/v1/overview", "/metrics/", "/v1/domains/d")] == [401, 401, 401]
    finally:
        await service.stop()
