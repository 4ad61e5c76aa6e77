"""Who published a version itself (`source`) is spared it in pages as in the fan-out, but never an answer."""

import pytest
from coldnotify_schemas.internal_pb2 import Page
from coldnotify_testkit.engine_bench import EPOCH, OTHER_GATEWAY, EngineBench, answered, fan_outs, pages, versions

OWN = b'{"version":%d,"source":"client-1"}'
OTHERS = b'{"version":%d,"source":"client-2"}'


def asleep(*names: str) -> EngineBench:
    """client-1 is registered for these objects, has the first version of each and its cursor, and is away."""
    bench = EngineBench()
    bench.opened(*names)
    for name in names:
        bench.version(name, 1)
    bench.settle()
    bench.leave(complete=len(names) - 1)
    bench.items()
    return bench


def page_of(bench: EngineBench) -> Page:
    return pages(bench.items())[-1]


def test_a_wake_is_not_told_what_its_client_published_and_its_cursor_passes_it() -> None:
    bench = asleep("a", "b")
    bench.publish("a", OWN % 2)
    bench.publish("b", OTHERS % 2)
    bench.publish("a", OWN % 3)
    bench.open(["a", "b"], cursor=1, session=2)

    page = page_of(bench)

    assert versions(page.newest) == [("b", 2)]
    assert (page.last, page.complete) == (True, 4)


def test_live_and_caught_up_once_more_are_the_same() -> None:
    bench = asleep("a")
    bench.opened("a", session=2, cursor=0)
    bench.publish("a", OWN % 2)
    assert fan_outs(bench.items()) == []

    bench.catch_up(0, ask=2, session=2, epoch=EPOCH)

    assert versions(page_of(bench).newest) == []


@pytest.mark.parametrize(("first", "second", "told"), [(OWN, OTHERS, [("a", 3)]), (OTHERS, OWN, [])])
def test_the_newest_versions_source_counts(first: bytes, second: bytes, told: list[tuple[str, int]]) -> None:
    bench = asleep("a")
    bench.publish("a", first % 2)
    bench.publish("a", second % 3)
    bench.open(["a"], cursor=0, session=2)

    assert versions(page_of(bench).newest) == told


@pytest.mark.parametrize(("cursor", "epoch"), [(None, EPOCH), (0, EPOCH + 1), (99, EPOCH)])
def test_without_a_cursor_that_counts_it_is_told(cursor: int | None, epoch: int) -> None:
    bench = asleep("a")
    bench.publish("a", OWN % 2)
    bench.open(["a"], cursor=cursor, epoch=epoch, session=2)

    page = page_of(bench)

    assert versions(page.newest) == [("a", 2)]
    assert page.complete == 1


def test_a_registration_is_answered_whoever_published() -> None:
    bench = asleep("below", "above")
    bench.publish("below", OWN % 2)
    bench.publish("new", OWN % 1)
    bench.open(["below", "above", "new"], cursor=2, session=2, register=["below", "above", "new"])
    bench.publish("above", OWN % 2)

    page = page_of(bench)

    assert sorted(versions(page.newest)) == [("above", 2), ("below", 2), ("new", 1)]
    assert all(newest.answer for newest in page.newest)
    bench.publish("late", OWN % 1)
    bench.register("late", session=2)
    (answer,) = answered(bench.items())
    assert versions(answer.newest) == [("late", 1)]


def test_a_registration_whose_turn_comes_later_is_answered_though_its_client_publishes_meanwhile() -> None:
    bench = asleep("a", "b")
    bench.publish("a", OTHERS % 2)
    bench.publish("b", OTHERS % 2)
    bench.open(["a", "b"], cursor=1, session=2, register=["a", "b"], page_bytes=1)
    large = b'{"version":%d,"source":"client-2","payload":"' + b"x" * 2000 + b'"}'
    bench.publish("a", large % 3)
    bench.publish("b", large % 3)
    first = page_of(bench)
    assert versions(first.newest) == [("a", 3)]

    bench.publish("b", OWN % 4)
    bench.catch_up(first.complete, page=1, ask=1, session=2)

    second = page_of(bench)
    assert versions(second.newest) == [("b", 4)]
    assert second.last


def test_a_whole_set_is_answered_whoever_published() -> None:
    bench = asleep("a", "b")
    bench.publish("a", OWN % 2)
    bench.open(["a", "b", "c"], cursor=2, session=2)
    bench.sync(0, "a", "b", "c", last=True, session=2)

    assert sorted(versions(page_of(bench).newest)) == [("a", 2), ("b", 1), ("c", None)]


def test_nothing_gives_a_cursor_before_the_client_was_told_what_it_published() -> None:
    """Else it could come back with that cursor, and be spared what it never had."""
    bench = asleep("a", "b", "c", "d")
    large = b',"payload":"' + b"x" * 1000 + b'"}'
    for name, source in (("b", OTHERS), ("a", OWN), ("d", OTHERS), ("c", OWN)):
        bench.publish(name, (source % 2)[:-1] + large)
    bench.open(["a", "b", "c", "d"], session=2, page_bytes=1)
    got: list[Page] = []
    while not got or not got[-1].last:
        if len(got) == 1:
            bench.load()  # another matcher: it knows only what the gateway asks for
        if got:
            complete = got[-1].complete if got[-1].HasField("complete") else None
            bench.catch_up(complete, page=got[-1].page, ask=1, session=2)
        got += pages(bench.items())[-1:]

    told: set[str] = set()
    for page in got:
        told |= {newest.name for newest in page.newest}
        assert {"a", "c"} <= told or not page.HasField("complete")
    assert told == {"a", "b", "c", "d"}


def test_another_client_of_that_name_elsewhere_is_another() -> None:
    bench = asleep("a")
    bench.opened("a", client="client-2", session=9, gateway=OTHER_GATEWAY, cursor=0)
    bench.leave(complete=0, client="client-2", session=9, gateway=OTHER_GATEWAY)
    bench.publish("a", OWN % 2)
    bench.open(["a"], cursor=0, session=10, client="client-2", gateway=OTHER_GATEWAY)

    assert versions(pages(bench.items(OTHER_GATEWAY))[-1].newest) == [("a", 2)]
