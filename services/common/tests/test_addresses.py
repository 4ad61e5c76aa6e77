"""Addresses that belong together, and networks of settings."""

import pytest
from coldnotify_common.addresses import LOOPBACK, Among, networks, subscriber


def test_an_ipv6_subscriber_is_one_and_ipv4_is_the_same_however_it_is_written() -> None:
    same = {subscriber(a) for a in ("2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff", "2001:db8:1:2::9%eth0")}
    assert len(same) == 1
    others = {subscriber(a) for a in ("2001:db8:1:3::1", "192.0.2.1", "192.0.2.2", "")}
    assert len(same | others) == 5
    assert subscriber("::ffff:192.0.2.1") == subscriber("192.0.2.1")
    assert subscriber("") == subscriber("/run/socket") == b""


def test_networks_are_separated_by_commas_or_spaces_and_a_wrong_one_is_named() -> None:
    some = Among(networks("10.0.0.0/8, 2001:db8:1::/48 192.0.2.7"))
    for address, inside in (
        ("10.1.2.3", True),
        ("::ffff:10.1.2.3", True),
        ("2001:db8:1::1", True),
        ("192.0.2.7", True),
        ("192.0.2.8", False),
        ("2001:db8:2::1", False),
        ("", False),
    ):
        assert (address in some) is inside, address
    assert "127.0.0.2" in Among(LOOPBACK)
    assert "::1" in Among(LOOPBACK)
    assert not Among(networks(""))
    with pytest.raises(ValueError, match=r"10\.0\.0\.1/8"):
        networks("10.0.0.1/8")
