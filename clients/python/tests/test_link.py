"""TLS, for both forms of the client, with certificates made on the spot."""

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest
from coldnotify import Connection, Notify, State, aio
from coldnotify.testing import FakeService

LIMIT_S = 60

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="makes its certificates with openssl")


class Certificates:
    """An authority, and what it has signed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.ca = directory / "ca.pem"
        self._openssl("req", "-x509", *self._new("ca"), "-out", self.ca, "-subj", "/CN=ca", "-days", "2")

    def sign(self, name: str, alternative: str = "IP:127.0.0.1,DNS:localhost") -> tuple[Path, Path]:
        """Certificate and key."""
        request, certificate, extensions = (self._directory / f"{name}.{end}" for end in ("csr", "pem", "ext"))
        extensions.write_text(f"subjectAltName={alternative}\n")
        self._openssl("req", *self._new(name), "-out", request, "-subj", f"/CN={name}")
        key = self._directory / "ca.key"
        self._openssl(
            *("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", key, "-CAcreateserial"),
            *("-days", "2", "-out", certificate, "-extfile", extensions),
        )
        return certificate, self._directory / f"{name}.key"

    def _new(self, name: str) -> tuple[object, ...]:
        key = self._directory / f"{name}.key"
        return ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key)

    @staticmethod
    def _openssl(*arguments: object) -> None:
        subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=LIMIT_S)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def service_context(certificates: Certificates) -> ssl.SSLContext:
    """Of a service that wants to see its clients' certificates."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificates.sign("service"))
    context.load_verify_locations(certificates.ca)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def test_both_sides_show_their_certificates(certificates, service_context):
    cert, key = certificates.sign("client")
    with FakeService(ssl_context=service_context) as service:
        told = []
        connection = Connection("127.0.0.1", service.port, certificates.ca, cert, key)
        notify = Notify("d", "g", "c", State(None), connection)
        notify.register("a").subscribe(told.append)
        service.publish("d", "g", "a", {"text": "x" * 4000})
        assert notify.connect(timeout_s=LIMIT_S)
        assert len(told[0].payload["text"]) == 4000
        notify.disconnect()


async def test_with_asyncio_too(certificates, service_context):
    cert, key = certificates.sign("client-aio")
    with FakeService(ssl_context=service_context) as service:
        connection = Connection("127.0.0.1", service.port, certificates.ca, cert, key)
        notify = aio.Notify("d", "g", "c", State(None), connection)
        notify.register("a")
        assert await notify.connect(timeout_s=LIMIT_S)
        await notify.disconnect()
        assert ("d", "g", "c") in service.service.registered


@pytest.mark.parametrize("name", ["wrong name", "wrong authority"])
def test_a_service_that_is_not_the_right_one_is_not_talked_to(name, certificates, tmp_path):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificates.sign("elsewhere", "DNS:elsewhere.example"))
    ca = certificates.ca if name == "wrong name" else Certificates(tmp_path).ca
    with FakeService(ssl_context=context) as service:
        notify = Notify("d", "g", "c", State(None), Connection("127.0.0.1", service.port, ca))
        assert not notify.connect(timeout_s=0.5)
        for _ in range(LIMIT_S * 10):
            if notify.status.last_problem or notify.wait_caught_up(0.1):
                break
        assert "certificate verify failed" in (notify.status.last_problem or "")
        notify.disconnect()
        assert service.service.registered == {}
