"""Pages: what a client lacks and is owed, in which order, how large, and from when on it is live."""

import pytest
from coldnotify_matcher.engine.telling.paging import PAGE_BYTES_MAX
from coldnotify_schemas.internal_pb2 import CatchUp
from coldnotify_testkit.engine_bench import (
    EPOCH,
    EngineBench,
    fan_outs,
    kinds,
    pages,
    versions,
)

BIG = b'{"version":1,"payload":"' + b"x" * 4000 + b'"}'
"""16 of these fill a page."""


def test_in_sync_the_first_page_follows_at_once_and_is_the_last() -> None:
    bench = EngineBench()
    bench.version("a", 3)
    bench.version("of no interest", 3)
    bench.open(["a"], register=["a"], cursor=0)

    items = bench.items()

    assert kinds(items) == ["opened", "page"]
    (page,) = pages(items)
    assert (page.ask, page.page, page.last, page.complete) == (1, 1, True, 1), "complete up to the end"


def test_what_the_cursor_covers_is_not_sent_again_but_registrations_are_answered_whatever_it_says() -> None:
    bench = EngineBench()
    for name in ("a", "b", "c"):
        bench.version(name, 3)
    bench.opened("a", "b")
    bench.open(["a", "b", "c", "never"], register=["c", "never", "a"], cursor=2, session=2)

    page = pages(bench.items())[-1]

    assert versions(page.newest) == [("c", 3), ("never", None), ("a", 3)]
    assert all(newest.answer for newest in page.newest)


def test_what_is_above_the_cursor_comes_in_offset_order_and_is_no_answer() -> None:
    bench = EngineBench()
    bench.opened("a", "b", "c")
    for name in ("c", "a", "b", "c"):
        bench.version(name, bench.engine.state.position + 1)
        bench.settle()
    bench.told.clear()
    bench.open(["a", "b", "c"], cursor=0, session=2)

    page = pages(bench.items())[-1]

    assert [(newest.name, newest.offset) for newest in page.newest] == [("a", 1), ("b", 2), ("c", 3)]
    assert not any(newest.answer or newest.behind for newest in page.newest)
    assert page.complete == 3


def test_an_empty_partition_completes_nothing() -> None:
    bench = EngineBench()
    bench.open(["a"], register=["a"])

    (page,) = pages(bench.items())

    assert page.last
    assert not page.HasField("complete")


def big_partition(bench: EngineBench, objects: int) -> list[str]:
    names = [f"big-{i:02}" for i in range(objects)]
    for name in names:
        bench.publish(name, BIG)
    return names


def test_pages_hold_64_kib_and_the_session_is_in_the_index_from_the_last_one_on() -> None:
    bench = EngineBench()
    names = big_partition(bench, 40)
    bench.open(names, register=names, cursor=None)
    got: list[str] = []
    cursor = -1
    for number in range(1, 10):
        (page,) = pages(bench.items())
        assert page.ByteSize() < PAGE_BYTES_MAX + 2 * len(BIG)
        assert (page.page, page.ask) == (number, 1)
        got += [newest.name for newest in page.newest]
        assert page.complete > cursor
        cursor = page.complete
        bench.version(names[0], number + 1)
        if page.last:
            break
        assert bench.items() == [], "not in the index yet: the page to come contains it"
        bench.catch_up(page.complete, page=number, ask=1)
    assert number == 3
    assert set(got) == set(names)
    assert got.count(names[0]) == 2, "it was published anew behind the pages"
    assert fan_outs(bench.items()) == [(names[0], 4, 42, [1])]


