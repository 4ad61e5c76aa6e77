"""A thread that connects a raw device to gateways, over TCP, again and again while it is to be connected."""

import logging
import random
import select
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from coldnotify_testkit.link_thread import LinkThread
from coldnotify_testkit.raw_device.device import RawDevice

_log = logging.getLogger(__name__)
_TICK_S = 0.05
_READ_BYTES = 65536
_NOT_AGAIN_FROM_CODE = 64
_DISPLACED, _UNKNOWN_SESSION = 5, 6


@dataclass(frozen=True)
class Pauses:
    """Before the device connects again, in seconds."""

    connect_s: float = 10.0
    """The longest time to connect."""
    back_off_min_s: float = 1.0
    back_off_max_s: float = 300.0
    displaced_min_s: float = 60.0
    displaced_max_s: float = 3600.0


class RawLink(LinkThread[RawDevice]):
    """The link of a raw device, whose thread also makes all calls of its application's callbacks."""

    def __init__(
        self,
        device: Callable[[], RawDevice],
        addresses: Sequence[tuple[str, int]],
        *,
        pauses: Pauses = Pauses(),
        crashes: float = 0.0,
        look: Callable[[RawDevice], None] = lambda device: None,
        random_: random.Random | None = None,
    ) -> None:
        """`device` makes a device from what is on disk. `crashes`: the probability, per received frame, that the device
        crashes: it loses its connection and starts again from its disk. `look` is called after every event.
        """
        super().__init__("raw-device")
        self._make = device
        self.device = device()
        self._addresses = addresses
        self._pauses = pauses
        self._crashes = crashes
        self._look = look
        self._random = random_ or random.Random()
        self._wanted = False
        self._socket: socket.socket | None = None
        self._next_s = 0.0
        self._failed = 0
        self._displaced = 0
        self._address = self._random.randrange(len(addresses))
        self.stayed_away: str | None = None
        """Why it does not come back."""

    def connect(self) -> None:
        """It is to be connected. For the link's thread: see `do`."""
        self._wanted, self._next_s = True, 0.0

    def disconnect(self) -> None:
        """It is not to be connected any more, and is not. For the link's thread."""
        self._wanted = False
        if self._socket is not None:
            self.device.say_bye(time.monotonic())
            self._write(self.device)
            self._close()
        self.device.save()

    def _run(self) -> None:
        while not self._stopping:
            self._do_queued(self.device)
            now = time.monotonic()
            if self._socket is None and self._wanted and now >= self._next_s and self.stayed_away is None:
                self._open(now)
            self._step()
            self._look(self.device)
        self._close()

    def _open(self, now: float) -> None:
        address = self._addresses[self._address % len(self._addresses)]
        self._address += 1
        try:
            self._socket = socket.create_connection(address, self._pauses.connect_s)
        except OSError:
            self._pause(now)
            return
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.device.connect(now)

    def _step(self) -> None:
        if self._socket is None:
            self.device.save()
            time.sleep(_TICK_S)
            return
        now = time.monotonic()
        self.device.tick(now)
        self._write(self.device)
        if self._socket is not None and self.device.over is None:
            self._read(now)
        if self.device.over is not None:
            self._lose(time.monotonic())

    def _read(self, now: float) -> None:
        assert self._socket is not None
        readable, _, _ = select.select([self._socket], [], [], _TICK_S)
        if not readable:
            return
        try:
            data = self._socket.recv(_READ_BYTES)
        except OSError:
            data = b""
        if not data:
            self._lose(time.monotonic())
            return
        if self._crashes and self._random.random() < self._crashes:
            # It got a part of this only, and its state is on disk as it was behind one of the frames.
            self.device.receive(data[: self._random.randrange(len(data) + 1)], now)
            self.device.save()
            self._close()
            self.device = self._make()
            self._next_s = now
            return
        self.device.receive(data, now)

    def _write(self, device: RawDevice) -> None:
        data = device.bytes_to_send(time.monotonic())
        if data and self._socket is not None:
            try:
                self._socket.settimeout(self._pauses.connect_s)
                self._socket.sendall(data)
            except OSError:
                self._lose(time.monotonic())

    def _lose(self, now: float) -> None:
        code = self.device.code
        _log.info("session over: %s", self.device.over or "the connection ended")
        caught_up = self.device.caught_up
        self._close()
        if code is not None and code >= _NOT_AGAIN_FROM_CODE:
            self.stayed_away = self.device.over
        if caught_up:
            self._failed = 0
        if code == _DISPLACED:
            most_s = min(self._pauses.displaced_max_s, self._pauses.displaced_min_s * 2**self._displaced)
            self._displaced += 1
            self._next_s = now + most_s
        elif code == _UNKNOWN_SESSION and caught_up:
            self._next_s = now + self._random.random() * min(1.0, self._pauses.back_off_min_s)
        else:
            self._pause(now)

    def _pause(self, now: float) -> None:
        most_s = min(self._pauses.back_off_max_s, self._pauses.back_off_min_s * 2**self._failed)
        self._failed += 1
        self._next_s = now + self._random.random() * most_s

    def _close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self.device.save()
        self.device.disconnect()
