"""Clients that know several gateways: killed, stopped, silent ones, and a home that comes back."""

import asyncio
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from coldnotify import Connection, Notify, State, aio
from coldnotify._core.settings import MoveTimes
from coldnotify.errors import ServiceFresh, ServiceStale
from coldnotify.publisher import Publisher
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_testkit.gateway_process import GatewayProcess
from coldnotify_testkit.kafka import free_port
from coldnotify_testkit.matcher_process import DOMAIN, GROUP, MatcherProcess
from coldnotify_testkit.proxy import HOST, in_front_of
from coldnotify_testkit.stack import Recorder
from coldnotify_testkit.waiting import until, wait_for

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

OBJECT = "x"
QUICK = MoveTimes(home_first_s=0.5, home_longest_s=4, stale_first_s=1, stale_longest_s=4, stale_patience=0)
"""A test has no half minute for the way home."""


class Watched:
    """A client, what it was told, and how often it was seen without a session."""

    def __init__(self, client: str, connection: Connection) -> None:
        self.told = Recorder()
        self.errors: list[Exception] = []
        self.notify = Notify(DOMAIN, GROUP, client, State(None), connection, on_error=self.errors.append)
        self.notify._settings = replace(self.notify._settings, move_times=QUICK)
        self.notify.register(OBJECT).subscribe(self.told)

    def is_at(self, port: int) -> Callable[[], bool]:
        return lambda: self.notify.caught_up and str(self.notify.status.address).endswith(f":{port}")


@pytest.fixture
def matcher(fresh_kafka: EmbeddedBroker, tmp_path: Path) -> Iterator[MatcherProcess]:
    with MatcherProcess(fresh_kafka.bootstrap, tmp_path / "matcher") as process:
        process.wait_serving()
        yield process


@contextmanager
def gateways(kafka: str, count: int, **settings: object) -> Iterator[list[GatewayProcess]]:
    with ExitStack() as stack:
        found = [stack.enter_context(GatewayProcess(kafka, **settings)) for _ in range(count)]
        for one in found:
            one.wait_ready()
        yield found


@contextmanager
def connected(watched: Watched) -> Iterator[Watched]:
    try:
        assert watched.notify.connect(60)
        yield watched
    finally:
        watched.notify.disconnect()


def published(publisher: Publisher, version: int) -> int:
    publisher.publish(DOMAIN, GROUP, OBJECT, version=version)
    return version


def addresses(*ports: int) -> list[str]:
    return [f"{HOST}:{port}" for port in ports]


@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP])
def test_a_gateway_ends_or_stops_and_its_client_is_current_elsewhere(
    fault: signal.Signals, fresh_kafka: EmbeddedBroker, matcher: MatcherProcess
) -> None:
    kafka = fresh_kafka.bootstrap
    with gateways(kafka, 2) as (home, other), Publisher(kafka=kafka) as publisher:
        connection = Connection(addresses(other.port), home=addresses(home.port)[0], profile="web")
        with connected(Watched("ou-1", connection)) as client:
            assert client.is_at(home.port)()
            begun_s = time.monotonic()
            home.send(fault)
            version = published(publisher, 1)
            wait_for(client.told.reaches(OBJECT, version), "it is told elsewhere")
            print(f"{fault.name}: told elsewhere after {time.monotonic() - begun_s:.1f} s")
            wait_for(client.is_at(other.port), "it is caught up elsewhere")
        home.send(signal.SIGCONT)


def test_a_silent_network_is_noticed_and_the_client_goes_elsewhere(
    fresh_kafka: EmbeddedBroker, matcher: MatcherProcess
) -> None:
    kafka = fresh_kafka.bootstrap
    with (
        gateways(kafka, 2) as (first, second),
        in_front_of(HOST, first.port) as proxy,
        Publisher(kafka=kafka) as publisher,
    ):
        connection = Connection(addresses(second.port), home=addresses(proxy.port)[0], profile="web")
        with connected(Watched("ou-1", connection)) as client:
            assert client.is_at(proxy.port)()
            begun_s = time.monotonic()
            proxy.swallow()
            version = published(publisher, 1)
            wait_for(client.told.reaches(OBJECT, version), "it is told elsewhere")
            print(f"black hole: told elsewhere after {time.monotonic() - begun_s:.1f} s")
            wait_for(client.is_at(second.port), "it is caught up elsewhere")


