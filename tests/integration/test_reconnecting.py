"""A gateway dies under 200 clients: they do not all come to the next one at once, and all are whole there."""

import asyncio
from bisect import bisect_right
from contextlib import suppress
from pathlib import Path

import pytest
from coldnotify import Connection, Notification, State, aio
from coldnotify.publisher import Publisher
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_testkit.gateway_process import GatewayProcess
from coldnotify_testkit.matcher_process import DOMAIN, GROUP, MatcherProcess

pytestmark = pytest.mark.kafka

CLIENTS = 200
SPREAD_S = 15.0
"""Of the clients' first delay (backoff_min_s). So long that a machine that stands still for some seconds does not make
a crowd of those whose time has come meanwhile."""
WINDOW_S = 0.5
WINDOW_MAX = CLIENTS // 2
"""Spread evenly it is about 7, in one go all."""
WAIT_S = 90.0


class Door:
    """The address that clients know: passes their connections on to a gateway, and notes when they come."""

    def __init__(self, port: int) -> None:
        self.to_port = port
        self.accepted_s: list[float] = []

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted_s.append(asyncio.get_running_loop().time())
        with suppress(OSError):
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self.to_port)
            await asyncio.gather(_pass_on(reader, inner_writer), _pass_on(inner_reader, writer))
        writer.close()


async def _pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Until one side ends; then the other one does."""
    with suppress(OSError):
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
    sink.close()


def busiest(times_s: list[float], window_s: float) -> int:
    """The most that fall into any span of this length."""
    times_s = sorted(times_s)
    return max(bisect_right(times_s, at_s + window_s) - i for i, at_s in enumerate(times_s))


async def until_all(told: list[int], version: int) -> None:
    """Until every client was told this version."""
    async with asyncio.timeout(WAIT_S):
        while min(told) < version:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def play(kafka: str, gateways: list[GatewayProcess]) -> None:
    door = Door(gateways[0].port)
    server = await asyncio.start_server(door.accept, "127.0.0.1", 0, backlog=CLIENTS)
    connection = Connection("127.0.0.1", server.sockets[0].getsockname()[1], backoff_min_s=SPREAD_S)
    told = [0] * CLIENTS
    clients = []
    for i in range(CLIENTS):

        def on(notification: Notification, i: int = i) -> None:
            told[i] = notification.version or 0

        one = aio.Notify(domain=DOMAIN, group_id=GROUP, client_id=f"ou-{i}", state=State(None), connection=connection)
        one.register("x").subscribe(on)
        await one.connect()
        clients.append(one)
    async with Publisher(kafka=kafka) as publisher:
        await publisher.publish_async(DOMAIN, GROUP, "x", version=1)
        await until_all(told, 1)
        door.accepted_s.clear()
        door.to_port = gateways[1].port
        gateways[0].process.kill()
        await publisher.publish_async(DOMAIN, GROUP, "x", version=2)
        await until_all(told, 2)
    print(f"\nin 0.1 s at most {busiest(door.accepted_s, 0.1)}, in {WINDOW_S} s {busiest(door.accepted_s, WINDOW_S)}")
    assert CLIENTS <= len(door.accepted_s) < 2 * CLIENTS, "the other gateway is there: one try each"
    assert busiest(door.accepted_s, WINDOW_S) <= WINDOW_MAX
    await asyncio.gather(*(one.disconnect() for one in clients))
    server.close()
    await server.wait_closed()


def test_clients_of_a_gateway_that_died_come_one_after_the_other(fresh_kafka: EmbeddedBroker, tmp_path: Path) -> None:
    kafka = fresh_kafka.bootstrap
    with (
        MatcherProcess(kafka, tmp_path / "matcher") as process,
        GatewayProcess(kafka) as first,
        GatewayProcess(kafka) as second,
    ):
        process.wait_serving()
        for gateway in (first, second):
            gateway.wait_ready()
        asyncio.run(play(kafka, [first, second]))
