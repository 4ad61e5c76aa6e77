"""Nulls that an owner wrote to remove an object or its description, as they are read: in the order of the log.

A null removes the version that its header names, and any older one, if neither the object nor its description changed
since the owner looked; a description stays as long as its object does. If a null removes nothing only its offset
counts: the record in force is written again after it, as after any other record that compaction must not leave. That
cannot go on for ever: a version that is written again counts as published just then, so its own null is a whole period
away.
"""

from coldnotify_schemas.descriptions import KEY_PREFIX
from coldnotify_schemas.removals import Removal, removal_of

from coldnotify_matcher.engine.objects.object_records import ObjectRecord
from coldnotify_matcher.engine.objects.objects import UNKNOWN, Obj
from coldnotify_matcher.engine.partition_state import PartitionState
from coldnotify_matcher.engine.telling.conflation import Conflation
from coldnotify_matcher.engine.upkeep.retention import RetentionTurns
from coldnotify_matcher.engine.writing.repairs import Repairs


def read_removal(record: ObjectRecord) -> Removal | None:
    """Returns the removal in a null's header; None: the record is not such a null."""
    return removal_of(record.removes) if record.value is None and record.removes else None


class RemovalIntake:
    """Takes such nulls in. Each is seen once: one that is read again is skipped before."""

    def __init__(
        self, state: PartitionState, conflation: Conflation, repairs: Repairs, retention: RetentionTurns
    ) -> None:
        self._state = state
        self._conflation = conflation
        self._repairs = repairs
        self._retention = retention

    def on_object(self, obj: Obj, removal: Removal, offset: int, now_ms: int) -> None:
        """Apply a null under the object's own key."""
        state = self._state
        self._retention.settled(obj.key)
        if obj.version == UNKNOWN:  # another matcher's null came before
            state.forget_if_idle(obj)
            return
        last_offset = obj.last_offset
        group_key = obj.key[: -len(obj.name) - 1]
        state.descriptions.settle(group_key, obj.name)
        if (described := state.descriptions.of(group_key, obj.name)) is not None:
            last_offset = max(last_offset, described.last_offset)
        if not removal.removes(obj.incarnation, obj.version, last_offset, state.epoch):
            obj.last_offset = max(obj.last_offset, offset)
            if state.live:
                state.count("nulls_void")
                self._repairs.look_at(obj)
            return
        group, before = "", None
        if state.members.groups.any and (group := state.members.group_of(obj)):
            before = state.members.groups.description(group, obj.name)
        self._conflation.forget(obj)
        state.objects.note(obj.key, before=obj.there, now=False)
        obj.remove()
        if state.live:
            state.count("removed")
            state.filtered.removed(obj)
            if group:
                changes = state.members.published(group, obj, before, offset)
                self._conflation.described(group, obj.name, offset, now_ms, changes)
        state.forget_if_idle(obj)

    def on_description(self, group: str, name: str, removal: Removal, offset: int, now_ms: int) -> None:
        """Apply a null under the key of the object's description."""
        state = self._state
        self._retention.settled(f"{group}/{name}")
        state.descriptions.settle(group, name)
        described = state.descriptions.of(group, name)
        if described is None:
            return
        obj = state.objects.get(f"{group}/{name}")
        last_offset = described.last_offset if obj is None else max(described.last_offset, obj.last_offset)
        stays = obj is not None and obj.version != UNKNOWN and not obj.deleted and removal.epoch is not None
        if stays or not removal.removes(0, described.version, last_offset, state.epoch):
            described.last_offset = max(described.last_offset, offset)
            if state.live:
                state.count("nulls_void")
                self._repairs.look_at_description(f"{KEY_PREFIX}{group}/{name}", described)
            return
        followed = state.live and group in state.members.groups
        before = state.members.groups.description(group, name) if followed else None
        state.descriptions.forget(group, name)
        if state.live:
            state.count("descriptions_removed")
        if followed:
            changes = state.members.described(group, name, before, offset)
            self._conflation.described(group, name, offset, now_ms, changes)
