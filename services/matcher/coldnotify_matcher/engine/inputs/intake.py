"""Records of the objects topic, in offset order: checked, merged, and handed on if they bring a newer version."""

from collections.abc import Sequence

from coldnotify_schemas.arrival_versions import arrival_version, checkpoint_of, is_by_arrival
from coldnotify_schemas.atomic_sets import AtomicSet, DecidedSet
from coldnotify_schemas.decisions import Decided, decided_of
from coldnotify_schemas.names import OBJECT_BYTES_MAX
from coldnotify_schemas.records import (
    VERSION_MAX,
    ConditionalRecord,
    InvalidRecord,
    PublicRecord,
    check_incarnation,
    parse_objects_record,
    since_of,
)

from coldnotify_matcher.engine.inputs.arrivals import Arrival, ArrivalKind, Door, is_description_key
from coldnotify_matcher.engine.inputs.checkpoints import LoadedCheckpoints, ReadRecord
from coldnotify_matcher.engine.inputs.description_intake import DescriptionIntake
from coldnotify_matcher.engine.inputs.removal_intake import RemovalIntake, read_removal
from coldnotify_matcher.engine.inputs.set_intake import SetIntake
from coldnotify_matcher.engine.inputs.undecided import TakenOut, Undecided, WaitingRecord
from coldnotify_matcher.engine.objects.condition_rule import ConditionRule
from coldnotify_matcher.engine.objects.history import History
from coldnotify_matcher.engine.objects.object_records import ObjectRecord
from coldnotify_matcher.engine.objects.objects import UNKNOWN, Obj
from coldnotify_matcher.engine.objects.set_rule import SetRule
from coldnotify_matcher.engine.partition_state import PartitionState
from coldnotify_matcher.engine.telling.conflation import Conflation, NewerMember
from coldnotify_matcher.engine.writing.repairs import Repairs

UNMADE_BYTES_MAX = 8192
"""Maximum size of a record that is kept for an object, unless half of it is payload: the payload keeps the whole record
alive, and the rest of a longer one is mostly white space."""


