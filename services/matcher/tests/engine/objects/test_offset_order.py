"""The order of a group's objects by their newest offsets, against a plain dict."""

from coldnotify_matcher.engine.objects.offset_order import OffsetOrder
from hypothesis import given
from hypothesis import strategies as st

NAMES = st.sampled_from("abcdefgh")


@given(st.lists(st.tuples(NAMES, st.booleans()), max_size=400), st.integers(-1, 400))
def test_it_is_a_dict_sorted_by_offsets(changes: list[tuple[str, bool]], above: int) -> None:
    order, there = OffsetOrder(), {}
    for offset, (name, stays) in enumerate(changes):
        if stays:
            order.put(name, offset)
            order.put(name, offset)
            there[name] = offset
        else:
            order.remove(name)
            there.pop(name, None)
    found = sorted(there.items(), key=lambda item: item[1])
    assert list(order.above(above)) == [(name, offset) for name, offset in found if offset > above]
    assert len(order) == len(there)
    assert order.last == (found[-1][1] if found else None)
    assert (dict.fromkeys(order), "a" in order) == (dict.fromkeys(there), "a" in there)
    assert order.offset_of("a", -1) == there.get("a", -1)
    assert list(OffsetOrder(reversed(found)).above(-1)) == found


def test_an_offset_may_come_late() -> None:
    order = OffsetOrder([("a", 5), ("b", 9)])
    order.put("c", 7)
    order.put("b", 6)
    assert list(order.above(5)) == [("b", 6), ("c", 7)]


def test_many_changes_leave_little() -> None:
    order = OffsetOrder([(str(i), i) for i in range(10)])
    for offset in range(10, 10_000):
        order.put("1", offset)
    assert len(order._names) < 100
    assert list(order.above(9)) == [("1", 9_999)]
