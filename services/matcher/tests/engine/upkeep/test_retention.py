"""Objects whose time has come: which they are, what is written, how much at a time, and what is left of them."""

import pytest
from coldnotify_matcher.engine import Intervals, RetentionRules, Rules
from coldnotify_matcher.engine.objects.objects import Obj
from coldnotify_matcher.engine.upkeep import retention
from coldnotify_schemas import internal_pb2
from coldnotify_schemas.removals import REMOVES_HEADER
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.engine_bench import (
    DOMAIN,
    EPOCH,
    GATEWAY,
    GROUP,
    PREFIX,
    EngineBench,
    answered,
    fan_outs,
    versions,
)

TOPICS = TopicNames()

AFTER_MS = 30 * 86_400_000
DELETED_MS = 180 * 86_400_000
LAMP = b'{"description":{"Kind":"lamp"}}'


@pytest.fixture
def bench() -> EngineBench:
    return EngineBench(rules=Rules(retention=RetentionRules({DOMAIN: AFTER_MS}, 0, DELETED_MS)))


def publish(bench: EngineBench, name: str, version: int, more: bytes = b"") -> int:
    """Now, and read at once."""
    offset = bench.publish(name, b'{"version":%d%s}' % (version, more), timestamp_ms=bench.now_ms)
    bench.settle()
    return offset


def described(bench: EngineBench, name: str) -> bool:
    return bench.engine.state.descriptions.of(f"{DOMAIN}/{GROUP}", name) is not None


def known(bench: EngineBench) -> set[str]:
    """Names of the objects that are known."""
    return {key.removeprefix(PREFIX) for key in bench.engine.state.objects}


def rest(bench: EngineBench) -> None:
    """Ticks in which no time passes, until nothing is left to be removed."""
    for _ in range(20):
        bench.tick(0)


def nulls(bench: EngineBench) -> list[str]:
    """Keys under which a null stands."""
    records = bench.log.records[TOPICS.objects]
    return [(record.key or b"").decode().replace(PREFIX, "") for record in records if record.value is None]


@pytest.mark.parametrize("loaded", [False, True])
def test_what_was_not_published_for_so_long_is_removed_and_nothing_is_left_of_it(
    bench: EngineBench, loaded: bool
) -> None:
    publish(bench, "old", 3)
    bench.describe("old", LAMP, timestamp_ms=bench.now_ms)
    bench.tick(AFTER_MS - 2000)
    publish(bench, "young", 3)
    bench.settle()
    if loaded:
        bench.load()
    bench.tick(1000)
    assert nulls(bench) == []

    bench.tick(1000)

    assert nulls(bench) == ["old", "describe:old"]
    assert (known(bench), described(bench, "old")) == ({"young"}, False)
    assert (bench.engine.state.counts["removed"], bench.engine.state.counts["descriptions_removed"]) == (1, 1)
    bench.load()
    assert known(bench) == {"young"}
    bench.log.compact(TOPICS.objects)
    bench.load()
    assert (known(bench), described(bench, "old")) == ({"young"}, False)
    assert bench.log.rejected == []


def test_the_null_says_what_it_removes(bench: EngineBench) -> None:
    publish(bench, "o", 3, b',"incarnation":2')
    bench.describe("o", LAMP, timestamp_ms=bench.now_ms)
    bench.settle()
    bench.engine.on_tick(bench.now_ms + AFTER_MS)

    of_object, of_description = bench.engine.take_step(bench.now_ms).state

    assert of_object.headers == ((REMOVES_HEADER, b"2/3@%08x/1" % EPOCH),)
    assert of_description.headers == ((REMOVES_HEADER, b"0/%d@%08x/1" % (bench.now_ms, EPOCH)),)


@pytest.mark.parametrize("again", ["published", "repeated", "described", "repeated and loaded"])
def test_what_is_said_of_it_begins_the_time_anew(bench: EngineBench, again: str) -> None:
    publish(bench, "o", 3)
    bench.tick(AFTER_MS - 1000)
    if again == "described":
        bench.describe("o", LAMP, timestamp_ms=bench.now_ms)
    else:
        publish(bench, "o", 4 if again == "published" else 3)
    bench.tick(0)
    if "loaded" in again:
        bench.log.compact(TOPICS.objects)
        bench.load()

    bench.tick(AFTER_MS - 1)
    assert nulls(bench) == []
    bench.tick(1)

    assert known(bench) == set()


