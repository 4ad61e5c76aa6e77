"""Connections are counted and end in every state: accepted, shaking hands, asking, idle."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop
from aiohttp import web
from coldnotify_common.certificates import Authority
from coldnotify_common.web_port import Silent, WebPort

LIMIT_S = 60
ENDLESS_S = 1000.0
GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
Stranger = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def test_of_too_many_the_oldest_is_dropped_and_each_by_its_time() -> None:
    dropped: list[str] = []
    silent = Silent(2, dropped.append)
    silent.add("a", due_s=5)
    silent.add("b", due_s=3)
    silent.add("a")  # fell silent anew: the youngest, and without a time
    silent.add("c", due_s=4)
    assert (dropped, len(silent)) == (["b"], 2)
    silent.tick(4)
    silent.tick(10**9)
    assert dropped == ["b", "c"]
    silent.discard("a")
    silent.discard("a")
    assert len(silent) == 0


@asynccontextmanager
async def serving(**options: Any) -> AsyncIterator[tuple[WebPort, dict[str, int]]]:
    """The port, and how many connections of each address are held."""
    held: dict[str, int] = {}

    def hold(address: str) -> bool:
        held[address] = held.get(address, 0) + 1
        return True

    def release(address: str) -> None:
        held[address] -= 1

    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=str(request.transport and request.transport.get_extra_info("peername")[0]))

    app = web.Application()
    app.add_routes([web.get("/", answer)])
    options = {"connections_max": 10, "silent_max": 10, "silent_s": ENDLESS_S, "shutdown_timeout_s": 1.0} | options
    port = WebPort(app, hold=hold, release=release, **options)
    await port.start(socket.create_server(("127.0.0.1", 0)))
    try:
        yield port, held
    finally:
        await port.stop()
        await until(lambda: not port.connections)
    assert not held.get("127.0.0.1")


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not condition():  # noqa: ASYNC110  nobody sets an event for it
            await asyncio.sleep(0.01)


async def connect(port: WebPort, says: bytes = b"", tls: ssl.SSLContext | None = None) -> Stranger:
    stranger = await asyncio.open_connection("127.0.0.1", port.port, ssl=tls)
    stranger[1].write(says)
    return stranger


async def read(stranger: Stranger, size: int = -1) -> bytes:
    async with asyncio.timeout(LIMIT_S):
        try:
            return await stranger[0].read(size)
        except ConnectionResetError:
            return b""


@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_connections_under_tls_are_served_refused_and_counted_from_accept_to_end(
    make_loop: Any, tmp_path: Path
) -> None:
    certificate, key = Authority(tmp_path).server("a", ["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    trusting = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))

    async def scenario() -> None:
        async with serving(tls=context, connections_max=3) as (port, held):
            asking = await connect(port, GET, trusting)
            assert (await read(asking, 4096)).endswith(b"127.0.0.1")
            silent, rubbish = await connect(port), await connect(port, GET)
            assert await read(rubbish) is not None  # at most an alert
            await until(lambda: port.connections == 2)
            another = await connect(port)
            refused = await connect(port)
            assert await read(refused) == b""
            assert (port.connections, held) == (3, {"127.0.0.1": 3})
            asking[1].write(GET)
            assert (await read(asking, 4096)).endswith(b"127.0.0.1")
            for stranger in (asking, silent, rubbish, another, refused):
                stranger[1].close()

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(scenario())


async def test_who_has_been_answered_is_silent_again_and_goes_before_those_who_came_later() -> None:
    async with serving(silent_max=2) as (port, _):
        asking = await connect(port, GET)
        await read(asking, 4096)
        assert port.silent == 1
        others = [await connect(port), await connect(port)]
        assert await read(asking) == b""
        assert port.silent == 2
        for stranger in (asking, *others):
            stranger[1].close()


async def test_half_a_request_is_none_once_its_time_is_over() -> None:
    async with serving(silent_s=0.01) as (port, _):
        stranger = await connect(port, GET[:10])
        await until(lambda: port.silent == 1)
        await until(lambda: port.tick() or not port.silent)  # type: ignore[func-returns-value]
        assert await read(stranger) == b""
        stranger[1].close()
