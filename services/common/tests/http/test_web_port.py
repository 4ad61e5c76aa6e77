"""Connections are counted and end in every state: accepted, shaking hands, asking, idle."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop
from aiohttp import web
from coldnotify_common.addresses import Among, networks
from coldnotify_common.http.web import json_errors
from coldnotify_common.http.web_port import Silent, WebPort, address_of, has_no_end
from coldnotify_common.security.certificates import Authority
from coldnotify_testkit.waiting import until

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
    refused = options.pop("refused", ())

    def hold(address: str) -> bool:
        if address in refused:
            return False
        held[address] = held.get(address, 0) + 1
        return True

    def release(address: str) -> None:
        held[address] -= 1

    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=address_of(request))

    async def upgrade(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        return socket

    async def read_body(request: web.Request) -> web.Response:
        return web.Response(body=await request.read())

    async def stream(request: web.Request) -> web.StreamResponse:
        has_no_end(request)
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(bytes(64 * 1024))

    async def never(_request: web.Request) -> web.Response:
        await asyncio.sleep(ENDLESS_S)
        raise AssertionError

    app = web.Application(middlewares=[json_errors])
    app.add_routes(
        [web.get("/", answer), web.get("/upgrade", upgrade), web.get("/never", never), web.get("/stream", stream)]
    )
    app.add_routes([web.post("/", read_body)])
    options = {"connections_max": 10, "silent_max": 10, "silent_s": ENDLESS_S, "shutdown_timeout_s": 1.0} | options
    port = WebPort(app, hold=hold, release=release, **options)
    await port.start(socket.create_server(("127.0.0.1", 0)))
    try:
        yield port, held
    finally:
        await port.stop()
        await until(lambda: not port.connections)
    assert not any(held.values())


async def connect(
    port: WebPort, says: bytes = b"", tls: ssl.SSLContext | None = None, address: str = "127.0.0.1"
) -> Stranger:
    stranger = await asyncio.open_connection("127.0.0.1", port.port, ssl=tls, local_addr=(address, 0))
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


async def test_a_flood_that_comes_and_goes_between_two_looks_is_known_by_its_peak() -> None:
    async with serving() as (port, _):
        flood = [await connect(port) for _ in range(7)]
        await until(lambda: port.connections == 7)
        for _, writer in flood:
            writer.close()
        await until(lambda: not port.connections)
        assert [port.take_connection_peak(), port.take_connection_peak()] == [7, 0]
        stays = await connect(port)
        await until(lambda: port.connections == 1)
        assert [port.take_connection_peak(), port.take_connection_peak()] == [1, 1]
        stays[1].close()


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


@pytest.mark.parametrize("rounds", range(6))
async def test_for_one_too_many_only_one_is_dropped_whatever_it_is_in_the_middle_of(rounds: int) -> None:
    """Its request is being read, or handled, when the newcomer is there that it has to leave for."""
    async with serving(silent_max=2) as (port, _):
        strangers = [await connect(port), await connect(port)]
        await until(lambda: port.silent == 2)
        strangers[0][1].write(GET)
        for _ in range(rounds):
            await asyncio.sleep(0)
        newcomer = socket.create_connection(("127.0.0.1", port.port))
        strangers.append(await asyncio.open_connection(sock=newcomer))
        strangers[2][1].write(GET)
        assert (await read(strangers[2], 4096)).endswith(b"127.0.0.1")
        assert port.connections == 2
        for _, writer in strangers:
            writer.close()


async def test_half_a_request_is_none_once_its_time_is_over() -> None:
    async with serving(silent_s=0.01) as (port, _):
        stranger = await connect(port, GET[:10])
        await until(lambda: port.silent == 1)
        await until(lambda: port.tick() or not port.silent)  # type: ignore[func-returns-value]
        assert await read(stranger) == b""
        stranger[1].close()


async def test_a_flood_of_one_address_drives_out_itself_and_not_who_is_slow() -> None:
    async with serving(connections_max=100, silent_max=4) as (port, held):
        slow = await connect(port, GET[:5], address="127.0.0.3")
        await until(lambda: held.get("127.0.0.3") == 1)
        flood = [await connect(port, address="127.0.0.2") for _ in range(20)]
        assert [await read(one) for one in flood[:17]] == [b""] * 17
        slow[1].write(GET[5:])
        assert (await read(slow, 4096)).endswith(b"127.0.0.3")
        for stranger in (slow, *flood):
            stranger[1].close()


async def test_an_address_has_its_share_of_those_that_are_silent_unless_many_share_it() -> None:
    async with serving(silent_of_address_max=2, shared=lambda address: address == "127.0.0.2") as (port, held):
        strangers = []
        for address in ("127.0.0.2", "127.0.0.3"):
            strangers += [await connect(port, address=address) for _ in range(4)]
        await until(lambda: held == {"127.0.0.2": 4, "127.0.0.3": 2})
        for stranger in strangers:
            stranger[1].close()


BALANCER = {"proxies": Among(networks("127.0.0.7"))}
V1 = b"PROXY TCP4 192.0.2.9 127.0.0.1 4000 80\r\n"
V2 = b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0f\xc0\x00\x02\x09\x7f\x00\x00\x01\x00\x01\x00\x02\xea\x00\x00"
LOCAL = b"\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"


@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_balancer_says_whose_connection_it_is_before_tls_and_nobody_else_does(make_loop: Any, tmp_path: Path) -> None:
    certificate, key = Authority(tmp_path).server("a", ["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    trusting = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))

    async def scenario(tls: ssl.SSLContext | None) -> None:
        async with serving(tls=tls, **BALANCER) as (port, held):
            for header, address in ((V1, "192.0.2.9"), (V2, "192.0.2.9"), (LOCAL, "127.0.0.7")):
                passed_on = await connect(port, address="127.0.0.7")
                for cut in (header[:1], header[1:20], header[20:]):
                    passed_on[1].write(cut)
                    await passed_on[1].drain()
                if tls is not None:
                    await passed_on[1].start_tls(trusting, server_hostname="127.0.0.1")
                passed_on[1].write(GET)
                assert (await read(passed_on, 4096)).endswith(address.encode())
                assert held[address] == 1
                passed_on[1].close()
                await until(lambda: not port.connections)
            if tls is None:
                at_once = await connect(port, V2 + GET, address="127.0.0.7")
                assert (await read(at_once, 4096)).endswith(b"192.0.2.9")
                claims = await connect(port, V1 + GET)
                assert b" 400 " in await read(claims, 4096)
                at_once[1].close()
                claims[1].close()

    for tls in (None, context):
        with asyncio.Runner(loop_factory=make_loop) as runner:
            runner.run(scenario(tls))


async def test_what_is_no_header_is_counted_and_closed_and_a_client_behind_a_balancer_has_its_share() -> None:
    malformed: list[None] = []
    options = {"on_malformed_header": lambda: malformed.append(None), "refused": ("192.0.2.9",), "silent_s": 2.0}
    async with serving(**options, **BALANCER) as (port, held):
        for number in range(3):
            wrong = await connect(port, GET, address="127.0.0.7")
            assert await read(wrong) == b""
            await until(lambda number=number: len(malformed) == number + 1)  # type: ignore[misc]
            wrong[1].close()
        refused = await connect(port, V1 + GET, address="127.0.0.7")
        assert await read(refused) == b""
        await until(lambda: not port.connections)
        assert held == {"127.0.0.7": 0}
        half = await connect(port, V1[:10], address="127.0.0.7")
        await until(lambda: port.silent == 1)
        await until(lambda: port.tick() or not port.connections)  # type: ignore[func-returns-value]
        for stranger in (refused, half):
            stranger[1].close()


async def test_no_answer_says_a_version_of_what_serves() -> None:
    upgrade = (
        b"GET /upgrade HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    async with serving() as (port, _):
        for request, status in (
            (GET, b"200"),
            (GET.replace(b"/ ", b"/nothing "), b"404"),
            (GET.replace(b"GET", b"PUT"), b"405"),
            (GET.replace(b": a", b": \x01"), b"400"),
            (b"rubbish\r\n\r\n", b"400"),
            (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 100_000 + b"\r\n\r\n", b"400"),
            (upgrade, b"101"),
        ):
            stranger = await connect(port, request)
            said = await read(stranger, 4096)
            assert said[9:12] == status
            assert b"\r\nServer: coldnotify\r\n" in said
            assert b"ython" not in said
            assert b"aiohttp" not in said
            stranger[1].close()


async def test_a_stop_waits_for_no_rest_of_a_body_or_head_and_for_an_answer_once() -> None:
    half = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf"
    async with serving(shutdown_timeout_s=ENDLESS_S) as (port, _):
        body, head = await connect(port, half), await connect(port, GET[:9])
        behind = await connect(port, half.replace(b"POST / ", b"POST /nothing "))
        whole = await connect(port, half + b" done")
        assert (await read(whole, 4096)).endswith(b"half done")
        assert (await read(behind, 4096)).startswith(b"HTTP/1.1 404")
        await until(lambda: port.connections == 4)
        async with asyncio.timeout(LIMIT_S):
            await port.stop()
        told = await read(body)
        assert told.startswith(b"HTTP/1.1 503")
        assert b"the service is stopping" in told
        assert [await read(one) for one in (head, behind, whole)] == [b""] * 3
    began_s = asyncio.get_running_loop().time()
    async with serving(shutdown_timeout_s=2.0) as (port, _):
        answered, under_way = await connect(port, GET), await connect(port, GET.replace(b"/ ", b"/never "))
        assert await read(answered, 4096)
        await until(lambda: port.silent == 1)
        await port.stop()
        assert (await read(under_way), await read(answered)) == (b"", b"")
    assert 1.0 <= asyncio.get_running_loop().time() - began_s < LIMIT_S
    for _, writer in (body, head, behind, whole, answered, under_way):
        writer.close()


async def test_a_stop_does_not_wait_for_who_does_not_read_a_stream() -> None:
    async with serving(shutdown_timeout_s=ENDLESS_S) as (port, _):
        deaf = await connect(port, GET.replace(b"/ ", b"/stream "))
        await until(lambda: any(connection.full for connection in port._open), "nothing more goes in")
        async with asyncio.timeout(LIMIT_S):
            await port.stop()
    deaf[1].close()


async def test_of_many_that_come_in_the_same_moment_the_youngest_is_served() -> None:
    """Who had to leave for it still counted: so it was sent away itself."""
    async with serving(connections_max=5, silent_max=3, silent_s=ENDLESS_S) as (port, _), asyncio.timeout(LIMIT_S):
        # The kernel takes them; the port accepts all of them at once when the loop runs.
        burst = [socket.create_connection(("127.0.0.1", port.port)) for _ in range(20)]
        burst[-1].sendall(GET)
        reader, writer = await asyncio.open_connection(sock=burst.pop())
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        writer.close()
        for one in burst:
            one.close()
        await until(lambda: port.connections == 0, "all are gone")
        assert port._ending == 0
