"""What is remembered of publishes and of rejected records, and that it is bounded."""

import pytest
from coldnotify_matcher.engine.objects.history import REJECTED_MAX, History, NewerRecord, TakenMember, TakenRecord
from coldnotify_testkit.engine_bench import PREFIX, EngineBench


def test_the_latest_publishes_are_remembered_by_object() -> None:
    history = History(publishes_max=3)
    a, b = "d/g/a", "d/g/b"
    for offset, key in enumerate((a, b, a, a)):
        history.published(key, 0, offset, offset, 1000 + offset)

    assert list(history.publishes(a)) == [NewerRecord(0, 2, 2, 1002), NewerRecord(0, 3, 3, 1003)]
    assert list(history.publishes(b)) == [NewerRecord(0, 1, 1, 1001)]
    assert list(history.since(1002)) == [a, a]
    history.published(b, 0, 9, 4, 2000)
    history.published(b, 0, 9, 5, 2001)
    assert [one.offset for one in history.publishes(a)] == [3]
    assert history.publishes("d/g/c") == ()


def test_a_version_that_is_no_news_is_no_publish() -> None:
    bench = EngineBench()
    for version in (1, 3, 2, 3, 4):
        bench.version("o", version)
    bench.settle()

    publishes = bench.engine.history.publishes(PREFIX + "o")
    assert [(one.version, one.offset) for one in publishes] == [(1, 0), (3, 1), (4, 4)]


def test_rejected_records_are_remembered_and_found_again_after_a_load() -> None:
    bench = EngineBench()
    bench.publish("o", b'{"verson":5}', timestamp_ms=7)
    bench.settle()
    bench.load()

    (rejected,) = bench.engine.history.rejections(PREFIX + "o")
    assert (rejected.offset, rejected.timestamp_ms) == (0, 7)
    assert "verson" in rejected.reason
    for _ in range(REJECTED_MAX):
        bench.publish("other", b"{")
    bench.settle()
    assert bench.engine.history.rejections(PREFIX + "o") == []


def outcomes(bench: EngineBench) -> list[str | None]:
    """By offset."""
    found = [bench.engine.history.outcome(offset) for offset in range(bench.engine.state.position)]
    return [None if one is None else one.outcome for one in found]


def test_an_outcome_is_what_the_record_was_when_it_came() -> None:
    bench = EngineBench()
    for version in (1, 3, 2, 3, 4, 3):
        bench.version("o", version)
    bench.settle()
    bench.load()

    assert outcomes(bench)[:6] == ["published", "published", "stale", "repeated", "published", "stale"]
    assert [bench.engine.history.outcome(offset).version for offset in (2, 5)] == [3, 4]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("first", "second", "outcome"),
    [
        (b'{"version":1,"payload":{"a":1,"b":[2]}}', b'{ "payload": {"b": [2], "a":1}, "version": 1}', "repeated"),
        (b'{"version":1,"payload":1}', b'{"version":1,"payload":true}', "altered"),
        (b'{"version":1,"payload":1}', b'{"version":1,"payload":1.0}', "altered"),
        (b'{"version":1,"payload":1}', b'{"version":1}', "altered"),
        (b'{"version":1}', b'{"version":1,"deleted":true}', "altered"),
        (b'{"version":1,"expires_at":5}', b'{"version":1,"expires_at":6}', "altered"),
        (b'{"version":1,"source":"c1"}', b'{"version":1,"source":"c2"}', "altered"),
        (b'{"version":1}', b'{"version":1,"incarnation":0}', "repeated"),
        (b'{"version":1,"incarnation":3}', b'{"version":1}', "repeated"),
        (b'{"version":1,"incarnation":3}', b'{"version":1,"incarnation":2}', "stale"),
        (b'{"version":1,"payload":' + b"[" * 900 + b"]" * 900 + b"}", b'{"version":1,"payload":[]}', "altered"),
    ],
)
def test_a_repeat_says_the_same_whatever_its_json_looks_like(first: bytes, second: bytes, outcome: str) -> None:
    bench = EngineBench()
    bench.publish("o", first)
    bench.publish("o", second)
    bench.settle()

    assert outcomes(bench)[:2] == ["published", outcome]


def test_remembered_sets_are_bounded_by_members(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coldnotify_matcher.engine.objects.history.SET_MEMBERS_MAX", 5)
    history = History(outcomes_max=100)
    for offset in range(4):
        members = tuple(TakenMember(f"o{number}", 0, 1, 1000) for number in range(2))
        history.remember(TakenRecord("set:d/g/1", 0, -1, offset, -1, "refused", members=members))
    assert [history.outcome(offset) is not None for offset in range(4)] == [False, False, True, True]


def test_outcomes_are_bounded_and_an_old_one_read_again_takes_no_ones_place() -> None:
    history = History(outcomes_max=4)
    for offset in range(6):
        history.published("d/g/o", 0, offset, offset, 1000)
    history.rejected(b"d/g/o", 0, 1, "of before")

    assert [history.outcome(offset) is not None for offset in range(6)] == [False, False, True, True, True, True]
    history.rejected(b"d/g/o", 6, 1, "record: is no JSON")
    assert (history.outcome(2), history.outcome(6).reason) == (None, "record: is no JSON")  # type: ignore[union-attr]
