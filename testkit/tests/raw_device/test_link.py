"""A raw device on a socket: it comes back after whatever ended its connection, and begins anew from its disk."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.frames import FrameBuffer, encode, parse_client_frame
from coldnotify_testkit.raw_device.application import ChannelGap, Version
from coldnotify_testkit.raw_device.device import Names, RawDevice
from coldnotify_testkit.raw_device.link import Pauses, RawLink
from coldnotify_testkit.raw_device.state import FileDisk
from coldnotify_testkit.waiting import WAIT_S, wait_for

PAUSES = Pauses(back_off_min_s=0.01, back_off_max_s=0.01, displaced_min_s=0.01, displaced_max_s=0.01)


class Deaf:
    """An application that wants to know nothing."""

    def told(self, told: Version) -> None:
        """See DeviceApplication."""

    def members(self, text: str, added: set[str], removed: set[str]) -> None:
        """See DeviceApplication."""

    def message(self, channel: str, offset: int, id_: str, payload: bytes) -> None:
        """See DeviceApplication."""

    def missed(self, channel: str, gap: ChannelGap) -> None:
        """See DeviceApplication."""

    def refused(self, kind: str, text: str, reason: str) -> None:
        """See DeviceApplication."""

    def published(self, id_: str, offset: int | None, reason: str) -> None:
        """See DeviceApplication."""


class Gateway:
    """Whoever accepts the device's connections."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.settimeout(WAIT_S)
        self.address: tuple[str, int] = self._listening.getsockname()
        self.connection = self._listening
        self._frames = FrameBuffer(32 * 1024)

    def accept(self) -> wire.Hello:
        if self.connection is not self._listening:
            self.connection.close()
        self.connection, _ = self._listening.accept()
        self.connection.settimeout(WAIT_S)
        self._frames = FrameBuffer(32 * 1024)
        return self.frame().hello

    def frame(self) -> wire.ClientFrame:
        while True:
            for body in self._frames.feed(self.connection.recv(65536)):
                return parse_client_frame(body)

    def say(self, **frame: object) -> None:
        self.connection.sendall(encode(wire.GatewayFrame(**frame)))  # type: ignore[arg-type]

    def close(self) -> None:
        self.connection.close()
        self._listening.close()


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    made = Gateway()
    yield made
    made.close()


def link_of(gateway: Gateway, tmp_path: Path, *, crashes: float = 0.0) -> RawLink:
    disk = FileDisk(tmp_path / "state.json")

    def device() -> RawDevice:
        return RawDevice(Names("animal.observer", "region-1", "unit-1"), disk, Deaf())

    link = RawLink(device, [gateway.address], pauses=PAUSES, crashes=crashes)
    link.do(lambda device: device.register("camera"))
    link.do(lambda device: link.connect())
    link.start()
    return link


@pytest.mark.parametrize("crashes", [0.0, 1.0])
def test_it_comes_back_with_what_is_on_its_disk(gateway: Gateway, tmp_path: Path, crashes: float) -> None:
    link = link_of(gateway, tmp_path, crashes=crashes)
    assert list(gateway.accept().register) == ["camera"]
    gateway.say(welcome=wire.Welcome(in_sync=True, epoch=7))
    if not crashes:
        gateway.connection.close()
    hello = gateway.accept()
    assert list(hello.register) == ["camera"]
    assert hello.epoch in ((0, 7) if crashes else (7,))
    link.stop()


@pytest.mark.parametrize("code", [64, 5, 1])
def test_it_stays_away_where_a_close_code_says_so(gateway: Gateway, tmp_path: Path, code: int) -> None:
    link = link_of(gateway, tmp_path)
    gateway.accept()
    gateway.say(close=wire.Close(code=code, reason="said so"))
    if code < 64:
        assert list(gateway.accept().register) == ["camera"]
    else:
        wait_for(lambda: link.stayed_away == f"Close {code}: said so")
    link.stop()


def test_it_says_bye_before_it_goes(gateway: Gateway, tmp_path: Path) -> None:
    link = link_of(gateway, tmp_path)
    gateway.accept()
    gateway.say(welcome=wire.Welcome(in_sync=True, epoch=7))
    gateway.say(caught_up=wire.CaughtUp(complete=3))
    wait_for(lambda: link.device.caught_up)
    link.do(lambda device: link.disconnect())
    said = gateway.frame()
    while not said.HasField("bye"):
        said = gateway.frame()
    link.stop()
