"""Kafka's requests about a consumer group, and about its nodes, as bytes, and its answers: the few that
`group_coordinator` and `cut_off_nodes` need. Pure.

All are of versions before the compact encodings of KIP-482, and known to Kafka from 2.4 on.
"""

import struct
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

_CLIENT_ID = "coldnotify-group"


class GroupError(IntEnum):
    """Kafka's error codes that have a meaning here."""

    NONE = 0
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    UNKNOWN_MEMBER_ID = 25
    FENCED_INSTANCE_ID = 82


class MalformedAnswer(Exception):
    """An answer is not one to the request."""


class KafkaAnswer:
    """Reads an answer's fields in their order. Raises MalformedAnswer behind its end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def int8(self) -> int:
        """Reads one byte."""
        return self._number(">b")

    def int16(self) -> int:
        """Reads two bytes."""
        return self._number(">h")

    def int32(self) -> int:
        """Reads four bytes."""
        return self._number(">i")

    def int64(self) -> int:
        """Reads eight bytes."""
        return self._number(">q")

    def text(self) -> str:
        """Reads a string; "" for null."""
        return self._take(self.int16()).decode("utf-8", "replace")

    def blob(self) -> bytes:
        """Reads bytes; none for null."""
        return self._take(self.int32())

    def array(self, read: Callable[[], T]) -> list[T]:
        """Reads an array, each item with `read`."""
        return [read() for _ in range(self.int32())]

    def _take(self, count: int) -> bytes:
        end = self._at + max(0, count)
        if end > len(self._data):
            raise MalformedAnswer(f"{end} bytes are needed, {len(self._data)} are there")
        taken, self._at = self._data[self._at : end], end
        return taken

    def _number(self, form: str) -> int:
        (number,) = struct.unpack(form, self._take(struct.calcsize(form)))
        assert isinstance(number, int)
        return number


class GroupRequest(NamedTuple, Generic[T]):
    """A request, and the function that reads its answer."""

    api_key: int
    version: int
    body: bytes
    read: Callable[[KafkaAnswer], T]

    def framed(self, correlation: int) -> bytes:
        """Returns the bytes to send; Kafka repeats the correlation at the beginning of its answer."""
        head = struct.pack(">hhi", self.api_key, self.version, correlation) + _text(_CLIENT_ID)
        return _blob(head + self.body)


class FoundCoordinator(NamedTuple):
    """The node that coordinates a group."""

    error: int
    host: str
    port: int


class StaticMember(NamedTuple):
    """A static member of a group."""

    id: str
    """Kafka gives it to each process that joins; a restarted process gets another one."""
    host: str
    """The address from which it speaks with Kafka."""


class StaticMembers(NamedTuple):
    """The static members of a group, by group.instance.id."""

    error: int
    members: dict[str, StaticMember]


class SaslAnswer(NamedTuple):
    """An answer to a step of SASL."""

    error: int
    words: str
    data: bytes


def find_coordinator(group: str) -> GroupRequest[FoundCoordinator]:
    """Returns FindCoordinator v2."""

    def read(answer: KafkaAnswer) -> FoundCoordinator:
        answer.int32()  # throttled for so long
        error, _, _ = answer.int16(), answer.text(), answer.int32()
        return FoundCoordinator(error, answer.text(), answer.int32())

    return GroupRequest(10, 2, _text(group) + b"\0", read)


def list_nodes() -> GroupRequest[list[tuple[str, int]]]:
    """Returns Metadata v4 about no topic. Its answer names the host and port of each node that is in the cluster."""

    def read(answer: KafkaAnswer) -> list[tuple[str, int]]:
        answer.int32()
        return answer.array(lambda: (answer.int32(), answer.text(), answer.int32(), answer.text())[1:3])

    return GroupRequest(3, 4, _array([]) + b"\0", read)


def describe_group(group: str) -> GroupRequest[StaticMembers]:
    """Returns DescribeGroups v4."""

    def read(answer: KafkaAnswer) -> StaticMembers:
        answer.int32()
        found = answer.array(lambda: _described(answer))
        if len(found) != 1:
            raise MalformedAnswer(f"it describes {len(found)} groups")
        return found[0]

    return GroupRequest(15, 4, _array([_text(group)]) + b"\0", read)


def _described(answer: KafkaAnswer) -> StaticMembers:
    error = answer.int16()
    for _ in ("group", "state", "kind of protocol", "protocol"):
        answer.text()
    members: dict[str, StaticMember] = {}

    def member() -> None:
        id_, instance, _, host = (answer.text() for _ in range(4))
        answer.blob(), answer.blob()  # its subscription and its assignment
        if instance:
            members[instance] = StaticMember(id_, host.removeprefix("/"))

    answer.array(member)
    answer.int32()  # what the asker may do with it
    return StaticMembers(error, members)


def leave_group(group: str, instance: str, member: str) -> GroupRequest[int]:
    """Returns LeaveGroup v3 of a static member. Its answer is an error code.

    `member`: if the static member has another id by now, Kafka refuses the request: FENCED_INSTANCE_ID.
    """

    def read(answer: KafkaAnswer) -> int:
        answer.int32()
        error = answer.int16()
        errors = answer.array(lambda: (answer.text(), answer.text(), answer.int16())[2])
        return error or next(iter(errors), 0)

    return GroupRequest(13, 3, _text(group) + _array([_text(member) + _text(instance)]), read)


def sasl_handshake(mechanism: str) -> GroupRequest[SaslAnswer]:
    """Returns SaslHandshake v1. The words of its answer are the mechanisms that the node accepts."""

    def read(answer: KafkaAnswer) -> SaslAnswer:
        error = answer.int16()
        return SaslAnswer(error, ", ".join(answer.array(answer.text)), b"")

    return GroupRequest(17, 1, _text(mechanism), read)


def sasl_authenticate(data: bytes) -> GroupRequest[SaslAnswer]:
    """Returns SaslAuthenticate v1."""

    def read(answer: KafkaAnswer) -> SaslAnswer:
        return SaslAnswer(answer.int16(), answer.text(), answer.blob())

    return GroupRequest(36, 1, _blob(data), read)


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _blob(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def _array(items: Sequence[bytes]) -> bytes:
    return struct.pack(">i", len(items)) + b"".join(items)
