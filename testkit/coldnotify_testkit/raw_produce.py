"""For tests: writes a record batch of any bytes to a partition, by a Produce request made by hand.

A Kafka library would look at the records first, and change or refuse what it would not write itself.
"""

import itertools
import socket
import time
from collections.abc import Sequence
from struct import pack, unpack_from
from types import TracebackType
from typing import NamedTuple, Self

from confluent_kafka import KafkaError

_PRODUCE, _PRODUCE_VERSION = 0, 8  # from 7 on there is zstd, 8 names why a record was refused
_METADATA, _METADATA_VERSION = 3, 4
_CLIENT_ID = "by-hand"
_ANSWER_BYTES_MAX = 16 << 20
_ASKED_S = 30.0
_NOT_LEADER, _LEADER_NOT_AVAILABLE, _UNKNOWN_TOPIC = 6, 5, 3
_TRIES = 5
_TRY_AGAIN_S = 0.2
"""A leader that has just changed is looked for again."""


class NoAnswer(Exception):
    """The broker closed the connection, cannot be reached, did not answer in time, or has no leader. The message tells
    which.
    """


class ProduceAnswer(NamedTuple):
    """The broker's answer to one batch."""

    code: int
    """Kafka's error code; 0: written."""
    offset: int
    """The offset of the batch's first record; -1: none."""
    why: str = ""
    """The broker's words, if it had any."""

    @property
    def written(self) -> bool:
        """True if the batch is in the log."""
        return self.code == 0

    @property
    def name(self) -> str:
        """The error's name, such as CORRUPT_MESSAGE."""
        return "NO_ERROR" if self.written else str(KafkaError(self.code).name())


class RawProducer:
    """Writes batches; one connection to each leader, made when it is needed. For one thread; plain text only."""

    def __init__(self, kafka: str, *, answer_s: float = _ASKED_S) -> None:
        """`kafka`: bootstrap servers as host:port, with commas between. `answer_s`: how long one request may take."""
        self._bootstrap = [_address(one) for one in kafka.split(",")]
        self._answer_s = answer_s
        self._sockets: dict[tuple[str, int], socket.socket] = {}
        self._leaders: dict[tuple[str, int], tuple[str, int]] = {}
        self._numbers = itertools.count(1)

    def produce(
        self, topic: str, partition: int, batch: bytes, *, transactional_id: str | None = None
    ) -> ProduceAnswer:
        """Write one batch with acks=all. Raises NoAnswer; whether it was written is not known then."""
        answer = ProduceAnswer(_LEADER_NOT_AVAILABLE, -1)
        for left in reversed(range(_TRIES)):
            leader = self._leader(topic, partition)
            body = _string(transactional_id) + pack(">hi", -1, int(self._answer_s * 1000))
            body += pack(">i", 1) + _string(topic) + pack(">ii", 1, partition) + pack(">i", len(batch)) + batch
            answer = _produced(self._ask(leader, _PRODUCE, _PRODUCE_VERSION, body))
            if answer.code not in (_NOT_LEADER, _LEADER_NOT_AVAILABLE, _UNKNOWN_TOPIC) or not left:
                break
            self._leaders.clear()
            time.sleep(_TRY_AGAIN_S)
        return answer

    def close(self) -> None:
        """End the connections."""
        for one in self._sockets.values():
            one.close()
        self._sockets.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _leader(self, topic: str, partition: int) -> tuple[str, int]:
        """Returns the leader of a partition, according to the first bootstrap server that answers. Raises NoAnswer."""
        why = NoAnswer(f"{topic}: no partition {partition} with a leader")
        for left in reversed(range(_TRIES)):
            if (topic, partition) in self._leaders:
                return self._leaders[topic, partition]
            for address in self._bootstrap:
                try:
                    answer = self._ask(
                        address, _METADATA, _METADATA_VERSION, pack(">i", 1) + _string(topic) + pack(">b", 0)
                    )
                except NoAnswer as error:
                    why = error
                    continue
                self._leaders |= _leaders(answer)
                break
            if left and (topic, partition) not in self._leaders:
                time.sleep(_TRY_AGAIN_S)
        if (topic, partition) not in self._leaders:
            raise why
        return self._leaders[topic, partition]

    def _ask(self, address: tuple[str, int], key: int, version: int, body: bytes) -> bytes:
        """One request, and its answer without its header. Raises NoAnswer."""
        number = next(self._numbers)
        request = pack(">hhi", key, version, number) + _string(_CLIENT_ID) + body
        deadline_s = time.monotonic() + self._answer_s
        try:
            connection = self._sockets.get(address)
            if connection is None:
                connection = self._sockets[address] = socket.create_connection(address, self._answer_s)
            connection.settimeout(self._answer_s)
            connection.sendall(pack(">i", len(request)) + request)
            (size,) = unpack_from(">i", _read(connection, 4, deadline_s))
            if not 4 <= size <= _ANSWER_BYTES_MAX:
                raise NoAnswer(f"{address[0]}:{address[1]}: an answer of {size} bytes")
            answer = _read(connection, size, deadline_s)
        except (OSError, NoAnswer) as error:
            # What comes late would be taken for the next one's answer.
            if broken := self._sockets.pop(address, None):
                broken.close()
            self._leaders.clear()
            raise NoAnswer(f"{address[0]}:{address[1]}: {error}") from error
        if unpack_from(">i", answer) != (number,):
            raise NoAnswer(f"{address[0]}:{address[1]}: the answer to another request")
        return answer[4:]