def test_a_stale_version_is_no_publish_of_it(bench: EngineBench) -> None:
    publish(bench, "o", 3)
    bench.settle()
    publish(bench, "o", 2)
    bench.log.compact(TOPICS.objects)
    (record,) = bench.log.records[TOPICS.objects]
    assert record.value == b'{"version":3,"incarnation":0}'
    rest(bench)
    assert nulls(bench) == []


def test_what_is_only_described_goes_too(bench: EngineBench) -> None:
    bench.describe("lamp", LAMP, timestamp_ms=bench.now_ms)
    bench.describe("gone", b'{"description":null}', timestamp_ms=bench.now_ms)
    bench.tick(AFTER_MS - 1)
    assert nulls(bench) == []
    bench.tick(1)
    assert sorted(nulls(bench)) == ["describe:gone", "describe:lamp"]
    assert len(bench.engine.state.descriptions) == 0


def test_what_is_deleted_goes_in_any_domain() -> None:
    bench = EngineBench(rules=Rules(retention=RetentionRules({}, 0, DELETED_MS)))
    publish(bench, "gone", 3, b',"deleted":true')
    publish(bench, "here", 3)
    bench.tick(DELETED_MS - 1)
    assert nulls(bench) == []
    bench.tick(1)
    assert nulls(bench) == ["gone"]
    bench.tick(DELETED_MS)
    assert known(bench) == {"here"}


@pytest.mark.parametrize("cut", [False, True])
def test_what_is_deleted_and_described_is_no_member_on_its_way(cut: bool) -> None:
    bench = EngineBench(rules=Rules(retention=RetentionRules({}, 0, DELETED_MS)))
    bench.describe("gone", LAMP, timestamp_ms=bench.now_ms)
    publish(bench, "gone", 3, b',"deleted":true')
    bench.describe("o", LAMP, timestamp_ms=bench.now_ms)
    subscribed(bench, "Kind = lamp")
    bench.now_ms += DELETED_MS
    bench.beat(1)
    bench.settle()
    bench.engine.on_tick(bench.now_ms)
    bench.make_durable(bench.engine.take_step(bench.now_ms), writes_lost=int(cut))
    if cut:
        bench.load()
    bench.settle()
    assert not any(entered for entered, _ in differences(bench))
    bench.tick(0)
    assert nulls(bench) == ["describe:gone", "gone"]
    assert (known(bench), described(bench, "gone"), described(bench, "o")) == (set(), False, True)


def test_never_is_never() -> None:
    bench = EngineBench(rules=Rules(retention=RetentionRules({"other.domain": AFTER_MS})))
    publish(bench, "o", 3)
    bench.tick(100 * AFTER_MS)
    assert nulls(bench) == []


@pytest.mark.parametrize("timestamp_ms", [-1, 1, 946_684_800_000, 4_102_444_800_000])
@pytest.mark.parametrize("loaded", [False, True])
def test_by_a_clock_that_was_never_set_the_time_begins_when_it_is_read(
    bench: EngineBench, timestamp_ms: int, loaded: bool
) -> None:
    bench.publish("o", b'{"version":3}', timestamp_ms=timestamp_ms)
    bench.load() if loaded else bench.settle()
    bench.tick(AFTER_MS - 1)
    assert nulls(bench) == []
    bench.tick(1)
    assert known(bench) == set()


def test_who_is_registered_keeps_what_it_has_and_hears_of_the_next_version(bench: EngineBench) -> None:
    publish(bench, "o", 3)
    bench.opened("o")
    fan_outs(bench.items())
    bench.now_ms += AFTER_MS
    bench.beat(1)
    bench.settle()
    bench.tick(0)
    assert nulls(bench) == ["o"]
    assert not fan_outs(bench.items())
    assert known(bench) == {"o"}, "somebody is registered for it"
    bench.load()
    rest(bench)
    assert nulls(bench) == ["o"], "there is nothing to be removed any more"

    publish(bench, "o", 4)

    assert [(name, version) for name, version, *_ in fan_outs(bench.items())] == [("o", 4)]


def test_who_registers_anew_is_told_that_nothing_is_known(bench: EngineBench) -> None:
    publish(bench, "o", 3)
    bench.tick(AFTER_MS)
    bench.opened()
    bench.register("o")
    (answer,) = answered(bench.items())
    assert versions(answer.newest) == [("o", None)]


def test_who_lacked_the_last_version_is_told_nothing_of_it(bench: EngineBench) -> None:
    publish(bench, "x", 1)
    bench.opened("o")
    bench.leave(complete=0)
    publish(bench, "o", 3)
    bench.tick(AFTER_MS)
    bench.told.clear()
    bench.open(["o"], session=2, cursor=0)
    pages = [item.page for item in bench.items() if item.HasField("page")]
    assert [(page.last, list(page.newest)) for page in pages] == [(True, [])]


