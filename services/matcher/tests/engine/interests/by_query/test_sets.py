"""Sets of queries: against a naive model at random, and what happens at their limits."""

from dataclasses import dataclass, field

import pytest
from coldnotify_matcher.engine.interests.by_query import sets
from coldnotify_matcher.engine.interests.by_query.query import CanonicalQuery, query_of
from coldnotify_matcher.engine.interests.by_query.query_index import size_bytes_of
from coldnotify_matcher.engine.interests.by_query.sets import Difference, QuerySet, QuerySets
from coldnotify_schemas.descriptions import Description
from coldnotify_schemas.digest import digest
from coldnotify_testkit.counted_turns import turn_of
from coldnotify_testkit.examples import examples
from coldnotify_testkit.queries import DESCRIPTIONS, NAMES, TREES, naive
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

GROUP, OTHER_GROUP = "animal.observer/region-1", "animal.observer/region-2"
OTHERS = "other.domain/region-1"
KEPT_MS = 10


@dataclass
class World:
    """The objects of two groups, and all that they ever were."""

    groups: dict[str, dict[str, Description]] = field(default_factory=lambda: {GROUP: {}, OTHER_GROUP: {}, OTHERS: {}})
    history: list[dict[str, dict[str, Description]]] = field(default_factory=list)
    """By offset: the groups as they were behind it."""

    def names(self, group: str) -> list[str]:
        return list(self.groups[group])

    def description(self, group: str, name: str) -> Description | None:
        return self.groups[group].get(name)

    def change(self, group: str, name: str, after: Description | None) -> tuple[Description | None, int]:
        """Returns what it was before, and the offset."""
        before = self.groups[group].pop(name, None)
        if after is not None:
            self.groups[group][name] = after
        self.history.append({group: dict(objects) for group, objects in self.groups.items()})
        return before, len(self.history) - 1

    def fitting(self, group: str, query: CanonicalQuery, offset: int | None = None) -> set[str]:
        """The set as it is, or was behind an offset."""
        groups = (
            self.groups if offset is None else self.history[offset] if offset >= 0 else {GROUP: {}, OTHER_GROUP: {}}
        )
        return {name for name, description in groups[group].items() if naive(query.tree, name, description)}


