"""TLS sessions: what the last connection left is offered at the next one, by both forms of the client."""

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest
from coldnotify import Connection, Notify, State, aio
from coldnotify._tls import ContextKeeper
from coldnotify.http_publisher import HttpPublisher, PublishError
from coldnotify.testing import FakeService
from coldnotify_testkit.waiting import until, wait_for

LIMIT_S = 60

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="makes its certificate with openssl")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that signs itself, and its key in the same file."""
    directory = tmp_path_factory.mktemp("tls")
    path = directory / "both.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-keyout", str(path), "-out", str(directory / "certificate.pem"), "-subj", "/CN=localhost"),
            *("-days", "2", "-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
        timeout=LIMIT_S,
    )
    path.write_text(path.read_text() + (directory / "certificate.pem").read_text())
    return path


@pytest.fixture
def context(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


@pytest.fixture
def service(context: ssl.SSLContext):
    with FakeService(ssl_context=context) as running:
        yield running


def test_a_wake_of_the_same_process_resumes(certificate, context, service):
    notify = Notify("d", "g", "c", State(None), Connection("127.0.0.1", service.port, certificate))
    for wakes in (1, 2, 3):
        assert notify.connect(timeout_s=LIMIT_S)
        notify.disconnect()
        assert context.session_stats()["hits"] == wakes - 1


async def test_with_asyncio_too(certificate, context, service):
    notify = aio.Notify("d", "g", "c", State(None), Connection("127.0.0.1", service.port, certificate))
    for wakes in (1, 2, 3):
        assert await notify.connect(timeout_s=LIMIT_S)
        await notify.disconnect()
        assert context.session_stats()["hits"] == wakes - 1


def test_files_that_were_replaced_make_a_new_context(certificate, tmp_path):
    keeper = ContextKeeper()
    path = tmp_path / "ca.pem"
    path.write_bytes(certificate.read_bytes())
    connection = Connection(ca_cert=path)
    first = keeper.context(connection)
    assert keeper.context(connection) is first
    path.write_bytes(certificate.read_bytes() + b"\n")
    assert keeper.context(connection) is not first


def test_a_token_that_cannot_be_had_is_a_connection_that_failed(certificate, service):
    tokens = iter(["first"])
    connection = Connection("127.0.0.1", service.port, certificate, token=lambda: next(tokens), backoff_min_s=0.01)
    notify = Notify("d", "g", "c", State(None), connection)
    assert notify.connect(timeout_s=LIMIT_S)
    notify.disconnect()
    notify.connect()
    for _ in range(LIMIT_S * 10):
        if "no token" in (notify.status.last_problem or "") or notify.wait_caught_up(0.1):
            break
    assert "no token" in (notify.status.last_problem or "")
    notify.disconnect()


def test_a_client_without_tls_at_a_port_that_speaks_tls_is_told_so(service):
    notify = Notify("d", "g", "c", State(None), Connection("127.0.0.1", service.port))
    notify.connect()
    wait_for(lambda: "if its port speaks TLS" in str(notify.status.last_problem), "the problem is named")
    notify.disconnect()


async def test_with_asyncio_it_is_told_so_too_and_without_a_port_it_is_not(service):
    notify = aio.Notify("d", "g", "c", State(None), Connection("127.0.0.1", service.port))
    await notify.connect()
    await until(lambda: "if its port speaks TLS" in str(notify.status.last_problem), "the problem is named")
    await notify.disconnect()
    nowhere = Notify("d", "g", "c", State(None), Connection("127.0.0.1", 1))
    nowhere.connect()
    wait_for(lambda: nowhere.status.last_problem, "the problem is named")
    assert "TLS" not in str(nowhere.status.last_problem)
    nowhere.disconnect()


def test_a_back_end_publishes_over_tls(certificate, service):
    trusted = ssl.create_default_context(cafile=str(certificate))
    trusted.check_hostname = False  # the certificate is localhost's
    publisher = HttpPublisher(f"https://{service.http}", ssl_context=trusted)
    assert publisher.publish("d", "g", "o", version=5).version == 5
    with pytest.raises(PublishError, match="CERTIFICATE_VERIFY_FAILED"):
        HttpPublisher(f"https://{service.http}").publish("d", "g", "o")
