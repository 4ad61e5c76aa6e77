"""When all objects are looked at for what only refers to itself."""

import gc

from coldnotify_streams.garbage import AT_LEAST_EVERY_S, SHARE, YOUNG, Garbage


class World:
    """A clock, and looks that take some time."""

    def __init__(self, takes_s: float) -> None:
        self.now_s = 100.0
        self.looks = 0
        self._takes_s = takes_s
        self.garbage = Garbage(self.now_s, self._collect)

    def _collect(self) -> None:
        self.looks += 1
        self.now_s += self._takes_s

    def turn(self, at_s: float) -> int:
        self.now_s = max(self.now_s, at_s)
        if self.garbage.is_due(self.now_s):
            self.garbage.look(lambda: self.now_s)
        return self.looks


def test_dropped_objects_are_collected_at_the_next_turn() -> None:
    world = World(0.01)
    assert world.turn(101) == 0
    world.garbage.on_dropped()
    assert [world.turn(102), world.turn(103)] == [1, 1]


def test_long_collections_are_rarer_than_short_ones() -> None:
    short, long = World(0.05), World(1.5)
    at_s = 101 + AT_LEAST_EVERY_S
    assert [short.turn(at_s), long.turn(at_s)] == [1, 1]
    assert [short.turn(at_s + AT_LEAST_EVERY_S + 1), long.turn(at_s + AT_LEAST_EVERY_S + 1)] == [2, 1]
    assert [long.turn(at_s + 1.5 / SHARE - 1), long.turn(at_s + 1.5 / SHARE + 2)] == [1, 2]


def test_python_itself_collects_only_young_objects() -> None:
    before = gc.get_threshold()
    try:
        Garbage(0.0).begin()
        young, again, everything = gc.get_threshold()
        assert (young, again) == (YOUNG, 1)
        assert everything > 1_000_000
    finally:
        gc.set_threshold(*before)
