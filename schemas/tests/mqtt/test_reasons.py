"""The reason codes are those of the standard's table; a CONNACK of 3.1.1 has six."""

from coldnotify_schemas.mqtt import reasons
from coldnotify_schemas.mqtt.reasons import ReasonCode, ReturnCode, return_code


def test_the_codes_are_those_of_table_2_6() -> None:
    numbers = {0x00, 0x01, 0x02, 0x04, 0x10, 0x11, 0x18, 0x19, *range(0x80, 0xA3)}
    assert {code.value for code in ReasonCode} == numbers


def test_every_code_is_said_by_some_packet() -> None:
    tables = [
        reasons.CONNACK_REASONS,
        reasons.PUBACK_REASONS,
        reasons.PUBREL_REASONS,
        reasons.SUBACK_REASONS,
        reasons.UNSUBACK_REASONS,
        *reasons.AUTH_REASONS.values(),
        *reasons.DISCONNECT_REASONS.values(),
    ]
    assert {code for table in tables for code in table.values()} == set(ReasonCode)


def test_a_reason_is_told_in_3_1_1_by_one_of_six_codes() -> None:
    assert return_code(ReasonCode.SUCCESS) is ReturnCode.ACCEPTED
    assert return_code(ReasonCode.UNSUPPORTED_PROTOCOL_VERSION) == 1
    assert return_code(ReasonCode.CLIENT_IDENTIFIER_NOT_VALID) == 2
    assert return_code(ReasonCode.SERVER_UNAVAILABLE) == 3
    assert return_code(ReasonCode.BAD_USER_NAME_OR_PASSWORD) == 4
    assert return_code(ReasonCode.NOT_AUTHORIZED) == 5
    assert return_code(ReasonCode.PROTOCOL_ERROR) is None
    assert set(map(return_code, reasons.CONNACK_REASONS.values())) == {None, *ReturnCode}
