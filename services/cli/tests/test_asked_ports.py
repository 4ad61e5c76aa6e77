"""Why a port has not answered: it speaks TLS, or no HTTP; it does not answer; it is not there."""

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from coldnotify_cli.asked_ports import SILENT, SPEAKS_TLS, address_speaks_tls
from coldnotify_testkit.command import coldnotify


@contextmanager
def listener(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """Its address. `answer` is called for each connection, which ends then."""
    with socket.create_server(("127.0.0.1", 0)) as server, ExitStack() as held:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with suppress(OSError, ssl.SSLError):
                    answer(connection)
                connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        held.callback(thread.join)
        held.callback(server.shutdown, socket.SHUT_RDWR)
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    directory = tmp_path_factory.mktemp("certs")
    assert coldnotify("certs", str(directory)).returncode == 0
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "http.pem", directory / "http.key")
    return context


def as_nobody(connection: socket.socket) -> None:
    connection.recv(1000)


def as_ssh(connection: socket.socket) -> None:
    connection.recv(1000)
    connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")


def doctor(address: str, **settings: str) -> tuple[str, str]:
    """(words, todo) of what the doctor says of a matcher at this address."""
    nowhere = {"kafka": "127.0.0.1:1", "http": "127.0.0.1:1", "gateway_http": "", "usage": "", "doctor_timeout_s": "2"}
    said = coldnotify("doctor", "--json", matcher=address, **nowhere | settings)
    assert "Traceback" not in said.stderr
    (matcher,) = [one for one in map(json.loads, said.stdout.splitlines()) if one["what"] == "matcher"]
    assert matcher["state"] == "BAD"
    return matcher["words"], matcher["todo"]


def test_a_port_that_speaks_tls_is_not_to_be_started(tls: ssl.SSLContext, tmp_path: Path) -> None:
    def serve(connection: socket.socket) -> None:
        tls.wrap_socket(connection, server_side=True).close()

    with listener(serve) as address:
        assert address_speaks_tls(address, 60)
        words, todo = doctor(address)
        assert (SPEAKS_TLS in words, "--ca-cert" in todo, "start it" in todo) == (True, True, False)
        for command in (("state", "partitions", "--http"), ("state", "partitions", "--matcher"), ("top", "--http")):
            assert SPEAKS_TLS in coldnotify(*command, address).stderr
        watched = coldnotify("watch", "d", "g", "c", "o", "--once", "--timeout-s", "1", gateway=address)
        assert SPEAKS_TLS in watched.stderr


@pytest.mark.parametrize("answer", [as_nobody, as_ssh])
def test_a_port_that_speaks_no_http_is_named(answer: Callable[[socket.socket], None]) -> None:
    with listener(answer) as address:
        assert not address_speaks_tls(address, 60)
        words, todo = doctor(address)
        assert (("does not speak HTTP" in words) == (answer is as_ssh), "--matcher" in todo) == (True, True)
        asked = coldnotify("state", "partitions", "--http", f"https://{address}")
        assert (asked.returncode, "Traceback" in asked.stderr) == (1, False)


def test_a_process_that_takes_connections_and_does_not_answer_is_not_to_be_started() -> None:
    with socket.create_server(("127.0.0.1", 0)) as stopped:
        words, todo = doctor(f"127.0.0.1:{stopped.getsockname()[1]}")
    assert (SILENT in words, "kill -CONT" in todo, "start it, or" in todo) == (True, True, False)
    assert not address_speaks_tls("no address", 1)
