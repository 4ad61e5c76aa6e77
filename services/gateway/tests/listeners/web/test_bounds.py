"""What strangers may hold of the web port, whatever they are in the middle of: handshakes, requests, bodies.

The site, shell and core are the gateway's; there is no Kafka behind them.
"""

import asyncio
import socket
import ssl
from contextlib import asynccontextmanager, closing

import pytest
from coldnotify_common.security.certificates import Authority
from coldnotify_gateway.core import Gateway, Send, joined
from coldnotify_gateway.listeners.port import DevicePort
from coldnotify_gateway.listeners.web.web_site import WebSite
from coldnotify_gateway.settings import GatewaySettings
from coldnotify_gateway.shell import GatewayShell
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_testkit.device_frames import parse
from coldnotify_testkit.gateway_bench import WireDouble

LIMIT_S = 60
ENDLESS_S = 1000
TRICKLED = b"POST /v1/sync HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{"
WHOLE = TRICKLED % 2 + b"}"
CLIENT_HELLO_BEGINS = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc"


class NoKafka:
    def write(self, _request):
        return True


@asynccontextmanager
async def site(tls=None, **more):
    settings = GatewaySettings(gateway_web_port=0, **more)
    core = Gateway(1, 0, 8, settings.limits(settings.gateway_connections_max))
    shell = GatewayShell(settings, core, NoKafka(), None, broken=pytest.fail, forgotten=lambda _peer: None)
    with closing(DevicePort(settings, 0, "PORT")) as port:
        running = WebSite(settings, shell, port, tls)
        await running.start()

        async def tick():
            while True:
                running.tick()
                shell.tick()
                await asyncio.sleep(0.05)

        ticking = asyncio.create_task(tick())
        try:
            yield port.port, core
        finally:
            ticking.cancel()
            await running.stop()


async def stranger(port, says=b""):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(says)
    return reader, writer


async def end(one, size=-1):
    """What comes until the gateway closes the connection; at most so many bytes."""
    async with asyncio.timeout(LIMIT_S):
        try:
            return await one[0].read(size)
        except ConnectionResetError:
            return b""


async def answer(one):
    async with asyncio.timeout(LIMIT_S):
        return (await one[0].readuntil(b"\r\n"))[9:12]


def close(*those):
    for _, writer in those:
        writer.close()


@pytest.fixture
def tls(tmp_path):
    certificate, key = Authority(tmp_path).server("gateway", ["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    trusting = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    return context, trusting


async def test_handshakes_that_do_not_end_are_bounded_in_number(tls):
    context, trusting = tls
    bounds = {"gateway_unidentified_max": 2, "gateway_handshake_s": ENDLESS_S}
    async with site(context, **bounds) as (port, _):
        silent = [await stranger(port, says) for says in (b"", CLIENT_HELLO_BEGINS)]
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
        writer.write(WHOLE)
        assert await answer((reader, writer)) == b"400"
        silent.append(await stranger(port))
        assert [await end(one) for one in silent[:2]] == [b"", b""]
        close(*silent, (reader, writer))


async def test_handshakes_that_do_not_end_are_bounded_in_time(tls):
    async with site(tls[0], gateway_handshake_s=1) as (port, _):
        silent = [await stranger(port, says) for says in (b"", CLIENT_HELLO_BEGINS)]
        async with asyncio.timeout(30):  # event loops have a limit of their own, of 60 s
            assert [await end(one) for one in silent] == [b"", b""]
        close(*silent)


async def test_bodies_that_do_not_end_are_bounded_in_time_and_number():
    async with site(gateway_handshake_s=3, gateway_sync_s=ENDLESS_S) as (port, _):
        one = await stranger(port, TRICKLED % 1000)
        # A process that stood still for long has both due at once, the answer and the end.
        assert (await end(one))[9:12] in (b"408", b"")
        close(one)
    async with site(gateway_handshake_s=ENDLESS_S, gateway_sync_s=ENDLESS_S, gateway_unidentified_max=2) as (port, _):
        silent = [await stranger(port, TRICKLED % length) for length in (1000, 1_000_000, 1000)]
        ends = [asyncio.create_task(end(one)) for one in silent]
        ended, others = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED, timeout=LIMIT_S)
        assert len(ended) == 1
        for one in others:
            one.cancel()
        whole = await stranger(port, WHOLE)  # those who say all at once are not kept out
        assert await answer(whole) == b"400"
        close(*silent, whole)


async def test_connections_count_from_accept_on_with_those_of_the_other_port():
    async with site(gateway_connections_max=3, gateway_handshake_s=ENDLESS_S) as (port, core):
        now_s = asyncio.get_running_loop().time()
        assert core.on_connect(WireDouble(), "192.0.2.1", now_s) == []
        open_ones = [await stranger(port), await stranger(port, TRICKLED % 1000)]
        refused = await stranger(port)
        assert await end(refused) == b""
        close(refused)
        said, _ = core.on_connect(WireDouble(), "192.0.2.1", now_s)
        assert isinstance(said, Send)
        assert parse(joined(said.frames))[0].close.code == CloseCode.OVERLOADED
        close(open_ones.pop())
        async with asyncio.timeout(LIMIT_S):
            while True:  # until the gateway has noticed
                another = await stranger(port, WHOLE)
                said = await end(another, 12)
                close(another)
                if said:
                    break
        assert said == b"HTTP/1.1 400"
        close(*open_ones)


async def test_connections_of_one_address_count_from_accept_on(tls):
    async with site(tls[0], gateway_connections_per_address_max=2) as (port, core):
        open_ones = [await stranger(port), await stranger(port, CLIENT_HELLO_BEGINS)]
        refused = await stranger(port)
        assert await end(refused) == b""
        assert core.counters.refused_connections == 1
        close(refused, *open_ones)


async def send_for_ever(to, data):
    """Until the connection is cut off. Nothing is read."""
    while True:
        await asyncio.get_running_loop().sock_sendall(to, data)


async def test_a_websocket_whose_client_does_not_read_is_cut_off_too():
    """It asks for more and more pongs. What answers it stands still, and so must not be what gives it up."""
    upgrade = (
        b"GET /v1/connect HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    ping = b"\x89\xfd\x00\x00\x00\x00" + b"p" * 125
    async with site(gateway_handshake_s=2, gateway_send_buffer_bytes=4096) as (port, _):
        stuck = socket.socket()
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stuck.connect(("127.0.0.1", port))
        stuck.sendall(upgrade)
        stuck.setblocking(False)
        with closing(stuck), pytest.raises(ConnectionError):
            await asyncio.wait_for(send_for_ever(stuck, ping * 1000), LIMIT_S)
