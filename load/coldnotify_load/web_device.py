"""A device of ColdNotify's over WebSocket: the handshake and binary messages around what a TCP device says. Pure."""

from itertools import cycle

from coldnotify_load.load_device import DeviceMaker
from coldnotify_load.marks import Stamp
from coldnotify_load.population import Population
from coldnotify_load.tcp_device import ColdNotifyDevice

_HANDSHAKE = (
    b"GET /v1/connect HTTP/1.1\r\nHost: gateway\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
_MASK = b"\x5a\xa5\x3c\xc3"
"""One mask suffices: it is to keep proxies from being deceived, and here is none."""
_BINARY, _CLOSE, _PING = 0x2, 0x8, 0x9
_SHORT_MAX, _SIZE_OF_16_BITS, _SIZE_OF_64_BITS = 125, 126, 127
_CODES = 0xF


class WebDevice:
    """Upgrades its connection; then the bytes of the device `inside` are in binary messages."""

    __slots__ = ("_data", "_device", "_open", "_refused")

    def __init__(self, population: Population, number: int, inside: DeviceMaker = ColdNotifyDevice) -> None:
        self._device = inside(population, number)
        self._data = b""
        self._open = False
        self._refused = ""

    @property
    def ready(self) -> bool:
        """See LoadDevice."""
        return self._open and self._device.ready

    @property
    def closed(self) -> str:
        """See LoadDevice."""
        return self._refused or self._device.closed

    def hello(self) -> bytes:
        """The handshake; the Hello follows its answer."""
        self._data, self._open, self._refused = b"", False, ""
        return _HANDSHAKE

    def receive(self, data: bytes) -> tuple[bytes, tuple[Stamp, ...]]:
        """See LoadDevice."""
        self._data += data
        reply = b""
        if not self._open:
            head, ended, rest = self._data.partition(b"\r\n\r\n")
            if not ended:
                return b"", ()
            if not head.startswith(b"HTTP/1.1 101"):
                self._refused = head.partition(b"\r\n")[0].decode(errors="replace")
                return b"", ()
            self._data, self._open = rest, True
            reply = _message(_BINARY, self._device.hello())
        stamps: tuple[Stamp, ...] = ()
        while (message := self._next()) is not None:
            code, payload = message
            if code == _PING:
                reply += _message(_PING + 1, payload)
            elif code not in (_CLOSE, _PING + 1):
                said, arrived = self._device.receive(payload)
                stamps += arrived
                if said:
                    reply += _message(_BINARY, said)
        return reply, stamps

    def tick(self) -> bytes:
        """See LoadDevice."""
        said = self._device.tick() if self._open else b""
        return _message(_BINARY, said) if said else b""

    def ping(self) -> bytes:
        """See LoadDevice."""
        return _message(_BINARY, self._device.ping())

    def _next(self) -> tuple[int, bytes] | None:
        """Takes the next whole message: its code and payload. Servers mask nothing."""
        data = self._data
        if len(data) < 2:
            return None
        size, at = data[1], 2
        if size > _SHORT_MAX:
            at += 2 if size == _SIZE_OF_16_BITS else 8
            size = int.from_bytes(data[2:at])
        if len(data) < at + size:
            return None
        self._data = data[at + size :]
        return data[0] & _CODES, data[at : at + size]


def _message(code: int, payload: bytes) -> bytes:
    size = len(payload)
    if size <= _SHORT_MAX:
        head = bytes((0x80 | code, 0x80 | size))
    elif size < 1 << 16:
        head = bytes((0x80 | code, 0x80 | _SIZE_OF_16_BITS)) + size.to_bytes(2)
    else:
        head = bytes((0x80 | code, 0x80 | _SIZE_OF_64_BITS)) + size.to_bytes(8)
    return head + _MASK + bytes(byte ^ mask for byte, mask in zip(payload, cycle(_MASK), strict=False))
