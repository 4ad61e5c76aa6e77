"""Sets of queries: against a naive model at random, and what happens at their limits."""

from dataclasses import dataclass, field

import pytest
from coldnotify_matcher.engine.interests.by_query import sets
from coldnotify_matcher.engine.interests.by_query.query import Query, query_of
from coldnotify_matcher.engine.interests.by_query.sets import Difference, QuerySet, Sets, TooMany
from coldnotify_schemas.descriptions import Description
from coldnotify_schemas.digest import digest
from coldnotify_testkit.examples import examples
from coldnotify_testkit.queries import DESCRIPTIONS, NAMES, TREES, naive
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

GROUP, OTHER_GROUP = "animal.observer/region-1", "animal.observer/region-2"
KEPT_MS = 10


@dataclass
class World:
    """The objects of two groups, and all that they ever were."""

    groups: dict[str, dict[str, Description]] = field(default_factory=lambda: {GROUP: {}, OTHER_GROUP: {}})
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

    def fitting(self, group: str, query: Query, offset: int | None = None) -> set[str]:
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
        self.sets = Sets(self.world, kept_ms=KEPT_MS)
        self.now_ms = 0
        self.held: list[QuerySet] = []
        """Once for each subscriber."""
        self.seen: list[QuerySet] = []

    @rule(group=st.sampled_from([GROUP, OTHER_GROUP]), name=NAMES, after=st.none() | DESCRIPTIONS)
    def change(self, group: str, name: str, after: Description | None) -> None:
        ready = {set_: set(set_.members) for set_ in self.seen if set_.ready}
        before, offset = self.world.change(group, name, after)
        changes = self.sets.on_change(group, name, before, after, offset)
        assert len({set_ for set_, _ in changes}) == len(changes)
        for set_, change in changes:
            assert (change.offset, change.name) == (offset, name)
            (set.add if change.entered else set.remove)(ready[set_], name)
        assert all(set_.members == members for set_, members in ready.items())

    @rule(group=st.sampled_from([GROUP, OTHER_GROUP]), query=TREES.map(Query))
    def subscribe(self, group: str, query: Query) -> None:
        set_ = self.sets.subscribe(group, query)
        assert (set_.group, set_.query.text) == (group, query.text)
        self.held.append(set_)
        if set_ not in self.seen:
            self.seen.append(set_)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def subscribe_again(self, data: st.DataObject) -> None:
        set_ = data.draw(st.sampled_from(self.held))
        assert self.sets.subscribe(set_.group, Query(set_.query.tree)) is set_
        self.held.append(set_)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def unsubscribe(self, data: st.DataObject) -> None:
        set_ = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        self.sets.unsubscribe(set_)

    @rule(evaluations=st.integers(1, 5))
    def compute(self, evaluations: int) -> None:
        for set_ in self.sets.compute(len(self.world.history), evaluations):
            assert set_.ready

    @rule()
    def compute_all(self) -> None:
        while self.sets.computing:
            self.sets.compute(len(self.world.history), 3)
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
            self.sets.compute(len(self.world.history), 3)
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


def test_a_set_is_computed_in_steps() -> None:
    world = world_of(10)
    of = Sets(world)
    set_ = of.subscribe(GROUP, query_of("n < 5"))
    steps = 0
    while not set_.ready:
        assert of.compute(10, 2) == ([set_] if set_.ready else [])
        steps += 1
    assert steps == 6
    assert set_.members == {"o0", "o1", "o2", "o3", "o4"}
    assert not of.computing


def test_of_many_sets_all_are_computed_in_one_pass() -> None:
    world = world_of(100)
    of = Sets(world)
    computed = [of.subscribe(GROUP, query_of(f"n = {number}")) for number in range(100)]
    assert of.compute(100, 101) == computed
    assert [set_.members for set_ in computed] == [{f"o{number}"} for number in range(100)]


def test_a_cursor_within_the_latest_changes_gets_these() -> None:
    world = world_of(3)
    of = Sets(world)
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
    of = Sets(World())
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
    of = Sets(World())
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


def test_one_query_too_many() -> None:
    of = Sets(World(), queries_max=2)
    first = of.subscribe(GROUP, query_of("has a"))
    of.subscribe(GROUP, query_of("has b"))
    with pytest.raises(TooMany, match=r"^query: its partition has 2 queries \(at most 2 are allowed\)"):
        of.subscribe(GROUP, query_of("has c"))
    of.subscribe(GROUP, query_of("(has a)"))
    of.compute(0)
    of.unsubscribe(first)
    with pytest.raises(TooMany):
        of.subscribe(GROUP, query_of("has c"))
    of.unsubscribe(first)
    of.subscribe(GROUP, query_of("has c"))
    assert not first.ready


def test_one_member_too_many() -> None:
    world = world_of(10)
    of = Sets(world, members_max=6)
    small = of.subscribe(GROUP, query_of("n < 4"))
    of.compute(10)
    large = of.subscribe(GROUP, query_of("n < 9"))
    assert of.compute(10) == [large]
    assert not large.ready
    assert large.refused == "query: its partition's queries have 6 members (at most 6 are allowed)"
    of.unsubscribe(large)
    while of.computing:
        of.compute(10)
    assert of.members == 4
    assert small.members == {"o0", "o1", "o2", "o3"}


def test_a_set_grows_by_changes_even_where_no_other_is_computed() -> None:
    of = Sets(World(), members_max=1)
    set_ = of.subscribe(GROUP, query_of("has n"))
    of.compute(0)
    for offset in range(3):
        of.on_change(GROUP, f"o{offset}", None, {"n": 1.0}, offset)
    assert len(set_.members) == 3
    with pytest.raises(TooMany, match="members"):
        of.subscribe(GROUP, query_of("has m"))


def test_groups_know_nothing_of_each_other() -> None:
    world = world_of(2)
    of = Sets(world)
    here, there = (of.subscribe(group, query_of("has n")) for group in (GROUP, OTHER_GROUP))
    of.compute(2)
    assert (len(here.members), len(there.members)) == (2, 0)
    before, offset = world.change(OTHER_GROUP, "o1", {"n": 1.0})
    ((set_, change),) = of.on_change(OTHER_GROUP, "o1", before, {"n": 1.0}, offset)
    assert (set_, change.name, change.entered) == (there, "o1", True)
    assert list(of.sets_of(GROUP, "o1")) == [here]
