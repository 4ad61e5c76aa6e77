"""TLS and identities at the devices' port: the gateway as a process, real clients and Kafka, the matcher a double."""

import socket
import ssl
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from coldnotify import Connection, Notify, ServiceRefused, State
from coldnotify_common.security.certificates import Authority
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.frames import FrameBuffer, parse_gateway_frame
from coldnotify_schemas.protocol import GATEWAY_FRAME_BYTES_MAX
from coldnotify_testkit.device_frames import hello
from coldnotify_testkit.gateway_process import GatewayProcess, MatcherOnKafka
from coldnotify_testkit.waiting import wait_for
from cryptography import x509

pytestmark = pytest.mark.kafka

PARTITIONS = 8
LIMIT_S = 60
SECRET = "s" * 32


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "certs")


@pytest.fixture
def tls(authority: Authority, tmp_path: Path) -> dict[str, Any]:
    certificate, key = authority.server("gateway", ["localhost", "127.0.0.1"])
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    return {
        "tls_certificate": certificate,
        "tls_key": key,
        "tls_client_ca": authority.directory / "ca.pem",
        "auth": "certificate",
        "auth_token_algorithm": "HS256",
        "auth_token_key": secret,
    }


@pytest.fixture
def matcher(fresh_kafka: EmbeddedBroker):
    with MatcherOnKafka(fresh_kafka.bootstrap, PARTITIONS) as running:
        yield running


def client_of(port: int, ca: Path, name: str = "observer-1", **options: Any) -> tuple[Notify, list[Exception]]:
    problems: list[Exception] = []
    connection = Connection("127.0.0.1", port, ca, backoff_min_s=0.1, backoff_max_s=0.1, **options)
    return Notify("d", "g", name, State(None), connection, on_error=problems.append), problems


def token(**claims: Any) -> str:
    return jwt.encode({"sub": "d/g/observer-1", "exp": time.time() + 3600} | claims, SECRET, "HS256")


def test_mutual_tls(matcher, authority, tls, fresh_kafka, tmp_path):
    """The right certificate is served, and resumed; another client's, another authority's and none are refused."""
    ca = authority.directory / "ca.pem"
    with GatewayProcess(fresh_kafka.bootstrap, **tls) as gateway:
        port = gateway.wait_ready().port
        cert, key = authority.client("d", "g", "observer-1")
        right, problems = client_of(port, ca, cert=cert, key=key)
        right.register("a")
        for _ in range(2):
            assert right.connect(timeout_s=LIMIT_S), right.status
            right.disconnect()
        assert problems == []
        context = right._contexts.context(right._connection)
        assert context is not None
        assert context.session_stats()["hits"] == 1

        cert, key = authority.client("d", "g", "observer-2")
        wrong, problems = client_of(port, ca, cert=cert, key=key)
        assert not wrong.connect(timeout_s=LIMIT_S)
        wait_for(lambda: problems, "the refusal")
        assert isinstance(problems[0], ServiceRefused)
        assert problems[0].code == CloseCode.NOT_ALLOWED
        assert "d/g/observer-2 may not be d/g/observer-1" in str(problems[0])
        wrong.disconnect()

        cert, key = Authority(tmp_path / "elsewhere").client("d", "g", "observer-1")
        for options in ({"cert": cert, "key": key}, {}):
            stranger, problems = client_of(port, ca, **options)
            stranger.connect()
            wait_for(lambda who=stranger: "alert" in (who.status.last_problem or "").lower(), "an alert")
            stranger.disconnect()
        wait_for(lambda: gateway.json("/v1/gateway")["connections"] == 0, "all are gone")
        assert len(matcher.of_kind("open")) == 2


