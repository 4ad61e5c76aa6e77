"""Thinning: who is above the agreement is told less often, always of the newest, and nobody else notices."""

import pytest
from coldnotify_matcher.engine import Intervals, Rules
from coldnotify_matcher.engine.tenants.allowances import WAIT_MS_MAX, Allowances, OutAgreement
from coldnotify_testkit.engine_bench import DOMAIN, OTHER_GATEWAY, EngineBench, fan_outs, pages

SUBSCRIBERS = 5
PER_S = 10
LOOK_MS = 20


class Limited(EngineBench):
    """A bench whose domain may be told so much."""

    def __init__(self, per_s: float | None = PER_S, *, interval_ms: int = 0) -> None:
        self.allowances = Allowances()
        super().__init__(rules=Rules(conflation=Intervals({}, interval_ms), allowances=self.allowances))
        if per_s is not None:
            self.agree(per_s)

    def agree(self, per_s: float) -> None:
        self.allowances.agree([OutAgreement(DOMAIN, per_s, None, 2)], self.now_ms)

    def pass_ms(self, ms: int) -> None:
        """Time passes, and the shell comes by as often as it may."""
        end_ms = self.now_ms + ms
        while self.now_ms < end_ms:
            self.now_ms = min(end_ms, self.now_ms + LOOK_MS)
            self.engine.flush(self.now_ms)

    def said(self) -> list[tuple[str, int]]:
        """(object, version) of each FanOut, in order."""
        return [(name, version) for name, version, _, _ in fan_outs(self.items())]


@pytest.fixture
def bench() -> Limited:
    made = Limited()
    for session in range(1, SUBSCRIBERS + 1):
        made.opened("a", "b", "c", session=session, client=f"client-{session}")
    made.allowances.agree([], made.now_ms)
    made.agree(PER_S)
    made.partition.take_use()
    return made


def flood(bench: Limited, ms: int, *names: str) -> None:
    """A publish of each every LOOK_MS."""
    for number in range(ms // LOOK_MS):
        for name in names:
            bench.version(name, bench.now_ms * 1000 + number)
        bench.settle()
        bench.pass_ms(LOOK_MS)


def test_deliveries_settle_at_the_agreement_and_the_newest_comes_last(bench: Limited) -> None:
    flood(bench, 30_000, "a")
    use = bench.partition.take_use()[DOMAIN]
    assert 30 * PER_S <= use.deliveries <= 30 * PER_S + 2 * PER_S + SUBSCRIBERS
    # At the end one version waits, and it hides none.
    assert SUBSCRIBERS * (use.publishes - 2) <= use.deliveries + use.thinned <= SUBSCRIBERS * use.publishes
    newest = bench.version("a", 10**18)
    bench.settle()
    assert ("a", 10**18) not in bench.said()
    bench.pass_ms(1000)
    assert bench.said()[-1:] == [("a", 10**18)]
    assert bench.engine.objects_done > newest


def test_objects_take_turns(bench: Limited) -> None:
    flood(bench, 30_000, "a", "b", "c")
    told = [name for name, _ in bench.said()]
    counts = [told.count(name) for name in "abc"]
    assert max(counts) - min(counts) <= 3


def test_an_object_that_changes_now_and_then_waits_for_its_turn_only(bench: Limited) -> None:
    flood(bench, 5_000, "a", "b")
    bench.said()
    bench.version("c", 1)
    bench.settle()
    flood(bench, 2_000, "a", "b")
    assert ("c", 1) in bench.said()


def test_cursors_stay_below_what_waits_and_a_page_has_it(bench: Limited) -> None:
    flood(bench, 3_000, "a")
    held = bench.version("b", 7)
    bench.settle()
    assert bench.engine.objects_done <= held
    bench.said()
    bench.open(["b"], register=["b"], session=77, client="awake", gateway=OTHER_GATEWAY)
    (page,) = pages(bench.items(OTHER_GATEWAY))
    assert [(newest.name, newest.version) for newest in page.newest] == [("b", 7)]
    assert page.complete == held, "who wakes does not wait for its tenant's turn"


def test_nothing_waits_longer_than_the_bound(bench: Limited) -> None:
    bench.agree(0.01)
    bench.version("a", 1)
    bench.settle()
    bench.version("a", 2)
    bench.settle()
    bench.pass_ms(WAIT_MS_MAX - 2 * LOOK_MS)
    assert bench.said() == [("a", 1)]
    bench.pass_ms(3 * LOOK_MS)
    assert bench.said() == [("a", 2)]


def test_after_its_interval_of_conflation_it_waits_on(bench: Limited) -> None:
    bench = Limited(interval_ms=100)
    bench.opened("a", "b")
    bench.agree(1)
    bench.version("b", 1)
    bench.version("a", 1)
    bench.settle()
    for version in (2, 3):
        bench.version("a", version)
    bench.settle()
    bench.version("b", 2)
    bench.settle()
    assert bench.said() == [("b", 1), ("a", 1)]
    bench.pass_ms(500)
    assert bench.said() == [("a", 3)]
    bench.pass_ms(3_000)
    assert bench.said() == [("b", 2)]
    assert bench.engine.next_due_ms() is None


def test_an_agreement_that_is_raised_or_removed_lets_go_what_waits(bench: Limited) -> None:
    for raised in (True, False):
        flood(bench, 5_000, "a", "b", "c")
        for name in "abc":
            bench.version(name, bench.now_ms * 1000 + 999)
        bench.settle()
        bench.said()
        if raised:
            bench.agree(10_000)
            bench.pass_ms(LOOK_MS)
        else:
            bench.allowances.agree([], bench.now_ms)
        bench.engine.flush(bench.now_ms)
        assert sorted(name for name, _ in bench.said()) == ["a", "b", "c"]
        bench.agree(PER_S)


def test_a_successor_tells_what_waited_at_once(bench: Limited) -> None:
    flood(bench, 5_000, "a")
    bench.version("b", 9)
    bench.settle()
    assert ("b", 9) not in bench.said()
    bench.load()
    assert ("b", 9) in bench.said()


def test_a_clock_that_is_set_back_lets_it_go(bench: Limited) -> None:
    flood(bench, 5_000, "a")
    bench.version("b", 9)
    bench.settle()
    bench.now_ms -= 3_600_000
    bench.engine.flush(bench.now_ms)
    assert ("b", 9) in bench.said()


def test_others_are_told_as_ever(bench: Limited) -> None:
    bench.allowances.agree([OutAgreement("another", 0.001, None, 2)], bench.now_ms)
    flood(bench, 1_000, "a")
    assert len(bench.said()) == 1_000 // LOOK_MS
