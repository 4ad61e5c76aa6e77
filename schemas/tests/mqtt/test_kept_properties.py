"""The properties that outlive their PUBLISH: as headers, as bytes, and what strangers write in their place."""

import pytest
from coldnotify_schemas.mqtt.errors import MqttError
from coldnotify_schemas.mqtt.kept_properties import (
    KEPT_BYTES_MAX,
    NOTHING_KEPT,
    KeptProperties,
    TooManyProperties,
    check_kept,
    decode_kept,
    headers_of_publish,
    kept_headers,
    read_kept,
)
from coldnotify_schemas.mqtt.packets import Publish
from coldnotify_schemas.mqtt.properties import Properties
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

ALL = Properties(
    payload_format=1,
    content_type="text/plain",
    response_topic="answers/ä",
    correlation_data=b"\x00\xff",
    user_properties=(("b", "2"), ("a", "1"), ("b", ""), ("", "x")),
)


def test_a_publish_comes_back_from_its_headers() -> None:
    said = replace(ALL, message_expiry_s=3, topic_alias=7)
    headers = headers_of_publish(Publish("a", b"x", 1, packet_id=3, properties=said))
    assert headers == (
        ("mqtt-qos", b"1"),
        ("mqtt-payload-format", b"1"),
        ("mqtt-content-type", b"text/plain"),
        ("mqtt-response-topic", "answers/ä".encode()),
        ("mqtt-correlation-data", b"\x00\xff"),
        ("mqtt-user-b", b"2"),
        ("mqtt-user-a", b"1"),
        ("mqtt-user-b", b""),
        ("mqtt-user-", b"x"),
    )
    encoded, passed_over = read_kept([("id", b"9"), *headers])
    assert passed_over == 0
    assert decode_kept(encoded) == KeptProperties(1, ALL)
    assert kept_headers(encoded) == headers


def test_without_properties_there_are_no_bytes() -> None:
    assert read_kept([("id", b"9"), ("priority", b"high")]) == (b"", 0)
    assert read_kept([("mqtt-unknown", b"9")]) == (b"", 1)
    assert (decode_kept(b""), kept_headers(b"")) == (NOTHING_KEPT, ())
    assert read_kept([("mqtt-qos", b"0")]) == (b"\x00", 0)
    assert headers_of_publish(Publish("a")) == (("mqtt-qos", b"0"),)
    assert decode_kept(read_kept([("mqtt-content-type", "text")]).encoded).qos is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mqtt-qos", b"3"),
        ("mqtt-qos", b""),
        ("mqtt-payload-format", b"2"),
        ("mqtt-content-type", b"\xff"),
        ("mqtt-content-type", b"a\x00b"),
        ("mqtt-response-topic", b"a/#"),
        ("mqtt-response-topic", None),
        ("mqtt-user-a", b"\xff"),
        ("mqtt-user-a\x00", b"1"),
        ("mqtt-user-a", b"x" * KEPT_BYTES_MAX),
        ("mqtt-user-" + "a" * 70_000, b"1"),
        ("mqtt-correlation-data", bytes(70_000)),
        ("mqtt-topic", b"a"),
    ],
)
def test_a_header_that_says_nothing_is_passed_over(name: str, value: bytes | None) -> None:
    encoded, passed_over = read_kept([("mqtt-user-b", b"1"), (name, value), ("mqtt-user-c", b"2")])
    assert passed_over == 1
    assert decode_kept(encoded).properties == Properties(user_properties=(("b", "1"), ("c", "2")))


def test_the_first_of_several_counts() -> None:
    encoded, passed_over = read_kept([("mqtt-qos", b"1"), ("mqtt-qos", b"0"), *[("mqtt-content-type", b"a")] * 2])
    assert passed_over == 2
    assert decode_kept(encoded) == KeptProperties(1, Properties(content_type="a"))


def test_a_publish_with_too_many_is_refused_by_size() -> None:
    fits = Properties(user_properties=(("a", "x" * (KEPT_BYTES_MAX - 7)),))
    assert len(read_kept(headers_of_publish(Publish("a", properties=fits))).encoded) == KEPT_BYTES_MAX
    above = Properties(user_properties=(("a", "x" * (KEPT_BYTES_MAX - 6)),))
    with pytest.raises(TooManyProperties, match="properties: have 2049 bytes"):
        headers_of_publish(Publish("a", properties=above))


@given(st.lists(st.tuples(st.sampled_from(["mqtt-qos", "mqtt-user-a", "mqtt-correlation-data", "mqtt-"]), st.binary())))
def test_hostile_headers_have_a_bound_and_can_be_read(headers: list[tuple[str, bytes | None]]) -> None:
    encoded, _ = read_kept([*headers, *headers] * 9)
    check_kept(encoded)
    again, passed_over = read_kept(kept_headers(encoded))
    assert (decode_kept(again), passed_over) == (decode_kept(encoded), 0)


@pytest.mark.parametrize("encoded", [b"\x01\x99", b"\x01\x03\x00", b"\x01\x21\x00\x01", bytes(KEPT_BYTES_MAX + 1)])
def test_bytes_that_are_none(encoded: bytes) -> None:
    with pytest.raises(ValueError, match=r"propert|packet|bytes|CONNACK|PUBLISH"):
        check_kept(encoded)


def test_bytes_that_cannot_be_read_raise_an_error_of_the_codec() -> None:
    with pytest.raises(MqttError):
        kept_headers(b"\x01\x99")
