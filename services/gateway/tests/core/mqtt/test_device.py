"""What a CONNECT makes of a connection."""

import pytest
from coldnotify_gateway.core.mqtt.device import EXPIRES_NEVER_S, MqttSide
from coldnotify_gateway.core.timers import NEVER_S
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.mqtt.packet_kinds import ProtocolVersion
from coldnotify_schemas.mqtt.properties import Properties
from coldnotify_testkit.mqtt_bench import MQTT_3_1_1, MQTT_5, a_connect


def connected(protocol: ProtocolVersion, **said: object) -> MqttSide:
    device = MqttSide(4096)
    device.connect(a_connect(protocol=protocol, **said))  # type: ignore[arg-type]
    return device


@pytest.mark.parametrize(
    ("protocol", "clean", "expiry_s", "expected_s"),
    [
        (MQTT_3_1_1, True, None, 0),
        (MQTT_3_1_1, False, None, EXPIRES_NEVER_S),
        (MQTT_5, False, None, 0),
        (MQTT_5, True, 30, 30),
    ],
)
def test_the_time_for_which_the_set_outlives_the_session(
    protocol: ProtocolVersion, clean: bool, expiry_s: int | None, expected_s: int
) -> None:
    device = connected(protocol, clean=clean, properties=Properties(session_expiry_s=expiry_s))
    assert device.expiry_s == expected_s
    assert device.kept(again=False).clean is clean
    assert not device.kept(again=True).clean


@pytest.mark.parametrize(
    ("protocol", "said_s", "silence_s", "is_ours"),
    [(MQTT_5, 60, 90, False), (MQTT_5, 0, 5400, True), (MQTT_5, 9999, 5400, True), (MQTT_3_1_1, 0, NEVER_S, False)],
)
def test_one_and_a_half_keepalives(protocol: ProtocolVersion, said_s: int, silence_s: float, is_ours: bool) -> None:
    device = connected(protocol, keep_alive_s=said_s)
    assert (device.silence_s, device.keepalive_is_ours) == (silence_s, is_ours)


def test_nothing_is_said_to_who_has_said_nothing() -> None:
    assert MqttSide(4096).farewell(CloseCode.HANDSHAKE_TIMEOUT, "") == []


def test_an_idle_device_is_small() -> None:
    """What is shared, or made at the first use, is not in it."""
    device = connected(MQTT_5)
    assert not device.asking
    assert device.wake_s == NEVER_S


def test_overlapping_filters_that_miss_the_same_say_so_once() -> None:
    device = MqttSide(1000)
    for hash_ in (1, 2):
        device.miss(hash_, "36-114 retention")
    device.miss(3, "36-40 lost")
    assert device.take_missed([1, 2, 3]) == ("36-114 retention", "36-40 lost")
    assert device.take_missed([1, 2, 3]) == ()
