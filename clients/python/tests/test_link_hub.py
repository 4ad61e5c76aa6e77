"""A link against a gateway that is played here: what leaves in which packet, and what ends whom.

Stands for: shared_link
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self

import pytest
from coldnotify import Connection, Link
from coldnotify._link_hub import LinkHub
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.frames import FrameBuffer, encode, parse_client_frame, parse_gateway_frame
from coldnotify_schemas.protocol import LINK_SESSIONS_MAX
from coldnotify_schemas.wire_pb2 import (
    CAPABILITY_MOVES,
    Bye,
    ClientFrame,
    Close,
    GatewayFrame,
    Hello,
    Notification,
    Ping,
    Pong,
    Welcome,
)
from coldnotify_testkit.waiting import wait_for

LIMIT_S = 60
THIS_IS_A_LINK = ClientFrame(session=1)


class Wire:
    """One end of a connection, with what came."""

    def __init__(self, end: socket.socket, *, gateway: bool) -> None:
        self._end, self._gateway = end, gateway
        self._frames = FrameBuffer(1 << 20)
        self.packets: list[list[ClientFrame | GatewayFrame]] = []
        self.ended = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        parse = parse_client_frame if self._gateway else parse_gateway_frame
        with suppress(OSError):
            while data := self._end.recv(1 << 20):
                self.packets.append([parse(body) for body in self._frames.feed(data)])
        self.ended.set()

    @property
    def heard(self) -> list[Any]:
        return [frame for packet in self.packets for frame in packet]

    def say(self, *frames: ClientFrame | GatewayFrame) -> None:
        self._end.sendall(b"".join(map(encode, frames)))

    def waits_for(self, *frames: ClientFrame | GatewayFrame) -> None:
        wait_for(lambda: all(frame in self.heard for frame in frames), f"{frames} among {self.heard}", LIMIT_S)

    def close(self) -> None:
        with suppress(OSError):
            self._end.shutdown(socket.SHUT_RDWR)
        self._thread.join(LIMIT_S)
        self._end.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Gateway:
    """A gateway's port."""

    def __init__(self, end: ExitStack) -> None:
        self._listener = end.enter_context(socket.create_server(("127.0.0.1", 0)))
        self._listener.settimeout(LIMIT_S)
        self._end = end
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"

    def accept(self) -> Wire:
        connection, _ = self._listener.accept()
        return self._end.enter_context(Wire(connection, gateway=True))


@pytest.fixture
def end() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def gateway(end: ExitStack) -> Gateway:
    return Gateway(end)


def linked(end: ExitStack, *gateways: Gateway, **settings: object) -> Link:
    addresses = [one.address for one in gateways]
    return end.enter_context(Link(Connection(addresses, **settings)))  # type: ignore[arg-type]


def application(end: ExitStack, link: Link) -> Wire:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(link.path))
    return end.enter_context(Wire(connection, gateway=False))


def hello(client: str, **said: object) -> ClientFrame:
    fields = {"domain": "d", "group": "g", "keepalive_s": 60, "client": client, **said}
    return ClientFrame(hello=Hello(**fields))  # type: ignore[arg-type]


def numbered(frame: ClientFrame, number: int) -> ClientFrame:
    said = ClientFrame()
    said.CopyFrom(frame)
    said.session = number
    return said


def test_hellos_leave_together_and_say_what_differs(end: ExitStack, gateway: Gateway) -> None:
    asked = threading.Event()

    def token() -> str:
        asked.wait(LIMIT_S)
        return "secret"

    link = linked(end, gateway, token=token)
    applications = [application(end, link) for _ in range(3)]
    applications[0].say(hello("a"))
    for one, said in zip(applications[1:], (hello("b", group="h"), hello("c", keepalive_s=30)), strict=True):
        one.say(said)
    asked.set()
    wire = gateway.accept()
    wait_for(lambda: len(wire.heard) == 4, "three Hellos")
    first, *others = wire.heard
    assert first == THIS_IS_A_LINK
    assert sorted(one.hello.client for one in others) == ["a", "b", "c"]
    by_number = {one.session: one.hello for one in others}
    assert by_number[0].token == "secret"
    assert by_number[0].domain == "d"
    for number in (1, 2):
        assert not by_number[number].token
        assert not by_number[number].domain


