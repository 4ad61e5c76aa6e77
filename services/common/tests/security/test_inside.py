"""Ports for looking in with certificates, over real TLS: who may, what is open, and files that are replaced.

Stands for: inside, inside_tls
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from weakref import WeakSet

import pytest
from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector, web
from coldnotify_common.errors import SettingError
from coldnotify_common.http.admin import AdminServer
from coldnotify_common.security import inside_tls
from coldnotify_common.security.certificates import Authority
from coldnotify_common.security.identity import Identity
from coldnotify_common.security.inside import Inside, InsideSettings, may_look
from coldnotify_common.security.inside_tls import AskInsideSettings, InsideTls
from cryptography import x509
from structlog.testing import capture_logs
from yarl import URL

HOSTS = ["localhost", "127.0.0.1"]
LIMIT_S = 60
Asks = Callable[[str, tuple[Path, Path] | None], ssl.SSLContext]


@pytest.fixture(autouse=True)
def no_lists_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """aiohttp remembers applications, and so the lists of the revoked that are asked there, for the tests to come."""
    monkeypatch.setattr("coldnotify_common.security.revocation._LISTS", WeakSet())


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "certs")


def settings(authority: Authority, **more: str) -> InsideSettings:
    certificate, key = authority.inside(HOSTS)
    files: dict[str, Any] = {"inside_certificate": str(certificate), "inside_key": str(key)}
    return InsideSettings(**files | {"inside_ca": str(authority.directory / "ca.pem")} | more)


async def served(inside: Inside) -> AsyncIterator[str]:
    async def look(_request: web.Request) -> web.Response:
        return web.json_response("secret")

    server = AdminServer(
        "127.0.0.1", 0, readiness=lambda: None, routes=[web.route("*", "/v1/{path:.*}", look)], inside=inside
    )
    await server.start()
    try:
        yield f"127.0.0.1:{server.port}"
    finally:
        await server.stop()


async def status(
    address: str, path: str, authority: Authority, proof: tuple[Path, Path] | None = None, method: str = "GET"
) -> int:
    """0: the handshake failed."""
    context = ssl.create_default_context(cafile=str(authority.directory / "ca.pem"))
    if proof is not None:
        context.load_cert_chain(*proof)
    connector, timeout = TCPConnector(ssl=context), ClientTimeout(LIMIT_S)
    async with ClientSession(f"https://{address}", connector=connector, timeout=timeout) as http:
        try:
            async with http.request(method, URL(path, encoded=True)) as answer:
                return answer.status
        except ClientError:
            return 0


async def test_services_and_operators_may_look_and_probes_are_open(authority: Authority, tmp_path: Path) -> None:
    revoked = tmp_path / "revoked"
    revoked.write_text("")
    async for address in served(Inside(settings(authority, auth_revoked=str(revoked)))):
        for path in ("/healthz", "/readyz", "/metrics"):
            assert await status(address, path, authority) == 200
        operator = authority.operator("ada")
        for proof, expected in (
            (None, 401),
            (authority.client("d", "g", "c"), 403),
            (authority.publisher(["d"]), 403),
            (authority.inside(HOSTS), 200),
            (operator, 200),
            (Authority(tmp_path / "another").operator("ada"), 0),
        ):
            assert await status(address, "/v1/look", authority, proof) == expected, proof
        async with ClientSession(f"http://{address}", timeout=ClientTimeout(LIMIT_S)) as http:
            with pytest.raises(ClientError):
                await http.get("/metrics")  # nothing is said in the clear


GRANTS = {
    "none": (Identity("none", (("d", "g", "u-7"),), ()), 403),
    "own": (Identity("own", (("d", "g", "u-7"),), (), owns=(("d", "g", "u-7", "units/{client}/"),)), 403),
    "own of all": (Identity("own", (), (), owns=(("*", "*", "*", "units/{client}/"),)), 403),
    "may publish": (Identity("publisher", (), ("d",)), 403),
    "operator": (Identity("operator", (), ("*",)), 200),
    "service": (Identity("service", (), (), ("matcher",)), 200),
}


@pytest.mark.parametrize("grant", GRANTS)
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
async def test_each_grant_at_this_door(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, grant: str, method: str
) -> None:
    """Also to names of its own a client says nothing here: not even `own` opens a matcher's port."""
    identity, expected = GRANTS[grant]
    inside = Inside(settings(authority))
    monkeypatch.setattr(inside, "identify", lambda _certificate: identity)
    async for address in served(inside):
        path = "/v1/domains/d/groups/g/objects/units%2Fu-7%2Ft/description"
        assert await status(address, path, authority, authority.client("d", "g", "u-7"), method) == expected


