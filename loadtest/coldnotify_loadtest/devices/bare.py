"""A device of the bare loop (peers/bare_loop.c): reads lines with a stamp, sends nothing. Pure."""

from coldnotify_load.population import Population
from coldnotify_load.remembered import Remembered

LINE_BYTES = 64
"""About what a notification takes."""
_live: Remembered[tuple[int, ...]] = Remembered()


class BareDevice:
    """Connected is ready."""

    __slots__ = ("_buffer", "closed", "ready")

    def __init__(self, _population: Population, _number: int) -> None:
        self._buffer = b""
        self.ready = False
        self.closed = ""

    def hello(self) -> bytes:
        """Returns one byte that marks a connection without a publisher."""
        self._buffer, self.ready = b"", False
        return b"S"

    def receive(self, data: bytes) -> tuple[bytes, tuple[int, ...]]:
        """See Device. The first byte received confirms that the loop knows it."""
        if self.ready and not self._buffer and (known := _live.get(data)) is not None:
            return b"", known
        if not self.ready:
            self.ready, data = True, data[1:]
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        return b"", tuple(int(line) for line in lines)

    def tick(self) -> bytes:
        """Nothing."""
        return b""

    def ping(self) -> bytes:
        """See Device."""
        return b""
