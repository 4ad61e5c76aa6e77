"""Records of descriptions, in offset order: checked, merged, and moved where they are strays."""

from collections.abc import Callable

from coldnotify_schemas.descriptions import KEY_PREFIX, parse_description_key
from coldnotify_schemas.names import InvalidName, ObjectKey
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.records import InvalidRecord

from coldnotify_matcher.engine.conflation import Conflation
from coldnotify_matcher.engine.description_store import understood
from coldnotify_matcher.engine.object_records import ObjectRecord
from coldnotify_matcher.engine.partition_state import State
from coldnotify_matcher.engine.removal_intake import RemovalIntake, read_removal
from coldnotify_matcher.engine.repairs import Repairs
from coldnotify_matcher.engine.strays import Strays

_PREFIX = KEY_PREFIX.encode()
_NO_TIME = -1


def is_description_key(key: bytes | None) -> bool:
    """Whether a record of the objects topic is one of a description, or would be one if its key were right."""
    return key is not None and key.startswith(_PREFIX)


class DescriptionIntake:
    """Takes such records in. What it sees twice has the same outcome."""

    def __init__(
        self,
        state: State,
        conflation: Conflation,
        repairs: Repairs,
        strays: Strays,
        removals: RemovalIntake,
        reject: Callable[[ObjectRecord, str], None],
    ) -> None:
        """`reject`: writes a record to the rejected topic, with the reason, unless a predecessor has."""
        self._state = state
        self._conflation = conflation
        self._repairs = repairs
        self._strays = strays
        self._removals = removals
        self._reject = reject

    def on_record(self, record: ObjectRecord, now_ms: int, *, merged: bool) -> None:
        """`merged`: it was seen before, and is only to be rejected or moved, if it is to be."""
        assert record.key is not None
        try:
            key = parse_description_key(record.key)
            assert key is not None
            right = partition_of(key.domain, key.group, self._state.partitions)
            if right == self._state.partition:
                self._merge(key, record, now_ms, merged=merged)
            else:
                self._on_stray(record, right)
        except (InvalidName, InvalidRecord) as error:
            self._reject(record, str(error))

    def skip(self, key: bytes, offset: int) -> None:
        """The record at this offset is set aside: the description in force is to stand behind it again."""
        try:
            parsed = parse_description_key(key)
        except InvalidName:
            return
        assert parsed is not None
        group, name = f"{parsed.domain}/{parsed.group}", parsed.object
        if not self._state.live:
            self._state.descriptions.keep(group, name, None, _NO_TIME, offset)
        elif (described := self._state.descriptions.of(group, name)) is not None:
            described.last_offset = max(described.last_offset, offset)
            self._repairs.look_at_description(key.decode(), described)

    def _merge(self, key: ObjectKey, record: ObjectRecord, now_ms: int, *, merged: bool) -> None:
        state, group = self._state, f"{key.domain}/{key.group}"
        if (removal := read_removal(record)) is not None:
            if not merged:
                self._removals.on_description(group, key.object, removal, record.offset, now_ms)
            return
        if state.live and not merged:
            followed = group in state.members.groups
            before = state.members.groups.description(group, key.object) if followed else None
            try:
                change = state.descriptions.take(group, key.object, record.value, record.timestamp_ms, record.offset)
                if change is not None and followed:
                    changes = state.members.described(group, key.object, before, record.offset)
                    self._conflation.described(group, key.object, record.offset, now_ms, changes)
            finally:
                described = state.descriptions.of(group, key.object)
                if described is not None:
                    self._repairs.look_at_description(f"{KEY_PREFIX}{group}/{key.object}", described)
            return
        if not merged:
            state.descriptions.keep(group, key.object, record.value, record.timestamp_ms, record.offset)
        if record.offset >= state.replay_from:
            understood(record.value, record.timestamp_ms)

    def _on_stray(self, record: ObjectRecord, right: int) -> None:
        assert record.key is not None
        if record.value is None:
            self._strays.on_null(record.key)
            return
        if record.moved:
            raise InvalidRecord(f"key: belongs to partition {right} and was moved once already")
        understood(record.value, record.timestamp_ms)
        self._strays.add(record.key, record, right)
