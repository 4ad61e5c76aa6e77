"""Asks the coordinator of a consumer group for its static members, and removes one: no Kafka client library can.

librdkafka and aiokafka send LeaveGroup for themselves only, and have no removeMembersFromConsumerGroup().
"""

import asyncio
import secrets
import struct
from typing import TypeVar

from coldnotify_schemas.host_port import host_port, parse_host_port

from coldnotify_common.errors import ServiceError
from coldnotify_common.kafka.group_protocol import (
    GroupError,
    GroupRequest,
    KafkaAnswer,
    MalformedAnswer,
    StaticMember,
    describe_group,
    find_coordinator,
    leave_group,
    sasl_authenticate,
    sasl_handshake,
)
from coldnotify_common.kafka.kafka_login import Login
from coldnotify_common.kafka.scram import Scram, ScramError

T = TypeVar("T")

CONNECT_S = 1.0
"""Longest wait for a connection to a node, with TLS and SASL."""
ANSWER_S = 2.0
"""Longest wait for an answer."""
_ANSWER_BYTES_MAX = 16 * 1024 * 1024
"""A group of hundreds of members, each with its subscription and its assignment, takes a hundredth of it."""
KAFKA_PORT = 9092
_GONE = (GroupError.UNKNOWN_MEMBER_ID, GroupError.FENCED_INSTANCE_ID)


class CoordinatorUnavailable(ServiceError):
    """No node answers for the group now, or it refuses to; the message says why."""


class GroupCoordinator:
    """Speaks with the coordinator of one group over one connection, made when it is needed. One event loop uses it.

    Its questions need the right to read the group, which every member has.
    """

    def __init__(self, bootstrap: str, login: Login, group: str) -> None:
        self._bootstrap = bootstrap
        self._login = login
        self._group = group
        self._node: KafkaNode | None = None
        self._asking = asyncio.Lock()

    async def members(self) -> dict[str, StaticMember]:
        """Returns the group's static members by group.instance.id. Raises CoordinatorUnavailable."""
        found = await self._ask(describe_group(self._group))
        if found.error:
            self._forget()
            raise CoordinatorUnavailable(f"Kafka does not describe group {self._group}: error {found.error}")
        return found.members

    async def remove(self, instance: str, member: str) -> bool:
        """Removes a static member, unless its id is another one by now. Returns true if it is gone by this.

        Raises CoordinatorUnavailable: then it may be gone or not.
        """
        error = await self._ask(leave_group(self._group, instance, member))
        if error in _GONE:
            return False
        if error:
            self._forget()
            raise CoordinatorUnavailable(f"Kafka does not remove {instance} from group {self._group}: error {error}")
        return True

    def close(self) -> None:
        """Closes the connection; the next question opens another one."""
        self._forget()

    async def _ask(self, request: GroupRequest[T]) -> T:
        async with self._asking:
            try:
                if self._node is None:
                    self._node = await self._find()
                return await self._node.ask(request)
            except (OSError, EOFError, MalformedAnswer, ScramError, ValueError) as error:
                self._forget()
                why = str(error) or type(error).__name__
                raise CoordinatorUnavailable(f"the coordinator of group {self._group}: {why}") from None
            except BaseException:
                self._forget()  # an answer may be under way
                raise

    async def _find(self) -> "KafkaNode":
        last: Exception = ValueError("there are no bootstrap servers")
        for one in self._bootstrap.split(","):
            try:
                host, port = parse_host_port(one.strip().rpartition("://")[2], KAFKA_PORT)
                node = await KafkaNode.connect(host, port, self._login)
                try:
                    found = await node.ask(find_coordinator(self._group))
                finally:
                    node.close()
                if found.error:
                    raise MalformedAnswer(f"not known by {host_port(host, port)}: error {found.error}")
                return await KafkaNode.connect(found.host, found.port, self._login)
            except (OSError, EOFError, MalformedAnswer) as error:
                last = error
        raise last

    def _forget(self) -> None:
        node, self._node = self._node, None
        if node is not None:
            node.close()


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