class Intake:
    """Takes records in. A record that is seen twice has the same outcome."""

    def __init__(
        self,
        state: PartitionState,
        door: Door,
        history: History,
        conflation: Conflation,
        repairs: Repairs,
        removals: RemovalIntake,
    ) -> None:
        self._state = state
        self._door = door
        self._history = history
        self._conflation = conflation
        self._repairs = repairs
        self._removals = removals
        self.checkpoints = LoadedCheckpoints()
        self.conditions = ConditionRule(history)
        self._undecided = Undecided()
        self.sets = SetIntake(
            state, door, SetRule(self.conditions), self._undecided, conflation, repairs, self._merge_member
        )
        self._descriptions = DescriptionIntake(state, conflation, repairs, removals)

    def on_object(self, record: ObjectRecord, now_ms: int) -> None:
        """Handle one record of the objects topic's partition."""
        state = self._state
        # Merging it twice could have another result: without an incarnation it refers to the one in force at that time.
        merged = record.offset < state.position
        if not merged:
            if record.offset > state.position and not state.live:
                self.conditions.known_from = record.offset
            state.position = record.offset + 1
        arrival = Arrival(self._door, record)
        # While a partition is loaded, count the records after the predecessor's last commit: it has not counted them,
        # or only within its last second.
        counts = not merged if state.live else 0 < state.replay_from <= record.offset
        if counts:
            arrival.count()
            if record.passed_over:
                state.count("properties_passed_over", record.passed_over)
        if arrival.kind is ArrivalKind.DESCRIPTION:
            self._descriptions.on_arrival(arrival, now_ms, merged=merged)
            return
        if record.decided and not merged and len(self._decided(record)) < len(record.decided):
            self.conditions.note_foreign(arrival.text, record.offset)
        if arrival.kind is ArrivalKind.SET:
            self._release(self.sets.on_arrival(arrival, now_ms, merged=merged, counts=counts), now_ms)
            if self._undecided.full:
                self._release_rest(now_ms)
            return
        if not merged and not state.live:
            if arrival.text in self._undecided:
                self._wait(arrival, now_ms)
                return
            if self._keep_unmade(arrival):
                return
        # If an object has a version its key was checked then.
        obj = state.objects.get(arrival.text) if arrival.readable else None
        if obj is None or obj.version == UNKNOWN:
            obj = self._object_at(arrival)
            if obj is None:
                return
        self._take(obj, arrival, now_ms, merged=merged)

    def _take(self, obj: Obj, arrival: Arrival, now_ms: int, *, merged: bool) -> None:
        """Take a record of an object in. `merged`: it was seen before, and can only be rejected now."""
        state, record = self._state, arrival.record
        if (removal := read_removal(record)) is not None:
            if not merged:
                self._removals.on_object(obj, removal, record.offset, now_ms)
                if obj.version == UNKNOWN:
                    self.checkpoints.forget(obj)
            else:
                state.forget_if_idle(obj)
            return
        decided = self._decided(record) if record.decided else ()
        decided_sets: Sequence[DecidedSet] = ()
        if record.decided_sets and not merged:
            decided_sets, keys = self.sets.note_decided(record.decided_sets, record.offset)
            self._release(keys, now_ms)
        if (decided or decided_sets) and record.value is None:
            if not merged:
                self._pass_over(obj, record)
                self._durable(decided)
            state.forget_if_idle(obj)
            return
        try:
            said, version = self._understood(record, obj.version)
        except InvalidRecord as error:
            obj.last_offset = max(obj.last_offset, record.offset)
            if record.value is None and obj.version != UNKNOWN and state.live and not merged:
                state.count("nulls_void")
            arrival.reject(str(error))
            if state.live:
                self._repairs.look_at(obj)
            state.forget_if_idle(obj)
            return
        if merged:
            return
        if isinstance(said, ConditionalRecord):
            self._on_condition(obj, arrival, said, now_ms)
            return
        if not (all(self.conditions.agrees(obj.key, one) for one in decided) and self.sets.agrees(decided_sets)):
            # It is of a matcher that had lost the partition: what it says is in force is not.
            self._pass_over(obj, record)
            return
        if record.arrival and (read_to := checkpoint_of(said, record.arrival, state.epoch, record.offset)) is not None:
            self._merge_checkpoint(obj, record, said, read_to, now_ms)
        else:
            if is_by_arrival(said, record.arrival):
                obj.note_arrival(version, record.timestamp_ms)
            self._merge(obj, record, said, version, now_ms)
            if not state.live:
                self.checkpoints.add(obj, record, said)
        self._durable(decided)

    # --- conditional records

    def decide_rest(self, now_ms: int) -> None:
        """Decide, once the log is loaded, what nobody has decided. It is written down with the first step."""
        self._release_rest(now_ms)
        self.sets.finish_load()
        self._state.at = None

    def _on_condition(self, obj: Obj, arrival: Arrival, said: ConditionalRecord, now_ms: int) -> None:
        if self._state.live:
            self._decide(obj, arrival.record, said, now_ms)
            return
        self._undecided.add(WaitingRecord(arrival, said))
        if self._undecided.full:
            self._release_rest(now_ms)

    def _wait(self, arrival: Arrival, now_ms: int) -> None:
        """Have a record wait for the decision about one before it, or take it in with those that it decides."""
        record = arrival.record
        said: PublicRecord | None = None
        if record.value is not None:
            try:
                said, _ = self._understood(record, 0)
            except InvalidRecord:
                said = None  # it is rejected in its turn
        waiting = WaitingRecord(arrival, said if isinstance(said, ConditionalRecord) else None)
        self._undecided.add(waiting, self._decided(record))
        keys = [arrival.text]
        if record.decided_sets:
            keys += self.sets.note_decided(record.decided_sets, record.offset)[1]
        self._release(keys, now_ms)
        if self._undecided.full:
            self._release_rest(now_ms)

    def _release(self, keys: Sequence[str], now_ms: int) -> None:
        for key in keys:
            for one in self._undecided.take(key):
                self._take_out(one, now_ms)

    def _release_rest(self, now_ms: int) -> None:
        for one in self._undecided.take_rest():
            self._take_out(one, now_ms)

    def _take_out(self, one: TakenOut, now_ms: int) -> None:
        """Have a record that waited be what was decided, or decide it."""
        state, (arrival, said), decided = self._state, one.waiting, one.decided
        record = arrival.record
        state.at = state.rules.topics.objects, record.offset
        if isinstance(said, AtomicSet):
            if isinstance(decided, DecidedSet):
                place = self.sets.keys_of(arrival, said).index(one.key)
                obj = state.object_of(one.key)
                self.sets.become(obj, place, said, decided, record, now_ms)
                state.forget_if_idle(obj)
            else:
                self.sets.decide(arrival, said, now_ms)
            return
        obj = state.object_of(one.key)
        if said is None:
            self._take(obj, arrival, now_ms, merged=False)
        elif isinstance(decided, Decided):
            self._become(obj, record, said, decided, now_ms)
        else:
            self._decide(obj, record, said, now_ms)

    def _decide(self, obj: Obj, record: ObjectRecord, said: ConditionalRecord, now_ms: int) -> None:
        decided = self.conditions.decide(obj, said, record)
        self._become(obj, record, said, decided, now_ms)
        self._repairs.decide(obj, decided)
        self._state.count("decided" if decided.is_version else "decided_in_vain")

    def _become(self, obj: Obj, record: ObjectRecord, said: ConditionalRecord, decided: Decided, now_ms: int) -> None:
        """Have a conditional record be what was decided."""
        if decided.is_version:
            version = said.as_version(decided.version, decided.incarnation)
            self._merge(obj, record, version, decided.version, now_ms, told=False)
            if not self._state.live:
                self.checkpoints.add(obj, record, version)
        else:
            obj.last_offset = max(obj.last_offset, record.offset)
        self.conditions.note(obj, said, record, decided)

    def _pass_over(self, obj: Obj, record: ObjectRecord) -> None:
        obj.last_offset = max(obj.last_offset, record.offset)
        if self._state.live:
            self._repairs.look_at(obj)

    def _decided(self, record: ObjectRecord) -> list[Decided]:
        found = (decided_of(value, self._state.epoch, record.offset - 1) for value in record.decided)
        return [one for one in found if one is not None]

    def _durable(self, decided: Sequence[Decided]) -> None:
        for one in decided:
            self.conditions.durable(one)

    # --- others

    def skip_object(self, key: bytes | None, offset: int) -> None:
        """Skip the record at this offset, which is set aside: its object's newest version is to be written after it."""
        self.on_end(offset + 1)
        if key is not None and is_description_key(key):
            self._descriptions.skip(key, offset)
            return
        obj = None if key is None else self._state.objects.get(key.decode(errors="surrogateescape"))
        if obj is None:
            return
        obj.last_offset = max(obj.last_offset, offset)
        if self._state.live:
            self._repairs.look_at(obj)

    def reject_object(self, record: ObjectRecord, reason: str) -> None:
        """Reject a record that the shell does not understand, as if only its key and its place were known."""
        self.skip_object(record.key, record.offset)
        self._door.reject_object(record, reason)

    def on_end(self, offset: int) -> None:
        """Note that the objects topic was read up to `offset`, even if its last offsets hold no records."""
        self._state.position = max(self._state.position, offset)

    def _keep_unmade(self, arrival: Arrival) -> bool:
        """Keep just the record, if it is its object's first and in order. Returns false if `on_object` has to go on
        with it."""
        state, record, name = self._state, arrival.record, arrival.text
        key, value, offset = record.key, record.value, record.offset
        if key is None or value is None or len(key) > OBJECT_BYTES_MAX:
            return False
        if not (arrival.readable and arrival.at_home and arrival.name) or name in state.objects:
            return False
        try:
            said = self._parse(value, raw=record.raw)
            check_incarnation(said, offset)
        except ValueError:
            return False
        if isinstance(said, ConditionalRecord):
            return False
        if len(value) > UNMADE_BYTES_MAX and len(value) > 2 * len(said.payload_bytes):
            return False
        version = said.version_at(record.timestamp_ms)
        if not 0 <= version <= VERSION_MAX or record.arrival or record.message:
            return False
        first_offset = since_of(record.since, state.epoch, offset) if record.since else None
        time_ms, trace, properties = record.timestamp_ms, record.traceparent, record.properties
        state.objects.keep(name, said, offset, time_ms, trace, first_offset, properties)
        came_at = offset if first_offset is None else first_offset
        self._history.published(name, said.incarnation or 0, version, came_at, record.timestamp_ms)
        return True

    def _merge_member(
        self, obj: Obj, record: ObjectRecord, said: PublicRecord, version: int, now_ms: int
    ) -> NewerMember | None:
        """Merge a member of a set. Returns what is to be told of it, once all of them are merged."""
        told: list[NewerMember] = []
        self._merge(obj, record, said, version, now_ms, told=False, members=told)
        obj.note_set(record.offset)
        if not self._state.live:
            self.checkpoints.add(obj, record, said)
        return told[0] if told else None

    def _merge(
        self,
        obj: Obj,
        record: ObjectRecord,
        said: PublicRecord,
        version: int,
        now_ms: int,
        *,
        told: bool = True,
        members: list[NewerMember] | None = None,
    ) -> None:
        """Merge a version. `told`: its outcome may be told. `members`: it is of a set; what is to be told of it is
        added."""
        state, offset = self._state, record.offset
        outcome = self._history.taken(obj, said, version, offset, told=told)
        group, before = "", None
        if state.members.groups.any and (group := state.members.group_of(obj)):
            before = state.members.groups.description(group, obj.name)
        was_there = obj.there
        newer = self._put(obj, record, said, version, now_ms)
        state.objects.note(obj.key, before=was_there, now=obj.there)
        if obj.there and not was_there:
            self.conditions.note_created(obj.key, offset)
        if newer:
            self._history.published(obj.key, obj.incarnation, version, obj.offset, record.timestamp_ms, told=told)
        if not state.live:
            return
        if newer and state.filtered.any:
            state.filtered.changed(obj)
            if state.filtered.unsayable(obj):
                state.count("unsayable")
        state.count(outcome + ":" + obj.domain)
        urgent = self._is_urgent(obj, record, newer=newer)
        if group:
            changes = state.members.published(group, obj, before, offset)
            if newer and members is not None:
                members.append(NewerMember(obj, changes))
            elif newer:
                self._conflation.publish(obj, offset, now_ms, changes, urgent=urgent)
            else:
                # It may say that the same version is deleted, or that it is not.
                self._conflation.described(group, obj.name, offset, now_ms, changes)
        elif newer and members is not None:
            members.append(NewerMember(obj, None))
        elif newer:
            self._conflation.publish(obj, offset, now_ms, urgent=urgent)
        self._repairs.look_at(obj)

    def _merge_checkpoint(self, obj: Obj, record: ObjectRecord, said: PublicRecord, read_to: int, now_ms: int) -> None:
        """Merge a checkpoint of what came up to `read_to`. While the log is loaded it may correct what was read."""
        assert said.version is not None
        state, offset = self._state, record.offset
        unread = None if state.live else self.checkpoints.unread(obj, read_to, offset)
        before = obj.incarnation, obj.version, obj.offset
        obj.note_checkpoint(read_to, offset)
        self._merge(obj, record, said, said.version, now_ms)
        if state.live:
            return
        if unread is None:
            self.checkpoints.add(obj, record, said)
        elif before != (said.incarnation, said.version, since_of(record.since, state.epoch, offset)):
            self._correct(obj, (ReadRecord(record, said), *unread), now_ms)

    def _correct(self, obj: Obj, read: Sequence[ReadRecord], now_ms: int) -> None:
        """Have the object be what a checkpoint says, and what came behind the place that it names."""
        checkpoint_offset = read[0].record.offset
        was_there = obj.there
        obj.remove()
        for record, said in read:
            version = _version_of(record, said, obj.version)
            if is_by_arrival(said, record.arrival):
                obj.note_arrival(version, record.timestamp_ms)
            self._put(obj, record, said, version, now_ms)
        obj.corrected(checkpoint_offset)
        self._state.objects.note(obj.key, before=was_there, now=obj.there)

    def _put(self, obj: Obj, record: ObjectRecord, said: PublicRecord, version: int, now_ms: int) -> bool:
        """Merge a record. Returns true if it brings a newer version."""
        state, offset = self._state, record.offset
        # A version that is newer than all before it came first with this record, whatever place its header names.
        first_offset = since_of(record.since, state.epoch, offset) if record.since and not state.live else None
        newer = obj.merge(said, version, offset, first_offset, record.properties, record.message)
        if obj.kept_offset == offset:
            # With the time of a wrong clock it would be removed as soon as it comes.
            obj.active_ms = now_ms if state.live else record.timestamp_ms
        if newer:
            obj.published_ms = record.timestamp_ms
            obj.traceparent = record.traceparent
        return newer

    def _is_urgent(self, obj: Obj, record: ObjectRecord, *, newer: bool) -> bool:
        """Returns true if the version in this record is sent with high priority."""
        urgent = self._state.rules.high_shares.may_be_high(obj.domain, high=record.urgent and newer)
        if record.urgent and newer:
            self._state.count("urgent" if urgent else "urgent_above_share")
        return urgent

    def _object_at(self, arrival: Arrival) -> Obj | None:
        """Returns the object with this key, known or new; None: the key is invalid, or belongs to another partition."""
        invalid = arrival.why_invalid()
        if invalid:
            arrival.reject(invalid)
            return None
        if not arrival.at_home:
            arrival.stray(lambda value: self._check_stray(value, arrival))
            return None
        return self._state.object_of(arrival.text)

    def _understood(self, record: ObjectRecord, newest: int) -> tuple[PublicRecord, int]:
        """Returns (record, version). `newest`: its object's newest version. Raises InvalidRecord."""
        if record.value is None:
            raise InvalidRecord('record: is null; publish {"deleted": true} to say that the object is gone')
        said = self._parse(record.value, raw=record.raw)
        check_incarnation(said, record.offset)
        version = _version_of(record, said, newest)
        if not 0 <= version <= VERSION_MAX:
            raise InvalidRecord(
                f"version: is missing, and the record's timestamp ({record.timestamp_ms}) cannot stand for it"
            )
        return said, version

    def _check_stray(self, value: bytes, arrival: Arrival) -> None:
        said = self._parse(value, raw=arrival.record.raw)
        if isinstance(said, ConditionalRecord):
            raise InvalidRecord(f"{said.condition}: the key belongs to partition {arrival.home}, and is not moved")

    def _parse(self, value: bytes, *, raw: bool) -> PublicRecord:
        return parse_objects_record(value, raw=raw, payload_bytes_max=self._state.rules.payload_bytes_max)


def _version_of(record: ObjectRecord, said: PublicRecord, newest: int) -> int:
    if is_by_arrival(said, record.arrival) or (isinstance(said, ConditionalRecord) and said.version is None):
        return arrival_version(newest, record.timestamp_ms)
    return said.version_at(record.timestamp_ms)
