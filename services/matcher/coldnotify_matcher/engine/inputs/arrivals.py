"""Arrivals: records as the matcher reads them, of objects, of descriptions, or messages of channels.

The key is parsed once, here. A record that cannot be handled is rejected. A record that belongs to another partition is
a stray, which its owner moves. Both are written unless a predecessor has done so. A publish is counted for its domain,
in the partition that it belongs to.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING

from coldnotify_schemas.atomic_sets import SET_PREFIX
from coldnotify_schemas.channels import MessageHeaders, message_headers
from coldnotify_schemas.descriptions import KEY_PREFIX
from coldnotify_schemas.names import InvalidName, check_object, parse_object_key
from coldnotify_schemas.partitioner import home_of
from coldnotify_schemas.records import InvalidRecord

from coldnotify_matcher.engine.outputs import ProducedRecord
from coldnotify_matcher.engine.writing.rejected import rejected

if TYPE_CHECKING:
    from coldnotify_matcher.engine.channel_logs.message_records import MessageRecord
    from coldnotify_matcher.engine.objects.history import History
    from coldnotify_matcher.engine.objects.object_records import ObjectRecord
    from coldnotify_matcher.engine.partition_state import PartitionState
    from coldnotify_matcher.engine.writing.outbox import EngineOutbox
    from coldnotify_matcher.engine.writing.strays import Strays

_PREFIX = KEY_PREFIX.encode()
_PREFIX_BYTES = len(_PREFIX)
_SET_PREFIX = SET_PREFIX.encode()


class ArrivalKind(Enum):
    """Kind of a record."""

    OBJECT = auto()
    DESCRIPTION = auto()
    SET = auto()
    """Several objects of one group, as one."""
    MESSAGE = auto()


def is_description_key(key: bytes | None) -> bool:
    """Returns true if a key of the objects topic is meant for a description, whether it is valid or not."""
    return key is not None and key.startswith(_PREFIX)


class Arrival:
    """One record of the objects topic."""

    __slots__ = ("_door", "domain", "group", "home", "kind", "name", "readable", "record", "text")

    kind: ArrivalKind
    record: ObjectRecord
    text: str
    """domain/group/object, without the prefix of a description; of a set, its whole key."""
    domain: str
    group: str
    name: str
    """The object's name; of a set, its ID. It is unchecked until `why_invalid` has returned ""."""
    readable: bool
    """True if its key is text."""
    home: int | None
    """The partition that it belongs to; None: its key does not say."""

    def __init__(self, door: Door, record: ObjectRecord) -> None:
        self._door = door
        self.record = record
        key, self.kind, self.readable = record.key, ArrivalKind.OBJECT, True
        if key is None:
            key, self.readable = b"", False
        elif key.startswith(_PREFIX):
            key, self.kind = key[_PREFIX_BYTES:], ArrivalKind.DESCRIPTION
        elif key.startswith(_SET_PREFIX):
            self.kind = ArrivalKind.SET
        try:
            text = key.decode()
        except UnicodeDecodeError:
            text, self.readable = key.decode(errors="replace"), False
        self.text = text
        try:
            names = text.removeprefix(SET_PREFIX) if self.kind is ArrivalKind.SET else text
            self.domain, self.group, self.name = names.split("/", 2)
            self.home = home_of(self.domain, self.group, door.partitions)
        except ValueError:  # InvalidName is a ValueError
            self.domain, _, rest = text.partition("/")
            self.group, _, self.name = rest.partition("/")
            self.home = None

    @property
    def group_key(self) -> str:
        """domain/group."""
        return f"{self.domain}/{self.group}"

    @property
    def at_home(self) -> bool:
        """True if it belongs to this partition."""
        return self.home == self._door.partition

    def why_invalid(self) -> str:
        """Returns the reason why its key names no object; "": it names one."""
        try:
            if self.readable and self.home is not None:
                check_object(self.name)
            else:
                key = self.record.key
                prefix = {ArrivalKind.DESCRIPTION: _PREFIX, ArrivalKind.SET: _SET_PREFIX}.get(self.kind, b"")
                parse_object_key(key[len(prefix) :] if key else key)
        except InvalidName as error:
            return str(error)
        return ""

    def count(self) -> None:
        """Count a publish for its domain, in its own partition; records that an owner has written again do not
        count."""
        record = self.record
        key, value, door = record.key, record.value, self._door
        if record.since or record.decided or record.decided_sets:
            return
        if self.home == door.partition and key is not None and value is not None:
            door.use_of(self.domain).publish(len(key) + len(value), high=record.urgent)

    def reject(self, reason: str) -> None:
        """Reject it: it cannot be handled."""
        self._door.reject_object(self.record, reason)

    def stray(self, check: Callable[[bytes], object]) -> None:
        """Move it to the partition it belongs to. `check` raises InvalidRecord for a value that cannot be
        understood."""
        record, strays = self.record, self._door.strays
        assert record.key is not None
        assert self.home is not None
        if record.value is None:
            strays.on_null(record.key)
            return
        try:
            if record.moved:
                raise InvalidRecord(f"key: belongs to partition {self.home} and was moved once already")
            check(record.value)
        except InvalidRecord as error:
            self.reject(str(error))
            return
        strays.add(record.key, record, self.home)


