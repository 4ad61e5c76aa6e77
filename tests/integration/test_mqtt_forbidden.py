"""What MQTT forbids ends the connection, with the standard's reason, and harms nobody else: raw bytes to a gateway."""

import itertools

import pytest
from coldnotify_schemas.mqtt.encoding import encode
from coldnotify_schemas.mqtt.packet_kinds import ProtocolVersion
from coldnotify_schemas.mqtt.packets import ConnAck, Connect, Disconnect, PingReq
from coldnotify_schemas.mqtt.reasons import ReasonCode
from coldnotify_testkit.raw_packets import RawPackets
from coldnotify_testkit.stack import Up

pytestmark = pytest.mark.kafka

V4, V5 = ProtocolVersion.MQTT_3_1_1, ProtocolVersion.MQTT_5
MALFORMED, VIOLATION = ReasonCode.MALFORMED_PACKET, ReasonCode.PROTOCOL_ERROR
HEAD = "0004 4d515454"
NUMBERS = itertools.count(1)


def port_of(up: Up) -> int:
    return int(str(up.report["mqtt"]).rpartition(":")[2])


IN_BOTH = [
    # Their first bytes.
    ("pingreq_with_flags", "c1 00", MALFORMED),
    ("pubrel_with_flags", "60 02 0001", MALFORMED),
    ("subscribe_with_flags", "80 06 0001 0001 61 00", MALFORMED),
    ("unsubscribe_with_flags", "a0 05 0001 0001 61", MALFORMED),
    ("disconnect_with_flags", "e1 00", MALFORMED),
    ("connack_of_a_client", "20 02 0000", VIOLATION),
    ("a_length_of_five_bytes", "c0 80808080 01", MALFORMED),
    # PUBLISH of which nothing depends on the protocol.
    ("qos_3", "36 05 0001 61 0001", MALFORMED),
    ("dup_of_qos_0", "38 03 0001 61", MALFORMED),
    ("a_topic_with_plus", "30 05 0003 612f2b", MALFORMED),
    ("a_topic_with_hash", "30 03 0001 23", MALFORMED),
    ("a_topic_with_u_0000", "30 03 0001 00", MALFORMED),
    ("a_topic_with_a_surrogate", "30 05 0003 eda080", MALFORMED),
    ("a_topic_that_is_not_utf_8", "30 04 0002 c328", MALFORMED),
    ("a_packet_identifier_of_0", "32 05 0001 61 0000", VIOLATION),
    ("a_puback_of_0", "40 02 0000", VIOLATION),
    ("a_second_connect", f"10 0c {HEAD} 04 02 0000 0000", VIOLATION),
]

IN_3_1_1 = [
    ("an_empty_topic", "30 02 0000", VIOLATION),
    ("subscribe_without_filter", "82 02 0001", VIOLATION),
    ("a_filter_that_is_not_utf_8", "82 07 0001 0002 c328 00", MALFORMED),
    ("requested_qos_3", "82 06 0001 0001 61 03", MALFORMED),
    ("a_reserved_bit_of_the_options", "82 06 0001 0001 61 04", MALFORMED),
    ("unsubscribe_without_filter", "a2 02 0001", VIOLATION),
    ("unsubscribe_that_is_not_utf_8", "a2 06 0001 0002 c328", MALFORMED),
    ("auth", "f0 00", VIOLATION),
]

IN_5_0 = [
    ("an_empty_topic", "30 03 0000 00", VIOLATION),
    ("a_length_with_a_byte_too_many", "c0 8000", MALFORMED),
    ("subscribe_without_filter", "82 03 0001 00", VIOLATION),
    ("a_filter_that_is_not_utf_8", "82 08 0001 00 0002 c328 00", MALFORMED),
    ("requested_qos_3", "82 07 0001 00 0001 61 03", VIOLATION),
    ("a_reserved_bit_of_the_options", "82 07 0001 00 0001 61 40", MALFORMED),
    ("retain_handling_3", "82 07 0001 00 0001 61 30", VIOLATION),
    ("no_local_of_a_shared_one", "82 0f 0001 00 0009 2473686172652f6761 04", VIOLATION),
    ("unsubscribe_without_filter", "a2 03 0001 00", VIOLATION),
    ("unsubscribe_that_is_not_utf_8", "a2 07 0001 00 0002 c328", MALFORMED),
    ("a_subscription_identifier", "30 06 0001 61 02 0b01", VIOLATION),
    ("topic_alias_0", "30 07 0001 61 03 230000", ReasonCode.TOPIC_ALIAS_INVALID),
    ("a_response_topic_with_a_wildcard", "30 08 0001 61 04 08 0001 2b", VIOLATION),
    ("a_response_topic_that_is_not_utf_8", "30 09 0001 61 05 08 0002 c328", MALFORMED),
    ("a_content_type_that_is_not_utf_8", "30 09 0001 61 05 03 0002 c328", MALFORMED),
    ("a_user_property_that_is_not_utf_8", "30 0c 0001 61 08 26 0001 61 0002 c328", MALFORMED),
    ("a_property_of_another_packet", "30 07 0001 61 03 21 0001", VIOLATION),
    ("a_property_twice", "30 08 0001 61 04 0101 0101", VIOLATION),
    ("a_property_length_of_many_bytes", "30 08 0001 61 80808080 01", MALFORMED),
    ("a_reason_of_another_packet", "40 03 0001 92", VIOLATION),
    ("auth_with_flags", "f1 00", MALFORMED),
    ("auth_of_a_client_without_a_method", "f0 02 18 00", VIOLATION),
]

