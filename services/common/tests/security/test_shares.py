"""Who may have how many connections."""

from coldnotify_common.addresses import networks
from coldnotify_common.security.shares import Shares, share_of


def fill(shares: Shares, address: str, tries: int = 20) -> int:
    taken = 0
    for _ in range(tries):
        taken += shares.take(address)
    return taken


def test_a_share_is_of_strangers_and_the_other_bound_of_everybody_but_the_exempt() -> None:
    shares = Shares(3, each_max=5, exempt=networks("10.0.0.0/8 2001:db8:1::/48"))
    assert fill(shares, "192.0.2.1") == 3
    assert fill(shares, "::ffff:192.0.2.1") == 0
    assert fill(shares, "127.0.0.9") == 5
    assert fill(shares, "10.0.0.1") == fill(shares, "2001:db8:1::1") == fill(shares, "") == 20
    assert fill(shares, "2001:db8:2::1") + fill(shares, "2001:db8:2::2") == 3
    assert shares.most == 20
    assert [shares.may_have_all(address) for address in ("192.0.2.1", "127.0.0.9", "10.0.0.1", "")] == [
        False,
        True,
        True,
        True,
    ]
    shares.give_back("192.0.2.1")
    assert (shares.of("192.0.2.1"), fill(shares, "192.0.2.1")) == (2, 1)


def test_without_numbers_nothing_is_limited_and_those_who_are_gone_are_forgotten() -> None:
    shares = Shares(0)
    assert fill(shares, "192.0.2.1") == 20
    shares.count("192.0.2.1", -20)
    assert not shares._counts
    assert fill(Shares(0, each_max=2), "192.0.2.1") == 2
    assert fill(Shares(7, each_max=2), "192.0.2.1") == 2


def test_a_share_is_at_least_one() -> None:
    assert [share_of(number) for number in (1, 2, 3, 19_000)] == [1, 1, 1, 9_500]
