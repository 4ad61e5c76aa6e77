"""Only these addresses are given out, however they are written."""

import pytest
from coldnotify_common.placement.allowed_addresses import AllowedAddresses, check_addresses

TEXT = "gw.example, one.example:55000, *.gateways.example, 10.1.0.0/16, [2001:db8::1]:55000, fd00::/8"


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("gw.example:1", True),
        ("GW.Example:1", True),
        ("https://gw.example:55003", True),
        ("one.example:55000", True),
        ("one.example:55001", False),
        ("a.gateways.example:1", True),
        ("gateways.example:1", False),
        ("evilgateways.example:1", False),
        ("10.1.2.3:1", True),
        ("10.2.2.3:1", False),
        ("[2001:db8::1]:55000", True),
        ("[2001:db8::1]:55001", False),
        ("[fd00::7]:1", True),
        ("evil.example:1", False),
    ],
)
def test_an_address_is_within_the_list_or_not(address: str, allowed: bool) -> None:
    assert (address in AllowedAddresses(TEXT)) is allowed


def test_without_a_list_none_is_allowed() -> None:
    assert not AllowedAddresses("")
    assert not AllowedAddresses(" , ")
    assert "gw.example:1" not in AllowedAddresses("")


@pytest.mark.parametrize("text", ["host:port", "10.0.0.0/99", "[::1", "a:0"])
def test_a_malformed_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        check_addresses(text)
