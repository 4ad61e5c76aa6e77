"""A set is decided as a whole, by what is in force of each member."""

import pytest
from coldnotify_matcher.engine.objects.condition_rule import ConditionRule
from coldnotify_matcher.engine.objects.history import History
from coldnotify_matcher.engine.objects.objects import Obj
from coldnotify_matcher.engine.objects.set_rule import SetRule
from coldnotify_matcher.record_headers import HeadedObjectRecord
from coldnotify_schemas.atomic_sets import DecidedSet, parse_set
from coldnotify_schemas.decisions import REPEATS_OFFSETS_MAX, ConditionVerdict
from coldnotify_schemas.records import parse_public_record

NOW_MS = 1_700_000_000_000
KEY = "set:d/g/1"


class Place:
    """Two objects at one place of the log; the first has been published."""

    def __init__(self) -> None:
        self.history = History()
        self.conditions = ConditionRule(self.history)
        self.rule = SetRule(self.conditions)
        self.objects = {name: Obj(f"d/g/{name}") for name in "ab"}
        self.end = 0
        self.publish("a", b'{"version":5,"payload":1}')

    def publish(self, name: str, value: bytes) -> None:
        said, obj = parse_public_record(value), self.objects[name]
        obj.merge(said, said.version_at(NOW_MS), self.end)
        self.history.published(obj.key, obj.incarnation, obj.version, self.end, NOW_MS)
        self.end += 1

    def decide(self, *members: bytes, key: str = KEY) -> DecidedSet:
        said = parse_set(b'{"set":[%b]}' % b",".join(members))
        objects = [self.objects[one.object] for one in said.members]
        record = HeadedObjectRecord(key.encode(), b"", self.end, NOW_MS, moved=False, traceparent="", since=b"")
        decided = self.rule.decide(key, objects, said, record)
        if decided.is_versions:
            for obj, one, (version, incarnation) in zip(objects, said.members, decided.versions, strict=True):
                if version > obj.version:
                    obj.merge(one.said.as_version(version, incarnation), version, self.end)
        self.rule.note(key, objects, said, record, decided)
        self.end += 1
        return decided


@pytest.mark.parametrize(
    ("members", "versions"),
    [
        ([b'{"object":"a"}', b'{"object":"b"}'], [6, NOW_MS]),
        ([b'{"object":"a","version":9}', b'{"object":"b","version":0}'], [9, 0]),
        ([b'{"object":"a","if_version":5}', b'{"object":"b","if_absent":true,"version":3}'], [6, 3]),
        ([b'{"object":"a","if_changed":true,"payload":1}', b'{"object":"b","version":3}'], [5, 3]),
        ([b'{"object":"a","if_changed":true,"payload":2}'], [6]),
    ],
)
def test_a_set_whose_members_all_hold_has_won(members: list[bytes], versions: list[int]) -> None:
    decided = Place().decide(*members)
    assert (decided.verdict, [one for one, _ in decided.versions]) == (ConditionVerdict.WON, versions)


@pytest.mark.parametrize(
    ("members", "faults"),
    [
        ([b'{"object":"a","if_version":4}', b'{"object":"b"}'], (0,)),
        ([b'{"object":"b","version":1}', b'{"object":"a","version":5}'], (1,)),
        ([b'{"object":"a","if_absent":true}', b'{"object":"b","if_version":1}'], (0, 1)),
        ([b'{"object":"b","if_absent":true}', b'{"object":"a","if_changed":true,"version":4}'], (1,)),
    ],
)
def test_a_set_of_which_one_does_not_hold_has_lost(members: list[bytes], faults: tuple[int, ...]) -> None:
    place = Place()
    assert place.decide(*members) == DecidedSet(1, ConditionVerdict.LOST, (), faults)
    assert (place.objects["a"].version, place.objects["b"].version) == (5, -1)


def test_an_outcome_is_told_once_it_is_durable() -> None:
    place = Place()
    decided = place.decide(b'{"object":"a","if_version":4}', b'{"object":"b"}')
    assert place.history.outcome(1) is None
    assert place.conditions.awaits(1)
    place.rule.durable(decided)
    taken = place.history.outcome(1)
    assert taken is not None
    assert taken.outcome == "refused"
    said = [(one.object, one.version, one.reason) for one in taken.members]
    assert said == [("a", 5, "if_version: another version is the newest"), ("b", -1, "")]
    assert not place.rule.agrees(decided._replace(verdict=ConditionVerdict.WON))


def test_repeats_of_an_id_get_the_first_outcome() -> None:
    place = Place()
    first = place.decide(b'{"object":"a","if_version":5}', b'{"object":"b"}')
    again = place.decide(b'{"object":"a","if_version":5}', b'{"object":"b"}')
    assert again == first._replace(offset=2, again=True)
    assert not again.is_versions
    assert place.decide(b'{"object":"a","if_version":5}', key="set:d/g/2").verdict is ConditionVerdict.LOST
    place.rule.durable(again)
    assert place.decide(b'{"object":"a"}', b'{"object":"b"}', key=KEY).again


def test_further_back_it_is_unknown_what_may_have_held() -> None:
    place = Place()
    members = b'{"object":"a","if_version":5}', b'{"object":"b","version":7}'
    assert place.decide(*members).verdict is ConditionVerdict.WON
    place.end += REPEATS_OFFSETS_MAX
    assert place.decide(*members) == DecidedSet(place.end - 1, ConditionVerdict.UNKNOWN, (), (0, 1))
    # That one cannot have held for anybody.
    beside = b'{"object":"b","if_version":9}'
    assert place.decide(members[0], beside, key="set:d/g/3").verdict is ConditionVerdict.LOST
