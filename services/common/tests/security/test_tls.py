"""TLS of a port: which settings go together, what a reload does."""

import asyncio
import os
import signal
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
from coldnotify_common.errors import SettingError
from coldnotify_common.security.certificates import Authority
from coldnotify_common.security.tls import SecureSettings, ServerTls
from coldnotify_testkit.waiting import until
from structlog.testing import capture_logs


def files(directory: Path) -> dict[str, Any]:
    authority = Authority(directory)
    certificate, key = authority.server("gateway", ["localhost"])
    return {
        "tls_certificate": str(certificate),
        "tls_key": str(key),
        "tls_client_ca": str(directory / "ca.pem"),
    }


@pytest.mark.parametrize(
    ("settings", "required", "mode"),
    [
        ({"auth": "certificate"}, True, ssl.CERT_REQUIRED),
        ({"auth": "certificate"}, False, ssl.CERT_OPTIONAL),
        ({"auth": "any"}, True, ssl.CERT_OPTIONAL),
        ({"auth": "any", "tls_client_certificate": "required"}, True, ssl.CERT_REQUIRED),
        ({}, True, ssl.CERT_REQUIRED),
        ({"tls_client_certificate": "optional"}, True, ssl.CERT_OPTIONAL),
        ({"tls_client_ca": ""}, True, ssl.CERT_NONE),
    ],
)
def test_when_a_client_certificate_is_insisted_on(
    settings: dict[str, Any], required: bool, mode: ssl.VerifyMode, tmp_path: Path
) -> None:
    settings = {**files(tmp_path), **settings}
    if settings.get("auth") == "any":
        (tmp_path / "secret").write_text("s" * 32)
        settings |= {"auth_token_algorithm": "HS256", "auth_token_key": str(tmp_path / "secret")}
    context = ServerTls(SecureSettings(**settings)).context(required=required)
    assert context is not None
    assert context.verify_mode is mode
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2


def test_without_certificates_there_is_no_tls() -> None:
    tls = ServerTls(SecureSettings())
    assert (tls.on, tls.context(required=True)) == (False, None)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"auth": "certificate"}, "--tls-client-ca: is needed for --auth certificate"),
        ({"tls_key": "key"}, "--tls-key: is of no use without --tls-certificate"),
        ({"tls_client_certificate": "required"}, "--tls-client-certificate: cannot be required"),
        ({"tls_certificate": "missing.pem"}, "--tls-certificate: missing.pem"),
    ],
)
def test_settings_that_do_not_go_together_are_named(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        ServerTls(SecureSettings(**settings))


async def test_a_signal_reloads_and_what_cannot_be_used_changes_nothing(tmp_path: Path) -> None:
    def take_over(source: str, target: str) -> None:
        Path(target).write_bytes(Path(source).read_bytes())
        os.kill(os.getpid(), signal.SIGHUP)

    first, second = files(tmp_path / "first"), files(tmp_path / "second")
    tls = ServerTls(SecureSettings(**first | {"tls_client_ca": ""}))
    server = await asyncio.start_server(
        lambda _reader, writer: writer.close(), "127.0.0.1", 0, ssl=tls.context(required=False)
    )
    port = server.sockets[0].getsockname()[1]
    before = await asyncio.to_thread(certificate_of, port)
    with tls.reloaded_by_signal(), capture_logs() as logs:
        take_over(second["tls_key"], first["tls_key"])  # which is not that of the certificate
        await until(lambda: len(logs) == 1)
        assert await asyncio.to_thread(certificate_of, port) == before
        take_over(second["tls_certificate"], first["tls_certificate"])
        await until(lambda: len(logs) == 2)
        assert await asyncio.to_thread(certificate_of, port) != before
    assert [line["log_level"] for line in logs] == ["error", "info"]
    server.close()


def certificate_of(port: int) -> bytes | None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port), 60) as plain, context.wrap_socket(plain) as secure:
        return secure.getpeercert(binary_form=True)
