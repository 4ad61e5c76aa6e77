"""A gateway dies under 200 clients: they do not all come to the next one at once, and all are whole there."""

import asyncio
import time
from bisect import bisect_right
from pathlib import Path

import pytest
from coldnotify import Connection, Notification, State, aio
from coldnotify.publisher import Publisher
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_testkit.gateway_process import GatewayProcess
from coldnotify_testkit.matcher_process import DOMAIN, GROUP, MatcherProcess
from coldnotify_testkit.proxy import HOST, Proxy, in_front_of

pytestmark = pytest.mark.kafka

CLIENTS = 200
SPREAD_S = 15.0
"""Of the clients' first delay (backoff_min_s). So long that a machine that stands still for some seconds does not make
a crowd of those whose time has come meanwhile."""
WINDOW_S = 0.5
WINDOW_MAX = CLIENTS // 2
"""Spread evenly it is about 7, in one go all."""
WAIT_S = 90.0


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
    came_s: list[float] = []

    def noted() -> None:
        came_s.append(time.monotonic())

    with in_front_of(HOST, gateways[0].port, watch=noted) as proxy:
        await play_through(proxy, came_s, kafka, gateways)


async def play_through(proxy: Proxy, came_s: list[float], kafka: str, gateways: list[GatewayProcess]) -> None:
    connection = Connection(*proxy.address, backoff_min_s=SPREAD_S)
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
        came_s.clear()
        proxy.lead_to((HOST, gateways[1].port))
        gateways[0].process.kill()
        await publisher.publish_async(DOMAIN, GROUP, "x", version=2)
        await until_all(told, 2)
    print(f"\nin 0.1 s at most {busiest(came_s, 0.1)}, in {WINDOW_S} s {busiest(came_s, WINDOW_S)}")
    assert CLIENTS <= len(came_s) < 2 * CLIENTS, "the other gateway is there: one try each"
    assert busiest(came_s, WINDOW_S) <= WINDOW_MAX
    await asyncio.gather(*(one.disconnect() for one in clients))


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