def produce(kafka: str, topic: str, partition: int, batch: bytes, *, answer_s: float = _ASKED_S) -> ProduceAnswer:
    """Writes one batch over connections of its own. Raises NoAnswer."""
    with RawProducer(kafka, answer_s=answer_s) as producer:
        return producer.produce(topic, partition, batch)


class _Reader:
    """Reads an answer's fields one behind the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, bits: int) -> int:
        """A signed one."""
        (value,) = unpack_from({8: ">b", 16: ">h", 32: ">i", 64: ">q"}[bits], self._data, self._at)
        self._at += bits // 8
        return int(value)

    def string(self) -> str:
        """Null is empty."""
        length = max(self.number(16), 0)
        self._at += length
        return self._data[self._at - length : self._at].decode(errors="replace")

    def numbers(self) -> Sequence[int]:
        """An array of int32."""
        return [self.number(32) for _ in range(self.number(32))]


def _produced(answer: bytes) -> ProduceAnswer:
    read = _Reader(answer)
    read.number(32), read.string(), read.number(32), read.number(32)  # one topic, its name, one partition, its number
    code, offset = read.number(16), read.number(64)
    read.number(64), read.number(64)  # the time of append, the log's start
    why = []
    for _ in range(read.number(32)):
        read.number(32)
        why.append(read.string())
    return ProduceAnswer(code, offset, "; ".join(filter(None, [read.string(), *why])))


def _leaders(answer: bytes) -> dict[tuple[str, int], tuple[str, int]]:
    """Returns the addresses of leaders, by topic and partition. Partitions without a leader are left out."""
    read = _Reader(answer)
    read.number(32)  # throttled for
    brokers = {}
    for _ in range(read.number(32)):
        node, host, port = read.number(32), read.string(), read.number(32)
        brokers[node] = host, port
        read.string()  # its rack
    read.string(), read.number(32)  # the cluster's id, its controller
    found = {}
    for _ in range(read.number(32)):
        read.number(16)
        topic = read.string()
        read.number(8)
        for _ in range(read.number(32)):
            read.number(16)
            partition, leader = read.number(32), read.number(32)
            read.numbers(), read.numbers()  # replicas, and those in sync
            if leader in brokers:
                found[topic, partition] = brokers[leader]
    return found


def _read(connection: socket.socket, size: int, deadline_s: float) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        connection.settimeout(max(deadline_s - time.monotonic(), 0.001))
        part = connection.recv(size - len(parts))
        if not part:
            raise NoAnswer("closed the connection")
        parts += part
    return bytes(parts)


def _string(text: str | None) -> bytes:
    if text is None:
        return pack(">h", -1)
    raw = text.encode()
    return pack(">h", len(raw)) + raw


def _address(server: str) -> tuple[str, int]:
    host, _, port = server.strip().rpartition(":")
    return host.strip("[]"), int(port)
