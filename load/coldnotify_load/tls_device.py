"""TLS around a device's bytes: its records are made and read in memory, and the swarm's loop knows nothing of it."""

import ssl
from dataclasses import dataclass
from functools import lru_cache

from coldnotify_load.load_device import DeviceMaker, LoadDevice
from coldnotify_load.marks import Stamp
from coldnotify_load.population import Population

_READ_BYTES = 65_536


@dataclass(frozen=True)
class TlsFiles:
    """The identity of all devices, as PEM files; an empty name: none."""

    ca_cert: str
    cert: str
    key: str
    server_name: str
    """The name that the gateway's certificate is checked for."""


@lru_cache(maxsize=8)
def context_of(files: TlsFiles) -> ssl.SSLContext:
    """Returns the process' one context. Raises OSError, ssl.SSLError."""
    context = ssl.create_default_context(cafile=files.ca_cert or None)
    if files.cert:
        context.load_cert_chain(files.cert, files.key or None)
    return context


class TlsDevice:
    """A device whose bytes are in TLS records."""

    __slots__ = ("_device", "_failed", "_files", "_incoming", "_is_open", "_outgoing", "_tls")

    def __init__(self, device: DeviceMaker, files: TlsFiles, population: Population, number: int) -> None:
        self._device: LoadDevice = device(population, number)
        self._files = files
        self._failed = ""
        self._begin()

    def _begin(self) -> None:
        self._incoming, self._outgoing, self._is_open = ssl.MemoryBIO(), ssl.MemoryBIO(), False
        self._tls = context_of(self._files).wrap_bio(
            self._incoming, self._outgoing, server_hostname=self._files.server_name
        )

    @property
    def ready(self) -> bool:
        """See LoadDevice."""
        return self._is_open and self._device.ready

    @property
    def closed(self) -> str:
        """See LoadDevice."""
        return self._failed or self._device.closed

    def hello(self) -> bytes:
        """The first record of the handshake; the device's own hello follows it."""
        self._failed = ""
        self._begin()
        return self._shake()

    def receive(self, data: bytes) -> tuple[bytes, tuple[Stamp, ...]]:
        """See LoadDevice."""
        self._incoming.write(data)
        stamps: tuple[Stamp, ...] = ()
        said = b"" if self._is_open else self._shake()
        try:
            while self._is_open and (plain := self._tls.read(_READ_BYTES)):
                reply, arrived = self._device.receive(plain)
                stamps += arrived
                if reply:
                    self._tls.write(reply)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self._fail(error)
        return said + self._outgoing.read(), stamps

    def tick(self) -> bytes:
        """See LoadDevice."""
        return self._said(self._device.tick()) if self._is_open else b""

    def ping(self) -> bytes:
        """See LoadDevice."""
        return self._said(self._device.ping()) if self._is_open else b""

    def _said(self, plain: bytes) -> bytes:
        if not plain:
            return b""
        self._tls.write(plain)
        return self._outgoing.read()

    def _shake(self) -> bytes:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return self._outgoing.read()
        except ssl.SSLError as error:
            self._fail(error)
            return self._outgoing.read()
        self._is_open = True
        self._tls.write(self._device.hello())
        return self._outgoing.read()

    def _fail(self, error: ssl.SSLError) -> None:
        self._failed = f"TLS: {error.reason or error}"
        self._is_open = False
