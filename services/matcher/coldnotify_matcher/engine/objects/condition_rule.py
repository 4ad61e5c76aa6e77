"""Conditions of conditional records: the one place that decides them, and what is remembered of those decided. Pure.

A decision depends on the records before it in the log, and on nothing else: so every owner of the partition decides the
same. The exception is an `id` whose first record compaction has removed. Then the condition alone decides, and where a
record with that id may have made it false, the outcome is unknown.
"""

from collections import OrderedDict
from typing import NamedTuple

from coldnotify_schemas.arrival_versions import arrival_version
from coldnotify_schemas.atomic_sets import has_condition
from coldnotify_schemas.decisions import REPEATS_OFFSETS_MAX, ConditionVerdict, Decided
from coldnotify_schemas.records import ConditionalRecord

from coldnotify_matcher.engine.objects.history import History, TakenRecord, same_content
from coldnotify_matcher.engine.objects.object_records import ObjectRecord
from coldnotify_matcher.engine.objects.objects import UNKNOWN, Obj

_PERHAPS_BEFORE = f"a record with this id may have been published more than {REPEATS_OFFSETS_MAX} offsets ago"


class _Known(NamedTuple):
    decided: Decided
    key: str
    id: str | None
    outcome: TakenRecord


class ConditionRule:
    """Decides conditional records of one partition, and remembers those of the last REPEATS_OFFSETS_MAX offsets."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._known: OrderedDict[int, _Known] = OrderedDict()
        """By offset."""
        self._by_id: dict[tuple[str, str], Decided] = {}
        """By an object's key and the id: the first record's."""
        self._created: OrderedDict[str, int] = OrderedDict()
        """By key: the offset at which the object last came to be there."""
        self._foreign: OrderedDict[str, int] = OrderedDict()
        """By key: the offset of the last record that speaks of decisions in another log."""
        self._awaited: dict[int, TakenRecord] = {}
        """By offset: outcomes that are told once the decision is durable. Another thread looks in."""
        self.known_from = 0
        """The first offset from which on no record was missing in the log as it was loaded."""

    def decide(self, obj: Obj, said: ConditionalRecord, record: ObjectRecord) -> Decided:
        """Decides a conditional record of this object, which is as the records before it have made it."""
        offset = record.offset
        first = self._by_id.get((obj.key, said.id)) if said.id is not None else None
        if first is not None and offset - first.offset <= REPEATS_OFFSETS_MAX:
            return first._replace(offset=offset, again=True)
        decided = verdict_of(obj, said, record)
        if decided.verdict is not ConditionVerdict.LOST or said.id is None or _holds(obj, said):
            return decided
        if self.may_have_held(obj, said, offset):
            return decided._replace(verdict=ConditionVerdict.UNKNOWN)
        return decided

    def note(self, obj: Obj, said: ConditionalRecord, record: ObjectRecord, decided: Decided) -> None:
        """Remembers what was decided of a record, which the object has merged if it is a version."""
        offset = record.offset
        taken = TakenRecord(
            obj.key,
            obj.incarnation,
            obj.version,
            offset,
            obj.published_ms,
            *_outcome_of(said, decided),
            id=said.id or "",
        )
        if decided.verdict is ConditionVerdict.WON:
            taken = taken._replace(incarnation=decided.incarnation, version=decided.version)
        self._known[offset] = _Known(decided, obj.key, said.id, taken)
        if said.id is not None:
            found = self._by_id.get((obj.key, said.id))
            if found is None or offset - found.offset > REPEATS_OFFSETS_MAX:
                self._by_id[obj.key, said.id] = decided
        self.await_durable(taken)
        self._forget(offset)

    def note_created(self, key: str, offset: int) -> None:
        """Notes that an object which was absent has a version at this offset."""
        _note_last(self._created, key, offset)

    def note_foreign(self, key: str, offset: int) -> None:
        """Notes that the object has, in the record at this offset, what was decided in another log: first records of
        its ids may have been there, and are not known."""
        _note_last(self._foreign, key, offset)

    def agrees(self, key: str, decided: Decided) -> bool:
        """Returns true unless something else was decided of that record, or it is of another object."""
        known = self._known.get(decided.offset)
        return known is None or (known.key == key and known.decided == decided)

    def durable(self, decided: Decided) -> None:
        """Notes that this decision is in the log: its outcome may be told."""
        self.durable_at(decided.offset)

    def await_durable(self, taken: TakenRecord) -> None:
        """Keeps an outcome until its decision is durable."""
        self._awaited[taken.offset] = taken

    def durable_at(self, offset: int) -> None:
        """Notes that what was decided of the record at this offset is in the log: its outcome may be told."""
        taken = self._awaited.pop(offset, None)
        if taken is not None:
            self._history.remember(taken)

    def drop_awaited(self, offset: int) -> None:
        """Drops an outcome that nobody can ask for any more."""
        self._awaited.pop(offset, None)

    def awaits(self, offset: int) -> bool:
        """Returns true if the record at this offset is decided, and its outcome is told soon. For any thread."""
        return offset in self._awaited

    def _forget(self, offset: int) -> None:
        while self._known and next(iter(self._known)) < offset - REPEATS_OFFSETS_MAX:
            old, known = self._known.popitem(last=False)
            self.drop_awaited(old)
            if known.id is not None and (found := self._by_id.get((known.key, known.id))) and found.offset == old:
                del self._by_id[known.key, known.id]

    def may_have_held(self, obj: Obj, said: ConditionalRecord, offset: int) -> bool:
        """Returns true if what does not hold now may have held for a record with the same id that is not
        remembered."""
        remembered_from = max(self.known_from, offset - REPEATS_OFFSETS_MAX, self._foreign.get(obj.key, -1) + 1)
        if not remembered_from:
            return False
        if not has_condition(said):
            below = obj.incarnation, (said.version or 0) - 1
            return self._history.outdone_at(obj.key, below) < remembered_from
        if said.if_version is None:
            return self._created.get(obj.key, UNKNOWN) < remembered_from
        if obj.version != UNKNOWN and said.if_version >= obj.version:
            return False  # it has not come yet
        named = obj.incarnation, said.if_version
        outdone_at = UNKNOWN if obj.version == UNKNOWN else self._history.outdone_at(obj.key, named)
        return outdone_at < remembered_from


def verdict_of(obj: Obj, said: ConditionalRecord, record: ObjectRecord) -> Decided:
    """Returns what is decided of this version, by what the records before it have made of the object alone.

    Without a condition its version has to be above the newest. Pure.
    """
    offset = record.offset
    if said.if_changed and _says_the_same(obj, said, record):
        return Decided(offset, ConditionVerdict.SAME)
    version = arrival_version(obj.version, record.timestamp_ms) if said.version is None else said.version
    if not _holds(obj, said) or version <= obj.version:
        return Decided(offset, ConditionVerdict.LOST)
    return Decided(offset, ConditionVerdict.WON, version, obj.incarnation)


def _note_last(of_key: OrderedDict[str, int], key: str, offset: int) -> None:
    """Notes an offset of a key, and forgets those that count no more."""
    of_key[key] = offset
    of_key.move_to_end(key)
    while of_key and next(iter(of_key.values())) < offset - REPEATS_OFFSETS_MAX:
        of_key.popitem(last=False)


def why_lost(said: ConditionalRecord, *, undecidable: bool = False) -> str:
    """Returns the reason for a version that is not published, beginning with the field."""
    if not has_condition(said):
        if undecidable:
            return f"version: is not above the newest, and {_PERHAPS_BEFORE}"
        return "version: is not above the newest"
    if undecidable:
        return f"{said.condition}: does not hold, and {_PERHAPS_BEFORE}"
    words = "the object is there" if said.if_absent else "another version is the newest"
    if said.if_changed:
        words = "its version is not above the newest"
    return f"{said.condition}: {words}"


def _holds(obj: Obj, said: ConditionalRecord) -> bool:
    if said.if_absent:
        return not obj.there
    if said.if_version is not None:
        return obj.version == said.if_version
    return True


def _says_the_same(obj: Obj, said: ConditionalRecord, record: ObjectRecord) -> bool:
    if not obj.there:
        return said.deleted
    return obj.properties == record.properties and same_content(obj, said)


def _outcome_of(said: ConditionalRecord, decided: Decided) -> tuple[str, str]:
    """Returns outcome and reason."""
    match decided.verdict:
        case ConditionVerdict.WON:
            return "published", ""
        case ConditionVerdict.SAME:
            return "repeated", ""
        case ConditionVerdict.UNKNOWN:
            return "undecidable", why_lost(said, undecidable=True)
    return "refused", why_lost(said)
