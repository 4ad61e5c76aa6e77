"""SetRule: the one place that decides sets as a whole, and what is remembered of those decided. Pure.

A set has won if each of its members would have, alone and at the set's place in the log: the members are different
objects, so none changes what another one meets. Otherwise none of them is a version. A member that says with
`if_changed` what is in force already keeps that, and does not stand in the way of the others.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from coldnotify_schemas.atomic_sets import AtomicSet, DecidedSet
from coldnotify_schemas.decisions import REPEATS_OFFSETS_MAX, ConditionVerdict

from coldnotify_matcher.engine.objects.condition_rule import ConditionRule, verdict_of, why_lost
from coldnotify_matcher.engine.objects.history import TakenMember, TakenRecord
from coldnotify_matcher.engine.objects.object_records import ObjectRecord
from coldnotify_matcher.engine.objects.objects import UNKNOWN, Obj

_OUTCOMES = {
    ConditionVerdict.WON: "published",
    ConditionVerdict.LOST: "refused",
    ConditionVerdict.UNKNOWN: "undecidable",
}


class _Known(NamedTuple):
    decided: DecidedSet
    key: str


class SetRule:
    """Decides the sets of one partition, and remembers those of the last REPEATS_OFFSETS_MAX offsets."""

    def __init__(self, conditions: ConditionRule) -> None:
        self._conditions = conditions
        self._known: OrderedDict[int, _Known] = OrderedDict()
        """By offset."""
        self._by_key: dict[str, DecidedSet] = {}
        """By the set's key, which has its ID: the first record's."""

    def decide(self, key: str, objects: Sequence[Obj], said: AtomicSet, record: ObjectRecord) -> DecidedSet:
        """Decides a set. `objects`: its members', as the records before it have made them."""
        offset = record.offset
        first = self._by_key.get(key)
        if first is not None and offset - first.offset <= REPEATS_OFFSETS_MAX:
            return first._replace(offset=offset, again=True)
        versions: list[tuple[int, int]] = []
        faults: list[int] = []
        undecidable = True
        for place, (obj, member) in enumerate(zip(objects, said.members, strict=True)):
            alone = verdict_of(obj, member.said, record)
            if alone.verdict is ConditionVerdict.LOST:
                faults.append(place)
                # The first record has won only if every member could.
                undecidable = undecidable and self._conditions.may_have_held(obj, member.said, offset)
            in_force = alone.version, alone.incarnation
            versions.append((max(obj.version, 0), obj.incarnation) if not alone.is_version else in_force)
        if not faults:
            return DecidedSet(offset, ConditionVerdict.WON, tuple(versions))
        verdict = ConditionVerdict.UNKNOWN if undecidable else ConditionVerdict.LOST
        return DecidedSet(offset, verdict, (), tuple(faults))

    def note(
        self, key: str, objects: Sequence[Obj], said: AtomicSet, record: ObjectRecord, decided: DecidedSet
    ) -> None:
        """Remembers what was decided of a set. `objects`: as they are with it."""
        offset = record.offset
        self._known[offset] = _Known(decided, key)
        found = self._by_key.get(key)
        if found is None or offset - found.offset > REPEATS_OFFSETS_MAX:
            self._by_key[key] = decided
        self._conditions.await_durable(
            TakenRecord(
                key,
                0,
                UNKNOWN,
                offset,
                -1,
                _OUTCOMES[decided.verdict],
                members=_members(objects, said, decided),
                id=key.split("/", 2)[2],
            )
        )
        self._forget(offset)

    def agrees(self, decided: DecidedSet) -> bool:
        """Returns true unless something else was decided of that set."""
        known = self._known.get(decided.offset)
        return known is None or known.decided == decided

    def durable(self, decided: DecidedSet) -> None:
        """Notes that this decision, and all that it has made, is in the log: its outcome may be told."""
        self._conditions.durable_at(decided.offset)

    def _forget(self, offset: int) -> None:
        while self._known and next(iter(self._known)) < offset - REPEATS_OFFSETS_MAX:
            old, known = self._known.popitem(last=False)
            self._conditions.drop_awaited(old)
            if (found := self._by_key.get(known.key)) and found.offset == old:
                del self._by_key[known.key]


def _members(objects: Sequence[Obj], said: AtomicSet, decided: DecidedSet) -> tuple[TakenMember, ...]:
    shown = []
    for place, (obj, member) in enumerate(zip(objects, said.members, strict=True)):
        won = place < len(decided.versions)
        version, incarnation = decided.versions[place] if won else (obj.version, obj.incarnation)
        reason = ""
        if place in decided.faults:
            reason = why_lost(member.said, undecidable=decided.verdict is ConditionVerdict.UNKNOWN)
        shown.append(TakenMember(member.object, incarnation, version, obj.published_ms, reason))
    return tuple(shown)
