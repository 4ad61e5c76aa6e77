"""How far each channel of a session is: pending, begun, joined; and what the last page takes along."""

from coldnotify_matcher.engine.streams.positions import Positions


def test_a_channel_goes_from_pending_to_joined_and_its_place_is_kept_until_the_last_page_is_taken() -> None:
    positions = Positions()
    positions.add(1, 4, under_way=False)
    positions.begin({1: 9, 2: 9})
    assert positions.at == {1: 4, 2: 9}
    positions.tell(1, 6)
    positions.move_on([1, 2], 8)
    assert (positions.at, positions.told) == ({1: 8, 2: 9}, {1: 6, 2: 9})
    positions.sent_last()
    assert (positions.pending, positions.begun, positions.at) == ({}, {1: 4}, {})
    assert (positions.join(1), positions.join(1)) == (True, False)
    positions.begin({1: 9, 2: 9})
    assert positions.at == {1: 4, 2: 9}, "its gateway has not taken the last page"
    positions.taken_last()
    positions.begin({1: 9, 2: 9})
    assert positions.at == {1: 9, 2: 9}


def test_one_that_is_registered_while_pages_are_under_way_comes_with_the_next() -> None:
    positions = Positions()
    positions.begin({1: 9})
    positions.lose([2])
    positions.add(2, 5, under_way=True)
    assert (positions.at[2], positions.told[2], list(positions.lost_untold)) == (5, 5, [2])


def test_what_is_lost_is_said_in_each_row_until_the_last_page_is_taken() -> None:
    positions = Positions()
    positions.lose([1])
    positions.begin({1: 3})
    positions.tell_lost(1)
    positions.sent_last()
    positions.begin({1: 3})
    assert list(positions.lost_untold) == [1]
    positions.taken_last()
    positions.begin({1: 3})
    assert not positions.lost_untold


def test_of_one_that_is_removed_nothing_is_left() -> None:
    positions = Positions()
    positions.lose([1])
    positions.add(1, 3, under_way=True)
    assert not positions.remove(1)
    positions.join(1)
    assert positions.remove(1)
    assert not any((positions.at, positions.told, positions.pending, positions.lost, positions.lost_untold))


def test_an_open_says_all_anew() -> None:
    positions = Positions()
    positions.lose([1])
    positions.add(1, 3, under_way=False)
    positions.opened(void=True)
    assert (positions.pending, positions.lost, positions.void) == ({}, {}, True)
    positions.said_whole_set()
    assert not positions.void