async def test_an_operator_that_is_revoked_may_look_no_longer(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coldnotify_common.security.revocation.LOOK_S", 0.0)
    operator = authority.operator("ada")
    number = x509.load_pem_x509_certificate(operator[0].read_bytes()).serial_number
    revoked = tmp_path / "revoked"
    revoked.write_text("")
    async for address in served(Inside(settings(authority, auth_revoked=str(revoked)))):
        assert await status(address, "/v1/look", authority, operator) == 200
        revoked.write_text(f"serial {number:x}\n")
        assert await status(address, "/v1/look", authority, operator) == 401


async def test_who_asks_shows_the_same_certificate_and_checks_the_others(authority: Authority, tmp_path: Path) -> None:
    asks = InsideTls(settings(authority))
    assert (asks.on, asks.scheme) == (True, "https")
    async for address in served(Inside(settings(authority))):
        async with ClientSession(timeout=ClientTimeout(LIMIT_S)) as http:
            async with http.get(f"https://{address}/v1/look", ssl=asks.client or True) as answer:
                assert answer.status == 200
            another = InsideTls(settings(Authority(tmp_path / "another")))
            with pytest.raises(ClientError):
                await http.get(f"https://{address}/v1/look", ssl=another.client or True)


async def test_files_that_are_replaced_are_taken_and_what_cannot_be_used_changes_nothing(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inside_tls, "LOOK_S", 0.0)
    given = settings(authority)
    inside = Inside(given)

    def serial_number(address: str) -> int:
        host, _, port = address.partition(":")
        context = ssl.create_default_context(cafile=given.inside_ca)
        plain = socket.create_connection((host, int(port)), LIMIT_S)
        with context.wrap_socket(plain, server_hostname=host) as encrypted:
            return int(str((encrypted.getpeercert() or {})["serialNumber"]), 16)

    async for address in served(inside):
        first = await asyncio.to_thread(serial_number, address)
        for path in (given.inside_certificate, given.inside_key):
            await asyncio.to_thread(Path(path).unlink)
        with capture_logs() as logs:
            inside.look()
            inside.look()
        assert len(logs) <= 1, "it is said once; the port's own look may have been first"
        assert await asyncio.to_thread(serial_number, address) == first
        before = inside.client
        authority.inside(HOSTS)
        inside.look()
        assert inside.client is not before
        assert await asyncio.to_thread(serial_number, address) != first
        assert await status(address, "/v1/look", authority, authority.inside(HOSTS)) == 200


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"inside_ca": ""}, "--inside-ca: is needed with --inside-certificate"),
        ({"inside_certificate": ""}, "--inside-key: is of no use without --inside-certificate"),
        ({"inside_certificate": "missing.pem"}, "--inside-certificate: missing.pem and its key cannot be used"),
        ({"inside_ca": "missing.pem"}, "--inside-ca: missing.pem cannot be used"),
        ({"inside_rule": "san-uri"}, "--inside-rule: 'san-uri' is not SOURCE:TEMPLATE"),
        ({"inside_rule": "claim:{service}"}, "--inside-rule: .* none of cn"),
        ({"inside_rule": "cn:{client}=>own:units/{client}/"}, "--inside-rule: own: gives no access to this port"),
        ({"auth_revoked": "missing"}, "--auth-revoked: missing: cannot be read"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(authority: Authority, more: dict[str, str], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        Inside(settings(authority, **more))


def test_without_a_certificate_everybody_may_look_and_that_is_said_where_others_reach_it() -> None:
    inside = Inside(InsideSettings())
    assert may_look(inside.identify(None))
    assert (inside.server, inside.client, inside.scheme) == (None, None, "http")
    assert InsideTls(AskInsideSettings()).client is None
    with capture_logs() as logs:
        for host in ("127.0.0.1", "localhost", "::1", "0.0.0.0", ""):
            inside.announce("matcher", host)
    assert [line["host"] for line in logs] == ["0.0.0.0", ""]