def welcomed(end: ExitStack, gateway: Gateway, link: Link, *clients: str) -> tuple[Wire, list[Wire]]:
    """A gateway's wire, and the applications that it has welcomed, by number."""
    wire: Wire | None = None
    applications = []
    for number, client in enumerate(clients):
        one = application(end, link)
        one.say(hello(client))
        wire = wire or gateway.accept()
        heard = wire
        wait_for(
            lambda number=number, heard=heard: any(  # type: ignore[misc]
                said.session == number and said.HasField("hello") for said in heard.heard
            ),
            f"the Hello of {client}",
        )
        wire.say(GatewayFrame(session=number, welcome=Welcome(in_sync=True)))
        one.waits_for(GatewayFrame(welcome=Welcome(in_sync=True)))
        applications.append(one)
    assert wire is not None
    return wire, applications


def test_each_is_told_its_own(end: ExitStack, gateway: Gateway) -> None:
    wire, (one, two) = welcomed(end, gateway, linked(end, gateway), "a", "b")
    wire.say(
        GatewayFrame(session=1, notification=Notification(crc=1)),
        GatewayFrame(notification=Notification(crc=2)),
        GatewayFrame(session=9, notification=Notification(crc=3)),
    )
    one.waits_for(GatewayFrame(notification=Notification(crc=2)))
    two.waits_for(GatewayFrame(notification=Notification(crc=1)))
    assert len(one.heard) == len(two.heard) == 2
    two.say(ClientFrame(ping=Ping()))
    wire.waits_for(ClientFrame(session=1, ping=Ping()))


def test_a_program_that_dies_says_bye(end: ExitStack, gateway: Gateway) -> None:
    wire, (one, two) = welcomed(end, gateway, linked(end, gateway), "a", "b")
    one.close()
    wire.waits_for(ClientFrame(bye=Bye()))
    two.say(ClientFrame(bye=Bye()))
    two.close()
    assert wire.ended.wait(LIMIT_S)
    assert [said for said in wire.heard if said.HasField("bye")] == [
        ClientFrame(bye=Bye()),
        ClientFrame(session=1, bye=Bye()),
    ]


def test_a_session_that_the_gateway_ends(end: ExitStack, gateway: Gateway) -> None:
    wire, (one, two) = welcomed(end, gateway, linked(end, gateway), "a", "b")
    close = Close(code=CloseCode.DISPLACED, reason="another")
    wire.say(GatewayFrame(close=close))
    one.waits_for(GatewayFrame(close=close))
    assert one.ended.wait(LIMIT_S)
    two.say(ClientFrame(ping=Ping()))
    wire.waits_for(ClientFrame(session=1, ping=Ping()))


def test_numbers_rise(end: ExitStack, gateway: Gateway) -> None:
    link = linked(end, gateway)
    wire, (one, _) = welcomed(end, gateway, link, "a", "b")
    one.close()
    wire.waits_for(ClientFrame(bye=Bye()))
    application(end, link).say(hello("a"))
    wait_for(lambda: any(said.session == 2 and said.HasField("hello") for said in wire.heard), "number 2")


def test_all_are_told_why_the_connection_ended_and_the_next_address_serves(end: ExitStack, gateway: Gateway) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        nowhere = f"127.0.0.1:{gone.getsockname()[1]}"
    link = end.enter_context(Link(Connection([(gateway.address, 1), (nowhere, 1000)])))
    refusals = 0
    while True:
        one = application(end, link)
        one.say(hello("a"))
        if not one.ended.wait(1.0):
            break
        (said,) = one.heard
        assert said.close.code == CloseCode.GOING_AWAY
        assert f"{nowhere} cannot be reached" in said.close.reason
        refusals += 1
    assert refusals <= 1
    wire = gateway.accept()
    wait_for(lambda: len(wire.heard) == 2, "a Hello")
    assert wire.heard[1].hello.capabilities & CAPABILITY_MOVES


