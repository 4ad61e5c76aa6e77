"""Conflation: what is held and for how long, what `complete` says meanwhile, and what a takeover owes."""

import pytest
from coldnotify_matcher.engine import Bounds, Intervals, Rules, parse_intervals
from coldnotify_matcher.engine.gateways.inbox_lag import MARK_EVERY_MS
from coldnotify_matcher.engine.rules.rules import CONFLATION_MS_MAX
from coldnotify_schemas import internal_pb2
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.engine_bench import (
    DOMAIN,
    GATEWAY,
    GROUP,
    OTHER_GATEWAY,
    EngineBench,
    fan_outs,
    pages,
    sessions_of,
    versions,
)

TOPICS = TopicNames()

INTERVAL_MS = 200
RULES = Rules(conflation=Intervals({DOMAIN: INTERVAL_MS}))


@pytest.fixture
def bench() -> EngineBench:
    return EngineBench(rules=RULES)


def told(bench: EngineBench) -> list[tuple[str, int, int]]:
    """(object, version, complete) of what is fanned out, since the last look."""
    return [
        (newest.name, newest.version, newest.offset - newest.behind)
        for item in bench.items()
        if item.WhichOneof("item") == "fan_out"
        for newest in [item.fan_out.newest]
    ]


def pass_ms(bench: EngineBench, ms: int) -> None:
    """Time passes, and the shell comes by."""
    bench.now_ms += ms
    bench.engine.flush(bench.now_ms)


# --- the setting


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Intervals()),
        ("*=0", Intervals()),
        ("a=200", Intervals({"a": 200})),
        (" a = 200 , b.c=0,*=1000,", Intervals({"a": 200, "b.c": 0}, 1000)),
        ("a=60000", Intervals({"a": CONFLATION_MS_MAX})),
        ("a=auto,b=5", Intervals({"b": 5}, auto=frozenset({"a"}))),
        ("*=auto, b=5", Intervals({"b": 5}, auto=frozenset({"*"}))),
    ],
)
def test_intervals_as_an_operator_writes_them(text: str, expected: Intervals) -> None:
    assert parse_intervals(text) == expected


@pytest.mark.parametrize("entry", ["a", "a=", "a=x", "a=-1", "a=1.5", "a=60001", "a=٣", "=5", "a b=5", "a=AUTO", "*=x"])
def test_a_bad_entry_is_named(entry: str) -> None:
    with pytest.raises(ValueError, match=entry.replace("*", r"\*").replace(".", r"\.")):
        parse_intervals(f"good=200,{entry}")


def test_a_domain_twice_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"a=2.*twice"):
        parse_intervals("a=1,a=2")


def test_of_a_domain() -> None:
    intervals = Intervals({"a": 200}, 50)

    assert (intervals.of("a"), intervals.of("b"), intervals.longest_ms) == (200, 50, 200)
    assert (intervals.tuned_as("a"), intervals.entries) == (None, ["*", "a"])


def test_of_a_domain_that_tunes_itself() -> None:
    named = Intervals({"a": 200}, 50, frozenset({"b"}), Bounds(0, 3000))
    others = Intervals({"a": 200}, auto=frozenset({"*", "b"}))

    assert [named.tuned_as(domain) for domain in "abc"] == [None, "b", None]
    assert [others.tuned_as(domain) for domain in "abc"] == [None, "b", "*"]
    assert (named.longest_ms, named.entries) == (3000, ["*", "a", "b"])


# --- what is held


def test_the_first_leaves_at_once_the_next_ones_as_one_at_the_end_of_the_interval(bench: EngineBench) -> None:
    bench.opened("a")
    for version in range(1, 6):
        bench.version("a", version)
    assert told(bench) == [("a", 1, 0)]
    pass_ms(bench, INTERVAL_MS - 1)
    assert told(bench) == []

    pass_ms(bench, 1)

    assert told(bench) == [("a", 5, 4)]
    assert bench.engine.state.counts["conflated"] == 3
    assert bench.engine.state.counts["deliveries"] == 2


def test_an_object_that_never_stops_leaves_once_an_interval(bench: EngineBench) -> None:
    bench.opened("a")
    seen = []
    for version in range(100):
        bench.version("a", version)
        bench.settle()
        seen += told(bench)
        pass_ms(bench, 20)
    pass_ms(bench, INTERVAL_MS)
    seen += told(bench)

    assert len(seen) == 11
    assert seen[-1][1] == 99


def test_after_an_interval_without_publishes_the_next_one_leaves_at_once(bench: EngineBench) -> None:
    bench.opened("a")
    bench.version("a", 1)
    assert told(bench) == [("a", 1, 0)]
    bench.tick(1000)

    bench.version("a", 2)

    assert told(bench) == [("a", 2, 1)]
    assert bench.engine.next_due_ms() is None


