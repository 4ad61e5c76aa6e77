"""Sets, and the nulls behind them, in offset order: decided as a whole, and written down member by member.

A set is decided in the step that reads it. Its members' plain records are state of that step; the null under the set's
key follows once they are durable, and says that they are. A load that finds a set without its null writes all of that
again.
"""

from collections.abc import Callable, Sequence

from coldnotify_schemas.atomic_sets import AtomicSet, DecidedSet, InvalidSet, decided_set_of, parse_set
from coldnotify_schemas.records import PublicRecord

from coldnotify_matcher.engine.inputs.arrivals import Arrival, Door
from coldnotify_matcher.engine.inputs.undecided import Undecided, WaitingRecord
from coldnotify_matcher.engine.objects.object_records import ObjectRecord
from coldnotify_matcher.engine.objects.objects import UNKNOWN, Obj
from coldnotify_matcher.engine.objects.set_rule import SetRule
from coldnotify_matcher.engine.partition_state import PartitionState
from coldnotify_matcher.engine.telling.conflation import Conflation, NewerMember
from coldnotify_matcher.engine.writing.repairs import Repairs

MergeMember = Callable[[Obj, ObjectRecord, PublicRecord, int, int], NewerMember | None]
"""Has an object merge (record, said, version) at a time; returns what is to be told of it."""


class SetIntake:
    """Takes sets in. Each is decided once."""

    def __init__(
        self,
        state: PartitionState,
        door: Door,
        rule: SetRule,
        undecided: Undecided,
        conflation: Conflation,
        repairs: Repairs,
        merge: MergeMember,
    ) -> None:
        self._state = state
        self._door = door
        self.rule = rule
        self._undecided = undecided
        self._conflation = conflation
        self._repairs = repairs
        self._merge = merge
        self._open: dict[int, tuple[Arrival, AtomicSet, DecidedSet | None]] = {}
        """By offset, while a log is loaded: sets whose nulls have not come."""

    def on_arrival(self, arrival: Arrival, now_ms: int, *, merged: bool, counts: bool) -> Sequence[str]:
        """Handle a record under a set's key. Returns the keys of objects whose records wait no longer.

        `merged`: it was seen before, and can only be rejected now. `counts`: its members count as publishes.
        """
        record = arrival.record
        if (invalid := arrival.why_invalid()) or not arrival.at_home:
            arrival.reject(invalid or f"set: the key belongs to partition {arrival.home}, and is not moved")
            return ()
        if record.value is None:
            return () if merged else self._on_null(arrival)
        try:
            if record.raw or record.urgent:
                raise InvalidSet("set: its record has headers of a single version")
            said = parse_set(record.value, payload_bytes_max=self._state.rules.payload_bytes_max)
        except InvalidSet as error:
            arrival.reject(str(error))
            return ()
        if counts:
            for _ in said.members[1:]:
                self._door.use_of(arrival.domain).publish(0, high=False)
        if merged:
            return ()
        if self._state.live:
            self.decide(arrival, said, now_ms)
            return ()
        self._open[record.offset] = arrival, said, None
        self._undecided.add_set(WaitingRecord(arrival, said), self.keys_of(arrival, said))
        return ()

    def decide(self, arrival: Arrival, said: AtomicSet, now_ms: int) -> None:
        """Decide a set as the records before it have made its objects."""
        record = arrival.record
        objects = self._objects(arrival, said)
        decided = self.rule.decide(arrival.text, objects, said, record)
        told = [self.become(obj, place, said, decided, record, now_ms) for place, obj in enumerate(objects)]
        self.rule.note(arrival.text, objects, said, record, decided)
        if self._state.live:
            newer = [one for one in told if one is not None]
            self._conflation.publish_set(newer, record.offset, now_ms)
            self._repairs.decide_set(arrival.text, objects, decided)
        elif record.offset in self._open:
            self._open[record.offset] = arrival, said, decided
        for obj in objects:
            self._state.forget_if_idle(obj)
        self._state.count("sets_decided" if decided.is_versions else "sets_decided_in_vain")

    def become(
        self, obj: Obj, place: int, said: AtomicSet, decided: DecidedSet, record: ObjectRecord, now_ms: int
    ) -> NewerMember | None:
        """Have one member be what was decided. Returns what is to be told of it."""
        if not decided.is_versions or place >= len(decided.versions):
            return None
        member = said.members[place].said
        version, incarnation = decided.versions[place]
        if (incarnation, version) <= (obj.incarnation, obj.version):
            return None
        if member.if_changed and member.deleted and obj.version == UNKNOWN:
            return None  # there was nothing to delete
        return self._merge(obj, record, member.as_version(version, incarnation), version, now_ms)

    def note_decided(self, headers: Sequence[bytes], offset: int) -> tuple[list[DecidedSet], list[str]]:
        """Note what the headers of a record at this offset say of sets. Returns that, and the keys of objects whose
        records wait no longer."""
        found = [decided_set_of(value, self._state.epoch, offset - 1) for value in headers]
        decided = [one for one in found if one is not None]
        keys: list[str] = []
        for one in decided:
            keys += self._undecided.decide_set(one)
            entry = self._open.get(one.offset)
            if entry is not None and entry[2] is None:
                arrival, said, _ = entry
                self._open[one.offset] = arrival, said, one
                self.rule.note(arrival.text, self._objects(arrival, said), said, arrival.record, one)
        return decided, keys

    def agrees(self, decided: Sequence[DecidedSet]) -> bool:
        """Returns true unless something else was decided of one of these sets."""
        return all(self.rule.agrees(one) for one in decided)

    def finish_load(self) -> None:
        """Write down, with the first step, what was decided of sets whose nulls have not come."""
        for arrival, said, decided in self._open.values():
            if decided is not None:
                self._repairs.decide_set(arrival.text, self._objects(arrival, said), decided)
        self._open = {}

    def keys_of(self, arrival: Arrival, said: AtomicSet) -> tuple[str, ...]:
        """Returns the keys of a set's objects."""
        return tuple(f"{arrival.group_key}/{member.object}" for member in said.members)

    def _on_null(self, arrival: Arrival) -> Sequence[str]:
        record = arrival.record
        decided, keys = self.note_decided(record.decided_sets, record.offset)
        if not decided:
            arrival.reject("record: is null under a set's key")
            return ()
        if self.agrees(decided):
            for one in decided:
                self._open.pop(one.offset, None)
                self.rule.durable(one)
        return keys

    def _objects(self, arrival: Arrival, said: AtomicSet) -> list[Obj]:
        return [self._state.object_of(key) for key in self.keys_of(arrival, said)]
