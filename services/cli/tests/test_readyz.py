"""A part is asked if it is ready before it listens, too, and nothing that asks may take its port."""

import asyncio
import socket
import threading

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from coldnotify_cli.readyz import asks_readyz, connected
from coldnotify_common.http.listening import listening
from coldnotify_kafka.broker import free_port

HOST = "127.0.0.1"


@pytest.fixture
def port() -> int:
    return free_port(HOST)


def test_a_connection_to_itself_is_none_and_leaves_the_port_free(port: int) -> None:
    with socket.socket() as itself:
        itself.bind((HOST, port))
        itself.connect((HOST, port))
        assert itself.getsockname() == itself.getpeername(), "that is how Linux is"
        itself.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    with pytest.raises(ConnectionRefusedError, match=f"nobody listens on port {port}"):
        connected(HOST, port, own_port=port)
    listening(HOST, port).close()


def test_nobody_listens(port: int) -> None:
    assert "refused" in str(asks_readyz(HOST, port, None)())


async def test_the_part_says_why_it_is_not_ready(port: int) -> None:
    reasons: list[str | None] = ["Kafka is away", None]

    async def readyz(_request: web.Request) -> web.Response:
        reason = reasons.pop(0)
        return web.Response(status=503 if reason else 200, text=reason or "ok")

    app = web.Application()
    app.router.add_get("/readyz", readyz)
    async with TestServer(app, host=HOST, port=port):
        ask = asks_readyz(HOST, port, None)
        assert await asyncio.to_thread(ask) == "Kafka is away"
        assert await asyncio.to_thread(ask) is None


def test_another_protocol_than_http_is_not_ready(port: int) -> None:
    with listening(HOST, port) as other:
        other.settimeout(10)

        def echo() -> None:
            accepted, _ = other.accept()
            with accepted:
                accepted.sendall(accepted.recv(1000))

        thread = threading.Thread(target=echo)
        thread.start()
        assert "GET /readyz" in str(asks_readyz(HOST, port, None)())
        thread.join()
