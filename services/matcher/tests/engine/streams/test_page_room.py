"""The room in a page: by size, by number, and for one entry in any case."""

from coldnotify_matcher.engine.streams.page_room import PageRoom


def test_an_empty_page_takes_one_entry_of_any_size() -> None:
    room = PageRoom(10)
    assert room.take(50)
    assert not room.take(1)


def test_entries_are_taken_as_long_as_they_fit_in() -> None:
    room = PageRoom(10)
    assert [room.take(size) for size in (4, 7, 6, 1)] == [True, False, True, False]
    assert (room.size_bytes, room.entries) == (10, 2)


def test_the_number_of_entries_may_be_bounded_too() -> None:
    room = PageRoom(10, entries_max=2)
    assert [room.take(1) for _ in range(3)] == [True, True, False]
    room.add(1)
    assert room.entries == 3