@pytest.mark.parametrize("loaded", [False, True])
def test_what_is_held_back_when_it_is_removed_is_told_to_nobody(bench: EngineBench, loaded: bool) -> None:
    bench.rules = bench.engine.state.rules = Rules(conflation=Intervals(others_ms=60_000))
    bench.opened("o")
    publish(bench, "o", 3)
    publish(bench, "o", 4)
    assert bench.engine.objects_done < bench.engine.state.position
    bench.told.clear()
    headers = ((REMOVES_HEADER, b"0/4"),)
    bench.log.append(TOPICS.objects, f"{PREFIX}o".encode(), None, headers=headers)
    bench.load() if loaded else bench.settle()

    bench.tick(60_000)

    assert fan_outs(bench.items()) == []
    assert bench.engine.objects_done == bench.engine.state.position


def subscribed(bench: EngineBench, text: str) -> None:
    """A session that wants the query, and is live."""
    bench.open()
    bench.sync(0, queries=[text], last=True)
    bench.settle()
    for _ in range(3):
        bench.engine.flush(bench.now_ms)
        bench.settle()
    assert bench.engine.state.members.sets.members == 1


def differences(bench: EngineBench) -> list[tuple[int, int]]:
    """How many queries an object has entered and left, in each frame."""
    told: list[internal_pb2.Item] = bench.told[GATEWAY].take()
    return [(len(i.fan_out.newest.entered), len(i.fan_out.newest.left)) for i in told if i.HasField("fan_out")]


@pytest.mark.parametrize("text", ["Kind = lamp", "NAME = 'o'"])
@pytest.mark.parametrize("published", [False, True])
def test_it_leaves_the_sets_that_have_it_once(bench: EngineBench, text: str, published: bool) -> None:
    if published:
        publish(bench, "o", 3)
    bench.describe("o", LAMP, timestamp_ms=bench.now_ms)
    subscribed(bench, text)
    bench.told.clear()

    bench.now_ms += AFTER_MS
    bench.beat(1)
    bench.settle()
    bench.tick(0)

    assert differences(bench) == [(0, 1)]
    assert (bench.engine.state.members.sets.members, bench.engine.state.counts["left"]) == (0, 1)


def test_so_many_at_a_time_and_none_while_they_are_not_read_back(
    bench: EngineBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "NULLS_A_TICK_MAX", 3)
    monkeypatch.setattr(retention, "UNDER_WAY_MAX", 5)
    for number in range(12):
        publish(bench, f"o{number}", 1)
    bench.settle()
    bench.now_ms += AFTER_MS
    written = []
    for _ in range(4):
        bench.engine.on_tick(bench.now_ms)
        step = bench.engine.take_step(bench.now_ms)
        written.append(len(step.state))
        bench.make_durable(step)
    assert written == [3, 2, 0, 0]
    bench.settle()
    rest(bench)
    assert known(bench) == set()
    assert len(nulls(bench)) == 12, "one for each"


def test_a_null_that_is_never_read_back_is_written_once_more(bench: EngineBench) -> None:
    publish(bench, "o", 1)
    bench.settle()
    bench.now_ms += AFTER_MS
    for after_ms, count in ((0, 1), (retention.LOST_AFTER_MS, 0), (1, 1)):
        bench.now_ms += after_ms
        bench.engine.on_tick(bench.now_ms)
        assert len(bench.engine.take_step(bench.now_ms).state) == count


def test_a_tick_looks_at_so_many(bench: EngineBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "LOOKED_AT_A_TICK_MAX", 10)
    for number in range(25):
        publish(bench, f"o{number}", 1)
        bench.describe(f"d{number}", LAMP, timestamp_ms=bench.now_ms)
    bench.settle()
    bench.now_ms += AFTER_MS
    left = []
    for _ in range(6):
        bench.tick(0)
        left.append(len(bench.engine.state.objects) + len(bench.engine.state.descriptions))
    assert left == [40, 30, 20, 10, 0, 0]


def test_objects_that_nobody_asked_for_are_not_made_by_looking(bench: EngineBench) -> None:
    for number in range(20):
        publish(bench, f"o{number}", 1)
    bench.load()
    rest(bench)
    assert not any(isinstance(entry, Obj) for entry in bench.engine.state.objects._entries.values())
