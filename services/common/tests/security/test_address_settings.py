"""Balancers are networks, and an error names the setting."""

from ipaddress import ip_network

import pytest
from coldnotify_common.security.address_settings import AddressSettings
from coldnotify_common.settings import SettingError


def test_balancers_are_networks() -> None:
    assert AddressSettings(balancers="10.0.0.0/8, 192.0.2.1").proxies() == (
        ip_network("10.0.0.0/8"),
        ip_network("192.0.2.1"),
    )
    assert AddressSettings().proxies() == ()


def test_what_is_no_network_is_named() -> None:
    with pytest.raises(SettingError, match="--balancers"):
        AddressSettings(balancers="10.0.0.1/8").proxies()
