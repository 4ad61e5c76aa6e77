"""KafkaNode: a connection to one node of Kafka, for what no Kafka client library asks a node."""

import asyncio
import secrets
import struct
from collections.abc import Iterator
from typing import TypeVar

from coldnotify_schemas.host_port import parse_host_port

from coldnotify_common.kafka.group_protocol import (
    GroupRequest,
    KafkaAnswer,
    MalformedAnswer,
    sasl_authenticate,
    sasl_handshake,
)
from coldnotify_common.kafka.kafka_login import Login
from coldnotify_common.kafka.scram import Scram

T = TypeVar("T")

CONNECT_S = 1.0
"""Longest wait for a connection to a node, with TLS and SASL."""
ANSWER_S = 2.0
"""Longest wait for an answer."""
_ANSWER_BYTES_MAX = 16 * 1024 * 1024
"""A group of hundreds of members, each with its subscription and its assignment, takes a hundredth of it."""
_KAFKA_PORT = 9092


def bootstrap_places(bootstrap: str) -> Iterator[tuple[str, int]]:
    """Yields host and port of each bootstrap server. Raises ValueError at one that is neither a name nor an address."""
    for one in filter(None, map(str.strip, bootstrap.split(","))):
        yield parse_host_port(one.rpartition("://")[2], _KAFKA_PORT)


class KafkaNode:
    """A connection to a node of Kafka."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._correlation = 0

    @classmethod
    async def connect(cls, host: str, port: int, login: Login) -> "KafkaNode":
        """Connects and logs in. Raises OSError, EOFError, MalformedAnswer, ScramError."""
        async with asyncio.timeout(CONNECT_S):
            node = cls(*await asyncio.open_connection(host, port, ssl=login.tls))
            try:
                await node._log_in(login)
            except BaseException:
                node.close()
                raise
        return node

    async def ask(self, request: GroupRequest[T]) -> T:
        """Returns the answer. Raises OSError, EOFError, MalformedAnswer."""
        self._correlation += 1
        self._writer.write(request.framed(self._correlation))
        async with asyncio.timeout(ANSWER_S):
            (count,) = struct.unpack(">i", await self._reader.readexactly(4))
            if not 4 <= count <= _ANSWER_BYTES_MAX:
                raise MalformedAnswer(f"an answer of {count} bytes")
            answer = KafkaAnswer(await self._reader.readexactly(count))
        if answer.int32() != self._correlation:
            raise MalformedAnswer("an answer to another request")
        return request.read(answer)

    def close(self) -> None:
        """Closes the connection."""
        self._writer.transport.abort()  # nothing is under way whose loss would matter, and TLS would wait for an answer

    async def _log_in(self, login: Login) -> None:
        if login.mechanism is None:
            return
        shaken = await self.ask(sasl_handshake(login.mechanism))
        if shaken.error:
            raise MalformedAnswer(f"it accepts {shaken.words or 'no SASL'}, not {login.mechanism}")
        if login.mechanism == "PLAIN":
            await self._say(f"\0{login.username}\0{login.password}".encode())
            return
        scram = Scram(login.mechanism, login.username, login.password, secrets.token_hex(16))
        scram.check(await self._say(scram.final(await self._say(scram.first()))))

    async def _say(self, data: bytes) -> bytes:
        answer = await self.ask(sasl_authenticate(data))
        if answer.error:
            raise MalformedAnswer(f"not logged in: {answer.words or answer.error}")
        return answer.data