CASES = [
    *(pytest.param(V4, text, reason, id=f"{name}-{V4}") for name, text, reason in IN_BOTH),
    *(pytest.param(V5, text, reason, id=f"{name}-{V5}") for name, text, reason in IN_BOTH),
    *(pytest.param(V4, text, reason, id=f"{name}-{V4}") for name, text, reason in IN_3_1_1),
    *(pytest.param(V5, text, reason, id=f"{name}-{V5}") for name, text, reason in IN_5_0),
]  # fmt: skip


@pytest.mark.parametrize(("protocol", "text", "reason"), CASES)
def test_a_forbidden_packet_ends_the_connection(
    up: Up, protocol: ProtocolVersion, text: str, reason: ReasonCode
) -> None:
    with RawPackets(port_of(up), protocol) as raw:
        # Who is wrong for ever is kept away for a while.
        assert not raw.connect(f"animal.observer/region-1/forbidden-{next(NUMBERS)}").reason
        raw.send(bytes.fromhex(text), PingReq())
        said = raw.rest()
    if protocol is V4:
        assert said == []
        return
    (left,) = said
    assert isinstance(left, Disconnect), "and nothing behind it"
    assert left.reason is reason
    assert left.properties.reason_string


FIRST = [
    ("another_packet", "c0 00"),
    ("auth", "f0 02 18 00"),
    ("not_mqtt", "47 45 54 20 2f 20 48 54 54 50 2f 31 2e 31 0d 0a 0d 0a"),
    ("another_name", "10 0c 0004 6d717474 04 02 0000 0000"),
    ("a_reserved_flag", f"10 0c {HEAD} 04 03 0000 0000"),
    ("a_reserved_flag_of_5_0", f"10 0d {HEAD} 05 03 0000 00 0000"),
    ("will_qos_without_a_will", f"10 0c {HEAD} 04 0a 0000 0000"),
    ("will_retain_without_a_will", f"10 0c {HEAD} 04 22 0000 0000"),
    ("will_qos_3", f"10 13 {HEAD} 04 1e 0000 0001 61 0001 61 0001 61"),
    ("a_will_that_is_not_there", f"10 0d {HEAD} 04 06 0000 0001 61"),
    ("a_will_without_its_flag", f"10 13 {HEAD} 04 02 0000 0001 61 0001 61 0001 61"),
    ("a_will_topic_that_is_not_utf_8", f"10 14 {HEAD} 04 06 0000 0001 61 0002 c328 0001 61"),
    ("a_user_name_that_is_not_there", f"10 0d {HEAD} 04 82 0000 0001 61"),
    ("a_user_name_without_its_flag", f"10 10 {HEAD} 04 02 0000 0001 61 0001 61"),
    ("a_user_name_that_is_not_utf_8", f"10 11 {HEAD} 04 82 0000 0001 61 0002 c328"),
    ("a_password_that_is_not_there", f"10 10 {HEAD} 04 c2 0000 0001 61 0001 61"),
    ("a_password_without_its_flag", f"10 13 {HEAD} 04 82 0000 0001 61 0001 61 0001 61"),
    ("a_password_without_a_user_name", f"10 10 {HEAD} 04 42 0000 0001 61 0001 61"),
    ("no_client_identifier", f"10 0a {HEAD} 04 02 0000"),
    ("an_identifier_that_is_not_utf_8", f"10 0e {HEAD} 04 02 0000 0002 c328"),
    ("an_identifier_with_u_0000", f"10 0d {HEAD} 04 02 0000 0001 00"),
]


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in FIRST])
def test_a_forbidden_first_packet_ends_the_connection(up: Up, text: str) -> None:
    protocol = V5 if "4d515454 05" in text else V4
    with RawPackets(port_of(up), protocol) as raw:
        raw.send(bytes.fromhex(text))
        said = raw.rest()
    assert all(isinstance(one, ConnAck) and one.reason and not one.session_present for one in said)
    assert len(said) <= 1


def test_others_go_on(up: Up) -> None:
    """A connection that was there before, and one that hangs in the middle of a packet, are nobody's concern."""
    with RawPackets(port_of(up)) as one, RawPackets(port_of(up)) as half, RawPackets(port_of(up)) as bad:
        one.connect("animal.observer/region-1/one")
        half.send(encode(Connect(V5, "animal.observer/region-1/half"), V5)[:-3])
        bad.connect("animal.observer/region-1/bad")
        bad.send(b"\xff" * 1000)
        bad.rest()
        one.ping()
        half.send(encode(Connect(V5, "animal.observer/region-1/half"), V5)[-3:])
        assert not half.until(ConnAck).reason
