"""A thread that connects a raw MQTT device to a service over TCP, again and again while it is to be connected."""

import contextlib
import random
import select
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from coldnotify_checker.histories import now_us

from coldnotify_testkit.link_thread import LinkThread
from coldnotify_testkit.raw_mqtt_device import RawMqttDevice

_TICK_S = 0.05
_READ_BYTES = 65536


@dataclass(frozen=True)
class MqttPauses:
    """The link's times, in seconds."""

    connect_s: float = 10.0
    """The longest time to connect, and until the CONNACK."""
    back_off_s: float = 1.0
    """The longest pause before it connects again."""
    ping_s: float = 5.0
    """After the first PINGREQ, which follows the CONNACK."""
    pong_s: float = 20.0
    """The longest time until a PINGRESP."""
    drain_s: float = 5.0
    """The longest time behind a DISCONNECT until the service closes the connection."""


class RawMqttLink(LinkThread[RawMqttDevice]):
    """The link of an MQTT device. Which of the addresses it takes is drawn. `stop` crashes it, if it is connected."""

    def __init__(
        self,
        device: RawMqttDevice,
        addresses: Sequence[tuple[str, int]],
        *,
        pauses: MqttPauses = MqttPauses(),
        crashes: float = 0.0,
        look: Callable[[RawMqttDevice], None] = lambda device: None,
        random_: random.Random | None = None,
    ) -> None:
        """`crashes`: the probability, for each time that bytes have come, that the device is gone before it has taken
        all of them, or before its answer has left. `look` is called again and again.
        """
        super().__init__("raw-mqtt-device")
        self.device = device
        self._addresses = addresses
        self._pauses = pauses
        self.crashes = crashes
        self._look = look
        self._random = random_ or random.Random()
        self._wanted = self._clean = False
        self._socket: socket.socket | None = None
        self._next_s = self._begun_s = self._ping_s = 0.0

    def connect(self, *, clean: bool = False) -> None:
        """It is to be connected from now on. `clean` holds for the first connection."""

        def want(device: RawMqttDevice) -> None:
            self._wanted, self._clean, self._next_s = True, clean, 0.0

        self.do(want)

    def sleep(self) -> None:
        """It says DISCONNECT, and is not to be connected any more."""

        def go(device: RawMqttDevice) -> None:
            self._wanted = False
            if self._socket is not None:
                device.sleep()
                self._write()
                self._drain()
                self._close()

        self.do(go)

    def crash(self) -> None:
        """Its connection just ends, and is not to be any more."""

        def go(device: RawMqttDevice) -> None:
            self._wanted = False
            self._crash()

        self.do(go)

    def _run(self) -> None:
        while not self._stopping:
            self._do_queued(self.device)
            self._look(self.device)
            now = time.monotonic()
            if self._socket is None:
                if self._wanted and now >= self._next_s:
                    self._open(now)
                else:
                    time.sleep(_TICK_S)
                continue
            self._step(now)
        self._crash()

    def _open(self, now: float) -> None:
        try:
            self._socket = socket.create_connection(self._random.choice(self._addresses), self._pauses.connect_s)
        except OSError:
            self._pause(now)
            return
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.device.connect(clean=self._clean)
        self._begun_s, self._ping_s = now, 0.0

    def _step(self, now: float) -> None:
        device = self.device
        if device.connected and now >= self._ping_s:
            device.ping()
            self._ping_s = now + self._pauses.ping_s
        if not device.connected and now - self._begun_s > self._pauses.connect_s:
            device.ended("service", "no CONNACK")
        if device.pinged is not None and now_us() - device.pinged > self._pauses.pong_s * 1e6:
            device.ended("crash", "no PINGRESP")
        self._write()
        if device.over is None:
            self._read()
        if device.connected:
            self._clean = False
        if device.over is not None:
            self._write()
            self._close()
            self._pause(now)

    def _read(self) -> None:
        assert self._socket is not None
        readable, _, _ = select.select([self._socket], [], [], _TICK_S)
        if not readable:
            return
        try:
            data = self._socket.recv(_READ_BYTES)
        except OSError as error:
            self.device.ended("service", str(error))
            return
        if not data:
            self.device.ended("service", "closed")
        elif self.crashes and self._random.random() < self.crashes:
            self.device.receive(data[: self._random.randrange(len(data) + 1)])
            if self._random.random() < 0.5:
                self._write()
            self._crash()
            self._pause(time.monotonic())
        else:
            self.device.receive(data)

    def _write(self) -> None:
        data = self.device.bytes_to_send()
        if data and self._socket is not None:
            try:
                self._socket.settimeout(self._pauses.connect_s)
                self._socket.sendall(data)
            except OSError as error:
                self.device.ended("service", str(error))

    def _drain(self) -> None:
        """Reads on until the service has closed the connection: bytes that nobody reads would break it, and what was
        sent last.
        """
        assert self._socket is not None
        deadline_s = time.monotonic() + self._pauses.drain_s
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
            while (left_s := deadline_s - time.monotonic()) > 0:
                self._socket.settimeout(left_s)
                if not self._socket.recv(_READ_BYTES):
                    return

    def _crash(self) -> None:
        if self._socket is not None:
            self.device.ended("crash")
            self._close()

    def _pause(self, now: float) -> None:
        self._next_s = now + self._random.random() * self._pauses.back_off_s

    def _close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
