"""The client that a client identifier names."""

import pytest
from coldnotify_gateway.core import Violation
from coldnotify_gateway.core.mqtt.client_ids import DeviceHome, assigned_id, client_name, client_of
from coldnotify_schemas.close_codes import CloseCode

FARM = DeviceHome("farm", "barn")


def test_an_identifier_of_three_names_says_all() -> None:
    assert client_of("farm/barn/lamp-1", None) == ("farm", "barn", "lamp-1")
    assert client_of("farm/barn/lamp-1", FARM) == ("farm", "barn", "farm..2fbarn..2flamp-1")


@pytest.mark.parametrize(
    ("client_id", "place"),
    [
        ("lamp", None),
        ("a/b", None),
        ("a/b/c/d", None),
        ("a b/c/d", None),
        ("", FARM),
        ("x" * 65, FARM),
        ("ä" * 17, FARM),
        ("look." + "0" * 24, FARM),
    ],
)
def test_an_identifier_without_a_client_is_refused(client_id: str, place: DeviceHome | None) -> None:
    with pytest.raises(Violation) as caught:
        client_of(client_id, place)
    assert caught.value.code is CloseCode.BAD_NAME
    assert "client" in caught.value.reason or "domain" in caught.value.reason


@pytest.mark.parametrize(
    ("client_id", "name"),
    [
        ("lamp.1_A-z", "lamp.1_A-z"),
        ("a b", "a..20b"),
        ("é", "..c3..a9"),
        ("a..b", "a..2e..2eb"),
        ("a..20b", "a..2e..2e20b"),
    ],
)
def test_other_bytes_are_written_in_hex(client_id: str, name: str) -> None:
    assert client_name(client_id) == name


def test_an_assigned_identifier_is_a_name_of_its_own() -> None:
    assert assigned_id() != assigned_id()
    assert client_of(assigned_id(), FARM).client.startswith("mqtt-")