class MessageArrival:
    """One record of a log of channels."""

    __slots__ = ("_door", "_replay_from", "domain", "kind", "record", "text")

    def __init__(self, door: Door, record: MessageRecord, replay_from: int) -> None:
        """`replay_from`: the first offset at which no predecessor has rejected or moved records."""
        self._door = door
        self._replay_from = replay_from
        self.record = record
        self.kind = ArrivalKind.MESSAGE
        self.text = "" if record.key is None else record.key.decode(errors="surrogateescape")
        self.domain = self.text.partition("/")[0]

    def count(self, *, high: bool) -> None:
        """Count it for its domain: it belongs here, and is new."""
        self._door.use_of(self.domain).publish(len(self.text) + len(self.record.value or b""), high=high)

    def reject(self, reason: str) -> None:
        """Reject it: it cannot be handled."""
        if self.record.offset >= self._replay_from:
            self._door.reject_message(self.record, reason)

    def stray(self, right: int) -> None:
        """Move it, which can be understood, to the partition `right`."""
        if self.record.offset >= self._replay_from:
            self._door.move_message(self.record, right)


class Door:
    """Admits one partition's records, and writes the rejections and moves of the others."""

    def __init__(self, state: PartitionState, outbox: EngineOutbox, history: History, strays: Strays) -> None:
        self._state = state
        self._outbox = outbox
        self._history = history
        self.strays = strays
        self.partition = state.partition
        self.partitions = state.partitions
        self.use_of = state.use_of

    def message(self, record: MessageRecord, replay_from: int) -> MessageArrival:
        """Returns the arrival of a record of a log of channels."""
        return MessageArrival(self, record, replay_from)

    def reject_object(self, record: ObjectRecord, reason: str) -> None:
        """Write it to the rejected topic."""
        state, offset = self._state, record.offset
        self._history.rejected(record.key, offset, record.timestamp_ms, reason)
        if offset >= state.replay_from:
            self._reject(state.rules.topics.objects, offset, record.key, record.value, reason)
            state.count(f"rejected:{reason.partition(':')[0]}")

    def reject_message(self, record: MessageRecord, reason: str) -> None:
        """Write it to the rejected topic."""
        topic = record.retention.topic(self._state.rules.topics)
        self._reject(topic, record.offset, record.key, record.value, reason)
        self._state.count(f"messages_rejected:{reason.partition(':')[0]}")

    def move_message(self, record: MessageRecord, right: int) -> None:
        """Write it to the partition where it belongs."""
        assert isinstance(record.headers, MessageHeaders)
        place = f"{self.partition}@{record.offset}".encode()
        said = tuple(message_headers(record.headers._replace(moved=place)))
        topic = record.retention.topic(self._state.rules.topics)
        self._outbox.write(ProducedRecord(topic, right, record.key, record.value, said))
        self._state.count("messages_moved")

    def _reject(self, topic: str, offset: int, key: bytes | None, value: bytes | None, reason: str) -> None:
        self._outbox.write(rejected(self._state.rules.topics, topic, self.partition, offset, key, value, reason))
