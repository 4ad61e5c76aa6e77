"""A device of Redis': subscribed to its channels (RESP3), reads the values once it is. Pure."""

from functools import lru_cache

from coldnotify_load.population import Population
from coldnotify_load.remembered import Remembered

_live: Remembered[tuple[int, ...]] = Remembered()


def command(*words: bytes | str) -> bytes:
    """A command in RESP."""
    parts = [word if isinstance(word, bytes) else word.encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


def key(population: Population, block: int, number: int) -> str:
    """Key and channel of an object."""
    return f"{population.domain}/{population.group(block)}/{population.object(block, number)}"


class Incomplete(Exception):
    """The value goes on in bytes that are not there yet."""


def value_at(data: bytes, at: int) -> tuple[object, int]:
    """The RESP value at a position, and where the next one begins. Raises Incomplete."""
    end = data.find(b"\r\n", at)
    if end < 0:
        raise Incomplete
    kind, line, after = data[at : at + 1], data[at + 1 : end], end + 2
    if kind == b"$":
        size = int(line)
        if size < 0:
            return None, after
        if len(data) < after + size + 2:
            raise Incomplete
        return data[after : after + size], after + size + 2
    if kind in b"*>~%":
        values = []
        for _ in range(int(line) * (2 if kind == b"%" else 1)):
            value, after = value_at(data, after)
            values.append(value)
        return (kind, *values), after
    if kind == b":":
        return int(line), after
    if kind == b"_":
        return None, after
    return kind + line, after


@lru_cache(maxsize=4096)
def _hello(population: Population, block: int) -> bytes:
    keys = [key(population, block, n) for n in range(population.registrations)]
    return command("HELLO", "3") + command("SUBSCRIBE", *keys) + command("MGET", *keys)


class RedisDevice:
    """Subscribes, then reads: it hears what was published in between, and reads what was before."""

    __slots__ = ("_buffer", "_number", "_population", "closed", "ready")

    def __init__(self, population: Population, number: int) -> None:
        self._population, self._number = population, number
        self._buffer = b""
        self.ready = False
        self.closed = ""

    def hello(self) -> bytes:
        """Everything at once: it is answered in order."""
        self._buffer, self.ready, self.closed = b"", False, ""
        return _hello(self._population, self._population.block_of(self._number))

    def receive(self, data: bytes) -> tuple[bytes, tuple[int, ...]]:
        """See Device."""
        if self.ready and not self._buffer and (known := _live.get(data)) is not None:
            return b"", known
        remember = self.ready and not self._buffer
        data_all, at, stamps = self._buffer + data, 0, []
        while at < len(data_all):
            try:
                value, at = value_at(data_all, at)
            except Incomplete:
                break
            if isinstance(value, bytes) and value.startswith(b"-"):
                self.closed = value.decode(errors="replace")
            elif isinstance(value, tuple) and value[0] == b">":
                if value[1] == b"message":
                    stamps.append(int(value[3]))
            elif isinstance(value, tuple) and value[0] == b"*":
                stamps += [int(one) for one in value[1:] if one is not None]
                self.ready = True
        self._buffer = data_all[at:]
        if remember and not self._buffer and not self.closed:
            _live.put(data, tuple(stamps))
        return b"", tuple(stamps)

    def tick(self) -> bytes:
        """Nothing."""
        return b""

    def ping(self) -> bytes:
        """See Device."""
        return command("PING")