def test_tokens(matcher, authority, tls, fresh_kafka, tmp_path):
    """One that holds is served until it expires or is revoked; others are told why, and whether to come back."""
    ca, revoked = authority.directory / "ca.pem", tmp_path / "revoked"
    revoked.write_text("")
    tls |= {"auth": "any", "auth_token_leeway_s": 0, "auth_revoked": revoked}
    with GatewayProcess(fresh_kafka.bootstrap, **tls) as gateway:
        port = gateway.wait_ready().port
        asked: list[str] = []

        def fetch() -> str:
            asked.append(token(exp=time.time() + (8 if not asked else 3600)))
            return asked[-1]

        right, problems = client_of(port, ca, token=fetch)
        assert right.connect(timeout_s=LIMIT_S), right.status
        wait_for(lambda: len(asked) >= 2 and right.caught_up, "another token, after the first one expired")
        right.disconnect()
        assert problems == []

        for given, code in (
            (None, CloseCode.NOT_AUTHENTICATED),
            (token()[:-4] + "AAAA", CloseCode.NOT_AUTHENTICATED),
            (token(sub="d/g/other"), CloseCode.NOT_ALLOWED),
        ):
            wrong, problems = client_of(port, ca, token=given)
            wrong.connect()
            wait_for(lambda told=problems: told, "the refusal")
            assert problems[0].code == code
            wrong.disconnect()

        cert, key = authority.client("d", "g", "observer-1")
        number = x509.load_pem_x509_certificate(cert.read_bytes()).serial_number
        for proof, options in (
            (f"serial {number:X}", {"cert": cert, "key": key}),
            ("jti lost", {"token": token(jti="lost")}),
        ):
            lost, problems = client_of(port, ca, **options)
            assert lost.connect(timeout_s=LIMIT_S), lost.status
            with revoked.open("a") as file:
                file.write(f"{proof}\n")
            wait_for(lambda told=problems: told, "its session is closed, and it is refused")
            assert (problems[0].code, "has been revoked" in str(problems[0])) == (CloseCode.NOT_AUTHENTICATED, True)
            lost.disconnect()
        still, problems = client_of(port, ca, token=token(jti="another"))
        assert still.connect(timeout_s=LIMIT_S), still.status
        still.disconnect()
        gateway.stop()
        lines = str(gateway.events)
    assert not any(secret in lines for secret in (SECRET, *asked, token()[-43:]))


def test_a_handshake_that_does_not_end_is_bounded_in_time_and_number(matcher, tls, fresh_kafka):
    limits = {"gateway_handshake_s": 1, "gateway_connections_per_address_max": 2}
    with GatewayProcess(fresh_kafka.bootstrap, **tls, **limits) as gateway:
        port = gateway.wait_ready().port
        silent = [socket.create_connection(("127.0.0.1", port), LIMIT_S) for _ in range(3)]
        for one in silent:  # the third at once: too many; the others when their time is over
            assert one.recv(1) == b""
            one.close()
        with socket.create_connection(("127.0.0.1", port), LIMIT_S) as rubbish:
            rubbish.sendall(b"GET / HTTP/1.1\r\n\r\n")
            while rubbish.recv(4096):
                pass
        assert gateway.metric("coldnotify_gateway_connections_refused_total") == 1


def test_a_close_reaches_a_client_that_still_sends(authority, tls, fresh_kafka):
    """No matcher answers, and the gateway is stopped: the Close and TLS's own goodbye come before the end."""
    with GatewayProcess(fresh_kafka.bootstrap, **tls) as gateway:
        context = ssl.create_default_context(cafile=str(authority.directory / "ca.pem"))
        context.load_cert_chain(*authority.client("d", "g", "client-1"))
        with (
            socket.create_connection(("127.0.0.1", gateway.wait_ready().port), LIMIT_S) as plain,
            context.wrap_socket(plain, server_hostname="localhost", suppress_ragged_eofs=False) as secure,
        ):
            said = hello("client-1", domain="d", group="g")
            for i in range(len(said)):  # in records of one byte
                secure.sendall(said[i : i + 1])
            wait_for(lambda: gateway.metric("coldnotify_gateway_sessions"), "a session")
            gateway.process.terminate()
            buffer, codes = FrameBuffer(GATEWAY_FRAME_BYTES_MAX), []
            while data := secure.recv(4096):
                frames = [parse_gateway_frame(body) for body in buffer.feed(data)]
                codes += [frame.close.code for frame in frames if frame.WhichOneof("frame") == "close"]
            assert codes == [CloseCode.GOING_AWAY]
