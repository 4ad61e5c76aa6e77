"""Who may come by WebSocket and HTTP: TLS, certificates and tokens as over TCP."""

import json
import socket
import ssl
import time
import urllib.request

import jwt
import pytest
from coldnotify import Connection, Notify, ServiceRefused, State
from coldnotify_common.security.certificates import Authority
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_testkit.fetching import fetch
from coldnotify_testkit.gateway_process import GatewayProcess, MatcherOnKafka
from coldnotify_testkit.waiting import WAIT_S, wait_for

pytestmark = pytest.mark.kafka

SECRET = "s" * 32


def sync(port, ca, token, **more):
    """(status, body) of a sync as d/g/observer-1."""
    asked = {"domain": "d", "group": "g", "client": "observer-1", "registrations": ["a"]}
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {}) | more
    request = urllib.request.Request(f"https://127.0.0.1:{port}/v1/sync", json.dumps(asked).encode(), headers)
    answer = fetch(request, WAIT_S, ssl.create_default_context(cafile=ca))
    return answer.status, answer.json()


def answer_to_the_head(port, ca, head):
    """The first line of what is said before any body comes."""
    context = ssl.create_default_context(cafile=ca)
    with (
        socket.create_connection(("127.0.0.1", port), WAIT_S) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as connection,
    ):
        connection.sendall(head)
        return connection.recv(4096).partition(b"\r\n")[0]


def test_certificates_and_tokens_decide(fresh_kafka, tmp_path):
    authority = Authority(tmp_path / "certs")
    ca = authority.directory / "ca.pem"
    certificate, key = authority.server("gateway", ["localhost", "127.0.0.1"])
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    settings = {
        "tls_certificate": certificate,
        "tls_key": key,
        "tls_client_ca": ca,
        "auth": "any",
        "auth_token_algorithm": "HS256",
        "auth_token_key": secret,
    }
    with MatcherOnKafka(fresh_kafka.bootstrap, 8), GatewayProcess(fresh_kafka.bootstrap, **settings) as gateway:
        port = gateway.wait_ready().web_port
        for name, may in (("observer-1", True), ("observer-2", False)):
            cert, key = authority.client("d", "g", name)
            problems: list[Exception] = []
            connection = Connection(f"wss://localhost:{port}", ca_cert=ca, cert=cert, key=key)
            client = Notify("d", "g", "observer-1", State(None), connection, on_error=problems.append)
            try:
                client.register("a")
                assert client.connect(timeout_s=WAIT_S) is may, client.status
                if not may:
                    wait_for(lambda problems=problems: problems, "the refusal")
                    assert isinstance(problems[0], ServiceRefused)
                    assert problems[0].code == CloseCode.NOT_ALLOWED
            finally:
                client.disconnect()

        def token(client):
            return jwt.encode({"sub": f"d/g/{client}", "exp": time.time() + 3600}, SECRET, "HS256")

        assert sync(port, ca, token("observer-1"))[0] == 200
        assert sync(port, ca, token("observer-2"))[0] == 403
        status, body = sync(port, ca, None)
        assert (status, body["close"]) == (401, "NOT_AUTHENTICATED")
        assert "passes on" not in body["error"]
        status, body = sync(port, ca, None, Via="1.1 proxy")
        assert (status, body["close"]) == (401, "NOT_AUTHENTICATED")
        assert "passes on arrives without the client's certificate" in body["error"]
        never_sent = (
            b"POST /v1/sync HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 4000000\r\n"
        )
        assert b"401" in answer_to_the_head(port, ca, never_sent + b"\r\n"), "nobody known is not read"
        events = b"GET /v1/events?" + b"&".join([b"object="] * 1000) + b" HTTP/1.1\r\nHost: a\r\n\r\n"
        assert b"401" in answer_to_the_head(port, ca, events), "what they look for is not looked at"
