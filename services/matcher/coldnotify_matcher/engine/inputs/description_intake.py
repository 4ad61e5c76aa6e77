"""Records of descriptions, in offset order: checked, merged, and moved where they are strays."""

from coldnotify_schemas.descriptions import KEY_PREFIX, parse_description_key
from coldnotify_schemas.names import InvalidName
from coldnotify_schemas.records import InvalidRecord

from coldnotify_matcher.engine.inputs.arrivals import Arrival
from coldnotify_matcher.engine.inputs.removal_intake import RemovalIntake, read_removal
from coldnotify_matcher.engine.objects.description_store import understood
from coldnotify_matcher.engine.objects.object_records import ObjectRecord
from coldnotify_matcher.engine.partition_state import PartitionState
from coldnotify_matcher.engine.telling.conflation import Conflation
from coldnotify_matcher.engine.writing.repairs import Repairs

_NO_TIME = -1


class DescriptionIntake:
    """Takes such records in. A record that is seen twice has the same outcome."""

    def __init__(
        self, state: PartitionState, conflation: Conflation, repairs: Repairs, removals: RemovalIntake
    ) -> None:
        self._state = state
        self._conflation = conflation
        self._repairs = repairs
        self._removals = removals

    def on_arrival(self, arrival: Arrival, now_ms: int, *, merged: bool) -> None:
        """Take a record in. `merged`: it was seen before, and can only be rejected or moved now."""
        record, invalid = arrival.record, arrival.why_invalid()
        if invalid:
            arrival.reject(invalid)
        elif not arrival.at_home:
            arrival.stray(lambda value: understood(value, record.timestamp_ms))
        else:
            try:
                self._merge(arrival.group_key, arrival.name, record, now_ms, merged=merged)
            except InvalidRecord as error:
                arrival.reject(str(error))

    def skip(self, key: bytes, offset: int) -> None:
        """Skip the record at this offset, which is set aside: the description in force is to be written after it."""
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

    def _merge(self, group: str, name: str, record: ObjectRecord, now_ms: int, *, merged: bool) -> None:
        state = self._state
        if (removal := read_removal(record)) is not None:
            if not merged:
                self._removals.on_description(group, name, removal, record.offset, now_ms)
            return
        if state.live and not merged:
            followed = group in state.members.groups
            before = state.members.groups.description(group, name) if followed else None
            try:
                change = state.descriptions.take(
                    group, name, record.value, record.timestamp_ms, record.offset, record.request
                )
                if change is not None and followed:
                    changes = state.members.described(group, name, before, record.offset)
                    self._conflation.described(group, name, record.offset, now_ms, changes)
            finally:
                state.patches.read_back(group, name)
                described = state.descriptions.of(group, name)
                if described is not None:
                    self._repairs.look_at_description(f"{KEY_PREFIX}{group}/{name}", described)
            return
        if not merged:
            state.descriptions.keep(group, name, record.value, record.timestamp_ms, record.offset, record.request)
        if record.offset >= state.replay_from:
            understood(record.value, record.timestamp_ms)
