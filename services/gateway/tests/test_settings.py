"""Settings that are refused, with the reason."""

import pytest
from coldnotify_common.settings import SettingError, load
from coldnotify_gateway.settings import GatewaySettings, peers_of


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("GATEWAY_PEERS", "host", "--gateway-peers: 'host' is not host:port"),
        ("GATEWAY_PEERS", "a:1,b:x", "--gateway-peers: 'b:x'"),
        ("GATEWAY_ISOLATED_AFTER_S", "5", "--gateway-isolated-after-s: is 5, neither 0 nor at least 8"),
        ("GATEWAY_HELLOS_PER_S", "-1", "--gateway-hellos-per-s"),
    ],
)
def test_invalid_values_are_named(name: str, value: str, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        load(GatewaySettings, {f"COLDNOTIFY_{name}": value})


def test_peers_are_hosts_and_ports() -> None:
    assert peers_of(" a:1, [::1]:2 ,") == [("a", 1), ("::1", 2)]
    assert peers_of("") == []
    assert load(GatewaySettings, {"COLDNOTIFY_GATEWAY_ISOLATED_AFTER_S": "0"}).gateway_isolated_after_s == 0


def test_a_connection_has_room_for_answers_with_the_longest_payloads() -> None:
    assert GatewaySettings().hard_water_bytes == 2 * 1024 * 1024
    assert GatewaySettings(gateway_hard_water_bytes=200_000).hard_water_bytes == 200_000
    assert GatewaySettings(object_payload_bytes_max=65_536).hard_water_bytes > 256 * 65_536