@pytest.mark.parametrize(
    ("asked_bytes", "objects"),
    [(0, 16), (1, 1), (1000, 1), (9000, 2), (64 * 1024, 16), (2**32 - 1, 16)],
)
def test_a_page_is_as_large_as_its_gateway_asks_within_bounds(asked_bytes: int, objects: int) -> None:
    bench = EngineBench()
    names = big_partition(bench, 40)
    bench.open(names, register=names, cursor=None, page_bytes=asked_bytes)
    (page,) = pages(bench.items())
    assert len(page.newest) == objects
    bench.catch_up(page.complete, page=1, ask=1, page_bytes=9000)
    (page,) = pages(bench.items())
    assert (page.page, len(page.newest)) == (2, 2)
    bench.catch_up(page.complete, ask=2, page_bytes=asked_bytes)
    (page,) = pages(bench.items())
    assert (page.page, len(page.newest)) == (1, objects)


def test_owed_answers_go_on_from_page_to_page() -> None:
    bench = EngineBench()
    names = big_partition(bench, 40)
    end = 39
    bench.open(names, register=names, cursor=end)
    got: list[str] = []
    for number in range(1, 10):
        (page,) = pages(bench.items())
        got += [newest.name for newest in page.newest]
        assert all(newest.answer for newest in page.newest)
        if page.last:
            break
        bench.catch_up(page.complete, page=number, ask=1)
    assert got == names


def test_answers_still_owed_are_not_forgotten_when_the_session_is_caught_up_from_anew() -> None:
    bench = EngineBench()
    names = big_partition(bench, 20)
    bench.open(names, register=names, cursor=19)
    first = pages(bench.items())[0]
    bench.catch_up(19, page=0, ask=2)  # a slow phase, say

    second = pages(bench.items())[0]

    assert [newest.name for newest in [*first.newest, *second.newest]] == names
    assert (second.ask, second.page) == (2, 1)


def test_what_a_client_unregistered_meanwhile_is_not_in_the_next_page() -> None:
    bench = EngineBench()
    names = big_partition(bench, 20)
    bench.open(names, register=names)
    page = pages(bench.items())[0]
    bench.unregister(names[-1])
    bench.catch_up(page.complete, page=1, ask=1)

    (page,) = pages(bench.items())

    assert names[-1] not in [newest.name for newest in page.newest]


def test_a_page_that_a_predecessor_sent_goes_on_with_the_next_one() -> None:
    bench = EngineBench()
    names = big_partition(bench, 40)
    bench.open(names, register=names)
    first = pages(bench.items())[0]
    bench.load()
    bench.told.clear()
    bench.catch_up(first.complete, page=1, ask=1)

    (second,) = pages(bench.items())

    assert (second.page, second.ask) == (2, 1)
    assert second.newest[0].offset == first.complete + 1


@pytest.mark.parametrize(("cursor", "epoch"), [(None, None), (99, None), (0, EPOCH + 1)])
def test_a_catch_up_whose_cursor_does_not_count_begins_at_none(cursor: int | None, epoch: int | None) -> None:
    bench = EngineBench()
    bench.version("a", 1)
    bench.opened("a")
    bench.catch_up(cursor, ask=2, epoch=epoch)

    (page,) = pages(bench.items())

    assert versions(page.newest) == [("a", 1)]
    assert (page.ask, page.page, page.complete) == (2, 1, 0)


def test_a_session_that_is_caught_up_once_more_is_told_of_publishes_once() -> None:
    bench = EngineBench()
    bench.opened("a")
    bench.catch_up(None, ask=2)
    bench.settle()
    bench.version("a", 1)

    assert fan_outs(bench.items()) == [("a", 1, 0, [1])]


def test_a_page_has_at_most_as_many_entries_as_its_gateway_asks_for() -> None:
    bench = EngineBench()
    for name in ("a", "b", "c"):
        bench.version(name, 3)
    bench.opened("a", "b", "c")
    for name in ("a", "b", "c"):
        bench.version(name, 4)
    bench.items()
    bench.request(catch_up=CatchUp(ask=2, cursor=2, entries_max=2))
    (page,) = pages(bench.items())
    assert (versions(page.newest), page.last) == ([("a", 4), ("b", 4)], False)
    bench.request(catch_up=CatchUp(ask=2, cursor=4, page=1, paging=page.paging, entries_max=1))
    (page,) = pages(bench.items())
    assert (versions(page.newest), page.last) == ([("c", 4)], True)
