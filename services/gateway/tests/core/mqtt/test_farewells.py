"""The last packet says why, as far as the protocol has a code for it."""

import pytest
from coldnotify_gateway.core.mqtt.farewells import connack_refusal, disconnect, of_close
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.mqtt.packet_kinds import ProtocolVersion, Side
from coldnotify_schemas.mqtt.packets import ConnAck, Disconnect, Packet
from coldnotify_schemas.mqtt.parsing import PacketBuffer
from coldnotify_schemas.mqtt.reasons import ReasonCode, ReturnCode

MQTT_5, MQTT_3_1_1 = ProtocolVersion.MQTT_5, ProtocolVersion.MQTT_3_1_1


def parsed(data: bytes, protocol: ProtocolVersion) -> list[Packet]:
    return list(PacketBuffer(1 << 20, protocol, Side.SERVER).feed(data))


@pytest.mark.parametrize("code", CloseCode)
@pytest.mark.parametrize("protocol", ProtocolVersion)
def test_every_close_code_can_be_said(code: CloseCode, protocol: ProtocolVersion) -> None:
    reason = of_close(code)
    for data in (connack_refusal(reason, "words", protocol), disconnect(reason, "words", protocol)):
        for packet in parsed(data, protocol):
            assert isinstance(packet, ConnAck | Disconnect)
            assert packet.reason
            assert packet.properties.reason_string == ("words" if protocol is MQTT_5 else None)


def test_codes_of_3_1_1() -> None:
    (said,) = parsed(connack_refusal(ReasonCode.NOT_AUTHORIZED, "", MQTT_3_1_1), MQTT_3_1_1)
    assert isinstance(said, ConnAck)
    assert said.reason is ReturnCode.NOT_AUTHORIZED
    assert connack_refusal(ReasonCode.PROTOCOL_ERROR, "", MQTT_3_1_1) == b"", "it has no code for that"
    assert disconnect(ReasonCode.SESSION_TAKEN_OVER, "", MQTT_3_1_1) == b""


def test_a_reason_that_a_packet_must_not_have_becomes_another_one() -> None:
    (said,) = parsed(connack_refusal(ReasonCode.SESSION_TAKEN_OVER, "", MQTT_5), MQTT_5)
    assert isinstance(said, ConnAck)
    assert said.reason is ReasonCode.SERVER_UNAVAILABLE
    (left,) = parsed(disconnect(ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, "", MQTT_5), MQTT_5)
    assert isinstance(left, Disconnect)
    assert left.reason is ReasonCode.UNSPECIFIED_ERROR