def test_without_an_interval_nothing_is_held() -> None:
    bench = EngineBench(rules=Rules(conflation=Intervals({"other.domain": INTERVAL_MS})))
    bench.opened("a")
    for version in range(1, 4):
        bench.version("a", version)

    assert told(bench) == [("a", 1, 0), ("a", 2, 1), ("a", 3, 2)]


def test_the_shell_is_told_when_to_come_by(bench: EngineBench) -> None:
    bench.opened("a", "b")
    assert bench.engine.next_due_ms() is None
    begun_ms = bench.now_ms
    bench.version("a", 1)
    bench.settle()
    bench.now_ms += 50
    for name, version in (("b", 1), ("b", 2), ("a", 2), ("a", 3)):
        bench.version(name, version)
    bench.settle()
    assert bench.engine.next_due_ms() == begun_ms + INTERVAL_MS

    pass_ms(bench, INTERVAL_MS - 50)

    assert bench.engine.next_due_ms() == begun_ms + 50 + INTERVAL_MS


@pytest.mark.parametrize("back_ms", [INTERVAL_MS + 1, 3_600_000])
def test_a_clock_that_is_set_back_holds_nothing_for_long(bench: EngineBench, back_ms: int) -> None:
    bench.opened("a", "b")
    for name, version in (("a", 1), ("a", 2), ("b", 1)):
        bench.version(name, version)
    told(bench)

    pass_ms(bench, -back_ms)
    assert told(bench) == [("a", 2, 1)]
    bench.version("b", 2)

    assert told(bench) == [("b", 2, 3)]


# --- complete


def test_nothing_that_is_said_meanwhile_reaches_the_first_version_that_is_held(bench: EngineBench) -> None:
    bench.opened("a", "b")
    for name, version in (("a", 1), ("a", 2), ("b", 1), ("a", 3)):  # offsets 0 to 3
        bench.version(name, version)
    assert told(bench) == [("a", 1, 0), ("b", 1, 0)], "b lies at 2, a's second version at 1 is held"
    bench.beat(1)
    (beat,) = [item.beat for item in bench.items()]
    assert (beat.agreed, beat.complete) == (True, 0)
    assert bench.engine.objects_done == 1

    pass_ms(bench, INTERVAL_MS)

    assert told(bench) == [("a", 3, 3)]
    bench.beat(1)
    assert [item.beat.complete for item in bench.items()] == [3]
    assert bench.engine.objects_done == 4


def test_of_two_held_the_one_that_leaves_first_does_not_pass_the_other(bench: EngineBench) -> None:
    bench.opened("a", "b")
    bench.version("a", 1)  # 0
    bench.settle()
    bench.now_ms += 10
    for name, version in (("b", 1), ("b", 2), ("a", 2)):  # 1 to 3
        bench.version(name, version)
    bench.settle()
    told(bench)

    pass_ms(bench, INTERVAL_MS - 10)
    assert told(bench) == [("a", 2, 1)], "b's second version at 2 is held for 10 ms more"
    pass_ms(bench, 10)

    assert told(bench) == [("b", 2, 2)]


def test_held_from_the_very_beginning_there_is_nothing_complete(bench: EngineBench) -> None:
    bench.opened("a")
    bench.version("a", 1)
    told(bench)
    bench.engine.conflation._held.clear()  # as if the first offset of all were held
    bench.engine.conflation._held[bench.engine.state.objects[f"{DOMAIN}/region-1/a"]] = 0

    bench.beat(1)

    (beat,) = [item.beat for item in bench.items()]
    assert beat == internal_pb2.BeatAnswer(agreed=True, serial=1)


def test_a_page_contains_what_is_held_and_is_complete_as_of_its_end(bench: EngineBench) -> None:
    bench.opened("a", "b")
    for name, version in (("a", 1), ("a", 2), ("b", 1)):
        bench.version(name, version)
    told(bench)

    bench.open(["a", "b"], cursor=0, session=2, client="client-1", gateway=OTHER_GATEWAY)
    (page,) = pages(bench.items(OTHER_GATEWAY))

    assert versions(page.newest) == [("a", 2), ("b", 1)]
    assert page.complete == 2
    pass_ms(bench, INTERVAL_MS)
    bench.settle()
    assert [one[:2] for one in fan_outs(bench.items(OTHER_GATEWAY))] == [("a", 2)], "once more: it joined meanwhile"


def test_an_answer_is_the_newest_held_or_not(bench: EngineBench) -> None:
    bench.opened("a")
    for version in (1, 2):
        bench.version("a", version)
    bench.settle()
    bench.opened("b", session=2, client="client-2")

    bench.register("a", session=2, client="client-2")

    (answer,) = [item.answered for item in bench.items() if item.WhichOneof("item") == "answered"]
    assert versions(answer.newest) == [("a", 2)]


