"""What is remembered of publishes and of rejected records, and that it is bounded."""

from coldnotify_matcher.engine.history import REJECTED_MAX, History, Publish
from coldnotify_matcher.testing import PREFIX, Bench


def test_the_latest_publishes_are_remembered_by_object() -> None:
    history = History(publishes_max=3)
    a, b = "d/g/a", "d/g/b"
    for offset, key in enumerate((a, b, a, a)):
        history.published(key, 0, offset, offset, 1000 + offset)

    assert list(history.publishes(a)) == [Publish(0, 2, 2, 1002), Publish(0, 3, 3, 1003)]
    assert list(history.publishes(b)) == [Publish(0, 1, 1, 1001)]
    assert list(history.since(1002)) == [a, a]
    history.published(b, 0, 9, 4, 2000)
    history.published(b, 0, 9, 5, 2001)
    assert [one.offset for one in history.publishes(a)] == [3]
    assert history.publishes("d/g/c") == ()


def test_a_version_that_is_no_news_is_no_publish() -> None:
    bench = Bench()
    for version in (1, 3, 2, 3, 4):
        bench.version("o", version)
    bench.settle()

    publishes = bench.engine.history.publishes(PREFIX + "o")
    assert [(one.version, one.offset) for one in publishes] == [(1, 0), (3, 1), (4, 4)]


def test_rejected_records_are_remembered_and_found_again_after_a_load() -> None:
    bench = Bench()
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