class Machine(RuleBasedStateMachine):
    """Objects change, subscribers come and go, and little is computed in a step."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.sets = QuerySets(self.world, kept_ms=KEPT_MS)
        self.now_ms = 0
        self.held: list[QuerySet] = []
        """Once for each subscriber."""
        self.seen: list[QuerySet] = []

    @rule(
        group=st.sampled_from([GROUP, OTHER_GROUP]),
        name=NAMES,
        after=st.none() | DESCRIPTIONS,
        ahead=st.booleans(),
    )
    def change_it(self, group: str, name: str, after: Description | None, ahead: bool) -> None:
        ready = {set_: set(set_.members) for set_ in self.seen if set_.ready}
        before = self.world.description(group, name)
        ahead = ahead and after is not None
        while ahead and not self.sets.evaluate_ahead(group, name, before, dict(after or {}), turn_of(0)):
            pass
        before, offset = self.world.change(group, name, after)
        changes = self.sets.on_change(group, name, before, after, offset)
        assert len({set_ for set_, _ in changes}) == len(changes)
        for set_, change in changes:
            assert (change.offset, change.name) == (offset, name)
            (set.add if change.entered else set.remove)(ready[set_], name)
        assert all(set_.members == members for set_, members in ready.items())

    @rule(group=st.sampled_from([GROUP, OTHER_GROUP]), query=TREES.map(CanonicalQuery))
    def subscribe(self, group: str, query: CanonicalQuery) -> None:
        set_ = self.sets.subscribe(group, query)
        assert (set_.group, set_.query.text) == (group, query.text)
        self.held.append(set_)
        if set_ not in self.seen:
            self.seen.append(set_)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def subscribe_again(self, data: st.DataObject) -> None:
        set_ = data.draw(st.sampled_from(self.held))
        assert self.sets.subscribe(set_.group, CanonicalQuery(set_.query.tree)) is set_
        self.held.append(set_)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def unsubscribe(self, data: st.DataObject) -> None:
        set_ = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        self.sets.unsubscribe(set_)

    @rule(evaluations=st.integers(1, 5))
    def compute(self, evaluations: int) -> None:
        for set_ in self.sets.compute(len(self.world.history), turn_of(evaluations)):
            assert set_.ready

    @rule()
    def compute_all(self) -> None:
        while self.sets.computing:
            self.sets.compute(len(self.world.history), turn_of(3))
        assert all(set_.ready for set_ in self.held)
        assert not any(set_.members for set_ in self.seen if not set_.ready)

    @rule(ms=st.integers(0, KEPT_MS))
    def time_passes(self, ms: int) -> None:
        self.now_ms += ms
        self.sets.forget_idle(self.now_ms)

    @invariant()
    def a_set_is_what_its_query_says(self) -> None:
        ready = [set_ for set_ in self.seen if set_.ready]
        for set_ in ready:
            assert set_.members == self.world.fitting(set_.group, set_.query)
            assert set_.digest == digest(set_.members)
            self.differences_are_right(set_)
        for group, objects in self.world.groups.items():
            for name in (*objects, "never seen"):
                found = list(self.sets.sets_of(group, name))
                assert len(set(found)) == len(found)
                assert set(found) == {set_ for set_ in ready if set_.group == group and name in set_.members}

    def differences_are_right(self, set_: QuerySet) -> None:
        for cursor in range(-1, len(self.world.history)):
            found = set_.difference(cursor)
            if found is None:
                assert cursor < set_.since
                continue
            assert not found.entered.keys() & found.left.keys()
            for place in range(cursor, len(self.world.history)):
                was = self.world.fitting(set_.group, set_.query, place)
                assert (was | found.entered.keys()) - found.left.keys() == set_.members
            assert all(offset > cursor for offset in (*found.entered.values(), *found.left.values()))

    @invariant()
    def who_is_subscribed_keeps_the_set(self) -> None:
        kept = {set_ for set_ in self.seen if set_.ready}
        assert {set_ for set_ in self.held if set_.ready} <= kept
        for set_ in kept - set(self.held):
            assert set_.idle_since_ms is None or self.now_ms - set_.idle_since_ms <= KEPT_MS
        assert self.sets.members == sum(len(set_.members) for set_ in self.seen)

    def teardown(self) -> None:
        """When all have gone for long, nothing is left."""
        for set_ in self.held:
            self.sets.unsubscribe(set_)
        self.sets.forget_idle(self.now_ms)
        self.sets.forget_idle(self.now_ms + KEPT_MS)
        while self.sets.computing:
            self.sets.compute(len(self.world.history), turn_of(3))
        assert (self.sets.queries, self.sets.members) == (0, 0)
        assert self.sets._groups == {}
        assert self.sets._idle == {}


@pytest.mark.parametrize(("kept", "latest", "few"), [(1000, 1_000_000, 8), (2, 1_000_000, 0), (3, 4, 1)])
def test_at_random(kept: int, latest: int, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sets, "CHANGES_KEPT", kept)
    monkeypatch.setattr(sets, "CHANGES_MAX", latest)
    monkeypatch.setattr(sets, "FEW", few)
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=examples(0.6),
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )


def world_of(count: int) -> World:
    """So many objects, each of a number."""
    world = World()
    for number in range(count):
        world.change(GROUP, f"o{number}", {"n": float(number)})
    return world


def test_a_set_is_computed_in_turns() -> None:
    world = world_of(10)
    of = QuerySets(world)
    set_ = of.subscribe(GROUP, query_of("n < 5"))
    steps = 0
    while not set_.ready:
        assert of.compute(10, turn_of(1)) == ([set_] if set_.ready else [])
        steps += 1
    assert steps == 6
    assert set_.members == {"o0", "o1", "o2", "o3", "o4"}
    assert not of.computing


def test_of_many_sets_all_are_computed_in_one_pass() -> None:
    world = world_of(100)
    of = QuerySets(world)
    computed = [of.subscribe(GROUP, query_of(f"n = {number}")) for number in range(100)]
    assert of.compute(100, turn_of(100)) == computed
    assert [set_.members for set_ in computed] == [{f"o{number}"} for number in range(100)]


def test_a_cursor_within_the_latest_changes_gets_these() -> None:
    world = world_of(3)
    of = QuerySets(world)
    set_ = of.subscribe(GROUP, query_of("n < 5"))
    of.compute(3)
    assert set_.difference(2) == Difference({}, {})
    assert set_.difference(1) is None
    for name, after in (("o0", {"n": 9.0}), ("o1", {"n": 9.0}), ("o0", {"n": 1.0}), ("o7", {"n": 0.0})):
        before, offset = world.change(GROUP, name, after)
        of.on_change(GROUP, name, before, after, offset)
    assert set_.difference(2) == Difference({"o0": 5, "o7": 6}, {"o1": 4})
    assert set_.difference(3) == Difference({"o0": 5, "o7": 6}, {"o1": 4})
    assert set_.difference(6) == Difference({}, {})


def test_more_changes_than_are_kept() -> None:
    of = QuerySets(World())
    set_ = of.subscribe(GROUP, query_of("has n"))
    of.compute(0)
    for offset in range(sets.CHANGES_KEPT + 5):
        of.on_change(GROUP, f"o{offset}", None, {"n": 1.0}, offset)
    assert len(set_.changes) == sets.CHANGES_KEPT
    assert set_.difference(3) is None
    difference = set_.difference(4)
    assert difference is not None
    assert len(difference.entered) == sets.CHANGES_KEPT


def test_more_changes_than_are_kept_of_all_sets_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sets, "CHANGES_MAX", 3)
    of = QuerySets(World())
    quiet, busy = (of.subscribe(GROUP, query_of(f"has {key}")) for key in "qb")
    of.compute(0)
    of.on_change(GROUP, "o0", None, {"q": 1.0}, 0)
    of.on_change(GROUP, "o1", None, {"q": 1.0, "b": 1.0}, 1)
    assert quiet.difference(-1) == Difference({"o0": 0, "o1": 1}, {})
    of.on_change(GROUP, "o2", None, {"b": 1.0}, 2)
    assert quiet.difference(-1) is None
    assert quiet.difference(0) == Difference({"o1": 1}, {})
    assert busy.difference(-1) == Difference({"o1": 1, "o2": 2}, {})
    of.on_change(GROUP, "o3", None, {"b": 1.0}, 3)
    assert quiet.difference(0) is None
    assert quiet.difference(1) == Difference({}, {})
    assert busy.difference(-1) == Difference({"o1": 1, "o2": 2, "o3": 3}, {})


def test_a_dear_query_is_asked_of_one_object_in_a_turn_and_others_go_on_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sets, "FEW", 0)
    world = world_of(3)
    of = QuerySets(world)
    dear = [of.subscribe(GROUP, query_of(f'NAME LIKE "(o|x|ox){{{number + 50}}}" OR n = 1')) for number in range(20)]
    turns = 0
    while of.computing:
        of.compute(3, turn_of(0))
        turns += 1
    assert turns >= 3 * len(dear), "each evaluation of a dear query is a turn of its own, if turns are so short"
    assert [set_.members for set_ in dear] == [{"o1"}] * len(dear)


def test_a_group_with_dear_queries_does_not_keep_another_one_waiting() -> None:
    world = world_of(50)
    for number in range(3):
        world.change(OTHERS, f"o{number}", {"n": float(number)})
    of = QuerySets(world)
    dear = of.subscribe(GROUP, query_of('NAME LIKE "(o|x|ox){50}"'))
    of.compute(53, turn_of(0))
    other = of.subscribe(OTHERS, query_of("n > 0"))
    turns = 0
    while not other.ready:
        of.compute(53, turn_of(0))
        turns += 1
    assert turns < 10
    assert not dear.ready
    while of.computing:
        of.compute(53, turn_of(0))
    assert dear.ready


def test_what_a_change_concerns_is_evaluated_in_turns_before_it_comes() -> None:
    of = QuerySets(World())
    dear = [of.subscribe(GROUP, query_of(f'a LIKE "(o|x|ox){{{number + 50}}}" OR HAS b')) for number in range(20)]
    of.compute(0)
    assert of.is_dear(GROUP)
    assert not of.is_dear(OTHER_GROUP)
    after: Description = {"a": "o" * 60, "b": True}
    turns = 1
    while not of.evaluate_ahead(GROUP, "o", None, after, turn_of(0)):
        assert not any(set_.members for set_ in dear)
        turns += 1
    assert turns == len(dear)
    asked = [set_.query for set_ in dear if set_.query.matches("o", after)]
    for set_ in dear:
        set_.query.matches = never_asked
    changes = of.on_change(GROUP, "o", None, dict(after), 0)
    assert [set_.query for set_, _ in changes] == asked


def never_asked(name: str, description: Description) -> bool:
    raise AssertionError("it was evaluated already")


def test_what_was_evaluated_ahead_of_another_change_does_not_count() -> None:
    of = QuerySets(World())
    set_ = of.subscribe(GROUP, query_of("n = 1 AND m = TRUE"))
    of.compute(0)
    assert of.evaluate_ahead(GROUP, "o", None, {"n": 1.0, "m": True}, turn_of(9))
    assert not of.on_change(GROUP, "o", None, {"n": 1.0, "m": 1.0}, 0)
    assert of.evaluate_ahead(GROUP, "o", None, {"n": 2.0}, turn_of(9))
    late = of.subscribe(GROUP, query_of("n = 2"))
    assert of.on_change(GROUP, "o", None, {"n": 2.0}, 1) == []
    assert late.members == {"o"}
    assert not set_.members


def test_a_query_that_is_registered_has_a_set_however_many_there_are() -> None:
    of = QuerySets(World(), idle_max=1)
    first, *others = [of.subscribe(GROUP, query_of(f"has {key}")) for key in "abcd"]
    of.compute(0)
    for set_ in others:
        of.unsubscribe(set_)
    assert [set_.ready for set_ in others] == [False, False, True], "of those that nobody wants now, one is kept"
    assert of.subscribe(GROUP, query_of("(has b)")) is not others[0]
    of.compute(0)
    assert first.ready


def test_idle_sets_are_bounded_in_bytes() -> None:
    large = query_of(" OR ".join(f"a = {number}" for number in range(100)))
    small = query_of("a = 1")
    bytes_max = size_bytes_of(large) + size_bytes_of(small) - 1
    of = QuerySets(World(), idle_bytes_max=bytes_max)
    held = [of.subscribe(GROUP, query) for query in (small, large)]
    of.compute(0)
    for set_ in held:
        of.unsubscribe(set_)
    assert [set_.ready for set_ in held] == [False, True]


def test_a_new_query_with_too_many_members_is_refused_and_one_that_was_registered_before_is_not() -> None:
    world = world_of(10)
    of = QuerySets(world, members_max=12)
    small = of.subscribe(GROUP, query_of("n < 4"))
    of.compute(10)
    large = of.subscribe(GROUP, query_of("n < 9"), new=True)
    assert of.compute(10) == [large]
    assert not large.ready
    assert large.refused == (
        "query: animal.observer's queries have 6 members in its partition (at most 6 are allowed, while others have 0)"
    )
    of.unsubscribe(large)
    while of.computing:
        of.compute(10)
    assert of.members == 4
    assert small.members == {"o0", "o1", "o2", "o3"}
    known = of.subscribe(GROUP, query_of("n < 9"))
    of.subscribe(GROUP, query_of("n < 9"), new=True)
    of.compute(10)
    assert len(known.members) == 9


def test_a_domain_has_at_most_half_of_the_members_that_others_leave() -> None:
    of = QuerySets(World(), members_max=10)
    mine, other = (of.subscribe(group, query_of("has n")) for group in (GROUP, OTHERS))
    of.compute(0)
    for number in range(5):
        assert not of.why_no_members(GROUP)
        of.on_change(GROUP, f"o{number}", None, {"n": 1.0}, number)
    assert of.why_no_members(GROUP).startswith("query: animal.observer's queries have 5 members")
    assert not of.why_no_members(OTHERS), "two are left for others"
    of.on_change(OTHERS, "o", None, {"n": 1.0}, 5)
    assert len(mine.members) + len(other.members) == 6


def test_groups_know_nothing_of_each_other() -> None:
    world = world_of(2)
    of = QuerySets(world)
    here, there = (of.subscribe(group, query_of("has n")) for group in (GROUP, OTHER_GROUP))
    of.compute(2)
    assert (len(here.members), len(there.members)) == (2, 0)
    before, offset = world.change(OTHER_GROUP, "o1", {"n": 1.0})
    ((set_, change),) = of.on_change(OTHER_GROUP, "o1", before, {"n": 1.0}, offset)
    assert (set_, change.name, change.entered) == (there, "o1", True)
    assert list(of.sets_of(GROUP, "o1")) == [here]
