"""401 and 403, over real HTTP with TLS."""

import ssl
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import jwt
import pytest
from aiohttp import ClientSession, TCPConnector, web
from coldnotify_common.http.admin import bound_port, listen
from coldnotify_common.http.web import json_errors
from coldnotify_common.http.web_auth import authorized
from coldnotify_common.security.authentication import Authenticator
from coldnotify_common.security.certificates import Authority
from coldnotify_common.security.tls import SecureSettings, ServerTls

SECRET = "s" * 32


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "certs")


@pytest.fixture
async def url(authority: Authority, tmp_path: Path) -> AsyncIterator[str]:
    certificate, key = authority.server("http", ["localhost"])
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    settings = SecureSettings(
        auth="any",
        auth_token_algorithm="HS256",
        auth_token_key=str(secret),
        tls_certificate=str(certificate),
        tls_key=str(key),
        tls_client_ca=str(authority.directory / "ca.pem"),
    )

    async def fine(_request: web.Request) -> web.Response:
        return web.json_response("fine")

    app = web.Application(middlewares=[json_errors, authorized(Authenticator(settings))])
    app.add_routes([web.get("/healthz", fine), web.get("/v1", fine), web.get("/v1/domains/{domain}", fine)])
    runner = await listen(app, "127.0.0.1", 0, ssl_context=ServerTls(settings).context(required=False))
    yield f"https://localhost:{bound_port(runner)}"
    await runner.cleanup()


@pytest.fixture
def trusting(authority: Authority) -> Callable[[], ssl.SSLContext]:
    return lambda: ssl.create_default_context(cafile=str(authority.directory / "ca.pem"))


def token(*domains: str) -> dict[str, str]:
    signed = jwt.encode({"sub": "back-end", "publish": domains, "exp": time.time() + 60}, SECRET, "HS256")
    return {"Authorization": f"Bearer {signed}"}


async def test_a_token_is_wanted_and_limits_the_domains(url: str, trusting: Callable[[], ssl.SSLContext]) -> None:
    async with ClientSession(connector=TCPConnector(ssl=trusting())) as http:

        async def get(path: str, headers: dict[str, str] | None = None) -> tuple[int, object]:
            async with http.get(url + path, headers=headers) as answer:
                return answer.status, await answer.json()

        assert await get("/healthz") == (200, "fine")
        assert await get("/v1", token("lamps")) == (200, "fine")
        nowhere = {"error": "back-end may publish to no domain, so there is nothing for it here"}
        assert await get("/v1", token()) == (403, nowhere), "a device, say: what is of many domains is not for it"
        assert (await get("/v1"))[0] == 401
        assert (await get("/v1/no-such-path"))[0] == 401
        assert (await get("/v1/domains/lamps", {"Authorization": "Bearer nonsense"}))[0] == 401
        assert await get("/v1/domains/lamps", token("lamps", "cam*")) == (200, "fine")
        assert (await get("/v1/domains/cameras", token("cam*")))[0] == 200
        assert await get("/v1/domains/doors", token("lamps")) == (
            403,
            {"error": "domain: back-end may not publish to 'doors'", "field": "domain"},
        )
        assert (await get("/v1/domains/doors", token()))[0] == 403


async def test_a_token_whose_end_is_no_time_is_no_error_of_ours(
    url: str, trusting: Callable[[], ssl.SSLContext]
) -> None:
    async with ClientSession(connector=TCPConnector(ssl=trusting())) as http:
        for exp in ("1" + "0" * 400, "1e400", "NaN"):
            signed = jwt.api_jws.encode(f'{{"sub": "x", "publish": "d", "exp": {exp}}}'.encode(), SECRET, "HS256")
            async with http.get(f"{url}/v1/domains/d", headers={"Authorization": f"Bearer {signed}"}) as answer:
                assert (answer.status, exp) == (401, exp)


async def test_a_certificate_does_too(url: str, authority: Authority, trusting: Callable[[], ssl.SSLContext]) -> None:
    context = trusting()
    context.load_cert_chain(*authority.publisher(["lamps"]))
    async with ClientSession(connector=TCPConnector(ssl=context)) as http:
        async with http.get(f"{url}/v1/domains/lamps") as answer:
            assert answer.status == 200
        async with http.get(f"{url}/v1/domains/doors") as answer:
            assert answer.status == 403
    context = trusting()
    context.load_cert_chain(*authority.client("lamps", "g", "c"))
    async with (
        ClientSession(connector=TCPConnector(ssl=context)) as http,
        http.get(f"{url}/v1/domains/lamps") as answer,
    ):
        assert answer.status == 403  # who is told of a domain may not publish to it
