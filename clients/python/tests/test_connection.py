"""The settings of a connection."""

from pathlib import Path

import pytest
from coldnotify import Connection


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("gateway", ["gateway:55000"]),
        ("gateway:1234", ["gateway:1234"]),
        (["a", "b:2", "a"], ["a:55000", "b:2"]),
        ("::1", ["[::1]:55000"]),
        ("[::1]", ["[::1]:55000"]),
        ("[::1]:7", ["[::1]:7"]),
        ("127.0.0.1:80", ["127.0.0.1:80"]),
    ],
)
def test_addresses(address, expected):
    assert [str(a) for a in Connection(address).addresses()] == expected


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("https://host", "wss://host:443/v1/connect"),
        ("http://host:55002/v1/sync", "ws://host:55002/v1/connect"),
        ("https://host/behind/v1/sync", "wss://host:443/behind/v1/connect"),
    ],
)
def test_addresses_of_the_release_before_mean_websocket(address, expected):
    with pytest.warns(DeprecationWarning, match=f"use {expected}"):
        connection = Connection(address)
    assert [str(a) for a in connection.addresses()] == [expected]
    assert connection.uses_tls(connection.addresses()[0]) == expected.startswith("wss")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("address", ""),
        ("address", []),
        ("address", "a b"),
        ("address", "host:"),
        ("address", "host:0"),
        ("address", "host:65536"),
        ("address", "host:x"),
        ("address", "[::1]x"),
        ("address", [3]),
        ("address", [("gw1", 0)]),
        ("address", [("gw1", 1001)]),
        ("address", [("gw1", True)]),
        ("address", [("gw1", 1, 2)]),
        ("home", ""),
        ("home", "ftp://host"),
        ("profile", "fast"),
        ("directory", "gw1:55000"),
        ("silence_grace_s", -1),
        ("address", "ftp://host"),
        ("address", "https://host/elsewhere"),
        ("port", 0),
        ("port", "55000"),
        ("keepalive_s", 0),
        ("keepalive_s", 1.5),
        ("keepalive_s", 86_401),
        ("connect_timeout_s", 0),
        ("connect_timeout_s", -1),
        ("ack_delay_s", "1"),
        ("backoff_max_s", float("inf")),
        ("displaced_min_s", float("nan")),
        ("key", "key.pem"),
    ],
)
def test_the_setting_that_is_wrong_is_named(setting, value):
    with pytest.raises(ValueError, match=f"^{setting}"):
        Connection(**{setting: value})


@pytest.mark.parametrize(
    ("address", "keepalive_s", "expected"),
    [
        ("gateway", None, 60),
        ("wss://gateway", None, 45),
        (["gateway", "ws://gateway"], None, 45),
        ("wss://gateway", 3600, 3600),
        ("gateway", 30, 30),
    ],
)
def test_over_websocket_it_says_something_before_a_balancer_ends_an_idle_connection(address, keepalive_s, expected):
    assert Connection(address, keepalive_s=keepalive_s).chosen_keepalive_s() == expected


def test_a_token_is_shown_to_nobody_but_the_gateway():
    assert Connection().current_token() == ""
    assert Connection(token="secret").current_token() == "secret"
    assert Connection(token=lambda: "fresh").current_token() == "fresh"
    assert "secret" not in repr(Connection(token="secret"))
    with pytest.raises(ValueError, match=r"^token"):
        Connection(token=lambda: 3).current_token()


def test_tls_is_off_unless_a_certificate_is_given(tmp_path: Path):
    assert Connection().ssl_context() is None
    with pytest.raises(ValueError, match=r"^ca_cert: .*missing\.pem"):
        Connection(ca_cert=tmp_path / "missing.pem").ssl_context()
    with pytest.raises(ValueError, match=r"^cert, key: "):
        Connection(cert=tmp_path / "missing.pem").ssl_context()


def test_gateways_have_weights_a_home_and_a_directory():
    connection = Connection([("gw1", 3), "gw2:2", "gw1"], home="gw0", directory="https://names")
    gateways = connection.gateways()
    assert [(str(address), weight) for address, weight in gateways.addresses] == [("gw1:55000", 3), ("gw2:2", 1)]
    assert (str(gateways.home), gateways.directory) == ("gw0:55000", True)
    assert [str(one) for one in connection.addresses()] == ["gw0:55000", "gw1:55000", "gw2:2"]
    assert connection.ssl_context() is not None, "the directory needs it"


def test_localhost_is_for_those_who_name_nothing():
    assert [str(one) for one in Connection().addresses()] == ["localhost:55000"]
    assert Connection(home="gw0").gateways().addresses == []
    assert Connection(directory="http://names").addresses() == []


def test_a_home_is_secured_as_addresses_are():
    with pytest.raises(ValueError, match="home: ws://gw0"):
        Connection("wss://gw1", home="ws://gw0", ca_cert="ca.pem")


@pytest.mark.parametrize(
    ("settings", "keepalive_s", "grace_s", "user_timeout_ms"),
    [
        ({}, 60, 10, None),
        ({"profile": "radio"}, 60, 10, None),
        ({"profile": "web"}, 4, 4, 10_000),
        ({"profile": "web", "keepalive_s": 20}, 20, 10, None),
        ({"keepalive_s": 14}, 14, 10, 31_000),
        ({"keepalive_s": 1}, 1, 1, 2_500),
        ({"keepalive_s": 1, "silence_grace_s": 3}, 1, 3, 4_500),
    ],
)
def test_a_profile_says_how_soon_a_dead_connection_is_noticed(settings, keepalive_s, grace_s, user_timeout_ms):
    connection = Connection("gw1", **settings)
    assert connection.chosen_keepalive_s() == keepalive_s
    assert connection.chosen_silence_grace_s() == grace_s
    assert connection.user_timeout_ms() == user_timeout_ms
