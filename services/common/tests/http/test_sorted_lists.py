"""Sorted lists: what is asked for is checked, and the pages of several processes make one list."""

import random
from itertools import pairwise

import pytest
from coldnotify_common.http.sorted_lists import (
    CLIENTS,
    GROUPS,
    KINDS,
    NOW,
    Listed,
    ListKind,
    Place,
    listed,
    merged,
)
from coldnotify_common.http.web import BadRequest


@pytest.mark.parametrize(
    ("kind", "query", "words"),
    [
        (GROUPS, {"stat": "x"}, "stat: is unknown; this list takes limit, "),
        (GROUPS, {"address": "x"}, "address: is unknown"),
        (GROUPS, {"sort": "clint"}, "sort: 'clint' is not one of group, "),
        (GROUPS, {"order": "up"}, "order: 'up' is not one of asc, desc"),
        (CLIENTS, {"state": "gone"}, "state: 'gone' is not one of "),
        (CLIENTS, {"limit": "0"}, "limit: "),
        (CLIENTS, {"since_ms": "now"}, "since_ms: 'now' is not a whole number"),
        (CLIENTS, {"until_ms": str(NOW + 1)}, "until_ms: "),
        (CLIENTS, {"id": "x" * 256}, "id: has 256 characters (at most 255 are allowed)"),
        (CLIENTS, {"after": "c1"}, "after: 'c1' is not the `next` of a page"),
        (CLIENTS, {"after": '[1,"c1"]'}, "after: "),
        (CLIENTS, {"after": '["c1","c1"]', "sort": "lacking"}, "after: "),
        (CLIENTS, {"after": "[" * 9999}, "after: "),
    ],
)
def test_an_error_names_the_parameter(kind: ListKind, query: dict[str, str], words: str) -> None:
    with pytest.raises(BadRequest) as raised:
        kind.request(query)
    assert str(raised.value).startswith(words)


def test_without_parameters_the_first_page_of_everything_is_wanted() -> None:
    for kind in KINDS.values():
        asked = kind.request({})
        assert (asked.limit, asked.after, asked.sort, asked.descending) == (100, None, kind.sorts[0], False)
        assert asked.has("id", "anything")
        assert asked.within(None)
    empty = CLIENTS.request({"state": "", "id": "", "since_ms": "", "after": ""})
    assert (empty.state, empty.parts, empty.timed, empty.after) == ("", {}, False, None)


def test_times_and_parts_of_texts() -> None:
    asked = CLIENTS.request({"id": "Oslo", "since_ms": "5", "until_ms": "7"})
    assert [asked.within(time_ms) for time_ms in (None, 4, 5, 7, 8)] == [False, False, True, True, False]
    assert asked.has("id", "d/g/OSLO-1")
    assert not asked.has("id", "d/g/tromso")


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_pages_of_several_processes_make_one_list(order: str) -> None:
    chance = random.Random(7)
    items = [(Place(chance.randrange(5), f"client-{number}"), number) for number in range(100)]
    everything = sorted((place for place, _ in items), reverse=order == "desc")
    parts = [items[0::3], items[1::3], items[2::3] + items[:3]]  # three are moving, and two processes have them
    seen: list[Place] = []
    after: dict[str, str] = {}
    while True:
        asked = CLIENTS.request({"sort": "lacking", "order": order, "limit": "7", **after})
        page = merged([listed(part, asked) for part in parts], asked)
        assert len(page.items) <= 7
        assert 100 <= page.total <= 103
        seen += [place for place, _ in page.items]
        if page.next is None:
            break
        after = {"after": page.next}
    assert seen == everything
    assert all((one < other) is (order == "asc") for one, other in pairwise(seen))


def test_no_more_than_a_page_is_kept_of_each_process() -> None:
    asked = CLIENTS.request({"limit": "2"})
    page = listed(((Place(name, name), name) for name in "dcab"), asked)
    assert page == Listed([(Place("a", "a"), "a"), (Place("b", "b"), "b")], 4, more=True)
    assert merged([page, listed([], asked)], asked) == page, "one process has all, and more"
    assert listed([], asked) == Listed([], 0, more=False)
    assert merged([], asked).next is None