def test_what_nobody_wants_is_not_held(bench: EngineBench) -> None:
    bench.opened("b")
    for version in (1, 2, 3):
        bench.version("a", version)
    bench.settle()

    assert bench.engine.next_due_ms() is None
    assert bench.engine.objects_done == 3


# --- takeover


@pytest.mark.parametrize("committed", [True, False])
def test_a_takeover_fans_out_what_the_predecessor_held(bench: EngineBench, committed: bool) -> None:
    bench.opened("a", "b")
    for name, version in (("a", 1), ("a", 2), ("b", 1), ("a", 3)):
        bench.version(name, version)
    assert told(bench) == [("a", 1, 0), ("b", 1, 0)]
    if not committed:
        bench.committed = bench.committed[0], 0
    assert bench.committed[1] == (1 if committed else 0)

    bench.load()

    assert told(bench) == [("b", 1, 2), ("a", 3, 3)]
    bench.version("a", 4)
    assert told(bench) == [], "its interval has begun"
    pass_ms(bench, INTERVAL_MS)
    assert told(bench) == [("a", 4, 4)]


# --- an interval that tunes itself


@pytest.fixture
def tuned() -> EngineBench:
    """The client's gateway has read all there is."""
    bench = EngineBench(rules=Rules(conflation=Intervals(auto=frozenset({DOMAIN}), bounds=Bounds(0, 1000))))
    bench.opened("a")
    bench.now_ms += 10_000
    bench.version("a", 1)
    bench.settle()
    beat(bench, behind=0)
    return bench


def beat(bench: EngineBench, *, behind: int, gateway: int = GATEWAY) -> None:
    """A gateway's Beat says that it has all inbox records but the last `behind`, of which one is its own answer."""
    bench.beat(1, gateway=gateway, number=bench.engine.state.gateways[gateway].number - behind)
    bench.settle()


def interval_ms(bench: EngineBench) -> int:
    return bench.engine.conflation.interval_ms(DOMAIN)


def lag_behind(bench: EngineBench, version: int) -> None:
    """The gateway does not read a version for two seconds, and says so."""
    bench.now_ms += MARK_EVERY_MS
    bench.version("a", version)
    bench.settle()
    bench.tick(2000)
    beat(bench, behind=1)


def test_it_begins_with_none_and_grows_while_a_gateway_lags(tuned: EngineBench) -> None:
    seen = []
    for version in range(2, 9):
        seen.append(interval_ms(tuned))
        lag_behind(tuned, version)

    assert seen == [0, 40, 80, 160, 320, 640, 1000]


def test_without_lag_it_stays_none(tuned: EngineBench) -> None:
    for version in range(2, 20):
        tuned.version("a", version)
        tuned.settle()
        tuned.tick(1000)
        beat(tuned, behind=0)

    assert interval_ms(tuned) == 0
    assert [version for _, version, _ in told(tuned)] == list(range(1, 20))


@pytest.mark.parametrize("shrunk", [False, True])
def test_what_is_held_leaves_as_the_newest_at_its_end_whatever_the_interval_does(
    tuned: EngineBench, shrunk: bool
) -> None:
    for version in range(2, 8):
        lag_behind(tuned, version)
    assert interval_ms(tuned) == 1000
    told(tuned)
    for version in (10, 11, 12):
        tuned.version("a", version)
    assert [one[1] for one in told(tuned)] == [10]
    assert (tuned.engine.next_due_ms() or 0) - tuned.now_ms == 1000

    if shrunk:
        for ms in range(10):
            tuned.engine.conflation.on_tick(tuned.now_ms + 7_000 * ms)
        assert interval_ms(tuned) < 200
    pass_ms(tuned, 999)
    assert told(tuned) == []
    pass_ms(tuned, 1)

    assert [one[1] for one in told(tuned)] == [12]


def test_a_gateway_that_is_dead_keeps_nothing_long(tuned: EngineBench) -> None:
    tuned.open(["a"], session=2, client="client-2", gateway=OTHER_GATEWAY)
    tuned.settle()
    for version in range(2, 8):
        lag_behind(tuned, version)
    assert interval_ms(tuned) == 1000

    for version in range(10, 400):
        tuned.version("a", version)
        tuned.settle()
        tuned.tick(1000)
        beat(tuned, behind=0, gateway=OTHER_GATEWAY)

    assert interval_ms(tuned) == 0
    assert not tuned.engine.conflation._tuned[DOMAIN].told, "nothing is kept of it"


