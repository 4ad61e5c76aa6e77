"""Conditions are decided by what is in force, and repeats get their first outcome."""

import pytest
from coldnotify_matcher.engine.objects.condition_rule import ConditionRule
from coldnotify_matcher.engine.objects.history import History
from coldnotify_matcher.engine.objects.objects import Obj
from coldnotify_matcher.record_headers import HeadedObjectRecord
from coldnotify_schemas.decisions import REPEATS_OFFSETS_MAX, ConditionVerdict, Decided
from coldnotify_schemas.records import ConditionalRecord, parse_objects_record, parse_public_record

NOW_MS = 1_700_000_000_000
KEY = "d/g/o"


class Place:
    """One object at one place of the log."""

    def __init__(self, value: bytes | None = None) -> None:
        self.history = History()
        self.conditions = ConditionRule(self.history)
        self.obj = Obj(KEY)
        self.end = 0
        if value is not None:
            self.publish(value)

    def publish(self, value: bytes) -> None:
        said, before = parse_public_record(value), self.obj.there
        if self.obj.merge(said, said.version_at(NOW_MS), self.end):
            self.history.published(KEY, self.obj.incarnation, self.obj.version, self.end, NOW_MS)
        if self.obj.there and not before:
            self.conditions.note_created(KEY, self.end)
        self.end += 1

    def decide(self, value: bytes) -> Decided:
        said, offset = parse_objects_record(value), self.end
        assert isinstance(said, ConditionalRecord)
        record = HeadedObjectRecord(KEY.encode(), value, offset, NOW_MS, moved=False, traceparent="", since=b"")
        decided = self.conditions.decide(self.obj, said, record)
        if decided.is_version:
            before = self.obj.there
            self.obj.merge(said.as_version(decided.version, decided.incarnation), decided.version, offset)
            self.history.published(KEY, decided.incarnation, decided.version, offset, NOW_MS, told=False)
            if self.obj.there and not before:
                self.conditions.note_created(KEY, offset)
        self.conditions.note(self.obj, said, record, decided)
        self.end += 1
        return decided


@pytest.mark.parametrize(
    ("before", "value", "verdict", "version"),
    [
        (b'{"version":5}', b'{"if_version":5}', ConditionVerdict.WON, 6),
        (b'{"version":5}', b'{"if_version":5,"version":9}', ConditionVerdict.WON, 9),
        (b'{"version":5}', b'{"if_version":5,"version":5}', ConditionVerdict.LOST, 0),
        (b'{"version":5}', b'{"if_version":4}', ConditionVerdict.LOST, 0),
        (b'{"version":0}', b'{"if_version":0}', ConditionVerdict.WON, 1),
        (None, b'{"if_version":0}', ConditionVerdict.LOST, 0),
        (b"{}", b'{"if_version":%d}' % NOW_MS, ConditionVerdict.WON, NOW_MS + 1),
        (None, b'{"if_absent":true}', ConditionVerdict.WON, NOW_MS),
        (b'{"version":5}', b'{"if_absent":true}', ConditionVerdict.LOST, 0),
        (b'{"version":5,"deleted":true}', b'{"if_absent":true}', ConditionVerdict.WON, 6),
        (
            b'{"version":5,"payload":{"a":1,"b":2}}',
            b'{"if_changed":true,"payload":{"b":2,"a":1}}',
            ConditionVerdict.SAME,
            0,
        ),
        (b'{"version":5,"payload":1}', b'{"if_changed":true,"version":9,"payload":1}', ConditionVerdict.SAME, 0),
        (b'{"version":5,"payload":1}', b'{"if_changed":true,"version":9,"payload":2}', ConditionVerdict.WON, 9),
        (b'{"version":5,"payload":1}', b'{"if_changed":true,"version":4,"payload":2}', ConditionVerdict.LOST, 0),
        (b'{"version":5,"payload":1}', b'{"if_changed":true,"deleted":true}', ConditionVerdict.WON, 6),
        (b'{"version":5,"deleted":true}', b'{"if_changed":true,"deleted":true}', ConditionVerdict.SAME, 0),
        (None, b'{"if_changed":true,"deleted":true}', ConditionVerdict.SAME, 0),
        (None, b'{"if_changed":true}', ConditionVerdict.WON, NOW_MS),
    ],
)
def test_a_condition_is_decided_by_what_is_in_force(
    before: bytes | None, value: bytes, verdict: ConditionVerdict, version: int
) -> None:
    decided = Place(before).decide(value)
    assert (decided.verdict, decided.version) == (verdict, version)


def test_one_wins_among_those_that_name_a_version() -> None:
    place = Place(b'{"version":5}')
    verdicts = [place.decide(b'{"if_version":5,"payload":%d}' % number).verdict for number in range(4)]
    assert verdicts == [ConditionVerdict.WON, ConditionVerdict.LOST, ConditionVerdict.LOST, ConditionVerdict.LOST]


def test_a_repeated_id_gets_its_first_outcome_also_when_newer_versions_came() -> None:
    place = Place(b'{"version":5}')
    first = place.decide(b'{"if_version":5,"id":"a"}')
    lost = place.decide(b'{"if_version":7,"id":"b"}')
    place.publish(b'{"version":7}')
    assert place.decide(b'{"if_version":5,"id":"a"}') == first._replace(offset=place.end - 1, again=True)
    again = place.decide(b'{"if_version":7,"id":"b"}')
    assert (again.verdict, again.again, lost.again) == (ConditionVerdict.LOST, True, False)
    assert place.obj.version == 7


def test_the_outcome_is_unknown_further_back_than_ids_are_remembered() -> None:
    place = Place(b'{"version":5}')
    place.decide(b'{"if_version":5,"id":"a"}')
    place.end += REPEATS_OFFSETS_MAX + 1
    assert place.decide(b'{"if_version":5,"id":"a"}').verdict is ConditionVerdict.UNKNOWN
    assert place.decide(b'{"if_absent":true,"id":"c"}').verdict is ConditionVerdict.UNKNOWN
    # Who does not repeat, or names what was there since, has simply lost.
    assert place.decide(b'{"if_version":5}').verdict is ConditionVerdict.LOST
    assert place.decide(b'{"if_version":9,"id":"d"}').verdict is ConditionVerdict.LOST
    place.publish(b'{"version":7}')
    assert place.decide(b'{"if_version":6,"id":"e"}').verdict is ConditionVerdict.LOST


def test_a_load_does_not_know_ids_that_it_has_not_seen() -> None:
    place = Place(b'{"version":5}')
    place.publish(b'{"version":7}')
    assert place.decide(b'{"if_version":5,"id":"a"}').verdict is ConditionVerdict.LOST
    place.conditions.known_from = place.end
    assert place.decide(b'{"if_version":5,"id":"b"}').verdict is ConditionVerdict.UNKNOWN


def test_an_outcome_is_told_once_it_is_durable() -> None:
    place = Place(b'{"version":5}')
    decided = place.decide(b'{"if_version":5}')
    assert place.conditions.awaits(1)
    assert place.history.outcome(1) is None
    place.conditions.durable(decided)
    assert not place.conditions.awaits(1)
    taken = place.history.outcome(1)
    assert taken is not None
    assert (taken.outcome, taken.version) == ("published", 6)


def test_the_remembered_decisions_have_a_bound() -> None:
    place = Place(b'{"version":5}')
    for number in range(5):
        place.end += REPEATS_OFFSETS_MAX // 2
        place.decide(b'{"if_version":5,"id":"%d"}' % number)
    assert len(place.conditions._known) == len(place.conditions._by_id) == len(place.conditions._awaited) == 2
