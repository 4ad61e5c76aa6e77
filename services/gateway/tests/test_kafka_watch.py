"""The watch over Kafka's answers: readiness, the question to others, and clients that are sent away."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from coldnotify_common.placement.isolation import HEARD_S
from coldnotify_gateway import kafka_watch as module
from coldnotify_gateway.kafka_watch import KafkaWatch
from coldnotify_gateway.peers import Peers
from coldnotify_gateway.shell import GatewayShell
from coldnotify_testkit.device_frames import hello
from coldnotify_testkit.gateway_bench import GatewayBench

AFTER_S = 15.0
CLIENTS = 20


class PeersDouble:
    """Answers as it is told."""

    def __init__(self, *, ready: bool) -> None:
        self.ready, self.asked, self.looked_up = ready, 0, 0

    def __len__(self) -> int:
        return 1

    async def look_up(self, _known: object) -> None:
        """Counts."""
        self.looked_up += 1

    async def any_ready(self) -> bool:
        """Counts, and answers."""
        self.asked += 1
        return self.ready

    def close(self) -> None:
        """Does nothing."""


class Clock:
    """The time, which a test moves."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        """Returns it."""
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    one = Clock()
    monkeypatch.setattr(module, "time", one)
    monkeypatch.setattr(module, "STATISTICS", SimpleNamespace(heard_s=float("-inf")))
    return one


async def silence(watch: KafkaWatch, clock: Clock, shell: GatewayShell, seconds: float) -> None:
    """Lets time pass by ticks, and what they have begun go on."""
    for _ in range(int(seconds * 4)):
        clock.now_s += 0.25
        watch.tick(shell)
        await asyncio.sleep(0)


def watch_over(peers: PeersDouble, after_s: float = AFTER_S) -> KafkaWatch:
    return KafkaWatch(after_s, 10_000.0, cast(Peers, peers), lambda: [("other", 1)])


@pytest.fixture
def bench() -> GatewayBench:
    one = GatewayBench()
    for n in range(CLIENTS):
        one.live(hello(f"c{n}"))
    return one


def shell_of(bench: GatewayBench) -> GatewayShell:
    shell: Any = SimpleNamespace(gateway=bench.gateway, do=bench.do)
    return cast(GatewayShell, shell)


async def test_cut_off_alone_it_sends_all_away_and_serves_when_kafka_answers(clock: Clock, bench: GatewayBench) -> None:
    peers, shell = PeersDouble(ready=True), shell_of(bench)
    watch = watch_over(peers)
    await silence(watch, clock, shell, HEARD_S - 0.5)
    assert watch.readiness() is None
    await silence(watch, clock, shell, 1)
    assert watch.readiness() == "Kafka does not answer"
    assert peers.asked == 0
    await silence(watch, clock, shell, AFTER_S - HEARD_S)
    assert peers.asked == 1
    for _ in range(100):
        clock.now_s += 0.05
        await asyncio.sleep(0.06)
        if not bench.gateway.session_count:
            break
    assert bench.gateway.session_count == 0
    assert "cut off" in str(watch.readiness())
    watch.heard()
    await silence(watch, clock, shell, 1)
    assert watch.readiness() is None
    assert not bench.opening(hello("again")).finished
    watch.stop()


async def test_with_all_others_silent_it_keeps_its_sessions_and_asks_again(clock: Clock, bench: GatewayBench) -> None:
    peers, shell = PeersDouble(ready=False), shell_of(bench)
    watch = watch_over(peers)
    await silence(watch, clock, shell, 60)
    assert peers.asked > 5
    assert bench.gateway.session_count == CLIENTS
    assert watch.readiness() == "Kafka does not answer"
    watch.stop()


async def test_never(clock: Clock, bench: GatewayBench) -> None:
    peers = PeersDouble(ready=True)
    watch = watch_over(peers, 0)
    await silence(watch, clock, shell_of(bench), 60)
    assert (peers.asked, bench.gateway.session_count) == (0, CLIENTS)
    watch.stop()


async def test_others_are_looked_up_while_kafka_answers_and_not_in_its_silence(
    clock: Clock, bench: GatewayBench
) -> None:
    peers, shell = PeersDouble(ready=False), shell_of(bench)
    watch = watch_over(peers)
    for _ in range(150):
        watch.heard()
        await silence(watch, clock, shell, 1)
    looked_up = peers.looked_up
    assert 2 <= looked_up <= 4
    await silence(watch, clock, shell, 300)
    assert peers.looked_up <= looked_up + 1
    watch.stop()