def test_the_lag_of_gateways_that_the_domain_did_not_reach_is_none_of_its(tuned: EngineBench) -> None:
    tuned.opened("b", client="client-2", gateway=OTHER_GATEWAY)
    tuned.version("b", 1)
    tuned.settle()
    beat(tuned, behind=0, gateway=OTHER_GATEWAY)
    tuned.register("c", client="client-2", gateway=OTHER_GATEWAY)
    tuned.version("a", 2)
    tuned.settle()
    tuned.tick(2000)

    beat(tuned, behind=1, gateway=OTHER_GATEWAY)

    assert tuned.engine.state.gateways[OTHER_GATEWAY].lag.lag_ms == 2000
    assert interval_ms(tuned) == 0


@pytest.mark.parametrize(("number", "older"), [(0, 0), (1, 1)])
def test_a_beat_that_does_not_count_our_records_says_nothing(tuned: EngineBench, number: int, older: int) -> None:
    tuned.version("a", 2)
    tuned.settle()
    tuned.tick(1000)

    tuned.beat(1, number=number, generation=tuned.engine.state.generation - older)
    tuned.settle()

    assert interval_ms(tuned) == 0


def test_intervals_as_they_are_now() -> None:
    rules = Rules(conflation=Intervals({"a": 200}, 50, frozenset({"b"}), Bounds(30, 1000)))

    engine = EngineBench(rules=rules).engine

    assert [engine.conflation.interval_ms(entry) for entry in ("a", "b", "*")] == [200, 30, 50]


# --- of high priority


HIGH = (("priority", b"high"),)


def high(bench: EngineBench, name: str, version: int) -> int:
    """A version of high priority: its offset. It is handled with the next step."""
    key = f"{DOMAIN}/{GROUP}/{name}".encode()
    return bench.log.append(TOPICS.objects, key, b'{"version":%d}' % version, headers=HIGH).offset


def urgent(bench: EngineBench) -> list[tuple[str, int, bool, list[int]]]:
    """(object, version, whether it is urgent, sessions) of what is fanned out, since the last look."""
    return [
        (one.newest.name, one.newest.version, one.urgent, sessions_of(one))
        for one in (item.fan_out for item in bench.items() if item.WhichOneof("item") == "fan_out")
    ]


def test_what_is_of_high_priority_is_never_held_and_outdoes_what_is(bench: EngineBench) -> None:
    bench.opened("o")
    bench.version("o", 1)
    bench.settle()
    bench.version("o", 2)
    bench.settle()
    bench.items()
    for version in (3, 4):
        high(bench, "o", version)
    bench.settle()
    assert urgent(bench) == [("o", 3, True, [1]), ("o", 4, True, [1])]
    assert bench.engine.objects_done == bench.log.end(TOPICS.objects), "nothing is held any more"
    pass_ms(bench, INTERVAL_MS + 1)
    bench.settle()
    assert urgent(bench) == []


def test_of_another_object_what_is_held_stays_held_and_holds_the_cursors(bench: EngineBench) -> None:
    bench.opened("o", "p")
    bench.version("o", 1)
    bench.settle()
    held = bench.version("o", 2)
    bench.settle()
    bench.items()
    high(bench, "p", 1)
    bench.settle()
    assert told(bench) == [("p", 1, held - 1)]


def test_a_session_that_is_sent_pages_is_told_and_its_pages_have_it_once_more() -> None:
    bench = EngineBench()
    for number in range(40):
        bench.publish(f"o{number}", b'{"version":1,"payload":"%s"}' % (b"x" * 1000))
    bench.settle()
    names = [f"o{number}" for number in range(40)]
    bench.open(names, register=names, page_bytes=4096)
    bench.settle()
    (first,) = pages(bench.items())
    assert not first.last
    high(bench, "o39", 2)
    high(bench, "elsewhere", 1)
    bench.settle()
    assert urgent(bench) == [("o39", 2, True, [1])]
    bench.leave()
    bench.settle()
    high(bench, "o39", 3)
    bench.settle()
    assert urgent(bench) == []


def test_who_published_it_is_spared_it_while_pages_come_too() -> None:
    bench = EngineBench()
    names = [f"o{number}" for number in range(40)]
    for name in names:
        bench.publish(name, b'{"version":1,"payload":"%s"}' % (b"x" * 1000))
    bench.settle()
    bench.open(names, register=names, page_bytes=4096)
    bench.settle()
    bench.items()
    key = f"{DOMAIN}/{GROUP}/o39".encode()
    bench.log.append(TOPICS.objects, key, b'{"version":2,"source":"client-1"}', headers=HIGH)
    bench.settle()
    assert urgent(bench) == []


def test_a_header_that_says_something_else_says_nothing(bench: EngineBench) -> None:
    bench.opened("o")
    key = f"{DOMAIN}/{GROUP}/o".encode()
    bench.log.append(TOPICS.objects, key, b'{"version":1}', headers=(("priority", b"low"),))
    bench.settle()
    assert urgent(bench) == [("o", 1, False, [1])]