def test_a_gateway_that_is_silent_is_given_up(
    end: ExitStack, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coldnotify._link_hub._LOOK_S", 0.05)
    link = linked(end, gateway, keepalive_s=1, silence_grace_s=0)
    wire, (one, two) = welcomed(end, gateway, link, "a", "b")
    one.say(ClientFrame(ping=Ping()))
    wire.waits_for(ClientFrame(ping=Ping()))
    wire.say(GatewayFrame(pong=Pong()))
    one.waits_for(GatewayFrame(pong=Pong()))
    two.say(ClientFrame(ping=Ping()))
    for each in (one, two):
        assert each.ended.wait(LIMIT_S)
        assert each.heard[-1].close.reason == "the gateway is silent"


def test_one_that_does_not_read_is_cut_off(end: ExitStack, gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coldnotify._link_hub._UNREAD_BYTES_MAX", 64 * 1024)
    link = linked(end, gateway)
    reading = application(end, link)
    reading.say(hello("a"))
    wire = gateway.accept()
    wire.waits_for(THIS_IS_A_LINK)
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.connect(str(link.path))
        deaf.sendall(encode(hello("b")))
        wait_for(lambda: any(said.session == 1 and said.HasField("hello") for said in wire.heard), "its Hello")
        much = GatewayFrame(session=1, notification=Notification(payload=b"x" * 50_000))
        for _ in range(40):
            wire.say(much)
        wire.waits_for(ClientFrame(session=1, bye=Bye()))
    wire.say(GatewayFrame(pong=Pong()))
    reading.waits_for(GatewayFrame(pong=Pong()))


def test_a_link_has_a_bound(end: ExitStack, gateway: Gateway) -> None:
    link = linked(end, gateway)
    for number in range(LINK_SESSIONS_MAX):
        application(end, link).say(hello(f"c{number}"))
    wire = gateway.accept()
    wait_for(lambda: len(wire.heard) == 1 + LINK_SESSIONS_MAX, "all Hellos")
    more = application(end, link)
    more.say(hello("more"))
    assert more.ended.wait(LIMIT_S)
    assert more.heard[0].close.code == CloseCode.OVERLOADED


def test_bytes_that_are_no_frame_end_their_program_alone(end: ExitStack, gateway: Gateway) -> None:
    link = linked(end, gateway)
    wire, (one,) = welcomed(end, gateway, link, "a")
    with socket.socket(socket.AF_UNIX) as wrong:
        wrong.connect(str(link.path))
        wrong.sendall(b"\xff" * 20)
        assert wrong.recv(1) == b""
    one.say(ClientFrame(ping=Ping()))
    wire.waits_for(ClientFrame(ping=Ping()))


def test_a_path_that_is_taken_and_one_whose_link_died(end: ExitStack, gateway: Gateway, tmp_path: Path) -> None:
    path = tmp_path / "link"
    with Link(Connection(gateway.address), path=path, mode=0o620) as first:
        assert first.path.stat().st_mode & 0o777 == 0o620
        with pytest.raises(OSError, match="another link listens at"):
            Link(Connection(gateway.address), path=path)
    assert not path.exists()
    with socket.socket(socket.AF_UNIX) as died:
        died.bind(str(path))
    with Link(Connection(gateway.address), path=path) as second:
        application(end, second).say(hello("a"))
        gateway.accept()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"directory": "http://127.0.0.1:1"}, "directory: a link asks none"),
        ({"address": "unix:/run/link"}, "address: a link connects to gateways"),
    ],
)
def test_unusable_settings(settings: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        LinkHub(Connection(**settings))  # type: ignore[arg-type]


def test_a_unix_address_needs_a_path() -> None:
    with pytest.raises(ValueError, match="'unix:' has no path"):
        Connection("unix:")
