"""The next gateway: home, by weight, the directory."""

from collections import Counter
from random import Random

import pytest
from coldnotify._core.session.address_book import HOME_ALONE_S, AddressBook
from coldnotify._core.session.reconnect import Address

A, B, C, HOME, NAMED = (Address(host, 1) for host in ("a", "b", "c", "home", "named"))


def book(
    *addresses: Address, seed: int = 1, home: Address | None = None, directory: bool = False
) -> AddressBook[Address]:
    return AddressBook([(one, 1) for one in addresses], 60, Random(seed), home, directory=directory)


def test_an_address_is_kept_until_it_fails_then_rests() -> None:
    addresses = book(A, B)
    first = addresses.next(0)
    assert first is not None
    assert addresses.next(0) == first
    addresses.failed(first, 0)
    second = addresses.next(1)
    assert second is not None
    assert second != first
    assert addresses.next(61) == second, "what works is kept"
    addresses.failed(second, 61)
    assert addresses.next(62) == first


def test_if_all_rest_the_one_that_rests_longest_is_next() -> None:
    addresses = book(A, B, C)
    order = []
    for now in range(3):
        order.append(addresses.next(now))
        addresses.failed(order[-1], now)  # type: ignore[arg-type]
    assert set(order) == {A, B, C}
    assert addresses.next(3) == order[0]


def test_clients_spread_over_the_addresses_by_weight() -> None:
    weighted = [(A, 3), (B, 1)]
    firsts = Counter(AddressBook(weighted, 60, Random(seed)).next(0) for seed in range(4000))
    assert firsts[A] / 4000 == pytest.approx(0.75, abs=0.02)


def test_home_comes_first_and_only_once() -> None:
    addresses = book(A, HOME, home=HOME)
    assert addresses.next(0) == HOME
    addresses.failed(HOME, 0)
    assert addresses.next(1) == A
    addresses.failed(A, 1)
    assert addresses.next(2) == HOME, "the one that rests longest"
    assert addresses.home_free_at == 60
    assert book(A).home_free_at == float("inf")


def test_an_address_that_says_not_here_is_left_out_for_so_long() -> None:
    addresses = book(A, B, home=HOME)
    addresses.failed(HOME, 0, 1800)
    first = addresses.next(0)
    assert first in (A, B)
    addresses.failed(first, 1000)
    assert addresses.next(1001) not in (first, HOME)
    assert addresses.next(1800) == HOME


def test_a_short_rest_does_not_end_a_long_one() -> None:
    addresses = book(A, home=HOME)
    addresses.failed(HOME, 0, 600)
    addresses.failed(HOME, 1, 20)
    assert addresses.next(30) == A


def test_the_only_address_is_tried_whatever_it_said() -> None:
    addresses = book(A)
    addresses.failed(A, 0, 1800)
    assert addresses.next(5) == A, "to stay away from all would help nobody"
    assert not addresses.knows_other(A)


def test_if_none_is_left_one_that_said_not_here_is_tried_too() -> None:
    addresses = AddressBook([(A, 1), (B, 1)], 60, Random(1))
    addresses.failed(A, 0, 1800)
    addresses.failed(B, 10)
    assert addresses.next(11) == A
    addresses.failed(A, 11)
    assert addresses.next(12) == B


def test_the_last_address_left_hears_that_the_client_goes_nowhere_else() -> None:
    addresses = AddressBook([(A, 1), (B, 1)], 60, Random(1))
    assert addresses.goes_elsewhere(A, 0)
    addresses.failed(B, 0, 600)
    assert not addresses.goes_elsewhere(A, 1), "B has refused it"
    assert addresses.goes_elsewhere(A, 600)
    addresses.failed(B, 600)
    assert not addresses.goes_elsewhere(A, 601), "B does not answer"
    assert not book(A).goes_elsewhere(A, 0)


def test_with_a_directory_the_fourth_address_takes_the_client() -> None:
    addresses = book(directory=True)
    for count in range(3):
        assert addresses.goes_elsewhere(NAMED, count)
        addresses.failed(Address(f"named-{count}", 1), count, 600)
    assert not addresses.goes_elsewhere(NAMED, 3)
    assert addresses.goes_elsewhere(NAMED, 700)


def test_a_home_that_ends_three_sessions_in_ten_minutes_is_left_alone() -> None:
    addresses = book(A, home=HOME)
    for at in (0, 300, 601):
        addresses.ended(HOME, at)
    assert addresses.next(602) == HOME, "the first is more than ten minutes ago"
    addresses.ended(HOME, 700)
    assert addresses.next(700) == A
    assert addresses.next(700 + HOME_ALONE_S) == HOME
    addresses.ended(HOME, 1400)
    assert addresses.next(1400) == HOME, "it is counted anew"
    addresses.ended(A, 1400)
    addresses.ended(A, 1401)
    addresses.ended(A, 1402)
    addresses.failed(HOME, 1402)
    assert addresses.next(1403) == A, "others may do so"


def test_the_directory_is_asked_once_all_rest_and_at_most_once_a_second() -> None:
    addresses = book(A, directory=True)
    assert addresses.next(0) == A
    assert addresses.knows_other(A)
    addresses.failed(A, 0)
    assert addresses.next(0) is None
    assert addresses.asks(0)
    addresses.asked(0)
    assert not addresses.asks(0.9)
    assert addresses.next(0.5) == A, "while it cannot be asked, the one that rests longest is next"
    addresses.named(NAMED, 0.5)
    assert addresses.next(0.6) == NAMED
    addresses.failed(NAMED, 0.7)
    assert addresses.next(1.0) is None, "it is asked again"
    assert addresses.next(61) == A


def test_a_directory_alone_is_waited_for() -> None:
    addresses = book(directory=True)
    assert addresses.next(0) is None
    addresses.asked(0)
    addresses.unnamed(0, 20)
    assert addresses.next(1) is None
    assert addresses.ask_at == 20
    assert not addresses.asks(19)
    assert addresses.asks(20)
    assert book(A).ask_at == float("inf")


def test_the_directory_may_name_an_address_that_rests() -> None:
    addresses = book(A, B, directory=True)
    addresses.failed(A, 0)
    addresses.failed(B, 0)
    addresses.named(B, 1)
    assert addresses.next(1) == B


def test_the_directory_may_say_that_the_home_takes_nobody() -> None:
    addresses = book(home=HOME, directory=True)
    addresses.failed(HOME, 0)
    addresses.named(NAMED, 1, 300)
    assert addresses.next(100) == NAMED
    assert addresses.next(301) == HOME
    addresses.named(HOME, 302, 300)
    assert addresses.next(302) == HOME


def test_another_one_is_found_beside_the_present_one() -> None:
    addresses = book(A, B)
    assert addresses.next_beside(0, A) == B
    addresses.failed(B, 0)
    assert addresses.next_beside(1, A) is None
    assert addresses.next_beside(60, A) == B