def test_it_goes_home_while_it_is_told(fresh_kafka: EmbeddedBroker, matcher: MatcherProcess) -> None:
    kafka, port = fresh_kafka.bootstrap, free_port()
    with gateways(kafka, 1) as (other,), Publisher(kafka=kafka) as publisher, ExitStack() as later:
        connection = Connection(addresses(other.port), home=addresses(port)[0], keepalive_s=5)
        with connected(Watched("ou-1", connection)) as client:
            assert client.is_at(other.port)()
            home = later.enter_context(GatewayProcess(kafka, gateway_port=port))
            home.wait_ready()
            version = 0
            while not str(client.notify.status.address).endswith(f":{port}"):
                version = published(publisher, version + 1)
                assert version < 20_000, "it never goes home"
                time.sleep(0.005)
            version = published(publisher, version + 1)
            wait_for(client.told.reaches(OBJECT, version), "it is told at home")
            told = [one for one in client.told.versions(OBJECT) if one is not None]
            assert told == sorted(set(told)), "none twice, none after a newer one"
            assert client.errors == []
            assert client.notify.status.last_problem is None
            assert home.json("/v1/gateway")["connections"] == 1
            wait_for(lambda: other.json("/v1/gateway")["connections"] == 0, "the old session has ended")


def test_a_stale_client_moves_and_its_old_session_ends_without_an_error(
    fresh_kafka: EmbeddedBroker, matcher: MatcherProcess
) -> None:
    """The first gateway lies behind a network that answers Pings with the ages of a gateway without Kafka."""
    kafka = fresh_kafka.bootstrap
    with gateways(kafka, 1) as (second,), Publisher(kafka=kafka) as publisher, CutOff() as first:
        connection = Connection(addresses(second.port), home=addresses(first.port)[0], keepalive_s=1, fresh_s=14)
        client = Watched("ou-1", connection)
        client.notify.connect()
        try:
            wait_for(lambda: client.notify.connected, "it has a session where nothing is fresh")
            version = published(publisher, 1)
            wait_for(client.told.reaches(OBJECT, version), "it is told elsewhere")
            wait_for(client.is_at(second.port), "it is caught up there")
            assert client.notify.status.last_problem is None
            assert not [one for one in client.errors if not isinstance(one, ServiceStale | ServiceFresh)]
            assert first.accepted == 1
        finally:
            client.notify.disconnect()


class CutOff:
    """A gateway that has served a client, and has lost Kafka: its CaughtUp and its Pongs say that no age is known."""

    def __enter__(self) -> "CutOff":
        from threading import Thread

        self.accepted = 0
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = Thread(target=self._serve, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            with connection:
                self._answer(connection)

    @staticmethod
    def _answer(connection: socket.socket) -> None:
        from coldnotify_schemas.frames import FrameBuffer, encode, parse_client_frame
        from coldnotify_schemas.protocol import AGE_UNKNOWN_S, CLIENT_FRAME_BYTES_MAX
        from coldnotify_schemas.wire_pb2 import CaughtUp, GatewayFrame, Pong, Welcome

        said: dict[str, list[GatewayFrame]] = {
            "hello": [
                GatewayFrame(welcome=Welcome(in_sync=True, epoch=1)),
                GatewayFrame(caught_up=CaughtUp(age_s=AGE_UNKNOWN_S)),
            ],
            "ping": [GatewayFrame(pong=Pong(age_s=AGE_UNKNOWN_S))],
        }
        frames = FrameBuffer(CLIENT_FRAME_BYTES_MAX)
        while data := connection.recv(65536):
            for body in frames.feed(data):
                for answer in said.get(str(parse_client_frame(body).WhichOneof("frame")), ()):
                    connection.sendall(encode(answer))


def test_an_asyncio_client_goes_home(fresh_kafka: EmbeddedBroker, matcher: MatcherProcess) -> None:
    kafka, port = fresh_kafka.bootstrap, free_port()

    async def play(other: GatewayProcess) -> None:
        told = Recorder()
        connection = Connection([(f"{HOST}:{other.port}", 2)], home=f"{HOST}:{port}", keepalive_s=5)
        one: Any = aio.Notify(DOMAIN, GROUP, "ou-1", State(None), connection)
        one._settings = replace(one._settings, move_times=QUICK)
        one.register(OBJECT).subscribe(told)
        try:
            await one.connect()
            await until(lambda: one.caught_up, "it is at the other one")
            with GatewayProcess(kafka, gateway_port=port) as home:
                home.wait_ready()
                await until(lambda: one.caught_up and one.status.address.endswith(str(port)), "it is at home")
                async with Publisher(kafka=kafka) as publisher:
                    await publisher.publish_async(DOMAIN, GROUP, OBJECT, version=1)
                    await until(told.reaches(OBJECT, 1), "it is told")
        finally:
            await one.disconnect()

    with gateways(kafka, 1) as (other,):
        asyncio.run(play(other))
